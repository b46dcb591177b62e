"""Outcomes: the version, cost and tasks of an operation, attached to what it returns.

See "Nothing is fetched that you did not ask for" of the API page.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from oneread.errors import UsageError
from oneread.models.model import Model
from oneread.plans.arguments import refuse_unawaited
from oneread.plans.trace import Cost, HasCost

METADATA_ATTRIBUTE: Final = "_oneread"
"""The entry in the `__dict__` of an entity or view row: an Outcome, or the FastOutcome of a fast read."""

FastOutcome: TypeAlias = "tuple[bytes, int] | Cost"
"""What a fast read attaches: an entity's document and version, or what another result cost."""


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


def _metadata(result: Any) -> Outcome | FastOutcome:
    try:
        found: Outcome | FastOutcome = result.__dict__[METADATA_ATTRIBUTE]
    except (AttributeError, KeyError):
        refuse_unawaited(result)
        raise UsageError("not a result that a database returned", given=type(result)) from None
    return found


def version_of(result: Any) -> int:
    """The own version of an entity that a database returned, for `if_version`."""
    found = _metadata(result)
    if not isinstance(result, Model):
        raise UsageError("only an entity has a version; get it by its key first", given=type(result))
    return found[1] if isinstance(found, tuple) else found.version if isinstance(found, Outcome) else 0


def cost_of(result: Any) -> Cost:
    found = _metadata(result)
    if isinstance(found, tuple):
        return Cost(1, 1, len(found[0]), 0, 1)
    return found.trace.cost if isinstance(found, Outcome) else found


def tasks_of(result: Any) -> tuple[bytes, ...]:
    found = _metadata(result)
    return found.tasks if isinstance(found, Outcome) else ()
