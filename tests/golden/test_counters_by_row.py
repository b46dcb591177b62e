"""The rows of counters on a store that changes one row at a time, to the byte: see docs/formats/rows.md."""

from datetime import UTC, datetime

from oneread import CounterRules, Key, Model, Schema
from oneread.counters.rows import ALL, SETTINGS, shards_of
from oneread.counters.settings import show_in_settings
from oneread.counters.shard_copying import show_counter
from oneread.database.open import opened
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import Scan
from oneread.transactions.derived_writes import CounterRows
from oneread.transactions.system_commits import RowSystem


class Nothing(Model[int]):
    number: Key[int]


SCHEMA = Schema(Nothing, counters=CounterRules(once_for=60))


def test_rows_of_counters():
    engine, clock = OneRowMemoryEngine(), iter(range(1_000, 2_000))
    driver = SyncDriver(engine, lambda: next(clock), lambda: 0.5)
    plans = driver.run(opened(SCHEMA, read_only=False, committer=RowSystem()), Trace()).counters
    declared = plans.declared(2, {"hour": 2})
    moment = datetime(1970, 1, 1, 0, 0, tzinfo=UTC)
    for plan in (
        plans.add(b"\x03a\x00", declared, 5, None),
        plans.add(b"\x03a\x00", declared, -3, "x", moment),
        plans.configure(b"\x03a\x00", declared, 3, None),
        plans.add(b"\x03b\x00", declared, 1, None),
        plans.delete(b"\x03b\x00"),
    ):
        driver.run(plan, Trace())
    shown = CounterRows(shards_of(b"\x03b\x00"), SETTINGS + b"\x03b\x00", b"", show_in_settings)
    driver.run(show_counter(shown), Trace())
    driver.run(plans.add(b"\x03b\x00", declared, 1, "y"), Trace())
    found = engine.answer(Scan("counts", ALL, 100, families="dm"))
    lines = [
        f"{key.hex()} {column[:4].decode()}{column[4:].hex()} {cell.stamp} {cell.value.hex()}"
        for key, row in found
        for column, cell in sorted(row.items())
    ]
    assert "\n".join(lines) == ROWS.strip()


ROWS = """
fffe0001036100 d:b 1010 94010381a4686f757202c2
fffe0001036100 m:c 1010 94010391920002cb404e000000000000
fffe0001036100 m:w 1010 00000000000003f2
fffe0001036200 d:b 1020 94000281a4686f757202c3
fffe0001036200 m:c 1020 94000290cb404e000000000000
fffe0001036200 m:w 1020 00000000000003fc
fffe000203610001 d:b 1009 920503
fffe000203610001 m:e 1009 0000000000000000
fffe000203610001 m:h 1009 939200c40092cd03edc40e100000000000001000000000000092cd03eec40e1000000000000010000000000000
fffe000203610001 m:n:68000000000000 1009 920503
fffe000203610001 m:t:f3b3c60a0c65bdb82a3666b7647b2948 1009 1000000000000010000000000000
fffe000203610001 m:w 1009 00000000000003f1
fffe000203620000 d:b 1022 920100
fffe000203620000 m:e 1022 0000000000000000
fffe000203620000 m:h 1022 929200c40092cd03fdc40e1000000000000010000000000000
fffe000203620000 m:n:68000000000000 1022 920100
fffe000203620000 m:s 1022 01
fffe000203620000 m:t:06d470d95854d63fe1d85587b0e829a3 1022 1000000000000010000000000000
fffe000203620000 m:w 1022 00000000000003fe
fffe000203620001 d:b 1016 c1
fffe000203620001 m:h 1018 949200c40092cd03f5c40e100000000000001000000000000092cd03f6c40092cd03f8c400
fffe000203620001 m:s 1018 00
fffe000203620001 m:w 1018 00000000000003fa
fffe0005036200 d:p:00 1022 cd03fe
"""
