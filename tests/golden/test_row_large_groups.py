"""The rows of large groups on a store that changes one row at a time, to the byte: see docs/formats/rows.md."""

from oneread import Schema
from oneread.database.open import opened
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.testing.steps import DeleteStep
from oneread.transactions import outbox
from oneread.transactions.system_commits import RowSystem
from tests.simulation.feed_models import Membership, Post
from tests.simulation.row_large_groups import Busy, joined


def test_rows_of_large_groups():
    engine, clock = OneRowMemoryEngine(), iter(range(1_000, 9_000))
    driver = SyncDriver(engine, lambda: next(clock), lambda: 0.5)
    operations = driver.run(opened(Schema(Membership, Post, Busy), read_only=False, committer=RowSystem()), Trace())
    steps = [*[joined(number) for number in (0, 1, 2, 3)], *[joined(number, "b") for number in (7, 8, 9, 12)]]
    for step in steps:
        driver.run(step.plan(operations), Trace())
    tasks = [key.hex() for key, _row in engine.answer(Scan("system", outbox.TASKS, 9))]
    driver.run(operations.outbox.finish_waiting(), Trace())
    driver.run(DeleteStep(Membership, (1,)).plan(operations), Trace())
    large = operations.catalog.views[Busy].large
    found = [
        each for prefix in large[2:] for each in engine.answer(Scan("views", RowRange.under(prefix), 9, families="dm"))
    ]
    lines = [
        f"{key.hex()} {column.decode()} {cell.stamp} {cell.value.hex()}"
        for key, row in found
        for column, cell in sorted(row.items())
    ]
    assert "\n".join([*tasks, *lines]) == ROWS.strip()


ROWS = """
7461736b3a07ff0006000103620000000000000003f500000000000003f5
7461736b3a3eff0006000103610000000000000003ef00000000000003ef
00060001036100 d:b 1022 93cd03fec3c2
00060001036200 d:b 1018 93cd03fac3c2
0007000114 d:b 1014 93cd03f691c40303610090
000700011501 d:b 1020 93cd03fc91c40303620090
000700011502 d:b 1021 93cd03fd91c40303620090
000800010361001501 d:b 1020 01
000800010361001502 d:b 1021 01
0008000103620014 d:b 1014 01
"""
