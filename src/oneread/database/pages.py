"""Pages: one bounded range read, in the order in which rows are stored, with cursors in both directions.

A page over several values of one key field (`any_of`) reads a range for each and merges them; so does a page of a list
that is spread over several ranges, and one of a feed with large groups, which merges their items. See "Pages" and
"Cursor" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, NamedTuple, TypedDict, TypeVar

import msgspec

from oneread.database.cursors import Cursor, CursorCipher, equality_of
from oneread.database.lists import Listed
from oneread.database.page_html import page_table
from oneread.derivations.derivation import RowDecoder
from oneread.encoding.ranges import KeyBounds, prefix_range
from oneread.errors import InvalidKey, InvalidQuery
from oneread.models.expressions import Expression
from oneread.models.expressions import compile as compiled_condition
from oneread.models.references import Ref
from oneread.plans.arguments import Age
from oneread.plans.effects import Now, Together
from oneread.plans.plan import Plan
from oneread.plans.trace import Cost, HasCost, Trace
from oneread.store.keys import spread_parts
from oneread.store.limits import BUDGET, DEFAULT_LIMIT, MOST_RANGES
from oneread.store.requests import Found, Scan
from oneread.store.rows import VALUE, RowRange
from oneread.transactions.group_shards import SpreadGroups

R = TypeVar("R")
S = TypeVar("S")

MOST_VALUES: Final = 30
"""The most values of one `any_of`."""


class AnyOf(msgspec.Struct, frozen=True):
    """Several values where a page takes one."""

    values: tuple[Any, ...]


def any_of(*values: Any) -> Any:
    """Several values where a page takes one.

    `db.page(PurchasesOfCountry, any_of("France", "Iceland"))` holds the rows of each
    value, merged in the order of what follows in the key.
    """
    return AnyOf(values)


_SHOWN_ROWS: Final = 5
"""Rows of a page in its `repr`."""


class Query(msgspec.Struct, frozen=True):
    """The options of a page, as `AsyncDatabase.page` documents them."""

    equal: tuple[Any, ...] = ()
    limit: int = DEFAULT_LIMIT
    cursor: str | None = None
    backward: bool = False
    bounds: KeyBounds[Any] | None = None
    starts_with: str | bytes | None = None
    where: Expression | None = None
    budget: int = BUDGET


class PageOptions(TypedDict, total=False):
    """The options of `page` for type checkers."""

    limit: int | None
    cursor: str | None
    backward: bool
    since: Any
    after: Any
    until: Any
    through: Any
    starts_with: str | bytes | None
    where: Expression | None
    budget: int
    includes: object
    lag: bool
    max_age: Age


class UnseenRows:
    """Rows of a page at which no program has looked: parsed, or written as JSON, from their values.

    Raises:
        Corrupt: a value cannot be parsed.
    """

    __slots__ = ("_rows", "decoder", "values", "written")

    def __init__(self, decoder: RowDecoder, values: list[bytes]) -> None:
        self.decoder = decoder
        self.values = values
        self.written = decoder.write_checked(values) if decoder.is_seen_as_json else None
        self._rows = decoder.parse_rows(values) if self.written is None else None

    def parsed(self) -> list[Any]:
        """The rows before they are settled; each time the same list, but for threads that ask first at one time."""
        rows = self._rows
        if rows is None:
            rows = self._rows = self.decoder.parse_rows(self.values)
        return rows

    def settled(self) -> list[Any]:
        """The rows as users see them."""
        rows = self.parsed()
        self.decoder.is_seen_as_json = False
        self.decoder.settle_rows(rows)
        return rows

    def json(self) -> bytes | None:
        """The JSON of the list of them; None where it is written of the rows."""
        if self.written is None:
            self.written = self.decoder.write_json(self.values)
        self.decoder.is_seen_as_json = self.written is not None
        return self.written


class Page(Generic[R]):
    """Rows of a list, with cursors to the next and the previous page.

    Attributes:
        cost: what it cost.
        truncated: the budget was used up before the page was full; `next` continues.
        lag: of a feed's page that was asked for it, seconds since the oldest change that its entries may still lack;
            0.0 when none waits. Of more than 500 tasks in the outbox it is that of the first 500, which are not the
            oldest, so 0.0 then says nothing. Of groups with a ttl, and of a list of such groups, seconds since what
            waits longest for its sweep has expired. None for every other page.
    """

    __slots__ = ("_cost", "_next", "_previous", "_rows", "lag", "truncated")

    def __init__(
        self,
        rows: list[R] | UnseenRows,
        following: Callable[[], str] | None,
        preceding: Callable[[], str] | None,
        cost: HasCost,
        *,
        truncated: bool = False,
        lag: float | None = None,
    ) -> None:
        self._rows = rows
        self.lag = lag
        self.truncated = truncated
        self._next = following
        self._previous = preceding
        self._cost = cost

    @property
    def rows(self) -> list[R]:
        """The rows in the list's order, whichever way the page was read."""
        rows = self._rows
        if isinstance(rows, UnseenRows):
            rows = self._rows = rows.settled()
        return rows

    @property
    def next(self) -> str | None:
        """The cursor of the page after this one; None at the end of the list."""
        return None if self._next is None else self._next()

    @property
    def previous(self) -> str | None:
        """The cursor of the page before this one; None at the start of the list."""
        return None if self._previous is None else self._previous()

    @property
    def cost(self) -> Cost:
        """Requests, rows and bytes that this page took, and rows it skipped."""
        return self._cost.cost

    def map(self, change: Callable[[R], S]) -> Page[S]:
        """This page with other rows, as `page.map(PublicUser)`: the cursors and the cost stay. Costs no request."""
        rows = [change(row) for row in self.rows]
        return Page(rows, self._next, self._previous, self._cost, truncated=self.truncated, lag=self.lag)

    def __reduce__(self) -> tuple[object, ...]:
        return _page_of, (self.rows, (self.next, self.previous), self.cost, self.truncated, self.lag)

    def __iter__(self) -> Iterator[R]:
        return iter(self.rows)

    def __len__(self) -> int:
        rows = self._rows
        return len(rows.values if isinstance(rows, UnseenRows) else rows)

    def __getitem__(self, place: int) -> R:
        return self.rows[place]

    def __repr__(self) -> str:
        rows = ", ".join([repr(row) for row in self.rows[:_SHOWN_ROWS]])
        more = f", ... ({len(self.rows)} in all)" if len(self.rows) > _SHOWN_ROWS else ""
        return f"Page([{rows}{more}], next={self.next!r}, previous={self.previous!r})"

    def _repr_html_(self) -> str:
        """The rows as a table, for notebooks."""
        return page_table(self.rows)


class _KnownCost(NamedTuple):
    cost: Cost


def _page_of(
    rows: list[R],
    cursors: tuple[str | None, str | None],
    cost: Cost,
    truncated: bool,  # noqa: FBT001
    lag: float | None,
) -> Page[R]:
    """A page that was pickled or copied: its cursors are known."""
    following, preceding = cursors
    after = None if following is None else lambda: following
    before = None if preceding is None else lambda: preceding
    return Page(rows, after, before, _KnownCost(cost), truncated=truncated, lag=lag)


def parsed_rows(page: Page[Any]) -> tuple[type, list[Any]] | None:
    """The class and the parsed rows of a page at whose rows no program looked, if their JSON can be written of them.

    `Page.rows` is the meaning; a property test shows that the JSON of both is the same.
    """
    unseen = page._rows  # noqa: SLF001 - a function of this module, since methods of a page are for users
    if not isinstance(unseen, UnseenRows) or not unseen.decoder.is_json_of_parsed:
        return None
    return unseen.decoder.cls, unseen.parsed()


def rows_as_json(page: Page[Any]) -> bytes | None:
    """The JSON of the list of rows of a page at whose rows no program looked; None where it is written of the rows."""
    unseen = page._rows  # noqa: SLF001 - as above
    return unseen.json() if isinstance(unseen, UnseenRows) else None


class PageRows(NamedTuple):
    """What was read for a page, in the list's order.

    `edges` are its first and last key, None when nothing was read; `more` is whether rows follow in the direction of
    reading; a page is `truncated` when the budget ended it.
    """

    shown: list[Any] | UnseenRows
    edges: tuple[bytes, bytes] | None
    more: bool
    truncated: bool = False


def _check(of: Listed, query: Query) -> None:
    """Raises InvalidQuery for a limit, budget or condition out of bounds."""
    if type(query.limit) is not int or not 0 < query.limit <= of.max_limit:
        text = "the limit of a page is a whole number from 1 to the view's max_limit"
        raise InvalidQuery(text, view=of.cls, limit=query.limit, max_limit=of.max_limit)
    if type(query.backward) is not bool:
        raise InvalidQuery("backward is True or False", view=of.cls, backward=query.backward)
    if type(query.budget) is not int or query.budget < 0:
        raise InvalidQuery("the budget of a page is a whole number, at least 0", budget=query.budget)
    if query.where is not None and not isinstance(query.where, Expression):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidQuery("`where` takes a condition: field(Purchase.quantity) > 0", view=of.cls, where=query.where)
    if query.where is not None:
        _check_condition(of, query.where)


def _check_condition(of: Listed, where: Expression) -> None:
    """Raises InvalidQuery for a condition that no row of the page can pass."""
    for path in where.paths():
        if not issubclass(of.cls, path.declared_in):
            raise InvalidQuery("`where` takes fields of what the page shows", view=of.cls, path=str(path))
    found = of.conditions.find_contradiction(where)
    if found is not None:
        condition = found.condition
        facts = {"field": repr(condition.path), "condition": condition, "value": condition.operand, "type": found.type}
        raise InvalidQuery(found.reason, view=of.cls, **facts)


def page(of: Listed, query: Query, cipher: CursorCipher, trace: Trace) -> Plan[Page[Any]]:
    """Reads one page: one scan for each value of `any_of`, as a rule; more only where rows were skipped."""
    return (yield from bound_page(BoundQuery(of, query, cipher), trace))


def bound_page(bound: BoundQuery, trace: Trace) -> Plan[Page[Any]]:
    """`page` of a query that is checked."""
    if bound.of.merged is None:
        return bound.page((yield from _read(bound, trace)), trace)
    return bound.page((yield from bound.of.merged.look(lambda: _read(bound, trace))), trace)


class _Branch:
    """One range of a list: all rows with the same values in the first key fields; of a feed, of one member."""

    __slots__ = ("member", "prefix", "within")

    def __init__(self, prefix: bytes, within: RowRange, member: bytes) -> None:
        self.prefix = prefix
        self.within = within
        self.member = member


def _branches(of: Listed, query: Query) -> list[_Branch]:
    if AnyOf not in map(type, query.equal):
        return _spread_branches(of, query, query.equal)
    several = [place for place, value in enumerate(query.equal) if isinstance(value, AnyOf)]
    if len(several) > 1:
        raise InvalidQuery("a page takes any_of(...) for one key field at most", view=of.cls)
    (place,) = several
    values = query.equal[place].values
    if not 0 < len(values) <= MOST_VALUES:
        raise InvalidQuery("any_of takes 1 to 30 values", view=of.cls, given=len(values))
    if len(values) * of.spread > MOST_RANGES:
        raise InvalidQuery(
            "a page reads 300 ranges at most: give any_of fewer values, as each is in `spread` ranges",
            view=of.cls, given=len(values), spread=of.spread,
        )  # fmt: skip
    found = {
        branch.prefix: branch
        for value in values
        for branch in _spread_branches(of, query, (*query.equal[:place], value, *query.equal[place + 1 :]))
    }
    return list(found.values())


def _spread_branches(of: Listed, query: Query, equal: tuple[Any, ...]) -> list[_Branch]:
    """The ranges with these values: one, or one in each of those that the list is spread over."""
    values = of.flat(equal)
    if len(values) > of.width:
        raise InvalidKey("more values than the key has elements", view=of.cls, given=equal)
    return [_branch(of, query, (equal, values), of.prefix + part) for part in spread_parts(of.spread)]


def _branch(of: Listed, query: Query, given: tuple[tuple[Any, ...], tuple[Any, ...]], front: bytes) -> _Branch:
    """One range, of the values as they are given and as those of elements."""
    equal, values = given
    prefix = front + of.encoders[len(values)](values)
    if query.bounds is None and query.starts_with is None:
        start, stop = prefix_range(prefix)
    elif len(values) == of.width:
        raise InvalidQuery("a bound and starts_with need a further key field", view=of.cls, given=equal)
    elif len(values) in of.hashed:
        raise InvalidQuery("a hashed key field has no order: give a value, not a bound", view=of.cls, given=equal)
    else:
        bounds = (query.bounds or KeyBounds[Any]()).map(lambda bound: _edge(of, equal, bound))
        start, stop = of.codec.bounded_range(values, bounds, prefix=front, starts_with=query.starts_with)
    return _Branch(prefix, RowRange(start, stop or b""), _member(of, values, prefix))


def _member(of: Listed, values: tuple[Any, ...], prefix: bytes) -> bytes:
    """What the keys of a feed's entries of one member begin with; b"" for other lists. All values have `prefix`."""
    if of.feed is None:
        return b""
    count = of.feed.members
    if len(values) < count:
        fields = [each.name for each in of.codec.elements[:count]]
        raise InvalidQuery("a page of a feed is that of one member: say whose", view=of.cls, fields=fields)
    return prefix if len(values) == count else of.prefix + of.encoders[count](values[:count])


def bounds_of(since: Any, after: Any, until: Any, through: Any) -> KeyBounds[Any] | None:
    """The bounds that a page is given; None if there are none."""
    if since is None and after is None and until is None and through is None:
        return None
    return KeyBounds(since, after, until, through)


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


class BoundQuery:
    """A query bound to its list; raises InvalidQuery, InvalidKey or InvalidCursor where the list cannot answer it."""

    __slots__ = ("_cipher", "_cursor", "backward", "branches", "of", "query")

    def __init__(self, of: Listed, query: Query, cipher: CursorCipher) -> None:
        _check(of, query)
        self.of = of
        self.query = query
        self.branches = _branches(of, query)
        self._cipher = cipher
        self._cursor = None if query.cursor is None else self._opened(query.cursor)
        self.backward = query.backward if self._cursor is None else self._cursor.backward

    def ranges(self, now: int = 0) -> list[RowRange]:
        """What each branch has left on the far side of the cursor, without entries of a feed that have expired.

        Rows of all branches are ordered by what follows their prefix (the suffix), then by branch.
        """
        ranges, feed = self._ranges(), self.of.feed
        oldest = None if feed is None else feed.oldest(now)
        if oldest is None:
            return ranges
        return [
            _cut(within, branch.member + oldest, backward=True)
            for branch, within in zip(self.branches, ranges, strict=True)
        ]

    def _ranges(self) -> list[RowRange]:
        cursor = self._cursor
        if cursor is None or not cursor.key:
            return [branch.within for branch in self.branches]
        own = next(number for number, branch in enumerate(self.branches) if cursor.key.startswith(branch.prefix))
        suffix, behind = cursor.key[len(self.branches[own].prefix) :], self.of.behind
        ranges: list[RowRange] = []
        for number, branch in enumerate(self.branches):
            # Of the rows with the cursor's suffix, those of earlier branches come before the cursor; its own row is
            # never read again.
            is_before = number < own or (number == own and not cursor.backward)
            ranges.append(
                _cut(branch.within, branch.prefix + suffix + (behind if is_before else b""), backward=cursor.backward)
            )
        return ranges

    def page(self, rows: PageRows, cost: HasCost) -> Page[Any]:
        """The page with the cursors on both sides of it."""
        cursor, edges = self._cursor, rows.edges
        if edges is None:
            edges = (b"", b"") if cursor is None or self.backward else (cursor.key + self.of.behind, cursor.key)
        first, last = edges
        came_from_here = cursor is not None
        has_previous, has_next = (rows.more, came_from_here) if self.backward else (came_from_here, rows.more)
        return Page(
            rows.shown,
            self._cursor_at(last, backward=False) if has_next else None,
            self._cursor_at(first, backward=True) if has_previous else None,
            cost,
            truncated=rows.truncated,
        )

    def _opened(self, text: str) -> Cursor:
        of = self.of
        return self._cipher.decode(text, view=of.view, generation=of.generation, equality=self._equality())

    def _cursor_at(self, key: bytes, *, backward: bool) -> Callable[[], str]:
        of = self.of
        return lambda: self._cipher.encode(Cursor(of.view, of.generation, backward, self._equality(), key))

    def _equality(self) -> bytes:
        parts = [branch.within.start for branch in self.branches]
        parts += [branch.within.stop for branch in self.branches]
        if self.query.where is not None:
            parts.append(self.query.where.canonical())
        return equality_of(parts)


def _cut(within: RowRange, edge: bytes, *, backward: bool) -> RowRange:
    """What a range has left below an edge, or from it on."""
    if backward:
        return RowRange(within.start, min(within.stop, edge) if within.stop else edge)
    return RowRange(max(within.start, edge), within.stop)


def _read_whole(bound: BoundQuery, decoder: RowDecoder) -> Plan[PageRows]:
    """The page of one range of which every row is shown, by its own cell: no row is looked at by itself.

    Tests show that `_read` makes the same page.
    """
    of, limit, backward = bound.of, bound.query.limit, bound.backward
    (within,) = bound.ranges()
    found = [] if within.is_empty else (yield from Scan(of.table, within, limit + 1, backward))
    shown = found[:limit]
    if backward:
        shown.reverse()
    edges = (shown[0][0], shown[-1][0]) if shown else None
    values = [row[VALUE].value for _key, row in shown]
    return PageRows(UnseenRows(decoder, values), edges, len(found) > limit)


def _read(bound: BoundQuery, trace: Trace) -> Plan[PageRows]:
    of, query, backward = bound.of, bound.query, bound.backward
    if of.decoder is not None and query.where is None and of.feed is None and len(bound.branches) == 1:
        return (yield from _read_whole(bound, of.decoder))
    passes = None if query.where is None else compiled_condition(query.where)
    now = 0 if of.is_living is None and of.feed is None else (yield from Now())
    sources = yield from _sources(bound, now)
    most = query.limit + query.budget
    keys: list[bytes] = []
    found: list[Found] = []
    tested: list[Any] = []
    while True:
        yield from _refill(sources, of, min(query.limit, most - len(keys)) + 1, backward=backward)
        source = _next_source(sources, backward=backward)
        if source is None or len(found) == query.limit or len(keys) == most:
            break
        row = source.take()
        if of.merged is not None:
            _skip_same(sources, row[0])
        keys.append(row[0])
        if of.is_shown is not None and not of.is_shown(row):
            continue
        if of.is_living is not None and not of.is_living(row, now):
            continue
        if passes is not None:
            (shown,) = yield from of.show([row])
            if not passes(shown):
                continue
            tested.append(shown)
        found.append(row)
    truncated = source is not None and len(found) < query.limit
    # A truncated page ends where reading ended, so that the next one does not read skipped rows again.
    ends = keys if truncated or not found else [key for key, _row in found]
    if backward:
        found, tested, ends = found[::-1], tested[::-1], ends[::-1]
    edges = (ends[0], ends[-1]) if ends else None
    trace.skipped += len(keys) - len(found)
    # With a condition every row was already shown to test it.
    shown = tested if passes is not None else (yield from of.show(found))
    return PageRows(shown, edges, source is not None, truncated)


class _Source:
    """One range of a merged read: rows read ahead, the next one last, and the range behind them."""

    __slots__ = ("branch", "cut", "entry", "groups", "parts", "rest", "waiting")

    def __init__(
        self,
        within: RowRange,
        cut: int,
        branch: bytes,
        entry: Callable[[Found], Found] | None = None,
        groups: SpreadGroups | None = None,
    ) -> None:
        self.rest = None if within.is_empty else within
        self.cut = cut
        self.branch = branch
        self.entry = entry
        self.groups = groups
        self.parts: list[Found] = []
        self.waiting: list[Found] = []

    def fill(self, within: RowRange, rows: list[Found], size: int, *, backward: bool) -> None:
        """Takes in the next rows of its range, `size` unless it is exhausted."""
        is_end = len(rows) < size
        if is_end:
            self.rest = None
        else:
            last = rows[-1][0]
            self.rest = RowRange(within.start, last) if backward else within.behind(last)
        if self.groups is not None:
            rows, self.parts = self.groups.add_up([*self.parts, *rows], backward=backward, is_end=is_end)
        self.waiting = rows[::-1]

    def take(self) -> Found:
        """The next row, as one of the list."""
        row = self.waiting.pop()
        return row if self.entry is None else self.entry(row)


def _sources(bound: BoundQuery, now: int) -> Plan[list[_Source]]:
    """The ranges that a page merges: one for each branch, and before it those of items that are merged into it."""
    sources: list[_Source] = []
    for branch, within in zip(bound.branches, bound.ranges(now), strict=True):
        prefix, cut = branch.prefix, len(branch.prefix)
        if bound.of.merged is None:
            sources.append(_Source(within, cut, prefix, bound.of.entry, bound.of.groups))
            continue
        merged = yield from bound.of.merged.ranges(branch.member, cut, within)
        every = [_Source(items.within, items.cut, prefix, items.entry) for items in merged.items]
        every.append(_Source(within, cut, prefix, merged.entry))
        sources += every[::-1] if bound.backward else every  # of one item its row comes before its entry
    return sources


def _skip_same(sources: list[_Source], key: bytes) -> None:
    """Leaves out the rows that other ranges of the same branch have for an entry."""
    for source in sources:
        if source.waiting and key.startswith(source.branch):
            rest = key[len(source.branch) :]
            if source.waiting[-1][0][source.cut :] == rest:
                source.waiting.pop()


def _refill(sources: list[_Source], of: Listed, size: int, *, backward: bool) -> Plan[None]:
    """Reads `size` rows ahead in every range that has none waiting and is not exhausted."""
    if of.groups is not None:
        size *= of.groups.shards
    while wanting := [(source, source.rest) for source in sources if not source.waiting and source.rest is not None]:
        scans = [Scan(of.table, within, size, backward) for _source, within in wanting]
        if len(scans) > 1 and not (of.merged is not None and of.merged.is_snapshot):
            answers = yield from Together([scan.__iter__() for scan in scans])
        else:  # a snapshot is in this process: nothing to wait for
            answers = []
            for scan in scans:
                answers.append((yield from scan))
        for (source, within), rows in zip(wanting, answers, strict=True):
            source.fill(within, rows, size, backward=backward)


def _next_source(sources: list[_Source], *, backward: bool) -> _Source | None:
    """The source of the next row: ordered by what follows the prefix of its branch, then by branch."""
    waiting = [(number, source) for number, source in enumerate(sources) if source.waiting]
    if len(waiting) < 2:  # noqa: PLR2004 - nothing to compare
        return waiting[0][1] if waiting else None
    keyed = [(source.waiting[-1][0][source.cut :], number) for number, source in waiting]
    return sources[(max(keyed) if backward else min(keyed))[1]]
