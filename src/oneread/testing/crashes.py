"""The crash kit: programs that write at once, under a simulator that loses answers and crashes processes.

See "The simulator" of the commit protocol.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, Literal

import msgspec

from oneread.errors import UsageError
from oneread.evolution.schema import Schema
from oneread.testing.proof import INLINE, with_inline
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DrainStep, SaveStep, WriteStep

_BATCHES: Final = 20


class Crash(msgspec.Struct, frozen=True):
    """Entities to begin with, the processes that write, and the seed of what fails.

    Arguments:
        seed: decides which process is next, which answers are lost, and which process crashes.
        first: entities that are saved before; those that are refused are left out.
        writers: the steps of each process.
    """

    seed: int
    first: list[SaveStep]
    writers: list[list[WriteStep]]


def survive(schema: Schema, crash: Crash, *, span: Literal["row", "rows"] = "rows") -> list[tuple[str, str]]:
    """Runs one crash on a store in memory; the entities and every view are right after each commit and at the end.

    With span="row" on a store that changes one row at a time, as HBase and Bigtable do: requests may be late as well,
    and the views are right once everything is recovered and done.

    Returns how each step ended, by name: "done", "crashed", or the name of its error.

    Raises:
        Violation: the store is wrong after a commit or at the end; with the seed and the last requests.
        Unsupported: such a store cannot keep the schema.
    """
    made = with_inline(schema, INLINE)
    simulation = Simulation(crash.seed, made, span=span)
    for step in crash.first:
        with suppress(UsageError):
            simulation.prepare(step)
    for number, steps in enumerate(crash.writers):
        simulation.process(f"writer {number}", steps)
    simulation.process("worker", [DrainStep(INLINE)] * _BATCHES)
    simulation.run()
    return simulation.outcomes
