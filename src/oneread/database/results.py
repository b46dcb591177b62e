"""Results: what an operation cost and made, kept beside the fields of what it returns.

See "Nothing is fetched that you did not ask for" of the API page: every result says what it cost.
"""

from __future__ import annotations

from typing import Any, Final

from oneread.errors import UsageError
from oneread.plans.trace import Cost, HasCost
from oneread.store.rows import Cell

METADATA_ATTRIBUTE: Final = "_oneread"
"""Where it is kept in the `__dict__` of an entity or view row."""


class Outcome:
    """What stands beside a result.

    Arguments:
        version: of the entity's commit row; 0 for what has none.
        trace: what the operation asked of the store.
        tasks: keys of the tasks it left in the outbox.
    """

    __slots__ = ("tasks", "trace", "version")

    def __init__(self, version: int, trace: HasCost, tasks: tuple[bytes, ...] = ()) -> None:
        self.version = version
        self.trace = trace
        self.tasks = tasks


def attach_outcome(result: Any, outcome: Outcome) -> None:
    """Puts an outcome beside a result that was made for the caller."""
    result.__dict__[METADATA_ATTRIBUTE] = outcome


def _beside(result: Any) -> Outcome | Cell:
    try:
        found: Outcome | Cell = result.__dict__[METADATA_ATTRIBUTE]
    except (AttributeError, KeyError):
        raise UsageError("this was not returned by a database", given=type(result)) from None
    return found


def version_of(result: Any) -> int:
    """The version of an entity that a database returned, for `if_version`."""
    beside = _beside(result)
    return beside.stamp if isinstance(beside, Cell) else beside.version


def cost_of(result: Any) -> Cost:
    """What the operation that returned this cost."""
    beside = _beside(result)
    return Cost(1, 1, len(beside.value)) if isinstance(beside, Cell) else beside.trace.cost


def tasks_of(result: Any) -> tuple[bytes, ...]:
    """The tasks that the operation left behind."""
    beside = _beside(result)
    return () if isinstance(beside, Cell) else beside.tasks
