"""Loading records: what is refused is kept once, wherever the load was stopped."""

from pathlib import Path

import msgspec
import pytest

from oneread import connect
from oneread.cli.loading import Loaded, LoadJob, Rejected
from oneread.cli.loading import load as load_job
from oneread.errors import InvalidValue, UsageError
from oneread.transfer.content import Content
from tests.unit.database.shop import SCHEMA, Customer


class Stopped(BaseException):
    """Ctrl-C, or worse."""


def customer(record):
    if record == b"stop":
        raise Stopped
    if record == b"torn":
        raise InvalidValue("this makes no entity")
    return Customer(number=int(record), name=f"Customer {int(record)}")


def records(*texts, name="x", once=False):
    content = Content()

    def read(into):
        for number, text in enumerate(texts, 1):
            into.add(text if isinstance(text, bytes) else b"unreadable")
            yield number, text

    def position_at(line):
        again, number = Content(), 0
        for number, _text in read(again):
            if number == line:
                break
        return again.position(number)

    return LoadJob(name, read(content), customer, content, Path(), None if once else position_at)


def load(db, job, rejects, **options):
    return load_job(db, job._replace(rejects=rejects), **options)


def rejected(path):
    return [msgspec.json.decode(line, type=Rejected).line for line in path.read_bytes().splitlines()]


@pytest.fixture
def db():
    with connect("memory://", SCHEMA) as opened:
        yield opened


def test_a_record_rejected_before_a_stop_is_rejected_once(db, tmp_path):
    path = tmp_path / "rejects"
    options = {"batch": 2}
    with pytest.raises(Stopped):
        load(db, records(b"torn", b"2", b"3", b"4", b"torn", b"stop"), path, **options)
    assert rejected(path) == [1, 5]
    found = load(db, records(b"torn", b"2", b"3", b"4", b"torn", b"6"), path, resume=True, **options)
    assert rejected(path) == [1, 5]
    assert found == Loaded(stored=1, refused=2, resumed=4)
    assert [each.number for each in db.page(Customer)] == [2, 3, 4, 6]


def test_a_reject_that_was_torn_by_a_kill_is_written_again(db, tmp_path):
    path = tmp_path / "rejects"
    options = {"batch": 1}
    with pytest.raises(Stopped):
        load(db, records(b"torn", b"2", b"stop"), path, **options)
    path.write_bytes(path.read_bytes() + b'{"line":3,"err')
    load(db, records(b"torn", b"2", b"torn"), path, resume=True, **options)
    assert rejected(path) == [1, 3]


def test_a_line_that_could_not_be_read_is_rejected(db, tmp_path):
    path = tmp_path / "rejects"
    given = records(b"1", InvalidValue("the line is too long"), b"3")
    assert load(db, given, path) == Loaded(stored=2, refused=1, resumed=0)
    assert rejected(path) == [2]


def test_the_file_of_rejects_is_gone_when_nothing_is_left_in_it(db, tmp_path):
    path = tmp_path / "rejects"
    with pytest.raises(Stopped):
        load(db, records(b"stop"), path, batch=1)
    path.write_bytes(b'{"line":1,"error":"InvalidValue","reason":"written before the kill","record":"torn"}\n')
    assert load(db, records(b"1", b"2"), path, resume=True).refused == 0
    assert not path.exists()


@pytest.mark.parametrize("others", [[b"9", b"2", b"3"], [b"1", b"9", b"3", b"4"], [b"1"], []])
def test_other_content_under_the_name_of_a_load_is_loaded_from_its_first_record(db, tmp_path, others):
    path = tmp_path / "rejects"
    load(db, records(b"1", b"2", b"3"), path)
    found = load(db, records(*others), path, resume=True)
    assert found == Loaded(stored=len(others), refused=0, resumed=0)
    assert {each.number for each in db.page(Customer)} == {1, 2, 3, *map(int, others)}


def test_loading_resumes_when_the_content_grew(db, tmp_path):
    load(db, records(b"1", b"2"), tmp_path / "rejects")
    found = load(db, records(b"1", b"2", b"3"), tmp_path / "rejects", resume=True)
    assert found == Loaded(stored=1, refused=0, resumed=2)
    again = load(db, records(b"1", b"2", b"3"), tmp_path / "rejects", resume=True)
    assert again == Loaded(stored=0, refused=0, resumed=3)


@pytest.mark.parametrize("others", [[b"9", b"2", b"3", b"4"], [b"1"]])
def test_what_can_be_read_only_once_is_refused_where_it_is_other_content(db, tmp_path, others):
    load(db, records(b"1", b"2"), tmp_path / "rejects")
    with pytest.raises(UsageError, match="without --resume"):
        load(db, records(*others, once=True), tmp_path / "rejects", resume=True)
    assert [each.number for each in db.page(Customer)] == [1, 2]
    grown = load(db, records(b"1", b"2", b"3", once=True), tmp_path / "rejects", resume=True)
    assert grown == Loaded(stored=1, refused=0, resumed=2)


def test_rejects_of_another_load_are_not_taken_away(db, tmp_path):
    path = tmp_path / "rejects"
    load(db, records(b"torn", b"2"), path)
    with pytest.raises(UsageError, match="rejects exists"):
        load(db, records(b"7", b"8", name="y"), path, resume=True)
    assert rejected(path) == [1]
