"""Erasing an entity as a plan: its receipt is begun, what is about it goes, it is deleted, its holders follow.

Each step may be done again, so one that was interrupted is continued by doing all again. `async_erasing` documents the
verbs; docs/decisions/0157-erasing.md says why they are so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from oneread.counters.wanted import check_name
from oneread.database.erasures import (
    ErasedState,
    Erasing,
    Erasure,
    KeptBytes,
    encode_erasure,
    erasure_key,
    read_erasure,
)
from oneread.database.operations import Operations
from oneread.database.plain_references import plain_references
from oneread.database.recorded_places import PlaceDescriber
from oneread.derivations.counter_fields import ShownCounter
from oneread.derivations.entity_state import EntityState
from oneread.derivations.erasing import Erase, Rewrite, is_erased
from oneread.evolution.privacy import PersonalPlace, personal_places
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.store.engine import Capabilities
from oneread.store.keys import SELECTION_BYTES, holder_part, kind_part
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import VALUE, Cell, RowMutation, RowRange
from oneread.transactions import outbox
from oneread.transactions.intents import root_row
from oneread.transactions.root import parse_root
from oneread.transactions.system_rows import CONSOLE_LOG, DIFFERENCES, ERASURES, REPORTS
from oneread.transactions.tasks import Draining, TaskStepResult

PAGE: Final = 500
"""Rows of one request."""
_SHORTEST: Final = 4
"""Bytes of a text that is looked for in what was noted; a shorter one is in everything."""
_NOTED: Final = (REPORTS, DIFFERENCES, CONSOLE_LOG)


class EntityErasure:
    """Erases one entity. `capabilities` are those of the engine."""

    def __init__(self, operations: Operations, capabilities: Capabilities, model: Any, key: tuple[Any, ...]) -> None:
        self._operations = operations
        self._capabilities = capabilities
        self._catalog = operations.catalog
        self._model = model
        self.root: bytes = operations.root(model, key)

    # What it would do.

    def plan(self) -> Plan[Erasing]:
        """Two requests, and one for each 500 entities that refer to it."""
        state = yield from self._state(self.root)
        holders: Counter[str] = Counter()
        children = 0
        for within in (outbox.holders_of(self.root), outbox.holds_on(self.root)):
            rest = within
            while True:
                found = yield from Scan("views", rest, PAGE)
                keys = [holder_part(key[len(within.start) :]) for key, _row in found]
                holders.update(self._name(key) for key in keys if not self._is_child(key))
                children += len({key for key in keys if self._is_child(key)})
                if len(found) < PAGE:
                    break
                rest = within.behind(found[-1][0])
        cls = self._catalog.kind_of(self.root).cls if state.entity is None else type(state.entity)
        key = self._catalog.kind_of(self.root).parts_of(self.root)
        kept = tuple(self._kept(cls, (yield from Now())))
        return Erasing(
            cls.__name__, key, _state_of(state), self._rows(state), dict(holders), children,
            tuple(self._counters(self.root)), kept,
        )  # fmt: skip

    def _state(self, key: bytes) -> Plan[EntityState]:
        (row,) = yield from Read("roots", [key], "dm")
        laid = None if row is None else root_row(self._operations.parts.cells.lay(key, row))
        return self._catalog.state(key, parse_root(laid))

    def _rows(self, state: EntityState) -> int:
        return len(PlaceDescriber(self._operations, self.root, state.entity).places(state.record))

    def _name(self, key: bytes) -> str:
        kind = self._catalog.kinds_by_prefix.get(kind_part(key))
        return f"model number {int.from_bytes(kind_part(key))}" if kind is None else kind.cls.__name__

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

    def _kept(self, cls: type, now: int) -> Iterator[KeptBytes]:
        """What the declarations and the kind of store say of bytes that stay."""
        at = datetime.fromtimestamp(now / 1000, UTC)
        for view in self._operations.schema.views:
            if view.watched is not None:
                yield KeptBytes(f"the change log of {view.__name__}, keys of rows", at + view.watched)
        if issubclass(cls, self._model) and cls.logged is not None:  # type: ignore[attr-defined]
            yield KeptBytes(f"the log of {cls.__name__}, its key", at + cls.logged)  # type: ignore[attr-defined]
        places = personal_places(self._operations.schema)
        if any(each.kind == "key" and each.field.startswith(f"{cls.__name__}.") for each in places):
            yield KeptBytes("the key, which is personal, in the entity's row and in whatever refers to it")
        for each in places:
            if each.kind == "last values" and not each.place.startswith(f"{cls.__name__}."):
                yield KeptBytes(f"{each.place} of entities that were deleted before, where others copy it")
        yield from [KeptBytes(str(each)) for each in plain_references(self._catalog, cls)]
        if self._operations.schema.jobs:
            yield KeptBytes("jobs that wait or are set aside: they have what the program gave them")
        if self._capabilities.persistent:
            yield from self._kept_by_store(at, places)

    def _kept_by_store(self, at: datetime, places: Sequence[PersonalPlace]) -> Iterator[KeptBytes]:
        if self._operations.spans_rows:
            yield KeptBytes("pages that the file has freed, until `oneread scrub`")
            return
        grace = self._operations.grace
        if grace is None:
            yield KeptBytes("keys of removed rows: this store purges nothing, see grace_s of its URL")
        else:
            yield KeptBytes("keys of removed rows, until they are purged", at + timedelta(seconds=2 * grace))
        yield KeptBytes("overwritten and purged cells, until the servers compact their files")
        yield KeptBytes("cells beside holders that were deleted, or referred to another one, before")
        for each in places:
            if each.table == "counts" and each.kind in ("unique value", "key of rows") and each.note != "as a digest":
                yield KeptBytes(f"the value of {each.field} as the key of a row of {each.place}: declare it hashed")

    # What it does.

    def run(self) -> Plan[Erasure]:
        """Erases it, with its children; continues what was interrupted."""
        planned = yield from self.plan()
        receipt = yield from self._begin(planned)
        state = yield from self._state(self.root)
        noted = yield from self._remove_noted(state)
        children = yield from self._erase_children()
        yield from self._erase(self.root, self._model)
        children += yield from self._erase_children()  # that came meanwhile; behind the commit none can
        yield from self._drain()
        if not self._operations.spans_rows:
            yield from self._rewrite(self.root, None)
        waiting = yield from self._count_aside()
        now = datetime.fromtimestamp((yield from Now()) / 1000, UTC)
        receipt = msgspec.structs.replace(
            receipt,
            done=None if waiting else now,
            noted=receipt.noted + noted,
            children=receipt.children + children,
            waiting=waiting,
            kept=planned.kept,
        )
        yield from self._put(receipt)
        return receipt

    def _begin(self, planned: Erasing) -> Plan[Erasure]:
        """Puts the receipt; that of an interrupted one has what it found."""
        key = erasure_key(self.root)
        (row,) = yield from Read("system", [key])
        if row is not None:
            earlier = read_erasure((key, row))
            if earlier.done is None or planned.state == "erased":
                return earlier
        begun = datetime.fromtimestamp((yield from Now()) / 1000, UTC)
        receipt = Erasure(
            planned.model,
            tuple(map(str, planned.key)),
            begun,
            rows=planned.rows,
            holders=sum(planned.holders.values()),
            counters=len(planned.counters),
            kept=planned.kept,
        )
        yield from self._put(receipt)
        return receipt

    def _put(self, receipt: Erasure) -> Plan[None]:
        now = yield from Now()
        cell = Cell(encode_erasure(receipt), now)
        yield from Mutate("system", [RowMutation(erasure_key(self.root), {VALUE: cell})])

    def _remove_noted(self, state: EntityState) -> Plan[int]:
        """Removes what reports, launches and consoles have noted of it."""
        wanted = [self._catalog.name_of(self.root).encode(), *_texts(state.entity)]
        removed = 0
        for within in _NOTED:
            rest = within
            while True:
                found = yield from Scan("system", rest, PAGE)
                for key, row in found:
                    if any(text in key or text in cell.value for text in wanted for cell in row.values()):
                        removed += yield from self._operations.committer.sweep("system", RowRange(key, key + b"\0"), 1)
                if len(found) < PAGE:
                    break
                rest = within.behind(found[-1][0])
        return removed

    def _erase_children(self) -> Plan[int]:
        """Erases the children of its entity group, as long as there are some."""
        within, erased = outbox.holds_on(self.root), 0
        rest = within
        while True:
            found = yield from Scan("views", rest, PAGE)
            for child in [holder_part(each[len(within.start) :]) for each, _row in found]:
                if self._is_child(child):
                    yield from self._erase(child, self._catalog.kind_of(child).cls)
                    erased += 1
            if len(found) < PAGE:
                return erased
            rest = within.behind(found[-1][0])

    def _erase(self, key: bytes, model: type) -> Plan[None]:
        for name in self._counters(key):
            yield from self._operations.counters.delete(check_name(name))
        yield from self._operations.commit([Erase(self._catalog, key, None, model)])

    def _drain(self) -> Plan[None]:
        """Does what commits have left, until nothing is left."""
        draining = Draining()
        while (yield from self._operations.drain_or_wait(outbox.BATCH, draining)) is not TaskStepResult.IDLE:
            pass

    def _rewrite(self, source: bytes, wanted: set[bytes] | None) -> Plan[None]:
        """Writes documents again that have its values from holders, under the cells of those: these were not erased.

        `wanted` are the selections of such holders; None for the entity itself, whose own holders were committed.
        """
        within = outbox.holders_of(source)
        rest = within
        while True:
            found = yield from Scan("views", rest, PAGE)
            for key, _row in found:
                selection = key[len(within.start) :][:SELECTION_BYTES]
                if wanted is None or selection in wanted:
                    holder = holder_part(key[len(within.start) :])
                    if wanted is not None:
                        yield from self._operations.commit([Rewrite(self._catalog, holder)])
                    further = self._taken_through(holder, source)
                    if further:
                        yield from self._rewrite(holder, further)
            if len(found) < PAGE:
                return
            rest = within.behind(found[-1][0])

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

    def _count_aside(self) -> Plan[int]:
        """How many holders could not follow it."""
        return len((yield from Scan("system", outbox.aside_of(self.root), PAGE)))


def receipts(limit: int) -> Plan[list[Erasure]]:
    """The receipts in the order of models and keys. One request."""
    found = yield from Scan("system", ERASURES, limit)
    return [read_erasure(each) for each in found]


def _state_of(state: EntityState) -> ErasedState:
    if state.entity is not None:
        return "living"
    if not state.record:
        return "absent"
    return "erased" if is_erased(state.record) else "deleted"


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
