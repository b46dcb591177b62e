"""What was recorded of each model and view within some time, added up for the doctor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from oneread.derivations.catalog import Catalog
from oneread.heat.cells import (
    Amounts,
    CellKey,
    Cells,
    HeatPlace,
    HotCount,
    merge_ends,
    merge_hot,
    merge_pages,
    place_of,
    sum_cells,
)
from oneread.heat.map import declared_at
from oneread.heat.rows import HeatSpan
from oneread.store.rows import Table

SECONDS: Final = 60
"""Of a minute, for which rows of heat are."""
READ_VERBS: Final = frozenset({"get", "find", "get_many", "page", "together"})
"""Verbs whose requests are there because a program wants to read."""


class PlaceLoad(NamedTuple):
    """What was recorded of one keyspace of a model or view, or of another place of a table.

    `seconds` are those of the minutes in which it was requested, so that a load that has ended is not made small by the
    time since; `put` and `outside` are rows that were put, and those of them before or behind all others.
    """

    place: HeatPlace
    declared: str
    cls: type | None
    seconds: float
    cells: Cells
    hot: Sequence[HotCount]
    put: int
    outside: int

    def total(self, amount: Callable[[Amounts], int], wanted: Callable[[CellKey], bool]) -> int:
        """The sum of an amount over the cells that are wanted."""
        return sum([amount(amounts) for key, amounts in self.cells.items() if wanted(key)])

    @property
    def written(self) -> int:
        """Rows that were written."""
        return self.total(lambda each: each.rows, lambda key: key.writes)

    @property
    def reads(self) -> Mapping[bytes, int]:
        """Requests of reading verbs, by the first key of their range."""
        found: dict[bytes, int] = {}
        for key, amounts in self.cells.items():
            if not key.writes and key.verb in READ_VERBS:
                found[key.first] = found.get(key.first, 0) + amounts.requests
        return found


class PageLoad(NamedTuple):
    """Pages with a condition of one model or view; `seconds` are those of the minutes in which there were some."""

    seconds: float
    shown: int
    skipped: int


def pages_of(spans: Iterable[HeatSpan]) -> dict[str, PageLoad]:
    """The pages with conditions of each model and view, by its name."""
    minutes: dict[str, set[int]] = {}
    spans = list(spans)
    for span in spans:
        for each in span.sums.pages:
            minutes.setdefault(each.declared, set()).update(range(span.minute, span.minute + span.minutes))
    return {
        each.declared: PageLoad(SECONDS * len(minutes[each.declared]), each.shown, each.skipped)
        for each in merge_pages(each for span in spans for each in span.sums.pages)
    }


def loads_of(catalog: Catalog, spans: Iterable[HeatSpan]) -> list[PlaceLoad]:
    """What was recorded of each place, in the order of tables and keys."""
    cells: dict[HeatPlace, Cells] = {}
    minutes: dict[HeatPlace, set[int]] = {}
    hot: dict[HeatPlace, list[HotCount]] = {}
    spans = list(spans)
    places: dict[tuple[Table, bytes], HeatPlace] = {}
    for key, amounts in sum_cells(span.sums for span in spans).items():
        place = places.setdefault((key.table, key.first), place_of(key.table, key.first))
        cells.setdefault(place, {})[key] = amounts
    for span in spans:
        for place in {places[each.table, each.first] for each in span.sums.cells}:
            minutes.setdefault(place, set()).update(range(span.minute, span.minute + span.minutes))
    for each in merge_hot(each for span in spans for each in span.sums.hot):
        hot.setdefault(place_of(each.table, each.key), []).append(each)
    ends = {
        HeatPlace(each.table, each.prefix): each
        for each in merge_ends(each for span in spans for each in span.sums.ends)
    }
    found: list[PlaceLoad] = []
    for place in sorted(cells):
        end = ends.get(place)
        found.append(
            PlaceLoad(
                place, *declared_at(catalog, place), SECONDS * len(minutes[place]), cells[place], hot.get(place, ()),
                0 if end is None else end.rows, 0 if end is None else end.outside,
            )
        )  # fmt: skip
    return found
