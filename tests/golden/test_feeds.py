"""The golden store of feeds, marks and change logs: as this release writes it, and as every later one reads it.

`python -m tests.golden.test_feeds` rewrites it, on purpose only; see `tests/golden/test_store.py`.
"""

import json
from pathlib import Path

import pytest

from oneread.database._sync.database import Database
from oneread.database.open import opened
from oneread.engines.memory import MemoryEngine
from oneread.feeds.entries import SHOWN_BY, Entries
from oneread.feeds.large_groups import EMPTIES, large_groups_of
from oneread.plans.effects import Atomically
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.keys import view_part
from oneread.store.rows import TABLES, Cell
from oneread.transactions import outbox
from oneread.transactions.change_log import LOGS, read_entry
from tests.golden import feeds
from tests.golden.feeds import Busy, Few, Home, Membership, Post
from tests.golden.rows import rows_of
from tests.golden.test_store import iter_of, lines

GOLDEN = Path(__file__).with_name("feeds.jsonl")


def opened_with(driver):
    return Database(driver, driver.run(opened(feeds.SCHEMA, read_only=False), Trace()))


def written():
    """Chance, and the name of a worker, are made to be the same each time."""
    clock, draws = feeds.Clock(), iter(range(10_000))
    with opened_with(SyncDriver(MemoryEngine(), clock, lambda: next(draws) * 7 % 20 / 20)) as db:
        db.operations.outbox.leases._new_owner = lambda: "a worker"
        feeds.history(db, clock)
        return lines(rows_of(db))


def tables():
    found = {table: {} for table in TABLES}
    for line in GOLDEN.read_text(encoding="ascii").splitlines():
        table, key, column, stamp, value = json.loads(line)
        found[table].setdefault(bytes.fromhex(key), {})[column.encode()] = Cell(bytes.fromhex(value), stamp)
    return found


@pytest.fixture
def db():
    def load(store):
        for table, found in tables().items():
            store.replace(table, found)

    driver = SyncDriver(MemoryEngine(), lambda: feeds.FIRST + 3_600_000)
    driver.run(iter_of(Atomically(load)), Trace())
    with opened_with(driver) as found:
        yield found


def test_the_same_history_writes_the_same_rows():
    assert written() == GOLDEN.read_text(encoding="ascii")


def test_the_store_holds_every_kind_of_row(db):
    found, views = tables(), db.operations.catalog.views
    columns = {}
    for key, row in found["views"].items():
        columns.setdefault(view_part(key), set()).update(row)
    home, few, busy = [Entries(views[each]) for each in (Home, Few, Busy)]
    large = large_groups_of(busy)
    for feed in (home, few, busy):
        assert {feed.items, feed.members} <= columns.keys()
        assert SHOWN_BY in columns[feed.prefix]
    assert {few.view.kept, large.groups, large.read, large.written} <= columns.keys()
    assert EMPTIES in columns[large.written]
    sources = {outbox.source_of(key) for key in found["system"] if key.startswith(outbox.TASKS.start)}
    about = {outbox.view_of(each) for each in sources}
    assert about >= {home.items, home.members, busy.members, large.groups}
    logs = [(key, row) for key, row in found["system"].items() if key.startswith(LOGS.start)]
    assert any(read_entry(key, row) for key, row in logs if len(key) > len(logs[0][0]))


def keys(db, view, member):
    return [row.source.key[0] for row in db.page(view, member)]


def test_feeds_are_read_and_go_on(db):
    assert db.verify().clean
    assert keys(db, Home, 1) == [3, 2, 1, 10, 11]  # a task waits
    assert keys(db, Busy, 1) == [12, 3, 2, 1, 10, 11]
    db.drain()
    assert db.verify().clean
    assert (db.unread(Home, 1).unseen, db.unread(Home, 1).unread) == (1, 3)
    assert [keys(db, view, 1) for view in (Home, Busy, Few)] == [[12, 3, 2, 1, 10, 11]] * 2 + [[12, 3]]
    assert [keys(db, view, 3) for view in (Home, Busy, Few)] == [[12, 3, 2, 1, 11]] * 2 + [[12, 3]]
    db.delete(Membership, "c", 1)
    db.save(Post(number=13, group=feeds.Group.at("a"), at=feeds.START))
    db.drain()
    assert keys(db, Home, 1) == keys(db, Busy, 1) == [3, 2, 1, 10, 13]
    assert db.verify().clean


if __name__ == "__main__":
    GOLDEN.write_text(written(), encoding="ascii")
