"""The fence: whether this database may still write, and which of its views may be read.

It refuses commits of a program with an older schema after a newer program has upgraded the store: every commit reads
the fence row, a few bytes, and the schema row only when those bytes have changed. See rule 17 of the commit protocol
and docs/decisions/0016-the-fence.md.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import (
    changes_of,
    fence_in_cell,
    fence_of,
    is_moving,
    needed_fence,
    refuse_overtaken,
    schema_and_fence,
    stored_logs,
    stored_schema,
)
from oneread.errors import NotReady, Outdated
from oneread.models.versions import StoredSchema, ViewState
from oneread.plans.counted import CountedStore
from oneread.plans.inside import run_plan
from oneread.plans.plan import Plan
from oneread.store.engine import NeededRow
from oneread.store.keys import number_and_generation
from oneread.store.requests import Read
from oneread.store.rows import Cell, Row
from oneread.transactions.other_feeds import ViewStanding
from oneread.transactions.system_rows import FENCE_ROW

LOOK_SECONDS: Final = 2.0
"""How old what is known of a view that is being built may be, where another one answers for it meanwhile."""

_NOT_READY: Final = (
    "this view is not built yet, because the store had data when it was added or changed; run a backfill"
)
_UNLOGGED: Final = "a newer program does not watch or log this any more; restart this one with the newer schema"
_RETIRED: Final = "a newer program has changed or dropped this view; restart this one with the newer schema"


class Fence:
    """What one open database knows of its store's schema. May be used by many threads at once.

    `version` is the store's number of this program's schema, `seen` the fence row's value when the schema row was read,
    and `building` are views that are not readable yet.
    """

    def __init__(self, catalog: Catalog, version: int, seen: bytes, building: frozenset[type]) -> None:
        self.version = version
        self.is_stale = False
        self._seen = seen
        self._updating = threading.Lock()
        self._rests = not is_moving(seen)
        self._needed = needed_fence(seen)
        self._prefixes: dict[type, bytes] = {view: each.prefix for view, each in catalog.views.items()}
        self._building = catalog.unready(building)
        self._catalog = catalog
        catalog.withhold(building)
        self._newer: StoredSchema | None = None
        self.retired: frozenset[type] = frozenset()
        self._unlogged: frozenset[type] = frozenset()

    def check_writable(self, store: CountedStore, fence: Cell | None) -> None:
        """Raises Outdated if a newer program has upgraded the store; in every transaction, before it decides.

        `fence` is the cell of the fence row, read in this transaction. One request and one row when it has changed: it
        learns what newer programs write, before anything is decoded, and notes `is_stale`: a transaction that shares
        its commit with others may be undone, so that everything is read again behind it.
        """
        if self._newer is not None:
            refuse_overtaken(self._newer, self.version)
        if self.is_stale or fence_in_cell(fence) != self._seen:
            stored = run_plan(store, stored_schema())
            refuse_overtaken(stored, self.version)
            self.is_stale = True
            self._catalog.learn(stored, always=True)
        elif self._rests:
            store.changed = None  # nothing has to know what this transaction changes

    @property
    def needed(self) -> NeededRow | None:
        """The fence row with which this program may write, and nothing has to know what changes.

        None where it has to be read, and `check_writable` asked. A row that is not there has another value for it.
        """
        return self._needed if self._newer is None and not self.is_stale and self._rests else None

    def refresh(self) -> Plan[None]:
        """Reads the schema row again if it changed; one request and one row if not. Not inside a transaction."""
        (row,) = yield from Read("system", [FENCE_ROW])
        if self.is_stale or fence_of(row) != self._seen:
            stored, seen = yield from schema_and_fence()
            with self._updating:
                if changes_of(seen) >= changes_of(self._seen):  # another thread may have a newer answer
                    self._update(stored)
                    self._needed = needed_fence(seen)
                    self._seen, self._rests = seen, not is_moving(seen)
        self.is_stale = False

    def standing(self, prefix: bytes) -> Plan[ViewStanding]:
        """What the store's newest schema says of the rows of a view. One request, one row."""
        stored = yield from stored_schema()
        if any(each.prefix == prefix for each in stored.views.values()):
            return ViewStanding.DECLARED
        number, _generation = number_and_generation(prefix)  # none is given again
        return ViewStanding.RETIRED if number <= stored.last else ViewStanding.UNKNOWN

    def writes_alone(self) -> Plan[bool]:
        """Whether all programs that may write have this one's schema, and no row has another. One request and row."""
        stored = yield from stored_schema()
        return stored.version == self.version == stored.oldest_writer and not stored.unfinished

    def _update(self, stored: StoredSchema) -> None:
        states: dict[bytes, ViewState] = {each.prefix: each.state for each in stored.views.values()}
        if self.version < stored.oldest_writer:
            self._newer = stored
        else:
            self._newer = None
            self._catalog.learn(stored, always=True)
        building = frozenset(view for view, place in self._prefixes.items() if states.get(place) == "building")
        self._building = self._catalog.unready(building)
        self.retired = frozenset(view for view, place in self._prefixes.items() if place not in states)
        logged = stored_logs(stored)
        self._unlogged = frozenset(cls for cls, log in self._catalog.logs.items() if log not in logged)
        self._catalog.withhold(self._building)

    def is_readable(self, view: Any) -> bool:
        """Whether a view may be read, as of the last refresh; `check_readable` raises the reason why not."""
        return view not in self._building and view not in self.retired

    def check(self, view: Any) -> None:
        """Raises NotReady or Outdated unless a view may be read, as of the last refresh."""
        if view in self._building:
            raise NotReady(_NOT_READY, view=view)
        if view in self.retired:
            raise Outdated(_RETIRED, view=view)

    def check_logged(self, view: Any, fence: Row | None) -> Plan[None]:
        """Raises Outdated unless all programs that write log the changes of a watched view, or logged model.

        `fence` is the fence row, read with the log or before it. No request unless it has changed.
        """
        if self.is_stale or fence_of(fence) != self._seen:
            yield from self.refresh()
        self.check(view)
        if view in self._unlogged:
            raise Outdated(_UNLOGGED, view=view)

    def check_readable(self, view: Any) -> Plan[None]:
        """`check`, after a refresh for a view that was being built; no request for others."""
        if view in self._building:
            yield from self.refresh()
        self.check(view)
