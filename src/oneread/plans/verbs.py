"""The verbs of a database that are measured, by telemetry and by heat: both put others in their place."""

from __future__ import annotations

from typing import Final

VERBS: Final = (
    "get", "find", "get_many", "page", "together",
    "save", "create", "get_or_create", "upsert", "patch", "delete", "save_all",
    "transact", "drain", "counters", "mark", "marks", "unread", "enqueue",
)  # fmt: skip
"""The verbs that are measured: `exists` calls find, `scan` calls page."""
COUNTER_VERBS: Final = ("add", "read", "look", "windows", "shards", "settings", "configure", "delete")
"""The verbs of a counter that are measured, as `counter_add` and so on. Its name is not recorded."""


def declaration_of(given: tuple[object, ...]) -> str | None:
    """The name of the model or view that a verb is about, by its arguments."""
    first = given[0] if given else None
    kind = first if isinstance(first, type) else type(first)
    return kind.__name__ if hasattr(kind, "reserved_names") else None
