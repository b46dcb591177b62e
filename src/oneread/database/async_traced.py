"""The asynchronous face that tells of its verbs: what `connect_async(..., telemetry=True)` opens.

A class of its own, so that a database without telemetry pays nothing for it. The synchronous face is generated from
this module. See docs/decisions/0015-telemetry.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from oneread.database.async_database import AsyncDatabase
from oneread.plans.telemetry import Telemetry

VERBS: Final = (
    "get", "find", "get_many", "page",
    "save", "create", "get_or_create", "upsert", "patch", "delete", "save_all",
    "transact", "drain",
)  # fmt: skip
"""What is told of. `exists` is a find, `scan` is pages."""


class AsyncTraced(AsyncDatabase):
    """An open store that tells OpenTelemetry and the log of each verb."""

    def __init__(self, *given: Any, telemetry: Telemetry, **named: Any) -> None:
        self.telemetry = telemetry
        super().__init__(*given, **named)


def _told(name: str) -> Callable[..., Any]:
    """A verb, with what it costs and takes told."""
    verb = getattr(AsyncDatabase, name)

    async def told(self: AsyncTraced, /, *given: Any, **named: Any) -> Any:
        with self.telemetry.verb(name, _collection(given)):
            return await verb(self, *given, **named)

    return told


def _collection(given: tuple[Any, ...]) -> str | None:
    """The model or view that a verb is about, by its name."""
    first = given[0] if given else None
    kind = first if isinstance(first, type) else type(first)
    return kind.__name__ if hasattr(kind, "reserved_names") else None


for _name in VERBS:
    setattr(AsyncTraced, _name, _told(_name))
