"""The crash kit: programs that write at once, under a simulator that loses answers and lets processes die.

See "The simulator" of the commit protocol.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec

from oneread.errors import UsageError
from oneread.evolution.schema import Schema
from oneread.testing.proof import INLINE, with_inline
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DrainStep, SaveStep, WriteStep

_BATCHES: Final = 20


class Crash(msgspec.Struct, frozen=True):
    """Some entities, then several processes, then what goes wrong.

    Arguments:
        seed: decides who goes on, whose answers are lost, and who dies.
        first: entities that are there before; what is refused of them is left out.
        writers: the steps of each process.
    """

    seed: int
    first: list[SaveStep]
    writers: list[list[WriteStep]]


def survive(schema: Schema, crash: Crash) -> list[tuple[str, str]]:
    """Runs one crash on a store in memory; the entities and every view are right after each commit and at the end.

    Returns how each step ended, by name: "done", "crashed", or the name of its error.

    Raises:
        Violation: something that must hold does not; with the seed and the last requests.
    """
    simulation = Simulation(crash.seed, with_inline(schema, INLINE))
    for step in crash.first:
        with suppress(UsageError):
            simulation.prepare(step)
    for number, steps in enumerate(crash.writers):
        simulation.process(f"writer {number}", steps)
    simulation.process("worker", [DrainStep(INLINE)] * _BATCHES)
    simulation.run()
    return simulation.outcomes
