"""Calibration: measures the basic operations of a store, in a store of its own.

Each number is the difference between two operations that differ in one thing: a save with two index rows and a save
with none differ by two index rows. It includes the work of Python for a row (encode, emit, diff), which is most of it
on an embedded store. Where a store changes one row at a time a commit is mostly waiting: its rounds are known by its
bound, and the number of a row is what a save takes beyond them. See docs/explanation/costs.md.
"""

from __future__ import annotations

import random
import types
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count as counting
from statistics import median
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeAlias

from oneread.costs.bounds import Span
from oneread.costs.declared import of
from oneread.costs.numbers import BASICS, FORMAT, SMALL_ROW, MachineNumbers, this_machine
from oneread.database._sync.database import Database
from oneread.derivations.rules import by, count, greatest, mean, newest, shown, total
from oneread.derivations.views import Aggregate, Index
from oneread.evolution.schema import Schema
from oneread.models.model import Key, Model
from oneread.models.references import Copy

STORED: Final = 4000
"""Entities of each kind that are in the store while it is measured."""

FEWER: Final = 400
"""As many where the store changes one row at a time, and requests take milliseconds."""

_GROUPS: Final = 200
_LONG: Final = 20_000
_BATCH: Final = 100
_FEWER_SAVES: Final = 20
_START: Final = datetime(2024, 1, 1, tzinfo=UTC)


Fields: TypeAlias = dict[str, object]


def _declare(name: str, base: Any, of: object, fields: Fields, rules: Fields | None = None) -> Any:
    """Declares a class as a class statement with these annotations and values does."""
    body = {"__module__": __name__, "__annotations__": fields, **(rules or {})}
    return types.new_class(name, (base[of],), {}, lambda space: space.update(body))


class ReferredSource(Model[int]):
    number: Key[int]
    name: str
    country: str


class ShownSource(Copy[ReferredSource]):
    name: str
    country: str


class Other(Copy[ReferredSource]):
    name: str


_VALUES: Final[Fields] = {"name": str, "quantity": int, "price": Decimal, "made_at": datetime}
_FIELDS: Final[Fields] = {"group": Key[str], "number": Key[int], **_VALUES}

# Equal models that differ in their views alone: what a view adds to a save is the difference of two of them.
_LINES: Final = tuple(
    _declare(name, Model, (str, int), _FIELDS) for name in ("Plain", "Indexed", "Grouped", "Extreme", "Unique")
)
Plain, Indexed, Grouped, Extreme, Unique = _LINES
Referring: Final = _declare("Referring", Model, (str, int), {**_FIELDS, "first": ShownSource, "second": Other})


def _index(field: str, *more: str) -> Any:
    fields: Fields = {field: str, "made_at": datetime, "quantity": int, **{name: _VALUES[name] for name in more}}
    rules: Fields = {field: by(getattr(Indexed, field)), "made_at": newest(Indexed.made_at)}
    rules |= {name: shown(getattr(Indexed, name)) for name in ("quantity", *more)}
    return _declare(f"IndexedBy{field.title()}", Index, Indexed, fields, rules)


def _aggregate(model: Any, field: str) -> Any:
    fields: Fields = {field: str, "number": int, "units": int, "mean_price": Decimal | None}
    rules: Fields = {field: by(getattr(model, field)), "number": count()}
    rules |= {"units": total(model.quantity), "mean_price": mean(model.price)}
    if model is Extreme:
        fields["dearest"], rules["dearest"] = Decimal | None, greatest(model.price)
    return _declare(f"{model.__name__}By{field.title()}", Aggregate, model, fields, rules)


IndexedByGroup, GroupedByGroup = _index("group", "price"), _aggregate(Grouped, "group")
_UNIQUE: Final[Fields] = {"unique": True, "group": by(Unique.group), "number": by(Unique.number)}
_VIEWS: Final = (
    *(_index("name"), IndexedByGroup, _aggregate(Grouped, "name"), GroupedByGroup),
    *(_aggregate(Extreme, "name"), _aggregate(Extreme, "group")),
    _declare("UniquePrice", Index, Unique, {"group": str, "number": int}, _UNIQUE),
)

SCHEMA: Final = Schema(ReferredSource, *_LINES, Referring, *_VIEWS)
"""The schema that a store is measured with."""


def measure(
    db: Database, seconds: float, progress: Callable[[int, int], object] = lambda _done, _of: None
) -> dict[str, float]:
    """Measures the numbers of `costs.numbers.BASICS` in an empty store that was opened under `SCHEMA`.

    Writes some ten thousand small entities, and takes about so many seconds after that. Progress is rounds done, of how
    many.
    """
    bench = _Bench(db)
    bench.fill()
    started = perf_counter()
    rounds: list[dict[str, float]] = []
    while not rounds or (perf_counter() - started) * (len(rounds) + 1) / len(rounds) < seconds:
        rounds.append(bench.round())
        spent = perf_counter() - started
        progress(len(rounds), max(len(rounds), int(seconds / spent * len(rounds))))
    taken = {name: median(each[name] for each in rounds) for name in rounds[0]}
    return _calibration(db.explain.costs.span).numbers(taken)


class _Bench:
    """The measured operations, in turns, so that a load on the machine slows all of them alike."""

    def __init__(self, db: Database) -> None:
        self._db = db
        how = _calibration(db.explain.costs.span)
        self._stored, self._batch = how.stored, how.batch
        self._next = counting(STORED)
        self._chance = random.Random(1)

    def fill(self) -> None:
        with self._db.bulk() as bulk:
            for number in range(_GROUPS):
                bulk.save(ReferredSource(number=number, name=f"Source {number}", country="Iceland"))
            for model in _LINES:
                for number in range(self._stored):
                    bulk.save(self._line(model, number))
            for number in range(self._stored):
                bulk.save(self._referring(number))
            bulk.save(self._line(Plain, -1, "x" * _LONG))

    def _line(self, model: type[Model[str, int]], number: int, name: str = "") -> Model[str, int]:
        return model(**self._fields(number, name))

    def _fields(self, number: int, name: str = "") -> Fields:
        return {
            "group": f"group {number % _GROUPS}",
            "number": number,
            "name": name or f"a name that is {self._chance.randrange(_GROUPS)}",
            "quantity": number % 100,
            "price": Decimal(self._chance.randrange(10_000)) / 100,
            "made_at": _START + timedelta(seconds=self._chance.randrange(10_000_000)),
        }

    def _referring(self, number: int) -> Any:
        first, second = self._chance.randrange(_GROUPS), self._chance.randrange(_GROUPS)
        return Referring(first=ShownSource.of(first), second=Other.of(second), **self._fields(number))

    def round(self) -> dict[str, float]:
        """Measures every operation once, in seconds."""
        taken = {name: _time(run, given) for name, (run, given) in self._reads()}
        for model in _LINES:
            taken[model.__name__] = self._saves([self._line(model, next(self._next)) for _ in range(self._batch)])
        taken["Referring"] = self._saves([self._referring(next(self._next)) for _ in range(self._batch)])
        taken["long"] = self._saves([self._line(Plain, next(self._next), "x" * _LONG) for _ in range(self._batch // 5)])
        batch = [self._line(Plain, next(self._next)) for _ in range(self._batch)]
        taken["batch"] = _time(self._db.save_all, [(batch,)]) / self._batch
        keys = [(f"group {number % _GROUPS}", number) for number in range(self._batch)]
        taken["change"] = _time(lambda *key: self._db.patch(Plain, *key, quantity=next(self._next)), keys)
        return taken

    def _saves(self, entities: list[Model[str, int]]) -> float:
        return _time(self._db.save, [(each,) for each in entities])

    def _reads(self) -> Iterator[tuple[str, tuple[Callable[..., object], Sequence[tuple[Any, ...]]]]]:
        db, draw = self._db, self._chance.randrange
        numbers = [draw(self._stored) for _ in range(4 * self._batch)]
        keys = [(f"group {each % _GROUPS}", each) for each in numbers]
        half = len(keys) // 2
        some = [(Plain, *key) for key in keys[:half]] + [(Referring, *key) for key in keys[half:]]
        # A few microseconds each: repeated until a disturbance hits them as often as the others.
        yield "get", (db.get, some * 5)
        yield "miss", (db.find, [(Plain, group, -number - 2) for group, number in keys])
        yield "long get", (db.get, [(Plain, f"group {-1 % _GROUPS}", -1)] * self._batch)
        yield "group get", (db.get, [(GroupedByGroup, group) for group, _number in keys])
        yield "page of 1", (self._page, [(IndexedByGroup, group, 1) for group, _number in keys])
        yield "page of 15", (self._page, [(IndexedByGroup, group, 15) for group, _number in keys])
        yield "entities of 15", (self._page, [(Indexed, group, 15) for group, _number in keys[: self._batch]])

    def _page(self, view: Any, group: str, limit: int) -> object:
        return self._db.page(view, group, limit=limit)


def _time(run: Callable[..., object], given: Sequence[tuple[Any, ...]]) -> float:
    started = perf_counter()
    for each in given:
        run(*each)
    return (perf_counter() - started) / len(given)


def _numbers(taken: dict[str, float]) -> dict[str, float]:
    """The seconds of each basic operation: differences, never below 0."""
    entity = taken["batch"]
    plain = taken["Plain"]
    index_row = (taken["Indexed"] - plain) / 2
    found = _reads(taken) | {
        "commit": plain - entity,
        "entity": entity,
        "source": (taken["Referring"] - plain) / 2,
        "index row": index_row,
        "group": (taken["Grouped"] - plain) / 2,
        "extremum": (taken["Extreme"] - taken["Grouped"]) / 2,
        "claim": taken["Unique"] - plain - index_row,
        "byte written": (taken["long"] - plain) / (_LONG - SMALL_ROW),
    }
    return {name: max(0.0, found[name]) for name in BASICS}


def _numbers_of_rounds(taken: dict[str, float]) -> dict[str, float]:
    """The seconds of each basic operation where a commit is rounds of requests; what a row takes beyond them.

    A patch of a model without views is a read and a write that wait for each other.
    """
    request = taken["group get"]
    found = _reads(taken) | {"commit": max(0.0, taken["change"] - request)}
    rounds = MachineNumbers(FORMAT, "", this_machine(), found, "row")
    costs = of(SCHEMA, span="row")
    beyond = {
        model.__name__: max(0.0, taken[model.__name__] - rounds.waits(costs.create(model)))
        for model in (*_LINES, Referring)
    }
    plain = beyond["Plain"]
    index_row = max(0.0, (beyond["Indexed"] - plain) / 2)
    found |= {
        "entity": plain,
        "source": (beyond["Referring"] - plain) / 2,
        "index row": index_row,
        "group": (beyond["Grouped"] - plain) / 2,
        "extremum": (beyond["Extreme"] - beyond["Grouped"]) / 2,
        "claim": beyond["Unique"] - plain - index_row,
        "byte written": (taken["long"] - taken["Plain"]) / (_LONG - SMALL_ROW),
    }
    return {name: max(0.0, found[name]) for name in BASICS}


def _reads(taken: dict[str, float]) -> dict[str, float]:
    """The seconds of each basic operation that reads."""
    row = (taken["page of 15"] - taken["page of 1"]) / 14
    page = taken["page of 1"] - 2 * row
    return {
        "point": taken["get"],
        "miss": taken["miss"],
        "request": taken["group get"],
        "page": page,
        "row": row,
        "entity row": (taken["entities of 15"] - page) / 16,
        "byte read": (taken["long get"] - taken["get"]) / (_LONG - SMALL_ROW),
    }


class _Calibration(NamedTuple):
    """How the numbers of one price list are measured."""

    stored: int
    """Entities of each kind that are in the store."""
    batch: int
    """Saves of each round."""
    numbers: Callable[[dict[str, float]], dict[str, float]]
    """From the seconds of the rounds to those of each basic operation."""


def _calibration(prices: Span) -> _Calibration:
    if prices == "rows":
        return _Calibration(STORED, _BATCH, _numbers)
    return _Calibration(FEWER, _FEWER_SAVES, _numbers_of_rounds)
