"""The fence: whether this database may still write, and which of its views may be read.

A program that was started under an older schema learns here that a newer one has taken the store over: every
transaction reads the fence row, a few bytes, and the schema row only when those bytes are not the ones it knows. See
rule 17 of the commit protocol and docs/decisions/0016-the-fence.md.
"""

from __future__ import annotations

from typing import Any, Final

from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import fence_of, refuse_overtaken, schema_and_fence, stored_schema
from oneread.errors import NotReady, SchemaMismatch
from oneread.models.versions import StoredSchema, ViewState
from oneread.plans.plan import Plan
from oneread.store.requests import Read
from oneread.transactions.system_rows import FENCE_ROW
from oneread.transactions.unit_of_work import UnitOfWork

_NOT_READY: Final = "this view was added to a store that has data, and is not built yet; backfill it"
_RETIRED: Final = "a newer program has changed or dropped this view; restart this one with the newer schema"


class Fence:
    """What one open database knows of its store's schema. May be used by many threads at once.

    Arguments:
        catalog: its own schema, compiled.
        version: of its schema, as the store numbers them.
        seen: the fence row's bytes when the schema row was read.
        building: its views that are not readable yet.
    """

    def __init__(self, catalog: Catalog, version: int, seen: bytes, building: frozenset[type]) -> None:
        self.version = version
        self.is_stale = False
        self._seen = seen
        self._prefixes: dict[type, bytes] = {view: each.prefix for view, each in catalog.views.items()}
        self._building = building
        self._overtaken: StoredSchema | None = None
        self.retired: frozenset[type] = frozenset()

    def check_writable(self, unit: UnitOfWork) -> Plan[None]:
        """Goes through only where this database may write; inside every transaction, before it decides anything.

        One request and one row, or none where the unit has read the row before; two more when the schema row changed.
        What is learned here is not kept: a transaction that shares its commit with others may yet be taken back.

        Raises:
            SchemaMismatch: a newer program has taken the store over.
        """
        if self._overtaken is not None:
            refuse_overtaken(self._overtaken, self.version)
        yield from unit.load("system", [FENCE_ROW])
        if fence_of(unit.get("system", FENCE_ROW)) != self._seen:
            refuse_overtaken((yield from stored_schema()), self.version)
            self.is_stale = True

    def refresh(self) -> Plan[None]:
        """Learns what became of the schema row; one request and one row when nothing did. Not inside a transaction."""
        (row,) = yield from Read("system", [FENCE_ROW])
        if fence_of(row) != self._seen:
            stored, seen = yield from schema_and_fence()
            self._learn(stored)
            self._seen = seen
        self.is_stale = False

    def _learn(self, stored: StoredSchema) -> None:
        states: dict[bytes, ViewState] = {each.prefix: each.state for each in stored.views.values()}
        if self.version < stored.writers:
            self._overtaken = stored
        self._building = frozenset(view for view, place in self._prefixes.items() if states.get(place) == "building")
        self.retired = frozenset(view for view, place in self._prefixes.items() if place not in states)

    def is_readable(self, view: Any) -> bool:
        """Whether a view may be read, as far as is known; `ready` says more of one that may not."""
        return view not in self._building and view not in self.retired

    def check(self, view: Any) -> None:
        """Raises for a view that may not be read, as far as is known.

        Raises:
            NotReady: it is still being built.
            SchemaMismatch: nobody keeps its rows any more.
        """
        if view in self._building:
            raise NotReady(_NOT_READY, view=view)
        if view in self.retired:
            raise SchemaMismatch(_RETIRED, view=view)

    def check_readable(self, view: Any) -> Plan[None]:
        """`check`, but looks first whether a view that was being built has become readable; no request for others."""
        if view in self._building:
            yield from self.refresh()
        self.check(view)
