"""Rolling deployments: programs of three versions of a schema write to one store, one after the other, as they like.

Whoever does not know a field leaves it as it is, and every view is right after every single write. See
docs/decisions/0042-older-programs-keep-what-they-do-not-know.md.
"""

import pytest

from oneread import connect
from oneread.database._sync.database import Database
from oneread.database.open import opened
from oneread.engines import one_row_memory
from oneread.engines.memory import MemoryEngine
from oneread.errors import SchemaMismatch
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from tests.properties.rolling import Writers


class Shared(MemoryEngine):
    def close(self):
        pass


def in_memory():
    engine = Shared()

    def program(schema):
        driver = SyncDriver(engine, clock())
        return Database(driver, driver.run(opened(schema, read_only=False), Trace()))

    return program


def clock():
    now = [1_700_000_000_000]

    def tick():
        now[0] += 1
        return now[0]

    return tick


def roll(writers, steps):
    """The first version alone; then with the second; then all three, the older ones started again; then the end."""
    writers.start(1)
    running = [1]
    for newer in (2, 3):
        for _ in range(steps // 3):
            writers.step(writers.chance.choice(running))
            writers.check()
        writers.start(newer)
        running.append(newer)
        writers.check()
    for _ in range(steps // 3):
        writers.step(writers.chance.choice(running))
        if not writers.chance.randrange(3):
            writers.start(writers.chance.choice(running))
        writers.check()
    newest = writers.programs[3]
    assert newest.backfill(fence=True).done
    writers.check()
    for number in (1, 2):
        with pytest.raises(SchemaMismatch, match="newer program has upgraded this store"):
            writers.author(writers.versions[number], writers.programs[number])
        with pytest.raises(SchemaMismatch, match="start the newer program"):
            writers.start(number)
        writers.programs.pop(number, None)
    for _ in range(10):
        writers.step(3)
        writers.check()
    assert {row.source.key[0]: row.first for row in newest.page(writers.versions[3].views[-1], 0)} == {
        key: 0 for key, row in writers.books.items() if not row.get("first")
    }


@pytest.mark.parametrize("seed", range(3))
def test_three_versions_write_at_once_in_memory(seed):
    roll(Writers(seed, in_memory()), 240)


def test_three_versions_write_at_once_to_one_folder(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    roll(Writers(7, lambda schema: connect(url, schema, workers=0)), 150)


class OneRow(Writers):
    """A transaction over two books is of several entity groups, which such a store does not take."""

    def transact(self, version, db):
        self.patch(version, db)


def test_three_versions_write_at_once_to_a_store_of_one_row():
    roll(OneRow(7, lambda schema: connect("memory://rolling?span=row", schema, workers=0)), 150)
    one_row_memory.forget("rolling")
