"""Whatever was done to a store, its dump loaded into an empty one means the same, and dumps as the same bytes.

Also with tasks left in the outbox: a dump gives what every copy shows once they are done.
"""

import io

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from oneread.counters.dumping import RestoreCounters
from oneread.transfer.load import DumpReader, check_dump, parse_end, parse_head
from tests.properties.schema_of_everything import City, Customer, Region
from tests.properties.test_derived_equals_recomputed import Machine, Sync, few

LATER = 10**10


class DumpMachine(Machine):
    """At the end of every history the store is dumped, with or without its tasks done, and loaded into another."""

    drained = True

    def teardown(self):
        if self.drained:
            self.finished()
        first = dumped(self.db.db)
        loaded = Sync("memory://", lambda: self.now + LATER)
        load(loaded.db, first)
        assert dumped(loaded.db) == first
        self.finished()
        assert dumped(self.db.db) == first
        self.db.close()
        self.db, self.pending = loaded, False
        self.compare()
        self.db.close()


class LaggingDumpMachine(DumpMachine):
    drained = False

    @rule(model=st.sampled_from([Region, City, Customer]), data=st.data())
    def a_source_goes_and_its_task_waits(self, model, data):
        self.finished()
        key = data.draw(few[model])
        self.both(lambda: self.db.delete(model, key), lambda _version: self.oracle.delete(model, key))
        self.pending = True


def dumped(db):
    text = io.BytesIO()
    db.dump(text.write)
    assert check_dump(io.BytesIO(text.getvalue())) >= 0
    return text.getvalue()


def load(db, text):
    head, *lines = text.splitlines()
    making = DumpReader(db.operations.catalog, parse_head(head))
    assert parse_end(lines.pop()) is not None
    with db.bulk(batch=7) as bulk:
        for line in lines:
            made = making.change(line)
            if isinstance(made, RestoreCounters):
                db.run(made.plan(db.operations.parts))
            else:
                bulk.apply(made, len(line))
    db.drain()


@pytest.mark.parametrize("machine", [DumpMachine, LaggingDumpMachine])
def test_a_dump_that_is_loaded_means_the_same(machine):
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=max(5, settings().max_examples // 20),
            stateful_step_count=10,
            suppress_health_check=list(HealthCheck),
        ),
    )
