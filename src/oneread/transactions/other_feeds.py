"""Tasks of feeds that a worker's program does not have: of a newer program's feed, or of one that is gone.

A newer feed is that program's: the task is left alone. Of a former generation, whose entries will be removed, and of a
feed that was dropped, nothing is to be done. Tasks of what no schema ever declared are set aside.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from typing import TypeAlias

from oneread.plans.plan import Plan
from oneread.transactions import outbox


class ViewStanding(enum.Enum):
    """What a store's newest schema says of the rows of a view with some prefix."""

    DECLARED = enum.auto()
    RETIRED = enum.auto()
    UNKNOWN = enum.auto()


AskStanding: TypeAlias = Callable[[bytes], Plan[ViewStanding]]
"""From a prefix to what the store's newest schema says of it."""


def unknown_standing(prefix: bytes) -> Plan[ViewStanding]:  # noqa: ARG001 - an AskStanding
    """Of a worker that knows no schema."""
    yield from ()
    return ViewStanding.UNKNOWN


class OtherFeeds:
    """Which tasks are of other programs' feeds. `known` are the prefixes of the rows whose tasks this one does.

    `standing` asks the store's newest schema for a prefix.
    """

    def __init__(self, known: Collection[bytes], standing: AskStanding) -> None:
        self._known = known
        self._standing = standing
        self._found: dict[bytes, ViewStanding] = {}

    def is_newer(self, key: bytes) -> Plan[bool]:
        """Whether only newer programs can do a task. One request for each feed that this program does not have."""
        return (yield from self._of(key)) is ViewStanding.DECLARED

    def is_over(self, key: bytes) -> Plan[bool]:
        """Whether nothing is to be done for a task. One request for each feed that this program does not have."""
        return (yield from self._of(key)) is ViewStanding.RETIRED

    def _of(self, key: bytes) -> Plan[ViewStanding | None]:
        view = outbox.view_of(outbox.source_of(key))
        if not view or view in self._known:
            return None
        if view not in self._found:
            found = yield from self._standing(view)
            if found is ViewStanding.UNKNOWN:
                return found
            self._found[view] = found
        return self._found[view]
