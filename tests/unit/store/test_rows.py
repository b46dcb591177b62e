import pytest

from oneread.store.requests import Read, Scan
from oneread.store.rows import TABLES, Cell, RowRange


@pytest.mark.parametrize(
    ("start", "stop", "empty"),
    [(b"", b"", False), (b"a", b"", False), (b"a", b"b", False), (b"a", b"a", True), (b"b", b"a", True)],
)
def test_a_range_knows_when_nothing_can_be_in_it(start, stop, empty):
    assert RowRange(start, stop).is_empty is empty


def test_everything_under_a_prefix_is_one_range():
    assert RowRange.under(b"a\x01") == RowRange(b"a\x01", b"a\x02")
    assert RowRange.under(b"a\xff") == RowRange(b"a\xff", b"b")
    assert RowRange.under(b"\xff\xff") == RowRange(b"\xff\xff", b"")


def test_what_comes_behind_a_key_begins_with_the_least_key_above_it():
    assert RowRange(b"a", b"b").behind(b"ab") == RowRange(b"ab\x00", b"b")


def test_a_request_is_sent_its_answer():
    plan = iter(Read("roots", [b"a"]))
    asked = next(plan)
    assert asked == Read("roots", [b"a"], "d")
    with pytest.raises(StopIteration) as stop:
        plan.send([None])
    assert stop.value.value == [None]


def test_values_are_frozen():
    for value, field in ((Cell(b"", 1), "stamp"), (Scan("views", RowRange(b"", b""), 1), "limit")):
        with pytest.raises(AttributeError):
            setattr(value, field, 2)


def test_the_tables_are_four():
    assert TABLES == ("roots", "views", "counts", "system")
