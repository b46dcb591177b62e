"""What the verbs of a move answer."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from oneread.transactions.moves import MoveState


class MoveProblem(msgspec.Struct, frozen=True):
    """Why a store cannot be moved, or what does not go along.

    Arguments:
        declared: the model, view or place that it is about.
        what: what is the matter.
        todo: what to do about it.
        blocks: whether the move is not begun.
    """

    declared: str
    what: str
    todo: str
    blocks: bool


class MovePlan(msgspec.Struct, frozen=True):
    """What a move would do.

    Arguments:
        entities: entities and tombstones of the source.
        counters: its counters of both kinds.
        estimate: how long the copy takes, by a thousand entities a second.
        held: how long writers wait at the switch, about, where the target is near.
        problems: what is in the way, and what does not go along.
    """

    entities: int
    counters: int
    estimate: timedelta
    held: timedelta
    problems: tuple[MoveProblem, ...]

    @property
    def blocked(self) -> bool:
        """Whether something is in the way."""
        return any(each.blocks for each in self.problems)


class MoveDifference(msgspec.Struct, frozen=True):
    """An entity or counter that differs, however often both stores are read.

    Arguments:
        name: `Member(1)`, or `counter votes`.
        source: what the source has; empty for nothing.
        target: what the target has.
    """

    name: str
    source: str
    target: str


class MoveComparison(msgspec.Struct, frozen=True):
    """What comparing both stores of a move has found.

    Arguments:
        at: when it ended, or how far it has come was stored.
        compared: entities and counters.
        differ: how many differ.
        differences: the first 100 of them.
        faults: rows of the target that differ from what its entities require.
        share: of the entities, those of a sample; below 1 neither counters nor what the target derives are compared.
        cursor: where `resume` continues; empty where it has ended.
        epoch: that of the move when it began.
    """

    at: datetime
    compared: int = 0
    differ: int = 0
    differences: tuple[MoveDifference, ...] = ()
    faults: int = 0
    share: float = 1.0
    cursor: str = ""
    epoch: int = 0

    @property
    def equal(self) -> bool:
        """Whether nothing differs, and what the target derives is right, as far as it was compared."""
        return not self.differ and not self.faults

    @property
    def whole(self) -> bool:
        """Whether everything was compared."""
        return self.share == 1 and not self.cursor


class MoveStatus(msgspec.Struct, frozen=True):
    """How far a move is.

    Arguments:
        state: `planned` before it is begun.
        source: the place of the source, without user and password.
        target: that of the target.
        copied: entities and tombstones that the copy has stored.
        waiting: transactions of the source whose changes are still to follow; where it changes one row at a time, rows.
        lag: seconds since the oldest of them; 0.0 for none.
        compared: the last comparison that has ended.
        epoch: grows with each decision about a switch.
        held: seconds for which writers were held at the last switch of this controller.
        shadow: percentage of the reads that programs with `next` make in the target as well.
        shadowed: reads that were so compared, by all programs up to a minute ago.
        shadow_differs: differences that they have found.
        launch: the name of the launch under which these are kept, "" where no read was shadowed.
    """

    state: MoveState
    source: str
    target: str
    copied: int
    waiting: int
    lag: float
    compared: MoveComparison | None
    epoch: int
    held: float = 0.0
    shadow: float = 0.0
    shadowed: int = 0
    shadow_differs: int = 0
    launch: str = ""
