"""The doctor: what to declare otherwise, by what was recorded of which keys are hot.

Each rule of `doctor_rules` is a function of a `Checkup`. See docs/how-to/find-what-is-hot.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from inspect import getsourcefile
from linecache import getlines
from os.path import relpath
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from oneread.counters.counters import CounterPlans
from oneread.counters.rows import SETTINGS, SHARDS, CounterSettings, name_key, name_of_row
from oneread.derivations.catalog import Catalog
from oneread.derivations.views import Aggregate, Feed, Index
from oneread.heat.axis import HeatAxis
from oneread.heat.cells import HeatPlace
from oneread.heat.doctor_feeds import FeedOwner, read_owners
from oneread.heat.hot_spots import HotSpots, hot_spots
from oneread.heat.loads import PageLoad, PlaceLoad, loads_of, pages_of
from oneread.heat.rows import HeatRows, spans_of
from oneread.models.model import Model
from oneread.plans.hot_keys import HotKeys
from oneread.plans.plan import Plan
from oneread.store.engine import Capabilities
from oneread.store.keys import view_part

if TYPE_CHECKING:
    from oneread.costs.changed import ChangedCosts

FindingSeverity: TypeAlias = Literal["act", "look", "know"]
"""To be done; to be looked at; to be known, as before a move to another store."""
Remedy: TypeAlias = Literal[
    "spread",
    "shards",
    "counter shards",
    "large_group",
    "cache",
    "smaller root",
    "another index",
    "reference",
]

BUILT_A_SECOND: Final = 5_000
"""Entities that a backfill visits in a second, about: what LMDB takes beside live traffic."""
_BASES: Final = (Index, Aggregate, Feed, Model)
_SPOTS: Final = 1_000


class HeatFinding(msgspec.Struct, frozen=True):
    """One thing to declare otherwise.

    Arguments:
        severity: `act`, `look`, or `know`.
        declared: the model or view; the name of a counter.
        what: happens.
        evidence: what was recorded of it.
        remedy: the sort of change.
        change: to paste: the declaration with its new option, its file and line where they are known; or a call.
        costs: what pages and saves cost then, by the bounds of the changed schema; empty where it changes no bound.
        rebuilds: how long a backfill takes, about; zero where nothing is built again. None where the rows were not
            counted, or where the change needs another store.
        gain: what it is good for.
    """

    severity: FindingSeverity
    declared: str
    what: str
    evidence: tuple[str, ...]
    remedy: Remedy
    change: str
    costs: str
    rebuilds: timedelta | None
    gain: str


class Checkup(NamedTuple):
    """What rules look at: what was recorded, the rows that were counted, the schema and its costs.

    `spots` are those of this process; `spans_rows` and `is_local` are of the store; `shards` are those of the counters
    that have lost compare-and-sets, by name; `owners` those of busy feeds; `pages` those with conditions, by the
    name of their model or view.
    """

    catalog: Catalog
    loads: Sequence[PlaceLoad]
    axes: Mapping[HeatPlace, HeatAxis]
    spots: HotSpots
    costs: ChangedCosts
    spans_rows: bool
    is_local: bool
    shards: Mapping[str, int]
    owners: Mapping[type, FeedOwner]
    pages: Mapping[str, PageLoad]

    def rebuilds(self, model: type) -> timedelta | None:
        """How long a backfill of a view of this model takes, where its entities were counted."""
        axis = self.axes.get(HeatPlace("roots", self.catalog.kinds[model].prefix))
        return None if axis is None else timedelta(seconds=sum(axis.rows) / BUILT_A_SECOND)

    def saved(self, model: type) -> Any:
        """A class of this model that may be saved."""
        kind = self.catalog.kinds[model]
        return next(cls for cls in self.catalog.stored_types if self.catalog.kinds[cls] is kind)


HeatRule: TypeAlias = Callable[[Checkup], Iterable[HeatFinding]]


class RecordedLoads(NamedTuple):
    """What was recorded of some time, added up."""

    loads: Sequence[PlaceLoad]
    axes: Mapping[HeatPlace, HeatAxis]
    pages: Mapping[str, PageLoad]


def recorded_loads(catalog: Catalog, rows: HeatRows, axes: Mapping[HeatPlace, HeatAxis]) -> RecordedLoads:
    """Adds up what rows of heat say."""
    spans = spans_of(rows)
    return RecordedLoads(loads_of(catalog, spans), axes, pages_of(spans))


def check_up(
    costs: ChangedCosts, counters: CounterPlans, capabilities: Capabilities, hot: HotKeys, recorded: RecordedLoads
) -> Plan[Checkup]:
    """Reads what rules look at besides what was recorded.

    Costs a row for each counter that has lost compare-and-sets, and for each busy feed a scan of the memberships of one
    owner.
    """
    catalog = costs.catalog
    loads, axes, pages = recorded
    shards: dict[str, int] = {}
    for name in _lossy_counters(loads):
        declared = CounterSettings(0, counters.rules.shards)
        shards[name] = (yield from counters.settings(name_key(name), declared)).shards
    owners = yield from read_owners(catalog, loads)
    return Checkup(
        catalog, loads, axes, hot_spots(catalog, hot, _SPOTS), costs,
        capabilities.spans_rows, capabilities.local, shards, owners, pages,
    )  # fmt: skip


def _lossy_counters(loads: Iterable[PlaceLoad]) -> list[str]:
    keys = [
        each.key
        for load in loads
        for each in load.hot
        if each.operation == "lost" and view_part(each.key) in (SHARDS, SETTINGS)
    ]
    return sorted({name for name in map(name_of_row, keys) if name is not None})


def find_all(checkup: Checkup, rules: Iterable[HeatRule]) -> list[HeatFinding]:
    """What the rules find, the most severe first."""
    severities = get_args(FindingSeverity)
    found = [each for rule in rules for each in rule(checkup)]
    return sorted(found, key=lambda each: (severities.index(each.severity), each.declared, each.what))


def declaration_with(cls: type, option: str) -> str:
    """A declaration with another line in its body, to paste; with its file and line where these can be known."""
    base = next(each for each in _BASES if issubclass(cls, each))
    arguments: Sequence[Any] = cls.type_arguments  # type: ignore[attr-defined]  # of all of them
    named = ", ".join([getattr(each, "__name__", str(each)) for each in arguments])
    place = _place_of(cls)
    head = f"class {cls.__name__}({base.__name__}[{named}]):"
    return f"{head}{'  # ' if place else ''}{place}\n    {option}"


def _place_of(cls: type) -> str:
    """The file and line of a class; empty where its source is not there, as in a shell, or has two of its name."""
    try:
        file = getsourcefile(cls)
    except (OSError, TypeError):
        file = None
    begins = re.compile(rf"\s*class {re.escape(cls.__name__)}\b").match
    found = [number for number, line in enumerate(getlines(file) if file else (), 1) if begins(line)]
    if file is None or len(found) != 1:
        return ""
    near = relpath(file)
    return f"{file if near.startswith('..') else near}:{found[0]}"
