"""Pages: one bounded range read, in the order in which rows are stored, with cursors in both directions.

See "Pages" and "Cursor" of the decisions page. A page over several values of one key field (`any_of`) reads a range for
each and merges them; the rest works alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from oneread.database import cursors
from oneread.database.cursors import Cursor, CursorCipher
from oneread.database.lists import Listed
from oneread.encoding import ordered
from oneread.encoding.ranges import prefix_range
from oneread.errors import InvalidKey, InvalidQuery
from oneread.models.expressions import Expression
from oneread.models.expressions import compile as compiled_condition
from oneread.models.references import Ref
from oneread.plans.allowance import CURRENT
from oneread.plans.effects import Together
from oneread.plans.plan import Plan
from oneread.plans.trace import Cost, Trace
from oneread.store.engine import Engine
from oneread.store.requests import Found, Scan
from oneread.store.rows import RowRange
from oneread.transactions.unit_of_work import VALUE

R = TypeVar("R")

DEFAULT_LIMIT: Final = 50
BUDGET: Final = 100
"""Rows a page may read beyond its limit, for tombstones and what `where` leaves out."""
MOST_VALUES: Final = 30
"""Values of one `any_of`."""


class AnyOf(msgspec.Struct, frozen=True):
    """Several values where a page takes one."""

    values: tuple[Any, ...]


def any_of(*values: Any) -> Any:
    """Several values where a page takes one.

    `db.page(PurchasesOfCountry, any_of("France", "Iceland"))` holds the rows of each
    value, merged in the order of what follows in the key.
    """
    return AnyOf(values)


class Query(msgspec.Struct, frozen=True):
    """What a page asks for.

    Arguments:
        equal: values of the first key fields.
        limit: rows of a page.
        cursor: where the page before (or behind) ended.
        backward: without a cursor, the end of the list.
        since, until: the next key field is >= since and < until, in values, whichever way it sorts.
        starts_with: the next key field begins with this.
        where: a condition on the rows shown.
        budget: rows that may be read beyond the limit.
    """

    equal: tuple[Any, ...] = ()
    limit: int = DEFAULT_LIMIT
    cursor: str | None = None
    backward: bool = False
    since: Any = None
    until: Any = None
    starts_with: str | bytes | None = None
    where: Expression | None = None
    budget: int = BUDGET


class Page(Generic[R]):
    """Rows of a list and the way on.

    Attributes:
        rows: in the list's order, whichever way the page was read.
        cost: what it cost.
        truncated: the budget was used up before the page was full; `next` goes on from there.
    """

    __slots__ = ("_next", "_previous", "_trace", "rows", "truncated")

    def __init__(
        self,
        rows: list[R],
        following: Callable[[], str] | None,
        preceding: Callable[[], str] | None,
        trace: Costing,
        *,
        truncated: bool,
    ) -> None:
        self.rows = rows
        self.truncated = truncated
        self._next = following
        self._previous = preceding
        self._trace = trace

    @property
    def next(self) -> str | None:
        """The cursor of the page behind this one; None at the end of the list."""
        return None if self._next is None else self._next()

    @property
    def previous(self) -> str | None:
        """The cursor of the page before this one; None at the start of the list."""
        return None if self._previous is None else self._previous()

    @property
    def cost(self) -> Cost:
        """Requests, rows and bytes that this page took, and rows it skipped."""
        return self._trace.cost

    def __iter__(self) -> Iterator[R]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> R:
        return self.rows[place]

    def __repr__(self) -> str:
        return f"Page({self.rows!r}, next={self.next!r}, previous={self.previous!r})"


class Costing(Protocol):
    """What knows a page's cost: a trace, or the rows that the direct path read."""

    @property
    def cost(self) -> Cost: ...


class _Rows:
    """What the direct path read, counted when somebody asks."""

    __slots__ = ("_found",)

    def __init__(self, found: list[tuple[bytes, bytes]]) -> None:
        self._found = found

    @property
    def cost(self) -> Cost:
        return Cost(1, len(self._found), sum(len(key) + len(shown) for key, shown in self._found))


def direct(engine: Engine, of: Listed, query: Query, cipher: CursorCipher) -> Page[Any] | None:
    """The page by one method of a local engine, where one range is read and rows hold what is shown; else None.

    Stepping a plan would cost as much as the read. A test proves that this and `page` answer alike.
    """
    if of.docs is None or query.where is not None or any(type(value) is AnyOf for value in query.equal):
        return None
    _check(of, query)
    branch = _branch(of, query, query.equal)
    bound = _Bound(of, query, (branch,), cipher)
    cursor = None if query.cursor is None else bound.opened()
    within = branch.within if cursor is None else _resumed(branch, 0, (branch,), cursor)
    backward = query.backward if cursor is None else cursor.backward
    found = engine.column(of.table, within, query.limit + 1, VALUE, reverse=backward)
    counted = _Rows(found)
    allowance = CURRENT.get()
    if allowance is not None:
        cost = counted.cost
        allowance.charge(cost.requests, cost.rows, cost.bytes)
    more = len(found) > query.limit
    if more:
        found = found[:-1]
    if backward:
        found = found[::-1]
    rows = of.docs([shown for _key, shown in found])
    edges = (found[0][0], found[-1][0]) if found else None
    return bound.page(rows, edges, cursor, counted, backward=backward, more=more, truncated=False)


def _check(of: Listed, query: Query) -> None:
    """Raises InvalidQuery for a limit, budget or condition that cannot be."""
    if type(query.limit) is not int or not 0 < query.limit <= of.max_limit:
        raise InvalidQuery(
            "the limit of a page is at least 1 and at most the view's max_limit",
            view=of.cls,
            limit=query.limit,
            max_limit=of.max_limit,
        )
    if type(query.backward) is not bool:
        raise InvalidQuery("backward is True or False", view=of.cls, backward=query.backward)
    if type(query.budget) is not int or query.budget < 0:
        raise InvalidQuery("the budget of a page is at least 0", budget=query.budget)
    if query.where is not None and not isinstance(query.where, Expression):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidQuery("`where` takes a condition: field(Purchase.quantity) > 0", view=of.cls, where=query.where)
    if query.where is not None:
        _check_condition(of, query.where)


def _check_condition(of: Listed, where: Expression) -> None:
    """Raises InvalidQuery for a condition that no row of the page can pass."""
    for path in where.paths():
        if not issubclass(of.cls, path.declared_in):
            raise InvalidQuery("`where` is about fields of what the page shows", view=of.cls, path=str(path))
    found = of.conditions.find_contradiction(where)
    if found is not None:
        raise InvalidQuery(
            found.reason,
            view=of.cls,
            field=repr(found.condition.path),
            condition=found.condition,
            value=found.condition.operand,
            type=found.type,
        )


def page(of: Listed, query: Query, cipher: CursorCipher, trace: Trace) -> Plan[Page[Any]]:
    """Reads one page: one scan for each value of `any_of`, as a rule; more only where rows were skipped."""
    _check(of, query)
    branches = _branches(of, query)
    bound = _Bound(of, query, branches, cipher)
    cursor = bound.opened()
    backward = query.backward if cursor is None else cursor.backward
    ranges = [_resumed(branch, place, branches, cursor) for place, branch in enumerate(branches)]
    reader = _Reader(of, ranges, [len(branch.prefix) for branch in branches], query, backward=backward)
    found, more = yield from reader.read()
    rows = reader.kept() if query.where is not None else (yield from of.shown(found[::-1] if backward else found))
    trace.skipped += reader.skipped
    return bound.page(rows, reader.edges(found), cursor, trace, backward=backward, more=more, truncated=reader.spent)


def planned(of: Listed, query: Query, cipher: CursorCipher) -> tuple[list[RowRange], bool]:
    """The ranges that a page would read and whether backwards, refused as the page would be; nothing is read."""
    _check(of, query)
    branches = _branches(of, query)
    cursor = _Bound(of, query, branches, cipher).opened()
    ranges = [_resumed(branch, place, branches, cursor) for place, branch in enumerate(branches)]
    return ranges, query.backward if cursor is None else cursor.backward


class _Branch:
    """One range of a list: all rows with the same values in the first key fields."""

    __slots__ = ("prefix", "within")

    def __init__(self, prefix: bytes, within: RowRange) -> None:
        self.prefix = prefix
        self.within = within


def _branches(of: Listed, query: Query) -> list[_Branch]:
    several = [place for place, value in enumerate(query.equal) if isinstance(value, AnyOf)]
    if not several:
        return [_branch(of, query, query.equal)]
    if len(several) > 1:
        raise InvalidQuery("a page takes any_of(...) for one key field at most", view=of.cls)
    (place,) = several
    values = query.equal[place].values
    if not 0 < len(values) <= MOST_VALUES:
        raise InvalidQuery("any_of takes 1 to 30 values", view=of.cls, given=len(values))
    found = {
        branch.prefix: branch
        for value in values
        for branch in [_branch(of, query, (*query.equal[:place], value, *query.equal[place + 1 :]))]
    }
    return list(found.values())


def _branch(of: Listed, query: Query, equal: tuple[Any, ...]) -> _Branch:
    values = of.flat(equal)
    if len(values) > of.width:
        raise InvalidKey("more values than the key has", view=of.cls, given=equal)
    prefix = of.prefix + of.encoders[len(values)](values)
    if query.since is None and query.until is None and query.starts_with is None:
        start, stop = prefix_range(prefix)
    elif len(values) == of.width:
        raise InvalidQuery("since, until and starts_with need a key field that is not given", view=of.cls, given=equal)
    elif len(values) in of.hashed:
        raise InvalidQuery("a hashed value has no order; give it as a value", view=of.cls, given=equal)
    else:
        since, until = _edge(of, equal, query.since), _edge(of, equal, query.until)
        start, stop = of.codec.bounded_range(
            values, prefix=of.prefix, since=since, until=until, starts_with=query.starts_with
        )
    return _Branch(prefix, RowRange(start, stop or b""))


def _edge(of: Listed, equal: tuple[Any, ...], bound: Any) -> Any:
    """A bound as a value of one element: a reference by its key, where that has one part."""
    ref = getattr(bound, "ref", bound)
    if not isinstance(ref, Ref):
        return bound
    values = of.flat((*equal, bound))
    if len(values) != len(of.flat(equal)) + 1:
        raise InvalidQuery(
            "this reference has a key of several parts; give the first ones as values and bound the next one",
            view=of.cls,
            bound=ref.key,
        )
    return values[-1]


def _resumed(branch: _Branch, place: int, branches: Sequence[_Branch], cursor: Cursor | None) -> RowRange:
    """A branch's range on the far side of a cursor.

    Rows of all branches are ordered by what follows their prefix, then by branch.
    """
    if cursor is None or not cursor.key:
        return branch.within
    own = next((number for number, each in enumerate(branches) if cursor.key.startswith(each.prefix)), place)
    suffix = cursor.key[len(branches[own].prefix) :]
    behind = place > own
    here = branch.prefix + suffix
    start, stop = branch.within.start, branch.within.stop
    if cursor.backward:
        edge = here + b"\x00" if place < own else here
        return RowRange(start, min(stop, edge) if stop else edge)
    edge = here if behind else here + b"\x00"
    return RowRange(max(start, edge), stop)


class _Bound:
    """A query bound to its list: what its cursors must agree with."""

    def __init__(self, of: Listed, query: Query, branches: Sequence[_Branch], cipher: CursorCipher) -> None:
        self._of = of
        self._query = query
        self._branches = branches
        self._cipher = cipher

    def _equality(self) -> bytes:
        """The hash of everything that chose the list, so that a cursor of another page is refused."""
        parts: list[Any] = [branch.within.start for branch in self._branches] + [
            branch.within.stop for branch in self._branches
        ]
        if self._query.where is not None:
            parts.append(self._query.where.canonical())
        return blake2b(ordered.encode(tuple(parts)), digest_size=cursors.EQUALITY_BYTES).digest()

    def opened(self) -> Cursor | None:
        """The query's cursor, checked."""
        if self._query.cursor is None:
            return None
        return self._cipher.decode(
            self._query.cursor,
            view=self._of.view,
            generation=self._of.generation,
            equality=self._equality(),
        )

    def _made(self, key: bytes, *, backward: bool) -> Callable[[], str]:
        return lambda: self._cipher.encode(Cursor(self._of.view, self._of.generation, backward, self._equality(), key))

    def page(
        self,
        rows: list[Any],
        edges: tuple[bytes, bytes] | None,
        cursor: Cursor | None,
        trace: Costing,
        *,
        backward: bool,
        more: bool,
        truncated: bool,
    ) -> Page[Any]:
        """The page with the cursors on both sides of it."""
        if edges is None:
            edges = (b"", b"") if cursor is None or backward else (cursor.key + b"\x00", cursor.key)
        first, last = edges
        came_from_here = cursor is not None
        has_next = came_from_here if backward else more
        has_previous = more if backward else came_from_here
        return Page(
            rows,
            self._made(last, backward=False) if has_next else None,
            self._made(first, backward=True) if has_previous else None,
            trace,
            truncated=truncated,
        )


class _Reader:
    """Reads the rows of a page from one or several ranges, merged."""

    def __init__(self, of: Listed, ranges: list[RowRange], cuts: list[int], query: Query, *, backward: bool) -> None:
        self._of = of
        self._ranges = ranges
        self._cuts = cuts
        self._limit = query.limit
        self._left = query.limit + query.budget
        self._backward = backward
        self._living = of.living
        self._test = None if query.where is None else compiled_condition(query.where)
        self._next: int | None = None
        self._waiting: list[list[Found]] = [[] for _ in ranges]
        self._open = [not within.is_empty for within in ranges]
        self.skipped = 0
        self.spent = False
        self._seen: list[bytes] = []
        self._kept: list[Any] = []

    def read(self) -> Plan[tuple[list[Found], bool]]:
        """The rows of the page in reading order, and whether there are more."""
        rows: list[Found] = []
        while True:
            yield from self._refill()
            found = self._first()
            if found is None:
                return rows, False
            if len(rows) == self._limit:
                return rows, True
            if self._left == 0:
                self.spent = True
                return rows, True
            self._left -= 1
            self._take()
            self._seen.append(found[0])
            if (self._living is None or self._living(found)) and (
                self._test is None or (yield from self._passes(found))
            ):
                rows.append(found)
            else:
                self.skipped += 1

    def _passes(self, found: Found) -> Plan[bool]:
        assert self._test is not None
        (row,) = yield from self._of.shown([found])
        if not self._test(row):
            return False
        self._kept.append(row)
        return True

    def kept(self) -> list[Any]:
        """What the rows that passed the condition show, in the list's order."""
        return self._kept[::-1] if self._backward else self._kept

    def edges(self, found: list[Found]) -> tuple[bytes, bytes] | None:
        """The first and the last key of the page, in the list's order.

        A page that was cut short ends where reading ended.
        """
        keys = self._seen if self.spent or not found else [key for key, _row in found]
        if not keys:
            return None
        return (keys[-1], keys[0]) if self._backward else (keys[0], keys[-1])

    def _refill(self) -> Plan[None]:
        """Lets every range that has rows left show one."""
        wanting = [place for place, rows in enumerate(self._waiting) if not rows and self._open[place]]
        if not wanting:
            return
        size = min(self._limit, self._left) + 1
        scans = [Scan(self._of.table, self._ranges[place], size, self._backward) for place in wanting]
        if len(scans) == 1:
            answers = [(yield from scans[0])]
        else:
            answers = yield from Together([scan.__iter__() for scan in scans])
        for place, rows in zip(wanting, answers, strict=True):
            self._open[place] = len(rows) == size
            self._waiting[place] = rows[::-1]
            if rows:
                within, last = self._ranges[place], rows[-1][0]
                self._ranges[place] = (
                    RowRange(within.start, last) if self._backward else RowRange(last + b"\x00", within.stop)
                )

    def _place(self) -> int | None:
        waiting = [place for place, rows in enumerate(self._waiting) if rows]
        if len(waiting) < 2:  # noqa: PLR2004 - nothing to compare
            return waiting[0] if waiting else None
        keyed = [(self._waiting[place][-1][0][self._cuts[place] :], place) for place in waiting]
        return (max(keyed) if self._backward else min(keyed))[1]

    def _first(self) -> Found | None:
        self._next = self._place()
        return None if self._next is None else self._waiting[self._next][-1]

    def _take(self) -> None:
        if self._next is not None:
            self._waiting[self._next].pop()
