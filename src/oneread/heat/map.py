"""The map of heat: which ranges of keys were read and written, when, and by which verbs.

See docs/how-to/find-what-is-hot.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from oneread.counters import rows as counters
from oneread.derivations.catalog import Catalog
from oneread.derivations.derivation import Keyspace
from oneread.errors import Corrupt, UsageError
from oneread.heat.axis import HeatAxis
from oneread.heat.cells import (
    Cells,
    HeatPlace,
    SlowCount,
    StoredCell,
    merge_hot,
    place_of,
    sum_cells,
)
from oneread.heat.counts import RANGES, quantiles
from oneread.heat.rows import LEVELS, MINUTE, HeatSpan
from oneread.store.rows import Table
from oneread.transactions.outbox import group_of_root, is_group_root

HeatOperation: TypeAlias = Literal["all", "read", "write", "lost"]
HeatMeasure: TypeAlias = Literal["requests", "rows", "bytes", "seconds"]

LONGEST: Final = timedelta(minutes=LEVELS[-1].kept)
_FIRST_YEAR: Final = 1970
"""How long anything of heat is kept."""
MOST: Final = 10_000
_MICRO: Final = 1e-6


class HeatRange(msgspec.Struct, frozen=True):
    """Keys of one declaration.

    Arguments:
        table: that they are in.
        declared: the model or view; `counter`, or a kind of row of the library.
        first: the first key, as its values are written; empty where the declaration's rows begin.
        last: the key before which it ends; empty where the declaration's rows end.
        share: of the declaration's rows, when they were counted last; None if they never were.
    """

    table: Table
    declared: str
    first: str
    last: str
    share: float | None = None


class HeatCause(msgspec.Struct, frozen=True):
    """What of a range's heat one verb of one declaration makes: `save Event`, or `follow`, by the worker."""

    verb: str
    declared: str
    share: float


class HeatPart(msgspec.Struct, frozen=True, gc=False):
    """What one verb made of one cell of the map: the numbers of its range and time, and the amount a second."""

    range: int
    time: int
    verb: str
    declared: str
    amount: float


class HotKey(msgspec.Struct, frozen=True):
    """A key that is asked for often.

    Arguments:
        declared: the model or view whose row it is.
        key: as its values are written.
        a_second: how often it was asked for, at most.
        at_least: and at least; less where too many keys were asked for to count each of them.
    """

    declared: str
    key: str
    a_second: float
    at_least: float


class SlowCall(msgspec.Struct, frozen=True):
    """One of the slowest calls of a minute.

    Arguments:
        at: when it ended.
        process: its process id, and 32 random bits.
        verb: of the database.
        declared: the model or view that it was about; empty if none.
        seconds: that it took, recorded.
        requests: to the store.
        rows: that were read and written.
    """

    at: datetime
    process: str
    verb: str
    declared: str
    seconds: float
    requests: int
    rows: int


class HeatMap(msgspec.Struct, frozen=True):
    """What was requested of which keys, by time.

    Arguments:
        times: the beginnings of the columns.
        step: from one to the next.
        ranges: the lines, by declaration and key.
        cells: `cells[range][time]`, a second.
        parts: of the cells, by verb.
        to_scale: whether ranges have about equally many rows, as a pass has found; else they are between keys that were
            requested.
        sampled: the least share of its time that a process recorded.
        processes: that have recorded at the same time.
        counted: when the rows were counted, of all that is shown the one that was first; None if none ever were.
        counted_by: the verb that did so: `verify`, `repair`, `backfill`, `dump` or `splits`, or `measure`.
    """

    times: tuple[datetime, ...]
    step: timedelta
    ranges: tuple[HeatRange, ...]
    cells: tuple[tuple[float, ...], ...]
    parts: tuple[HeatPart, ...]
    to_scale: bool
    sampled: float
    processes: int
    counted: datetime | None = None
    counted_by: str = ""

    def causes(self, place: int, time: int | None = None) -> tuple[HeatCause, ...]:
        """The verbs that make the heat of the range of this number, or of one time of it, the greatest first."""
        found: dict[tuple[str, str], float] = {}
        for part in self.parts:
            if part.range == place and time in (None, part.time):
                found[part.verb, part.declared] = found.get((part.verb, part.declared), 0.0) + part.amount
        whole = sum(found.values())
        return tuple(
            HeatCause(*cause, amount / whole) for cause, amount in sorted(found.items(), key=lambda item: -item[1])
        )

    def hottest(self, limit: int = 10) -> tuple[tuple[HeatRange, float], ...]:
        """The hottest ranges, each with what it had a second on average."""
        means = [(each, sum(cells) / max(1, len(cells))) for each, cells in zip(self.ranges, self.cells, strict=True)]
        return tuple(sorted(means, key=lambda item: -item[1])[:limit])


class HeatQuery(NamedTuple):
    """What is asked of a map; minutes since 1970."""

    since: int
    until: int
    operation: HeatOperation
    measure: HeatMeasure
    declared: type | None
    ranges: int

    @property
    def step(self) -> int:
        """Minutes of a column: what is kept of that time."""
        lasted = self.until - self.since
        return next((level.minutes for level in LEVELS[1:] if lasted <= level.kept), LEVELS[-1].minutes)


class HeatOptions(NamedTuple):
    """The options of `heat`."""

    last: timedelta
    until: datetime | None = None
    operation: HeatOperation = "all"
    measure: HeatMeasure = "requests"
    declared: type | None = None
    ranges: int = RANGES


def heat_query(now: int, options: HeatOptions) -> HeatQuery:
    """Checks the options of `heat`; `now` is in milliseconds.

    Raises:
        UsageError: one of them is out of bounds.
    """
    last, until, operation, measure, declared, ranges = options
    _check_times(last, until)
    if operation not in get_args(HeatOperation):
        raise UsageError("operation: expected all, read, write or lost", operation=operation)
    if measure not in get_args(HeatMeasure):
        raise UsageError("measure: expected requests, rows, bytes or seconds", measure=measure)
    if type(ranges) is not int or not 1 <= ranges <= MOST:
        raise UsageError("ranges: expected a whole number of ranges of each declaration, 1 to 10,000", ranges=ranges)
    end = (now if until is None else round(until.timestamp() * 1000)) // MINUTE + 1
    query = HeatQuery(end - last // timedelta(minutes=1), end, operation, measure, declared, ranges)
    return query._replace(since=query.since - query.since % query.step)


def _check_times(last: object, until: object) -> None:
    if not isinstance(last, timedelta) or not timedelta(minutes=1) <= last <= LONGEST:
        raise UsageError("last: expected a time of a minute to 14 days", last=last)
    if until is not None and (not isinstance(until, datetime) or until.tzinfo is None):
        raise UsageError("until: expected a datetime with a time zone", until=until)
    if until is not None and not _FIRST_YEAR < until.year < MAXYEAR:
        raise UsageError("until: expected an instant of heat that was recorded", until=until)


def declared_at(catalog: Catalog, place: HeatPlace) -> tuple[str, type | None]:
    """The name of what is declared at a place, and its class if it is a model or view of this schema."""
    table, prefix = place
    if table == "system":
        return prefix.decode("ascii", "replace"), None
    if table == "roots" and not is_group_root(prefix):
        kind = catalog.kinds_by_prefix.get(prefix)
        return (prefix.hex(), None) if kind is None else (kind.cls.__name__, kind.cls)
    found = _keyspace(catalog, place)
    if found is not None:
        return found[0].name, found[1]
    if any(each.startswith(prefix) or prefix.startswith(each) for each in counters.PREFIXES):
        return "counter", None
    return prefix.hex(), None


def _keyspace(catalog: Catalog, place: HeatPlace) -> tuple[Keyspace, type] | None:
    """The rows of a view, and its class; of an index over groups also where it keeps their roots."""
    prefix = group_of_root(place.prefix) if place.table == "roots" else place.prefix
    for cls, view in catalog.views.items():
        for space in view.keyspaces(catalog.kinds[view.model]):
            if space.prefix == prefix:
                return space, cls
    return None


def _values(catalog: Catalog, place: HeatPlace, key: bytes) -> Sequence[Any]:
    """The values of a key; raises what damaged keys and beginnings of keys raise."""
    if place.table == "roots" and not is_group_root(key):
        return catalog.kind_of(key).parts_of(key)
    found = _keyspace(catalog, place)
    if found is not None:
        return found[0].values(group_of_root(key) if place.table == "roots" else key)
    name = counters.name_of_row(key)
    if name is None:
        raise ValueError(key)
    return (name,)


def value_text(value: object) -> str:
    """A value of a key for people."""
    return value.isoformat() if isinstance(value, date | time) else repr(value)


def key_text(catalog: Catalog, place: HeatPlace, key: bytes) -> str:
    """A key for people: its values; empty for the beginning of a declaration's rows."""
    if key == place.prefix:
        return ""
    with suppress(Corrupt, ValueError, IndexError):  # of the beginning of a key
        if place.table != "system":
            return ", ".join(map(value_text, _values(catalog, place, key)))
    return key[len(place.prefix) :].hex()


_MEASURED: Final[Mapping[HeatMeasure, Callable[[StoredCell], float]]] = {
    "requests": lambda cell: cell.requests,
    "rows": lambda cell: cell.rows,
    "bytes": lambda cell: cell.size,
    "seconds": lambda cell: cell.microseconds * _MICRO,
}
_SHOWN: Final[Mapping[HeatOperation, tuple[bool, ...]]] = {"read": (False,), "write": (True,)}
"""Whether the cells that are shown write; of every other operation both."""


_Columns: TypeAlias = "dict[int, float]"
_Caused: TypeAlias = "dict[tuple[str, str], _Columns]"


def _amounts(spans: Sequence[HeatSpan], query: HeatQuery, count: int) -> dict[tuple[Table, bytes], _Caused]:
    """What a map shows, by the first keys of cells, what caused it, and column."""
    take: Callable[[StoredCell], float] = _MEASURED[query.measure]
    if query.operation == "lost":
        take = _lost
    wanted = _SHOWN.get(query.operation, (False, True))
    found: dict[tuple[Table, bytes], _Caused] = {}
    for span in spans:
        columns, causes = _columns(span, query, count), span.sums.causes
        for cell in span.sums.cells:
            amount = take(cell) if cell.writes in wanted else 0
            if amount:
                caused = found.setdefault((cell.table, cell.first), {})
                by_column = caused.setdefault(causes[cell.cause], {})
                for column, share in columns:
                    by_column[column] = by_column.get(column, 0.0) + amount * share
    return found


def _lost(cell: StoredCell) -> float:
    return cell.lost


class _MapLines(NamedTuple):
    """The ranges of a map, and where each declaration's begin."""

    ranges: list[HeatRange]
    firsts: dict[HeatPlace, tuple[int, list[bytes]]]

    def line_of(self, place: HeatPlace, first: bytes) -> int | None:
        found = self.firsts.get(place)
        return None if found is None else found[0] + max(0, bisect_right(found[1], first) - 1)


def build_map(
    catalog: Catalog, spans: Sequence[HeatSpan], axes: Mapping[HeatPlace, HeatAxis], query: HeatQuery
) -> HeatMap:
    """The map of what was recorded."""
    step, count = query.step, -(-(query.until - query.since) // query.step)
    amounts = _amounts(spans, query, count)
    places = {at: place_of(*at) for at in amounts}
    lines = _lines(catalog, places, axes, query)
    cells = [[0.0] * count for _range in lines.ranges]
    parts: dict[tuple[int, int, str, str], float] = {}
    for at, caused in amounts.items():
        line = lines.line_of(places[at], at[1])
        if line is None:
            continue
        for cause, columns in caused.items():
            for column, amount in columns.items():
                part = line, column, *cause
                parts[part] = parts.get(part, 0.0) + amount / (step * 60)
                cells[line][column] += amount / (step * 60)
    first = min([axes[place] for place in lines.firsts if place in axes], key=lambda axis: axis.at, default=None)
    return HeatMap(
        tuple([datetime.fromtimestamp((query.since + column * step) * 60, UTC) for column in range(count)]),
        timedelta(minutes=step),
        tuple(lines.ranges),
        tuple(map(tuple, cells)),
        tuple([HeatPart(*part, amount) for part, amount in sorted(parts.items())]),
        bool(lines.ranges) and all(each.share is not None for each in lines.ranges if each.table != "system"),
        min([span.sums.sampled for span in spans], default=1.0),
        max([span.sums.processes for span in spans if span.minutes > 1], default=0) or _processes(spans),
        None if first is None else datetime.fromtimestamp(first.at / 1000, UTC),
        "" if first is None else first.by,
    )


def _processes(spans: Sequence[HeatSpan]) -> int:
    """The most that recorded in one minute."""
    found: dict[int, int] = {}
    for each in spans:
        found[each.minute] = found.get(each.minute, 0) + each.sums.processes
    return max(found.values(), default=0)


def _columns(span: HeatSpan, query: HeatQuery, count: int) -> list[tuple[int, float]]:
    """The columns that a row of sums belongs to, with its share of each: evenly by minute."""
    found: dict[int, float] = {}
    for minute in range(span.minute, span.minute + span.minutes):
        column = (minute - query.since) // query.step
        if 0 <= column < count:
            found[column] = found.get(column, 0.0) + 1 / span.minutes
    return list(found.items())


def _lines(
    catalog: Catalog,
    places: Mapping[tuple[Table, bytes], HeatPlace],
    axes: Mapping[HeatPlace, HeatAxis],
    query: HeatQuery,
) -> _MapLines:
    points: dict[HeatPlace, set[bytes]] = {}
    for (_table, first), place in places.items():
        points.setdefault(place, set()).add(first)
    named = [(declared_at(catalog, place), place) for place in points]
    lines = _MapLines([], {})
    for (name, cls), place in sorted(named, key=lambda each: (each[0][1] is None, each[0][0], each[1])):
        if query.declared is not None and cls is not query.declared:
            continue
        axis = axes.get(place)
        firsts = quantiles(sorted(points[place]), query.ranges) if axis is None else _thinned(axis.firsts, query.ranges)
        shares = _shares(axis, firsts)
        texts = [*("" if len(firsts) == 1 else key_text(catalog, place, first) for first in firsts), ""]
        lines.firsts[place] = len(lines.ranges), firsts
        lines.ranges.extend(
            HeatRange(place.table, name, texts[number], texts[number + 1], share) for number, share in enumerate(shares)
        )
    return lines


def _thinned(firsts: Sequence[bytes], ranges: int) -> list[bytes]:
    return quantiles(firsts, min(ranges, len(firsts)))


def _shares(axis: HeatAxis | None, firsts: Sequence[bytes]) -> list[float | None]:
    """The share of the rows that each range had when they were counted."""
    if axis is None:
        return [None] * len(firsts)
    found = [0] * len(firsts)
    for first, rows in zip(axis.firsts, axis.rows, strict=True):
        found[max(0, bisect_right(firsts, first) - 1)] += rows
    whole = max(1, sum(found))
    return [rows / whole for rows in found]


def hot_keys_of(catalog: Catalog, spans: Sequence[HeatSpan], declared: type, limit: int, now: int) -> list[HotKey]:
    """The keys of a declaration that were asked for most often since the first of these spans, a second."""
    check_limit(limit)
    asked = [
        msgspec.structs.replace(each, operation="read")  # a write asks for a key as a read does
        for span in spans
        for each in span.sums.hot
        if each.operation != "lost"
    ]
    seconds = max(1.0, now / 1000 - min([span.minute for span in spans], default=0) * 60)
    names: dict[HeatPlace, tuple[str, type | None]] = {}
    found: list[HotKey] = []
    for each in sorted(merge_hot(asked), key=lambda each: (-each.most, each.key)):
        place = place_of(each.table, each.key)
        name, cls = names.setdefault(place, declared_at(catalog, place))
        if cls is declared and len(found) < limit:
            text = key_text(catalog, place, each.key)
            found.append(HotKey(name, text, each.most / seconds, (each.most - each.surplus) / seconds))
    return found


def slow_calls_of(spans: Sequence[HeatSpan], since: int, limit: int) -> list[SlowCall]:
    """The slowest calls, the slowest first, that ended since a time in milliseconds."""
    check_limit(limit)
    found: list[SlowCount] = [each for span in spans for each in span.sums.slow if each.at >= since]
    return [
        SlowCall(
            datetime.fromtimestamp(each.at / 1000, UTC), each.process, each.verb, each.declared,
            each.microseconds * _MICRO, each.requests, each.rows,
        )
        for each in sorted(found, key=lambda each: (-each.microseconds, each.at))[:limit]
    ]  # fmt: skip


def check_class(declared: object) -> None:
    """Raises UsageError for what is not a class."""
    if not isinstance(declared, type):
        raise UsageError("hot_keys: expected a model or view of the schema", given=declared)


def check_limit(limit: int) -> None:
    """Raises UsageError for a limit out of bounds."""
    if type(limit) is not int or not 1 <= limit <= MOST:
        raise UsageError("limit: expected a whole number, 1 to 10,000", limit=limit)


def total(spans: Sequence[HeatSpan]) -> Cells:
    """The cells of all spans, added up."""
    return sum_cells(span.sums for span in spans)
