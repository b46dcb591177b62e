"""Loading records: what is refused is kept once, wherever the load was stopped."""

import gzip
import io
import os
from pathlib import Path

import msgspec
import pytest

from oneread import connect
from oneread.cli.files import open_file, share_read
from oneread.cli.loading import Loaded, LoadJob, Rejected, Unreadable
from oneread.cli.loading import load as load_job
from oneread.errors import InvalidValue, UsageError
from oneread.transfer.content import Content
from tests.cli.conftest import SCHEMA as NOTES
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
def db(new_url):
    with connect(new_url(), SCHEMA) as opened:
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
    given = records(b"1", Unreadable(InvalidValue("the line is too long")), b"3")
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


def test_what_is_refused_is_counted_in_the_progress_and_in_the_result(db, tmp_path):
    reports = []
    given = records(b"1", b"torn", b"3", b"torn", b"5", b"6")._replace(share_read=lambda: 0.5)
    found = load(db, given, tmp_path / "rejects", batch=2, progress=reports.append)
    assert found == Loaded(stored=4, refused=2, resumed=0)
    assert (reports[-1].done, reports[-1].refused, reports[-1].share, reports[-1].faults) == (6, 2, 0.5, 0)
    assert {each.phase for each in reports} == {"loading"}


LINES = b"""{"number": 1, "name": "Ada", "email": "a"}

   \t
{"number": "x", "name": "Bea", "email": "b"}
{"number": 3, "nmae": "Cy", "email": "c"}
{"number": 4, "email": "d"}
\r
{"number": 5, "name": 7, "email": "e"}
{"number": 6, "name": "F", "email": "f"}

"""


@pytest.mark.parametrize("name", ["people.jsonl", "people.jsonl.gz"])
def test_blank_lines_are_skipped_and_refusals_name_the_field(bare, tmp_path, new_url, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(LINES) if name.endswith(".gz") else LINES)
    options = ["--model", "Person", "--schema", NOTES, "--db", new_url(), "--make"]
    ran = bare("load", path, *options)
    assert (ran.code, ran.out) == (1, "2 stored, 4 refused\n")
    kept = [msgspec.json.decode(line, type=Rejected) for line in Path(f"{path}.rejects").read_bytes().splitlines()]
    assert [each.line for each in kept] == [4, 5, 6, 8]
    for each, field in zip(kept, ("number", "nmae", "name", "name"), strict=True):
        assert f"field='{field}'" in each.reason
    Path(f"{path}.rejects").unlink()
    again = bare("load", path, *options[:-1], "--json")
    assert msgspec.json.decode(again.out) == {"stored": 2, "refused": 4, "resumed": 0, "erased": 0}
    Path(f"{path}.rejects").unlink()
    resumed = bare("load", path, *options[:-1], "--resume", "--json")
    assert msgspec.json.decode(resumed.out)["resumed"] == 9


def test_how_much_of_a_file_has_been_read_is_known(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"x" * 99 + b"\n" + b"y" * 99 + b"\n")
    with open_file(str(path)) as file:
        assert share_read(file) == 0.0
        file.readline()
        assert share_read(file) == 0.5
    (tmp_path / "lines.gz").write_bytes(gzip.compress(path.read_bytes()))
    with open_file(str(tmp_path / "lines.gz")) as file:
        file.readline()
        assert 0 < share_read(file) <= 1
    read, write = os.pipe()
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert share_read(pipe) is None
    assert share_read(io.BytesIO(b"x")) is None
