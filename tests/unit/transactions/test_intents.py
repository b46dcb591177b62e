"""The root row of a store that changes one row at a time: what a commit and a fence write, and what is read again."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from oneread.store.rows import REMOVED, Cell, RowRange
from oneread.transactions.intents import (
    FENCED,
    GOING,
    HISTORY,
    INTENTS,
    JOURNAL,
    OWN,
    REMEMBERED,
    USED,
    USED_BY_CELLS,
    ChildRow,
    HistoryEntry,
    Intents,
    SeenRow,
    child_cells,
    committed_cells,
    fence_cells,
    journal_key,
    read_root,
    root_of_marker,
    root_row,
)
from oneread.transactions.root import BODY, EMITTED, VERSION, Root
from oneread.transactions.sequences import SEQUENCE

KEY = b"\x00\x01key"
CHILD = ChildRow(b"\x00\x02child", b"body", b"record", 7, {b"s": 5}, fans_out=True, unchanged=[])
INTENDED = Intents(
    7, {b"v": b"1"}, [b"w"], {b"c": b"2"}, task=True, children=[CHILD], groups=[b"g"], unchanged=[b"abcd"]
)


UNSEEN, ROOT = SeenRow(KEY), Root(7, b"body", b"record", 7)


def committed(seen=UNSEEN, root=ROOT, intents=INTENDED, used=None):
    return committed_cells(seen, root, intents, used or {}, b"id")


def test_a_commit_is_read_as_it_was_written():
    seen = read_root(KEY, committed(used={b"s": 5}))
    assert seen == SeenRow(KEY, Root(7, b"body", b"record", 7), INTENDED, [HistoryEntry(0, b"id")], {b"s": 5})
    assert seen.version == 7


def test_intents_are_stored_as_the_page_says():
    page = Path(__file__).parents[3] / "docs" / "formats" / "rows.md"
    assert f"`{committed()[INTENTS].value.hex()}`" in page.read_text(encoding="utf-8")


def test_a_commit_without_intents_says_so_in_every_cell():
    cells = committed(intents=Intents(7))
    assert cells[INTENTS].value == cells[USED].value == REMOVED
    assert read_root(KEY, cells).intents is None
    assert {cell.stamp for cell in cells.values()} == {7}


def test_only_the_document_keeps_the_own_version():
    cells = committed(root=Root(7, b"body", b"record", 3))
    assert {column: cell.stamp for column, cell in cells.items() if cell.stamp != 7} == {BODY: 3}


def test_a_deleted_entity_has_a_record_and_no_document():
    cells = committed(root=Root(7, None, b"record", 0))
    assert cells[BODY].value == REMOVED
    assert set(root_row(cells)) == {VERSION, EMITTED}
    assert read_root(KEY, cells).root.body is None


def test_a_row_that_only_has_a_version_is_not_an_entity():
    cells = fence_cells(SeenRow(KEY), 9)
    assert root_row(cells) is root_row(None) is None
    seen = read_root(KEY, cells)
    assert (seen.version, seen.root.body, seen.history) == (9, None, [HistoryEntry(0, FENCED)])


def test_no_row_is_version_zero():
    assert read_root(KEY, None) == SeenRow(KEY)
    assert read_root(KEY, None).version == 0


def test_the_history_has_the_last_commits():
    seen = SeenRow(KEY)
    for version in range(1, 21):
        seen = read_root(KEY, {**committed(), **fence_cells(seen, version, b"%d" % version)})
    assert len(seen.history) == REMEMBERED
    assert seen.history[-1] == HistoryEntry(19, b"20")


def test_every_change_takes_a_mark_away():
    marked = {**committed(intents=Intents(7)), GOING: Cell(b"\x01", 7)}
    seen = read_root(KEY, marked)
    assert seen.is_going
    for cells in (fence_cells(seen, 8), committed(seen)):
        assert cells[GOING].value == REMOVED
        assert not read_root(KEY, {**marked, **cells}).is_going
    assert GOING not in fence_cells(SeenRow(KEY), 8)


@pytest.mark.parametrize("column", [INTENTS, HISTORY, USED])
def test_an_unreadable_cell_counts_as_absent(column):
    row = committed()
    lacking = {each: cell for each, cell in row.items() if each != column}
    assert read_root(KEY, {**row, column: Cell(b"\xff", 7)}) == read_root(KEY, lacking)


@pytest.mark.parametrize("value", [b"", bytes(3), bytes(8), bytes(9), b"\x01" * 9])
def test_a_version_that_no_request_can_compare_is_damage(value):
    assert not read_root(KEY, committed()).is_damaged
    assert read_root(KEY, {**committed(), VERSION: Cell(value, 7)}).is_damaged


@pytest.mark.parametrize("field", ["puts", "removed", "deltas", "task", "children"])
def test_intents_are_true_when_anything_follows(field):
    assert not Intents(7)
    assert Intents(7, **{field: getattr(INTENDED, field)})


def test_the_sources_of_a_commit_are_its_root_and_children_that_others_follow():
    assert INTENDED.sources(KEY) == {KEY: [b"abcd"], CHILD.key: []}
    assert Intents(7, children=[ChildRow(b"k", None, b"", 0)]).sources(KEY) == {}


def test_every_cell_of_a_child_has_the_version_of_its_root():
    """So the newest commit wins in each; an older own version is in a cell of its own."""
    for child, own in ((CHILD, 7), (replace(CHILD, own=3), 3), (replace(CHILD, body=None, own=0), 0)):
        cells = child_cells(child, 7)
        assert set(cells) == {VERSION, BODY, EMITTED, OWN, USED, USED_BY_CELLS}
        assert {cell.stamp for cell in cells.values()} == {7}
        seen = read_root(child.key, cells)
        assert seen.root == Root(7, child.body, b"record", own)
        assert seen.used == {b"s": 5}


def test_a_root_row_keeps_its_sequences():
    count = {SEQUENCE + b"\x00\x02": Cell(bytes(7) + b"\x09", 7)}
    assert root_row({**committed(), **count})[SEQUENCE + b"\x00\x02"] == Cell(bytes(7) + b"\x09", 7)


def test_a_marker_is_in_the_journal_and_names_its_row():
    key = journal_key(KEY, 1_700_000_000_000)
    assert JOURNAL.start < key < JOURNAL.stop
    assert root_of_marker(key) == KEY


def test_markers_of_one_minute_are_one_row_and_of_two_are_in_order():
    minute = 60_000 * 28_333_333
    first, last, later = (journal_key(KEY, version) for version in (minute, minute + 59_999, minute + 60_000))
    assert first == last < later
    assert RowRange(first, later).start == first
