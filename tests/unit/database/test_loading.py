"""Loading records: what is refused is kept once, wherever the load was stopped."""

import msgspec
import pytest

from oneread import connect
from oneread.database.loading import Loaded, Rejected, load
from oneread.errors import InvalidValue
from tests.unit.database.shop import SCHEMA, Customer


class Stopped(BaseException):
    """Ctrl-C, or worse."""


def customer(record):
    if record == b"stop":
        raise Stopped
    if record == b"torn":
        raise InvalidValue("this makes no entity")
    return Customer(number=int(record), name=f"Customer {int(record)}")


def records(*texts):
    return enumerate(texts, 1)


def rejected(path):
    return [msgspec.json.decode(line, type=Rejected).line for line in path.read_bytes().splitlines()]


@pytest.fixture
def db():
    with connect("memory://", SCHEMA) as opened:
        yield opened


def test_a_record_rejected_before_a_stop_is_rejected_once(db, tmp_path):
    path = tmp_path / "rejects"
    options = {"checkpoint": "x", "batch": 2}
    with pytest.raises(Stopped):
        load(db, records(b"torn", b"2", b"3", b"4", b"torn", b"stop"), customer, path, **options)
    assert rejected(path) == [1, 5]
    found = load(db, records(b"torn", b"2", b"3", b"4", b"torn", b"6"), customer, path, resume=True, **options)
    assert rejected(path) == [1, 5]
    assert found == Loaded(stored=1, rejected=2, resumed=4)
    assert [each.number for each in db.page(Customer)] == [2, 3, 4, 6]


def test_a_reject_that_was_torn_by_a_kill_is_written_again(db, tmp_path):
    path = tmp_path / "rejects"
    options = {"checkpoint": "x", "batch": 1}
    with pytest.raises(Stopped):
        load(db, records(b"torn", b"2", b"stop"), customer, path, **options)
    path.write_bytes(path.read_bytes() + b'{"line":3,"err')
    load(db, records(b"torn", b"2", b"torn"), customer, path, resume=True, **options)
    assert rejected(path) == [1, 3]


def test_a_line_that_could_not_be_read_is_rejected(db, tmp_path):
    path = tmp_path / "rejects"
    given = [(1, b"1"), (2, InvalidValue("the line is too long")), (3, b"3")]
    assert load(db, given, customer, path, checkpoint="x") == Loaded(stored=2, rejected=1, resumed=0)
    assert rejected(path) == [2]


def test_the_file_of_rejects_is_gone_when_nothing_is_left_in_it(db, tmp_path):
    path = tmp_path / "rejects"
    with pytest.raises(Stopped):
        load(db, records(b"torn", b"stop"), customer, path, checkpoint="x", batch=1)
    assert rejected(path) == [1]
    assert load(db, records(b"1", b"2"), customer, path, checkpoint="y", resume=True).rejected == 0
    assert not path.exists()
