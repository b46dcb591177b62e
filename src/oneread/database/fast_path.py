"""The fast path of `get` and `page`: local reads without a plan, because stepping a plan costs as much as the read.

Tests prove that it answers, costs and refuses as the plans of `Operations.find` and `page` do. See "Plans" of the
architecture page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from oneread.database.cursors import CursorCipher
from oneread.database.lists import Listed
from oneread.database.operations import Operations
from oneread.database.pages import AnyOf, BoundQuery, Page, PageRows, Query
from oneread.database.results import METADATA_ATTRIBUTE, Outcome, attach_outcome
from oneread.derivations.catalog import Catalog
from oneread.derivations.derivation import CompiledView, LocalFind
from oneread.errors import InvalidKey, SchemaMismatch
from oneread.models.expiry import ExpiryRule
from oneread.plans.allowance import CURRENT
from oneread.plans.trace import Cost
from oneread.store.engine import LocalReads
from oneread.transactions.root import BODY
from oneread.transactions.unit_of_work import VALUE

ABSENT: Final = object()
"""What a finder returns for an entity that does not exist."""

Finder: TypeAlias = Callable[[tuple[Any, ...]], Any]
"""A key's parts to the result, or ABSENT; None where only a plan can answer, or refuse."""


class CountedLater:
    """The cost of a read, counted when it is asked for."""

    __slots__ = ("_count",)

    def __init__(self, count: Callable[[], Cost]) -> None:
        self._count = count

    @property
    def cost(self) -> Cost:
        return self._count()


def finders(operations: Operations, engine: LocalReads, clock: Callable[[], int]) -> dict[type, Finder]:
    """The finder of each model, and of each view that a local engine can look up."""
    catalog = operations.catalog
    views = {cls: (view, view.local_find(engine)) for cls, view in catalog.views.items()}
    entities = {
        cls: (_find_entity(cls, catalog, engine), catalog.expiries.get(kind.prefix))
        for cls, kind in catalog.kinds.items()
    }
    return {
        cls: find if expiry is None else _find_living(find, expiry, clock) for cls, (find, expiry) in entities.items()
    } | {cls: _find_group(view, find, operations) for cls, (view, find) in views.items() if find is not None}


def _find_entity(cls: type, catalog: Catalog, engine: LocalReads) -> Finder:
    kind, given_key = catalog.kinds[cls], catalog.given_key
    prefix, arity = kind.prefix, len(kind.names)
    encode = kind.codec.encoder(lambda given: kind.codec.encode(given_key(cls, given)))
    decode, fetch, metadata = kind.layouts.decode, engine.point, METADATA_ATTRIBUTE
    current_allowance = CURRENT.get
    whole = cls is kind.cls

    def find(parts: tuple[Any, ...]) -> Any:
        if len(parts) != arity:
            parts = given_key(cls, parts)
            if len(parts) != arity:
                raise InvalidKey(
                    "the key has other parts than the model declares", model=cls, declared=kind.names, given=parts
                )
        cell = fetch("roots", prefix + encode(parts), BODY)
        allowance = current_allowance()
        if allowance is not None:
            allowance.charge(1, 1, 0 if cell is None else len(cell.value))
        if cell is None:
            return ABSENT
        try:
            entity = decode(cell.value)
        except SchemaMismatch:  # a newer program wrote it
            return None
        entity.__dict__[metadata] = cell
        return entity if whole or isinstance(entity, cls) else ABSENT

    return find


def _find_living(find: Finder, expiry: ExpiryRule, clock: Callable[[], int]) -> Finder:
    def find_living(parts: tuple[Any, ...]) -> Any:
        found = find(parts)
        return found if found is None or found is ABSENT or not expiry.is_expired(found, clock()) else ABSENT

    return find_living


def _find_group(view: CompiledView, find_values: LocalFind, operations: Operations) -> Finder:
    cls, flat, width = view.cls, view.key.flat, len(view.key.codec.elements)
    is_readable, current_allowance = operations.fence.is_readable, CURRENT.get
    requests = sum(form.found is not None for form in view.forms())

    def find(key: tuple[Any, ...]) -> Any:
        values = flat(key)
        if len(values) != width or not is_readable(cls):  # a plan refuses both
            return None
        row, rows, size = find_values(values)
        allowance = current_allowance()
        if allowance is not None:
            allowance.charge(requests, rows, size)
        attach_outcome(row, Outcome(0, CountedLater(lambda: Cost(requests, rows, size))))
        return row

    return find


def read_page(
    engine: LocalReads, of: Listed, query: Query, cipher: CursorCipher, clock: Callable[[], int]
) -> Page[Any] | None:
    """The page of one range whose rows hold what they show; None where only the plan can answer."""
    if of.decode_rows is None or query.where is not None or AnyOf in map(type, query.equal):
        return None
    bound = BoundQuery(of, query, cipher)
    (within,) = bound.ranges(0 if of.feed is None else clock())
    read = engine.column(of.table, within, query.limit + 1, VALUE, reverse=bound.backward)
    counted = CountedLater(lambda: Cost(1, len(read), sum(len(key) + len(value) for key, value in read)))
    allowance = CURRENT.get()
    if allowance is not None:
        cost = counted.cost
        allowance.charge(cost.requests, cost.rows, cost.bytes)
    more = len(read) > query.limit
    found = read[:-1] if more else read
    if bound.backward:
        found = found[::-1]
    edges = (found[0][0], found[-1][0]) if found else None
    return bound.page(PageRows(of.decode_rows([value for _key, value in found]), edges, more), counted)
