"""Outcomes: the version, cost and tasks of an operation, attached to what it returns.

See "Nothing is fetched that you did not ask for" of the API page.
"""

from __future__ import annotations

from typing import Any, Final

from oneread.errors import UsageError
from oneread.models.model import Model
from oneread.plans.trace import Cost, HasCost
from oneread.store.rows import Cell

METADATA_ATTRIBUTE: Final = "_oneread"
"""The entry in the `__dict__` of an entity or view row: an Outcome, or the cell a fast read found."""


class Outcome:
    """What is attached to a result.

    `version` is that of the entity's root row, 0 for a result without one; `tasks` are keys of the outbox.
    """

    __slots__ = ("tasks", "trace", "version")

    def __init__(self, version: int, trace: HasCost, tasks: tuple[bytes, ...] = ()) -> None:
        self.version = version
        self.trace = trace
        self.tasks = tasks


def attach_outcome(result: Any, outcome: Outcome) -> None:
    result.__dict__[METADATA_ATTRIBUTE] = outcome


def _metadata(result: Any) -> Outcome | Cell:
    try:
        found: Outcome | Cell = result.__dict__[METADATA_ATTRIBUTE]
    except (AttributeError, KeyError):
        raise UsageError("not a result that a database returned", given=type(result)) from None
    return found


def version_of(result: Any) -> int:
    """The own version of an entity that a database returned, for `if_version`."""
    found = _metadata(result)
    if not isinstance(result, Model):
        raise UsageError("only an entity has a version; get it by its key first", given=type(result))
    return found.stamp if isinstance(found, Cell) else found.version


def cost_of(result: Any) -> Cost:
    found = _metadata(result)
    return Cost(1, 1, len(found.value)) if isinstance(found, Cell) else found.trace.cost


def tasks_of(result: Any) -> tuple[bytes, ...]:
    found = _metadata(result)
    return () if isinstance(found, Cell) else found.tasks
