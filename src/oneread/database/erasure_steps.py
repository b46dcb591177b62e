"""The steps of an erasure, each of which may be done again: by the call that began it, or by a worker behind it.

While it is under way a row of `system` says so: who does it, by a lease, and which version was to be erased. So that a
worker continues what was interrupted, and never erases another entity that was saved under the key meanwhile. See
docs/decisions/0162-interrupted-erasures.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from oneread.counters.wanted import check_name
from oneread.database.erasures import Erasure, encode_erasure, erasing_key, erasure_key, read_erasure
from oneread.database.operations import Operations
from oneread.derivations.counter_fields import ShownCounter
from oneread.derivations.entity_state import EntityState
from oneread.derivations.erasing import Erase, Rewrite, is_erased
from oneread.errors import OutcomeUnknown
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.scans import fetch_data, scan_all
from oneread.store.keys import SELECTION_BYTES, holder_part
from oneread.store.requests import CheckAndMutate, Found, Mutate, Read, Scan
from oneread.store.rows import UNDECODABLE, VALUE, Cell, Row, RowMutation, RowRange, later
from oneread.transactions import outbox
from oneread.transactions.intents import root_row
from oneread.transactions.leases import SECONDS, Lease, LeaseHolder, encode_lease
from oneread.transactions.root import parse_root
from oneread.transactions.system_rows import CONSOLE_LOG, DIFFERENCES, REPORTS
from oneread.transactions.tasks import Draining, TaskStepResult

PAGE: Final = 500
"""Rows of one request."""
_SHORTEST: Final = 4
"""Bytes of a text that is looked for in what was noted; a shorter one is in everything."""
_HALF_LEASE: Final = round(SECONDS * 500)
_NOTED: Final = (REPORTS, DIFFERENCES, CONSOLE_LOG)


class UnderWay(Lease, frozen=True, array_like=True):
    """Who erases an entity, and which own `version` of it."""

    version: int = 0


_decode: Final = msgspec.msgpack.Decoder(UnderWay).decode


class ErasureSteps:
    """The steps by which an entity is erased, whose root row is `root`; `leases` are of who does it."""

    def __init__(self, operations: Operations, model: Any, root: bytes, leases: LeaseHolder | None = None) -> None:
        self.root = root
        self._operations = operations
        self._catalog = operations.catalog
        self._model = model
        self._leases = LeaseHolder() if leases is None else leases
        self._key = erasing_key(root)
        self._row: Row | None = None
        self._renewed = 0
        self._own = 0

    # What is there.

    def look(self) -> Plan[EntityState]:
        """The entity as it is stored. One request."""
        (row,) = yield from Read("roots", [self.root], "dm")
        laid = None if row is None else root_row(self._operations.parts.cells.lay(self.root, row))
        seen = parse_root(laid)
        self._own = seen.own
        return self._catalog.state(self.root, seen)

    def _is_child(self, key: bytes) -> bool:
        return key != self.root and self._catalog.group_of(key) == self.root

    def _counters(self, key: bytes) -> Iterator[str]:
        """The names of the counters that an entity shows."""
        kind = self._catalog.kind_of(key)
        shown = {
            each.shown: None
            for entity_type in self._catalog.entity_types.values()
            if entity_type.kind is kind
            for each in entity_type.rollups
            if isinstance(each.shown, ShownCounter)
        }
        for each in shown:
            yield each.name_of(kind.parts_of(key))

    def _children(self) -> Plan[list[bytes]]:
        """The children of its entity group."""
        within, children = outbox.holds_on(self.root), list[bytes]()

        def take(found: list[Found]) -> None:
            holders = [holder_part(key[len(within.start) :]) for key, _row in found]
            children.extend(each for each in holders if self._is_child(each))

        yield from scan_all("views", within, take, PAGE, fetch_data)
        return children

    # What is done, by the call that begins it.

    def receipt(self) -> Plan[Erasure | None]:
        """The receipt that there is. One request."""
        key = erasure_key(self.root)
        row, self._row = yield from Read("system", [key, self._key], "dm")
        return None if row is None else read_erasure((key, row))

    def begin(self, receipt: Erasure) -> Plan[None]:
        """Puts the receipt, and that this caller erases what was looked at last. One request."""
        now = yield from Now()
        self._row = self._renewal(self._row, self._own, now)
        yield from Mutate("system", [self._put(receipt, now), RowMutation(self._key, self._row)])

    def commit(self, receipt: Erasure, version: int | None = None) -> Plan[Erasure]:
        """Erases the entity and its children, as long as there are some; returns the receipt with what was done.

        Raises:
            Conflict: it has not the own `version`, 0 for one that does not live.
        """
        noted = yield from self._remove_noted((yield from self.look()))
        erased = yield from self._erase_all((yield from self._children()))
        yield from self._erase(self.root, self._model, version)
        erased += yield from self._erase_all((yield from self._children()))  # that came meanwhile; later none can
        return msgspec.structs.replace(receipt, noted=receipt.noted + noted, children=receipt.children + erased)

    def end(self, receipt: Erasure) -> Plan[Erasure]:
        """Does what comes when no task is left; returns the receipt as it is put then."""
        if not self._operations.spans_rows:
            yield from self._rewrite(self.root, None)
        waiting = len((yield from Scan("system", outbox.aside_of(self.root), PAGE)))
        now = yield from Now()
        done = None if waiting else datetime.fromtimestamp(now / 1000, UTC)
        receipt = msgspec.structs.replace(receipt, done=done, waiting=waiting)
        yield from Mutate("system", [self._put(receipt, now)])
        yield from self._remove()
        return receipt

    def renew(self) -> Plan[None]:
        """Keeps the lease, when half of it is over."""
        now = yield from Now()
        if now - self._renewed >= _HALF_LEASE and self._row is not None:
            yield from self.take(self._row, now)  # another call may have taken it over, and does the same

    # What a worker does that finds it under way.

    def take(self, row: Row, now: int) -> Plan[bool]:
        """Takes or renews the lease; False when another one has it. A compare-and-set."""
        under_way = read_under_way(row)
        cells = self._renewal(row, 0 if under_way is None else under_way.version, now)
        swap = CheckAndMutate("system", VALUE, row[VALUE].value, RowMutation(self._key, cells))
        try:
            won = yield from self._operations.committer.run(swap.__iter__)
        except OutcomeUnknown:
            won = False
        if won:
            self._row = cells
        else:
            self._leases.forget(self._key)
        return won

    def proceed(self, draining: Draining) -> Plan[bool]:
        """Does the next step of what was interrupted; whether there is more to do at once.

        An entity that was written since is not erased: it may be another one.
        """
        receipt = yield from self.receipt()
        left = yield from self._children()
        state = yield from self.look()
        begun = read_under_way(self._row)
        is_another = state.entity is not None and begun is not None and self._own != begun.version
        if receipt is None or receipt.done is not None or is_another:
            yield from self._remove()
            return False
        if not is_erased(state.record):
            receipt = yield from self.commit(receipt, self._own)
            yield from Mutate("system", [self._put(receipt, (yield from Now()))])
            return True
        yield from self._erase_all(left)  # they were there while it was erased
        result = yield from self._operations.drain_step(outbox.BATCH, draining)
        if result is TaskStepResult.IDLE:
            yield from self.end(receipt)
        return result is TaskStepResult.DONE

    # The parts of steps.

    def _put(self, receipt: Erasure, now: int) -> RowMutation:
        return RowMutation(erasure_key(self.root), {VALUE: Cell(encode_erasure(receipt), now)})

    def _renewal(self, row: Row | None, version: int, now: int) -> Row:
        """What the row that says that it is under way has next, with a lease of this caller."""
        lease = self._leases.renew(self._key, read_under_way(row), now)
        self._renewed = now
        value = encode_lease(UnderWay(lease.owner, lease.until, lease.count, version))
        return {VALUE: Cell(value, later(row, now))}

    def _remove(self) -> Plan[None]:
        """Removes that row."""
        yield from self._operations.committer.sweep("system", RowRange(self._key, self._key + b"\0"), 1)
        self._leases.forget(self._key)

    def _erase_all(self, children: Sequence[bytes]) -> Plan[int]:
        for child in children:
            yield from self._erase(child, self._catalog.kind_of(child).cls)
            yield from self.renew()
        return len(children)

    def _erase(self, key: bytes, model: type, version: int | None = None) -> Plan[None]:
        for name in self._counters(key):
            yield from self._operations.counters.delete(check_name(name))
        yield from self._operations.commit([Erase(self._catalog, key, version, model)])

    def _remove_noted(self, state: EntityState) -> Plan[int]:
        """Removes what reports, launches and consoles have noted of it."""
        parts = self._catalog.kind_of(self.root).parts_of(self.root)
        wanted = [self._catalog.name_of(self.root).encode(), *_texts(parts), *_texts(state.entity)]
        removed = 0

        def remove(found: list[Found]) -> Plan[None]:
            nonlocal removed
            for key, row in found:
                if any(text in key or text in cell.value for text in wanted for cell in row.values()):
                    removed += yield from self._operations.committer.sweep("system", RowRange(key, key + b"\0"), 1)

        for within in _NOTED:
            yield from scan_all("system", within, remove, PAGE, fetch_data)
        return removed

    def _rewrite(self, source: bytes, wanted: set[bytes] | None) -> Plan[None]:
        """Writes documents again that have its values from holders, under the cells of those: these were not erased.

        `wanted` are the selections of such holders; None for the entity itself, whose own holders were committed.
        """
        within = outbox.holders_of(source)

        def rewrite(found: list[Found]) -> Plan[None]:
            for key, _row in found:
                selection = key[len(within.start) :][:SELECTION_BYTES]
                if wanted is None or selection in wanted:
                    holder = holder_part(key[len(within.start) :])
                    if wanted is not None:
                        yield from self._operations.commit([Rewrite(self._catalog, holder)])
                    further = self._taken_through(holder, source)
                    if further:
                        yield from self._rewrite(holder, further)

        yield from scan_all("views", within, rewrite, PAGE, fetch_data)

    def _taken_through(self, holder: bytes, source: bytes) -> set[bytes]:
        """The selections by which others take what a holder has copied from a source."""
        kind = self._catalog.kind_of(source)
        types = [each for each in self._catalog.entity_types.values() if each.kind is self._catalog.kind_of(holder)]
        through = {one.name for each in types for one in each.references if one.kind is kind}
        return {
            name
            for each in types
            if each.copied is not None
            for name, routes in each.copied.selections.items()
            if any(route.partition(".")[0] in through for route in routes)
        }


def read_under_way(row: Row | None) -> UnderWay | None:
    """Who erases, from the row that says so; None for a removed row, and one that cannot be read."""
    try:
        return None if row is None else _decode(row[VALUE].value)
    except (*UNDECODABLE, KeyError):
        return None


def _texts(value: Any) -> Iterable[bytes]:
    """The texts in an entity, as bytes that a note of it would have."""
    if isinstance(value, (str, bytes)):
        found = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        yield from [found] * (len(found) >= _SHORTEST)
    elif isinstance(value, msgspec.Struct):
        yield from _texts([getattr(value, name, None) for name in value.__struct_fields__])
    elif isinstance(value, dict):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from _texts(each)
