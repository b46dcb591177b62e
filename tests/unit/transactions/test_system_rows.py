"""System rows are swapped from the value that was seen; only committers ask for a transaction."""

import re
from pathlib import Path

import pytest

import oneread
from oneread.engines.memory import MemoryEngine
from oneread.errors import Conflict
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import Read
from oneread.store.rows import VALUE
from oneread.transactions.system_rows import BACKFILL_ROW, FENCE_ROW, NATIVE_SYSTEM, Swap


@pytest.fixture
def store():
    return Store()


class Store:
    def __init__(self):
        self.driver = SyncDriver(MemoryEngine())

    def swap(self, *swaps):
        self.driver.run(NATIVE_SYSTEM.together(lambda _store: None, swaps), Trace())

    def value(self, key):
        (row,) = self.driver.run(Read("system", [key]).__iter__(), Trace())
        return None if row is None else row[VALUE].value


def lost():
    return Conflict("the row has changed")


def test_a_row_goes_from_absent_to_a_value_and_back(store):
    store.swap(Swap(BACKFILL_ROW, None, b"1", lost))
    assert store.value(BACKFILL_ROW) == b"1"
    store.swap(Swap(BACKFILL_ROW, b"1", b"2", lost))
    assert store.value(BACKFILL_ROW) == b"2"
    store.swap(Swap(BACKFILL_ROW, b"2", None, lost))
    assert store.value(BACKFILL_ROW) is None


@pytest.mark.parametrize("seen", [None, b"0"])
def test_one_lost_swap_leaves_all_rows_as_they_were(store, seen):
    store.swap(Swap(FENCE_ROW, None, b"1", lost))
    with pytest.raises(Conflict, match="has changed"):
        store.swap(Swap(BACKFILL_ROW, None, b"1", lost), Swap(FENCE_ROW, seen, b"2", lost))
    assert (store.value(BACKFILL_ROW), store.value(FENCE_ROW)) == (None, b"1")


def test_a_swap_to_the_same_value_is_a_check(store):
    store.swap(Swap(FENCE_ROW, None, b"1", lost))
    store.swap(Swap(FENCE_ROW, b"1", b"1", lost), Swap(BACKFILL_ROW, None, b"1", lost))
    assert (store.value(BACKFILL_ROW), store.value(FENCE_ROW)) == (b"1", b"1")


def test_only_committers_ask_for_a_transaction():
    """All other code asks a committer, so that one for stores that change one row at a time can take its place."""
    source = Path(oneread.__file__).parent
    importing = re.compile(r"^from oneread\.plans\.effects import .*\bAtomically\b", re.MULTILINE)
    asking = {
        path.relative_to(source).parts[0] for path in source.rglob("*.py") if importing.search(path.read_text("utf-8"))
    }
    assert asking == {"plans", "transactions", "testing"}
