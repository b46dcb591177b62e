"""The rules of the doctor: each looks at one way in which a load and its declarations do not fit."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from oneread import costs
from oneread.counters import rows as counters
from oneread.derivations.aggregates import AggregateView
from oneread.derivations.views import Index
from oneread.heat.doctor import Checkup, HeatFinding, HeatRule, declaration_with
from oneread.heat.hot_spots import Cause, cause_of
from oneread.heat.loads import PageLoad, PlaceLoad
from oneread.heat.map import key_text
from oneread.models.model import Model
from oneread.models.registry import EntityKind
from oneread.store.limits import DEFAULT_LIMIT
from oneread.transactions.group_shards import MOST_SHARDS

if TYPE_CHECKING:
    from oneread.costs.declared import Costs

AT_AN_END: Final = 0.9
"""Share of new rows at one end: keys that are not in the order of time put a tenth there only while there are few."""
ROW_RATE: Final = 5.0
"""Writes a second of one row or end: with commits of 10 ms, every twentieth meets another one in its row."""
SERVER_RATE: Final = 500
"""Writes a second that one range is to have: a server takes some thousand small ones, of several tables."""
FEWEST_RANGES: Final = 4
MOST_RANGES: Final = 16
"""A page asks each of them: more make pages slower than writes faster."""
_FEWEST_SHARDS: Final = 4
HOT_GROUP: Final = 0.2
"""Share of an aggregate's writes in one row: five such rows are all there is, however many servers."""
COOL_ROW: Final = 0.1
"""The share that a row has after the change: half of what is found, so that it is not found again."""
LOST_SHARE: Final = 0.05
"""Of the writes of a row of entities or groups: each lost one is made again, and delays the caller by as much."""
LOST_OF_COUNTERS: Final = 0.1
"""Of the writes of a counter, which are cheaper to make again."""
LOST_LEAST: Final = 20
"""Lost compare-and-sets of one row: fewer may be an accident."""
HOT_OWNER: Final = 0.3
"""Share of a feed's new entries: of those that the others make no change of the feed would save as many."""
LARGE: Final = 200
"""Members: the items of fewer are a request or two each."""
HOT_READS: Final = 0.2
"""Share of a declaration's reads in one range: evenly, 64 ranges have a sixty-fourth each."""
READ_RATE: Final = 10.0
"""Reads a second of one range: what is cached for a second saves nine of ten."""
PASSED_SHARE: Final = 0.5
"""Of the rows that pages with a condition read: an index without those that are left out is half as large at most."""
PASSED_RATE: Final = 50.0
"""Rows a second that are left out: fewer are read by a request that is made anyway."""
COPY_RATE: Final = 1_000 / 60
"""Rows a second that follow a source, as a hundred for each of ten changes a minute: fewer cost less than reads."""
COPYING_VERBS: Final = frozenset({"follow", "save", "create", "upsert", "patch"})
"""Verbs about a source that write its holders for nothing but their copies; a delete may delete them."""
MAX_AGE: Final = 1
"""Seconds that a cached answer is shown."""


def _rate(amount: float, load: PlaceLoad) -> float:
    return amount / load.seconds


def _a_second(rate: float) -> str:
    return f"{rate:,.0f} a second" if rate >= 10 else f"{rate:.1f} a second"  # noqa: PLR2004 - digits


def _power(least: float, fewest: int, most: int) -> int:
    """The next power of two, within bounds."""
    found = fewest
    while found < min(least, most):
        found *= 2
    return found


def _page_and_save(before: Costs, after: Costs, paged: Any, saved: Any) -> str:
    limit = min(DEFAULT_LIMIT, paged.max_limit)
    page = costs.changed.compared(f"a page of {limit}", before.page(paged), after.page(paged))
    return f"{page}; {costs.changed.compared('a save', before.save(saved), after.save(saved))}"


def growing_end(checkup: Checkup) -> Iterable[HeatFinding]:
    """All new rows of a model or index are put at one end of its keys, to one server."""
    for load in checkup.loads:
        rate = _rate(load.put, load)
        if _may_be_spread(checkup, load) and load.outside > AT_AN_END * load.put and rate > ROW_RATE:
            cls: Any = load.cls
            yield _spread(checkup, load, cls, rate)


def _may_be_spread(checkup: Checkup, load: PlaceLoad) -> bool:
    view = checkup.catalog.views.get(load.cls) if load.cls is not None else None
    if view is None:
        return load.cls is not None and checkup.catalog.kinds[load.cls].spread == 1
    if not issubclass(view.cls, Index) or view.prefix != load.place.prefix:
        return False
    return view.key.spread == 1 and not view.cls.unique and not view.cls.is_added


def _spread(checkup: Checkup, load: PlaceLoad, cls: Any, rate: float) -> HeatFinding:
    ranges = _power(rate / SERVER_RATE, FEWEST_RANGES, MOST_RANGES)
    before, after = checkup.costs.before, checkup.costs.after(cls, "spread", ranges)
    view = checkup.catalog.views.get(cls)
    saved = checkup.saved(cls if view is None else view.model)
    change = declaration_with(cls, f"spread = {ranges}")
    if view is None:
        change += "\n    # entities keep their keys: dump them, and load them into a store that is new"
    gain = f"a range gets {_a_second(rate / ranges)}"
    if checkup.spans_rows:
        gain = f"none on this store, which has no ranges; on a cluster {gain}"
    return HeatFinding(
        "know" if checkup.spans_rows else "act",
        load.declared,
        "all new rows go to one end of its keys" if checkup.spans_rows else "all new rows go to one range",
        (f"{load.outside / load.put:.0%} of {load.put:,} rows", _a_second(rate)),
        "spread",
        change,
        _page_and_save(before, after, cls, saved),
        None if view is None else checkup.rebuilds(view.model),
        gain,
    )


class _HotRow(NamedTuple):
    """What was recorded of the rows that one declaration causes: of all of them, and of the hottest."""

    cause: Cause
    load: PlaceLoad
    """Of the keyspace in which the hottest is."""
    written: int
    lost: int
    hottest: int


def _hot_rows(checkup: Checkup) -> list[_HotRow]:
    """The rows that were written most; the shards of one group or counter together."""
    found: dict[Cause, _HotRow] = {}
    for load in checkup.loads:
        for each in load.hot:
            cause = None if each.operation == "read" else cause_of(checkup.catalog, each.table, each.key)
            if cause is None or (cause.kind == "group" and each.table != "counts"):
                continue  # a group that an index shows has a root row as well, which shards do not divide
            row, least = found.get(cause, _HotRow(cause, load, 0, 0, 0)), each.most - each.surplus
            if each.operation == "lost":
                found[cause] = row._replace(lost=row.lost + least)
            else:
                place = load if least > row.hottest else row.load
                found[cause] = row._replace(load=place, written=row.written + least, hottest=max(row.hottest, least))
    return sorted(found.values(), key=lambda each: (-each.written, each.cause))


def _evidence(checkup: Checkup, row: _HotRow) -> list[str]:
    """What was lost of a row, here and by all programs."""
    found = [f"{row.lost / max(1, row.written):.0%} of them lost to others"] if row.lost else []
    here = sum([each.lost for each in checkup.spots.rows if each.row == row.cause.row])
    return [*found, *([f"{here:,} lost by this process"] if here else [])]


def _is_lossy(row: _HotRow, share: float) -> bool:
    return row.lost >= LOST_LEAST and row.lost > share * row.written


def hot_group(checkup: Checkup) -> Iterable[HeatFinding]:
    """One group of an aggregate takes a great part of its writes, which wait for each other in one row."""
    for row in _hot_rows(checkup):
        if row.cause.kind == "group":
            yield from _hot_group(checkup, row)


def _hot_group(checkup: Checkup, row: _HotRow) -> Iterable[HeatFinding]:
    view = next((each for each in checkup.catalog.views.values() if each.cls.__name__ == row.cause.declared), None)
    if not isinstance(view, AggregateView):
        return
    declared: int = view.cls.shards
    part = view.shards / declared  # where a group has one row, as it would be with the shards that are declared
    share, rate = part * row.hottest / max(1, row.load.written), part * _rate(row.hottest, row.load)
    shards = _power(max(2, share / COOL_ROW) * declared, _FEWEST_SHARDS, MOST_SHARDS)
    is_hot = (share > HOT_GROUP and rate > ROW_RATE) or _is_lossy(row, LOST_SHARE)
    if is_hot and shards > declared:
        yield _more_shards(checkup, row, view, shards, (share, rate))


def _more_shards(
    checkup: Checkup, row: _HotRow, view: AggregateView, shards: int, hot: tuple[float, float]
) -> HeatFinding:
    share, rate = hot
    before, after = checkup.costs.before, checkup.costs.after(view.cls, "shards", shards)
    saved = checkup.saved(view.model)
    groups = [(each.cls.__name__, each.groups) for each in checkup.catalog.views.values()]
    indexes = [name for name, of in groups if of is not None and of.cls is view.cls]
    gain = f"a row gets {_a_second(rate * view.cls.shards / shards)}"
    return HeatFinding(
        "know" if checkup.spans_rows else "act",
        row.cause.declared,
        f"one row takes the writes of {row.cause.row}",
        (
            f"{share:.0%} of those of all groups", _a_second(rate), *_evidence(checkup, row),
            *(f"{name} follows it, in a row that has no shards" for name in indexes),
        ),
        "shards",
        declaration_with(view.cls, f"shards = {shards}"),
        "; ".join(
            [
                costs.changed.compared("a get", before.get(view.cls), after.get(view.cls)),
                costs.changed.compared("a save", before.save(saved), after.save(saved)),
            ]
        ),
        timedelta(0),
        f"none on this store, whose groups have one row each; elsewhere {gain}" if checkup.spans_rows else gain,
    )  # fmt: skip


def hot_counter(checkup: Checkup) -> Iterable[HeatFinding]:
    """A named counter has too few shards for those who add to it."""
    for row in _hot_rows(checkup):
        shards = checkup.shards.get(row.cause.row)
        if row.cause.kind != "counter" or shards is None or not _is_lossy(row, LOST_OF_COUNTERS):
            continue
        lost = row.lost / row.written
        more = _power(shards * lost / LOST_SHARE, 1, counters.MOST_SHARDS)
        if more <= shards:
            continue
        bounds = checkup.costs.before
        yield HeatFinding(
            "act",
            row.cause.row,
            "its adds meet in too few rows",
            (f"{lost:.0%} of {row.written:,} writes lost to others", f"{shards} shards"),
            "counter shards",
            f"db.counter({row.cause.row!r}).configure(shards={more})",
            costs.changed.compared("a read", bounds.counter_read(shards=shards), bounds.counter_read(shards=more)),
            timedelta(0),
            f"about {lost * shards / more:.0%} are lost",
        )


def hot_owner(checkup: Checkup) -> Iterable[HeatFinding]:
    """One owner of a feed's items has very many members, so that each of its items is as many rows."""
    for feed, owner in checkup.owners.items():
        if owner.share > HOT_OWNER and owner.members >= LARGE:
            cls: Any = feed
            view, above = checkup.catalog.views[cls], owner.members // 2
            saved = checkup.saved(view.model)
            before, after = checkup.costs.before, checkup.costs.after(cls, "large_group", above)
            yield HeatFinding(
                "act",
                cls.__name__,
                f"the items of {owner.name} are written to each of its members",
                (f"{owner.share:.0%} of new entries", f"{owner.items:,} items for {owner.members:,} members"),
                "large_group",
                declaration_with(cls, f"large_group = {above}"),
                _page_and_save(before, after, cls, saved),
                checkup.rebuilds(view.model),
                f"an item of {owner.name} is one row, before {owner.members:,}",
            )


def hot_reads(checkup: Checkup) -> Iterable[HeatFinding]:
    """Readers ask a remote store for the same key or range again and again."""
    if checkup.is_local:
        return
    for load in checkup.loads:
        reads = load.reads
        if load.cls is None or not reads:
            continue
        first, most = max(reads.items(), key=lambda item: (item[1], item[0]))
        rate, share = _rate(most, load), most / sum(reads.values())
        if share > HOT_READS and rate > READ_RATE:
            hit = share * (1 - 1 / (rate * MAX_AGE))
            yield HeatFinding(
                "look",
                load.declared,
                f"readers ask for the same: {_read_text(checkup, load, first)}",
                (f"{share:.0%} of its reads", _a_second(rate)),
                "cache",
                f'connect(url, schema, cache="memcached://cache.example", max_age={MAX_AGE})',
                "a read that the cache answers makes no request",
                timedelta(0),
                f"the cache answers {hit:.0%} of its reads with max_age={MAX_AGE}",
            )


def _read_text(checkup: Checkup, load: PlaceLoad, first: bytes) -> str:
    """The key that is read most in a range, or where the range begins."""
    points = {each.key: each.most - each.surplus for each in load.hot if each.operation == "read" and each.key >= first}
    key = max(points, key=lambda each: points[each], default=first)
    if 2 * points.get(key, 0) >= load.reads[first]:
        return key_text(checkup.catalog, load.place, key)
    text = key_text(checkup.catalog, load.place, first)
    return f"from {text} on" if text else "its first rows"


def hot_root(checkup: Checkup) -> Iterable[HeatFinding]:
    """The commits of one entity group wait for each other in its root row."""
    for row in _hot_rows(checkup):
        if row.cause.kind != "entity group" or not _is_lossy(row, LOST_SHARE):
            continue
        root = row.load.cls
        children = [each for each in checkup.catalog.models if root is not None and _child_of(checkup, each) is root]
        yield HeatFinding(
            "act",
            row.cause.declared,
            f"commits wait for each other in {row.cause.row}",
            (f"{row.written:,} writes", *_evidence(checkup, row)),
            "smaller root",
            "\n".join([declaration_with(each, f"# without child_of = {row.cause.declared}") for each in children]),
            "",
            None,
            "commits of different entities no longer meet",
        )


def passing_pages(checkup: Checkup) -> Iterable[HeatFinding]:
    """Pages of a model or index read more rows that their condition leaves out than they show."""
    for cls in (*checkup.catalog.models, *checkup.catalog.views):
        load = checkup.pages.get(cls.__name__)
        if load is None or not issubclass(cls, (Model, Index)):
            continue
        rate = load.skipped / load.seconds
        if rate > PASSED_RATE and load.skipped > PASSED_SHARE * (load.shown + load.skipped):
            yield _another_index(checkup, cls, load, rate)


def _another_index(checkup: Checkup, cls: Any, load: PageLoad, rate: float) -> HeatFinding:
    view, bounds = checkup.catalog.views.get(cls), checkup.costs.before
    limit, source = min(DEFAULT_LIMIT, cls.max_limit), cls if view is None else view.cls.type_arguments[0]
    page = costs.changed.compared(f"a page of {limit}", bounds.page(cls, where=True), bounds.page(cls)) + "; "
    fields = "the fields that these pages are ordered by, and show" if view is None else f"the fields of {cls.__name__}"
    return HeatFinding(
        "look",
        cls.__name__,
        "its pages pass over more rows than they show",
        (f"{load.skipped:,} rows left out by where=, {load.shown:,} shown", _a_second(rate)),
        "another index",
        f"class Some{cls.__name__}(Index[{source.__name__}]):\n    where = ...  # the condition of these pages\n"
        f"    ...  # {fields}",
        f"{'' if view is None else page}a save writes a row more of each entity for which the condition holds",
        checkup.rebuilds(cls if view is None else view.model),
        f"{rate:,.0f} rows a second are not read",
    )


def busy_copies(checkup: Checkup) -> Iterable[HeatFinding]:
    """Values of one model that change often are copied into entities of another one, which are then written."""
    catalog = checkup.catalog
    for load in checkup.loads:
        if load.cls not in catalog.kinds or load.place.table != "roots":
            continue
        model: Any = load.cls
        holders = [catalog.entity_types[each] for each in catalog.models if catalog.kinds[each] is catalog.kinds[model]]
        copies = {each.name: each for holder in holders for each in holder.references if each.copy is not None}
        totals = [each.number for holder in holders for each in holder.rollups if each.number is not None]
        counted = [catalog.kinds[catalog.views[each.view].model] for each in totals]
        for source in {each.kind.prefix: each.kind for each in copies.values()}.values():
            if source is not catalog.kinds[model] and source not in counted:  # else these rows are not of copies alone
                fields = sorted(name for name, each in copies.items() if each.kind is source)
                yield from _busy_copies(checkup, load, source, fields)


def _busy_copies(checkup: Checkup, load: PlaceLoad, source: EntityKind, fields: list[str]) -> Iterable[HeatFinding]:
    names = {each.__name__ for each in checkup.catalog.models if checkup.catalog.kinds[each] is source}
    rows = load.total(
        lambda each: each.rows, lambda key: key.writes and key.declared in names and key.verb in COPYING_VERBS
    )
    rate = _rate(rows, load)
    if rate <= COPY_RATE:
        return
    model: Any = load.cls
    name, read = source.cls.__name__, checkup.costs.before.get_many(checkup.saved(source.cls), DEFAULT_LIMIT)
    yield HeatFinding(
        "look",
        load.declared,
        f"its copies of {name} change often",
        (f"{rows / load.written:.0%} of {load.written:,} rows that are written of it", _a_second(rate)),
        "reference",
        declaration_with(model, "\n    ".join([f"{field}: Ref[{name}]  # in place of a copy" for field in fields])),
        f"who shows values of {name} reads them; {costs.changed.stated(f'a get_many of {DEFAULT_LIMIT}', read)}",
        None,
        f"{rate:,.0f} rows a second are not written",
    )


def _child_of(checkup: Checkup, model: type[Model[Any]]) -> type | None:
    return checkup.catalog.kinds[model].child_of


RULES: Final[tuple[HeatRule, ...]] = (
    growing_end, hot_group, hot_counter, hot_owner, hot_reads, hot_root, passing_pages,
    busy_copies,
)  # fmt: skip
