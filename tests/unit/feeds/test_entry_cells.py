"""The cells of entries on a store that changes one row at a time: as docs/formats/rows.md has them, and what shows."""

from oneread.feeds.entries import SHOWN_BY, shown_by
from oneread.feeds.entry_cells import entry_row, item_column, marks_of_trimming, membership_column, was_trimmed
from oneread.store.rows import REMOVED, VALUE, Cell

ITEM, OTHER = item_column(b"a"), item_column(b"b")
FIRST, SECOND = membership_column(b"a", b"a1"), membership_column(b"a", b"a2")


def test_columns_are_those_of_the_page_about_formats():
    assert ITEM.hex() == "643a693a" + "1ba3c523e770f3313cc91ab1"
    assert b"d:m:" + ITEM[4:] + bytes.fromhex("5b125eae0f166778b7d864b9") == FIRST
    assert len(FIRST) == 28


def test_an_item_is_shown_by_the_living_memberships_of_its_groups():
    row = {ITEM: Cell(b"doc", 5), FIRST: Cell(b"a1", 3), SECOND: Cell(b"a2", 9)}
    assert shown_by(entry_row(row)) == [b"a1", b"a2"]
    assert entry_row(row)[VALUE] == Cell(b"doc", 5)
    assert shown_by(entry_row(row | {FIRST: Cell(REMOVED, 7)})) == [b"a2"]
    assert entry_row(row | {ITEM: Cell(REMOVED, 7)}) == {}
    assert entry_row({ITEM: Cell(b"doc", 5)}) == {}
    assert entry_row({FIRST: Cell(b"a1", 3)}) == {}


def test_a_membership_of_another_group_shows_nothing():
    row = {OTHER: Cell(b"doc", 5), FIRST: Cell(b"a1", 3)}
    assert entry_row(row) == {}
    both = entry_row(row | {ITEM: Cell(b"older", 4)})
    assert (both[VALUE].value, shown_by(both)) == (b"older", [b"a1"])
    assert entry_row({**row, ITEM: Cell(b"newer", 6)})[VALUE].value == b"newer"


def test_the_newest_of_several_groups_is_shown():
    row = {ITEM: Cell(b"old", 4), OTHER: Cell(b"new", 5), FIRST: Cell(b"a1", 3)}
    row[membership_column(b"b", b"b1")] = Cell(b"b1", 1)
    assert entry_row(row)[VALUE].value == b"new"
    assert shown_by({SHOWN_BY: entry_row(row)[SHOWN_BY]}) == [b"a1", b"b1"]


def test_what_was_trimmed_is_marked_and_shown_again_when_either_side_is_newer():
    row = {ITEM: Cell(b"doc", 5), FIRST: Cell(b"a1", 3), OTHER: Cell(b"doc", 5)}
    marks = marks_of_trimming(row)
    assert marks == {b"d:t:" + ITEM[2:]: Cell(b"", 5), b"d:t:" + FIRST[2:]: Cell(b"", 3)}
    assert not was_trimmed(row)
    trimmed = row | marks
    assert was_trimmed(trimmed)
    assert entry_row(trimmed) == {}
    assert marks_of_trimming(trimmed) == {}
    assert entry_row(trimmed | {ITEM: Cell(b"new", 6)})[VALUE].value == b"new"
    assert shown_by(entry_row(trimmed | {FIRST: Cell(b"a1", 4)})) == [b"a1"]
    assert shown_by(entry_row(trimmed | {SECOND: Cell(b"a2", 1)})) == [b"a2"]  # whatever the stamp of another one
    assert entry_row(trimmed | {ITEM: Cell(b"doc", 5), FIRST: Cell(b"a1", 3)}) == {}  # put again, by a late task
