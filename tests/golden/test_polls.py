"""The golden store of entity groups and named counters: as this release writes it, and as every later one reads it.

`python -m tests.golden.test_polls` rewrites it, on purpose only; see `tests/golden/test_store.py`.
"""

import json
from pathlib import Path

import pytest

from oneread.counters import rows
from oneread.database._sync.database import Database
from oneread.database.open import opened
from oneread.engines.memory import MemoryEngine
from oneread.plans.effects import Atomically
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.rows import TABLES, Cell
from tests.golden import polls
from tests.golden.polls import Comment, Poll, PollsByVotes, User
from tests.golden.rows import rows_of
from tests.golden.test_store import iter_of, lines

GOLDEN = Path(__file__).with_name("polls.jsonl")


def written():
    """Chance and the tokens of batches are made to be the same each time."""
    clock, draws = polls.Clock(), iter(range(10_000))
    driver = SyncDriver(MemoryEngine(), clock, lambda: next(draws) * 7 % 20 / 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oneread.counters.batch.os.urandom", lambda size: b"\x07" * size)
        with Database(driver, driver.run(opened(polls.SCHEMA, read_only=False), Trace())) as db:
            polls.history(db, clock)
            return lines(rows_of(db))


@pytest.fixture
def db():
    tables = {table: {} for table in TABLES}
    for line in GOLDEN.read_text(encoding="ascii").splitlines():
        table, key, column, stamp, value = json.loads(line)
        tables[table].setdefault(bytes.fromhex(key), {})[column.encode()] = Cell(bytes.fromhex(value), stamp)

    def load(store):
        for table, found in tables.items():
            store.replace(table, found)

    driver = SyncDriver(MemoryEngine(), lambda: polls.FIRST + 3_700_000)
    driver.run(iter_of(Atomically(load)), Trace())
    with Database(driver, driver.run(opened(polls.SCHEMA, read_only=False), Trace())) as found:
        yield found


def test_the_same_history_writes_the_same_rows():
    assert written() == GOLDEN.read_text(encoding="ascii")


def test_the_store_holds_every_kind_of_row():
    found = [json.loads(line) for line in GOLDEN.read_text(encoding="ascii").splitlines()]
    kinds = {bytes.fromhex(key)[:4] for table, key, *_rest in found if table == "counts"}
    assert kinds >= rows.PREFIXES - {rows.CHANCES, rows.GREATEST}, "those are in `test_views.py`"
    assert len({column for table, _key, column, *_rest in found if column.startswith("m:s")}) == 2
    tokens = [key for table, key, *_rest in found if table == "counts" and bytes.fromhex(key)[:4] == rows.TOKENS]
    assert {key[8:16] for key in tokens} == {"00000000", "00000001"}, "of two generations"


def test_counters_are_read_and_added_to(db):
    assert [(each.name, each.shards) for each in db.counters()] == [
        ("views:é", 20), ("visits", 3), ("votes:1", 20), ("votes:2", 1), ("votes:3", 20)
    ]  # fmt: skip
    votes = db.counter("votes:1")
    assert (votes.read(), votes.look().raised) == (6 - 2**63, 6)
    assert [each.value for each in votes.windows("hour", last=2)] == [5 - 2**63, 1]
    assert db.counter("visits").read() == 7
    for name, token in (
        ("votes:1", "ballot 1"),
        ("votes:1", b"\x00\xff"),
        ("votes:2", "ballot 2"),
        ("deleted", "kept"),
    ):
        assert db.counter(name).add(1, once=token) is False
    assert db.counter("votes:1").add(1, once="ballot 2") is True
    assert db.verify().clean


def test_marked_counters_are_shown(db):
    assert [row.votes for row in db.page(PollsByVotes)] == [0, 0, 5 - 2**63]
    assert db.verify().clean
    db.drain()
    assert [db.get(Poll, number).votes for number in (1, 2, 3)] == [6 - 2**63, 2**62 + 1, 0]
    assert db.verify().clean


def test_numbers_go_on_where_they_were(db):
    assert db.create(Comment(name="ada", text="four")).number == 4
    db.save(User(name="bea"))
    assert db.create(Comment(name="bea", text="again")).number == 2
    assert db.verify().clean


if __name__ == "__main__":
    GOLDEN.write_text(written(), encoding="ascii")
