"""The fast path of `get` and `page`: local reads without a plan, because stepping a plan costs as much as the read.

Tests prove that it answers, costs and refuses as the plans of `Operations.find` and `page` do. See "Plans" of the
architecture page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from oneread.database.cursors import Cursor, CursorCipher, equality_of
from oneread.database.lists import Listed
from oneread.database.operations import Operations
from oneread.database.pages import AnyOf, BoundQuery, Page, PageRows, Query, UnseenRows
from oneread.database.results import METADATA_ATTRIBUTE
from oneread.derivations.catalog import Catalog
from oneread.derivations.derivation import CompiledView, LocalFind
from oneread.encoding.ranges import successor
from oneread.errors import Corrupt, InvalidKey, SchemaMismatch
from oneread.models.expiry import ExpiryRule
from oneread.plans.allowance import CURRENT
from oneread.plans.trace import Cost
from oneread.store.engine import LocalReads
from oneread.store.limits import BUDGET
from oneread.store.rows import VALUE, RowRange
from oneread.transactions.root import BODY

ABSENT: Final = object()
"""What a finder returns for an entity that does not exist."""

Finder: TypeAlias = Callable[[tuple[Any, ...]], Any]
"""A key's parts to the result, or ABSENT; None where only a plan can answer, or refuse."""

FirstPage: TypeAlias = Callable[[tuple[Any, ...], Any], "Page[Any] | None"]
"""Values of the first key fields and a limit to a first page; None where another way has to answer, or refuse."""


class HasFastPath(Protocol):
    """A database of either face."""

    @property
    def operations(self) -> Operations: ...


class ColumnCost(msgspec.Struct, gc=False):
    """The cost of rows read by one request, counted when it is asked for."""

    keys: Sequence[bytes]
    values: Sequence[bytes]

    @property
    def cost(self) -> Cost:
        return Cost(1, len(self.keys), sum(map(len, self.keys)) + sum(map(len, self.values)), 0, 1)


def finders(operations: Operations, engine: LocalReads, clock: Callable[[], int]) -> dict[type, Finder]:
    """The finder of each model, and of each view that a local engine can look up; launched ones by the former side."""
    catalog = operations.catalog
    views = {cls: (view, view.local_find(engine)) for cls, view in catalog.views.items()}
    entities = {
        cls: (_find_entity(cls, catalog, engine), catalog.expiries.get(kind.prefix))
        for cls, kind in catalog.kinds.items()
    }
    return {
        cls: find if expiry is None else _find_living(find, expiry, clock) for cls, (find, expiry) in entities.items()
    } | {
        cls: _find_group(view, find, operations)
        for cls, (view, find) in views.items()
        if find is not None and (cls not in operations.sides or cls in operations.sides.launched)
    }


def _find_entity(cls: type, catalog: Catalog, engine: LocalReads) -> Finder:
    kind, given_key = catalog.kinds[cls], catalog.given_key
    prefix, arity = kind.prefix, len(kind.names)
    locate = kind.placed(kind.codec.encoder(lambda given: kind.codec.encode(given_key(cls, given))))
    decode, fetch, metadata = catalog.layouts[kind.prefix].decode, engine.point, METADATA_ATTRIBUTE
    current_allowance = CURRENT.get
    whole = cls is kind.cls

    def find(parts: tuple[Any, ...]) -> Any:
        if len(parts) != arity:
            parts = given_key(cls, parts)
            if len(parts) != arity:
                raise InvalidKey(
                    "the key has other parts than the model declares", model=cls, declared=kind.names, given=parts
                )
        allowance = current_allowance()
        if allowance is not None:
            allowance.check(1, 1, 0)
        try:
            cell = fetch("roots", prefix + locate(parts), BODY)
            if allowance is not None:
                allowance.charge(1, 1, 0 if cell is None else len(cell[0]))
            if cell is None:
                return ABSENT
            entity = decode(cell[0])
        except (Corrupt, SchemaMismatch):  # a plan names a damaged row, and knows what a newer program wrote
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
    requests, metadata = sum(form.found is not None for form in view.forms()), METADATA_ATTRIBUTE
    plain = view.key.plain[-1]

    def find(key: tuple[Any, ...]) -> Any:
        values = key if tuple(map(type, key)) == plain else flat(key)
        if len(values) != width or not is_readable(cls):  # a plan refuses both
            return None
        allowance = current_allowance()
        if allowance is not None:
            allowance.check(requests, 0, 0)
        try:
            row, rows, size = find_values(values)
        except Corrupt:  # a plan names it
            return None
        if allowance is not None:
            allowance.charge(requests, rows, size)
            allowance.overlap(requests - 1)
        row.__dict__[metadata] = Cost(requests, rows, size, 0, 1)
        return row

    return find


class LocalPages:
    """Reads pages of a local engine without a plan."""

    def __init__(self, engine: LocalReads, cipher: CursorCipher, clock: Callable[[], int]) -> None:
        self._engine = engine
        self._cipher = cipher
        self._clock = clock
        self._first: dict[Any, tuple[Listed, FirstPage]] = {}

    def read(self, of: Listed, query: Query) -> Page[Any] | None:
        """The page of one range whose rows hold what they show; None where only the plan can answer, or refuse."""
        try:
            return self._read(of, query)
        except Corrupt:  # the plan names it
            return None

    def _read(self, of: Listed, query: Query) -> Page[Any] | None:
        if (
            query.cursor is None and query.backward is False and query.bounds is None
            and query.starts_with is None and query.where is None and query.budget is BUDGET
        ):  # fmt: skip
            known = self._first.get(of.cls)
            if known is None or known[0] is not of:
                known = self._first[of.cls] = of, self.first_page(of)
            found = known[1](query.equal, query.limit)
            if found is not None:
                return found
        return self.any_page(of, query)

    def any_page(self, of: Listed, query: Query) -> Page[Any] | None:
        """`read`, by the way that knows every option."""
        decoder = of.decoder
        if decoder is None or of.spread > 1 or query.where is not None or AnyOf in map(type, query.equal):
            return None
        bound = BoundQuery(of, query, self._cipher)
        (within,) = bound.ranges(0 if of.feed is None else self._clock())
        if within.is_empty:  # the plan reads nothing
            return None
        _check_budget()
        keys, values = self._engine.column(of.table, within, query.limit + 1, VALUE, reverse=bound.backward)
        counted = ColumnCost(keys, values)
        _charge(counted)
        more = len(values) > query.limit
        if more:
            keys, values = keys[:-1], values[:-1]
        if bound.backward:
            keys, values = keys[::-1], values[::-1]
        edges = (keys[0], keys[-1]) if keys else None
        return bound.page(PageRows(UnseenRows(decoder, values), edges, more), counted)

    def first_page(self, of: Listed) -> FirstPage:
        """The function that reads the first pages of a list, for queries without options.

        What depends on the list alone is looked up here, once; `any_page` is the meaning.
        """
        decoder, plain, encoders, prefix = of.decoder, of.plain, of.encoders, of.prefix
        if decoder is None or of.spread > 1:
            return lambda _equal, _limit: None
        fetch, table, most = self._engine.column, of.table, of.max_limit
        cipher, clock, feed, view, generation = self._cipher, self._clock, of.feed, of.view, of.generation

        def read_first(equal: tuple[Any, ...], limit: Any) -> Page[Any] | None:
            if type(limit) is not int or not 0 < limit <= most or tuple(map(type, equal)) not in plain:
                return None
            start = prefix + encoders[len(equal)](equal)
            stop = until = successor(start) or b""
            oldest = None if feed is None else feed.oldest(clock())
            if oldest is not None and feed is not None:
                expired = prefix + encoders[feed.members](equal[: feed.members]) + oldest
                until = min(stop, expired) if stop else expired
                if until <= start:
                    return None
            _check_budget()
            keys, values = fetch(table, RowRange(start, until), limit + 1, VALUE)
            counted = ColumnCost(keys, values)
            _charge(counted)
            if len(values) <= limit:
                return Page(UnseenRows(decoder, values), None, None, counted)
            rows, last = UnseenRows(decoder, values[:-1]), keys[-2]

            def following() -> str:
                return cipher.encode(Cursor(view, generation, False, equality_of((start, stop)), last))

            return Page(rows, following, None, counted)

        return read_first


def through(database: HasFastPath, wrap: Callable[[LocalReads], LocalReads]) -> dict[str, Any]:
    """The fast path of a database with its reads through what `wrap` makes, by attribute; empty where it has none."""
    state = vars(database)
    if state["_pages"] is None:
        return {}
    reads, clock = wrap(state["_driver"].engine), state["_driver"].now
    return {
        "_finders": finders(database.operations, reads, clock),
        "_pages": LocalPages(reads, state["_cipher"], clock),
    }


def _check_budget() -> None:
    allowance = CURRENT.get()
    if allowance is not None:
        allowance.check(1, 0, 0)


def _charge(counted: ColumnCost) -> None:
    allowance = CURRENT.get()
    if allowance is not None:
        cost = counted.cost
        allowance.charge(cost.requests, cost.rows, cost.bytes)
