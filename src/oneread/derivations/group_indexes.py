"""Indexes over groups: the rows of indexes that list the groups of an aggregate, one for each group with entities.

A row is what the index's rules make of the group's row, so nothing is recorded: the numbers before a commit say which
row to take away. See docs/decisions/0049-indexes-over-groups.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from oneread.derivations.aggregates import AggregateView
from oneread.derivations.derivation import CompiledView, emit_function
from oneread.derivations.emission_code import Emit
from oneread.derivations.rules import rules_of
from oneread.errors import OnereadError
from oneread.models.paths import path_of
from oneread.plans.counted import CountedStore
from oneread.plans.inside import run_plan
from oneread.store.keys import row_part
from oneread.store.rows import VALUE, Cell, Row
from oneread.transactions.commit import GroupRefused
from oneread.transactions.derived_writes import DerivedWrites
from oneread.transactions.first_rows import FirstRows, first_values
from oneread.transactions.refusals import is_of_part, is_refusal
from oneread.transactions.root_rows import GroupNumbers


class IndexedGroups:
    """The groups of one aggregate as indexes list them."""

    def __init__(self, aggregate: AggregateView, indexes: tuple[CompiledView, ...]) -> None:
        self.aggregate = aggregate
        self.indexes = indexes
        self.named = {name for index in indexes for name in _named(index.cls)}
        """The fields of the aggregate that indexes name."""
        self._extrema = tuple(each for each in aggregate.extrema if each.field in self.named)

    @cached_property
    def _emit(self) -> Emit:
        return emit_function(self.aggregate.cls, self.indexes)

    @property
    def extrema_names(self) -> list[str]:
        """The extrema that indexes show: each is the first rows of a keyspace of this name."""
        return [f"{self.aggregate.cls.__name__}.{each.field}" for each in self._extrema]

    def extrema(self, key: bytes) -> tuple[FirstRows, ...]:
        """The rows of `views` that hold the least, greatest and newest values of the group with this row."""
        return tuple(each.first_rows(row_part(key)) for each in self._extrema)

    def rows(self, key: bytes, numbers: GroupNumbers) -> dict[bytes, bytes]:
        """The index rows of the group with this row in `counts`: key in `views` to value; none for an empty group.

        Raises:
            OnereadError: a value cannot be in a key, or the numbers cannot be read.
        """
        if numbers.sums is None:
            return {}
        group = row_part(key)
        row = self.aggregate.row_of(group, numbers, self._extrema)
        return self._emit(row, {}, self.aggregate.key.codec.decode(group), group, {}, 0).shown

    def row_writes(self, key: bytes, before: GroupNumbers, after: GroupNumbers) -> DerivedWrites:
        """The writes that follow from new numbers of a group. Raises OnereadError for those that cannot be shown."""
        old, new = self._rows_before(key, before), self.rows(key, after)
        puts = {place: shown for place, shown in new.items() if old.get(place) != shown}
        return DerivedWrites(puts, [place for place in old if place not in new])

    def _rows_before(self, key: bytes, numbers: GroupNumbers) -> Mapping[bytes, bytes]:
        """A group that was there before the index may have numbers that cannot be shown: it has no row."""
        try:
            return self.rows(key, numbers)
        except OnereadError as error:
            if not is_refusal(error):
                raise
            return {}

    def write_rows(self, store: CountedStore, groups: Sequence[bytes]) -> None:
        """Inside a transaction: writes the rows of groups as they are. One read, one scan an extremum, one write.

        Raises:
            GroupRefused: an index cannot show one of them.
        """
        written: dict[bytes, Row | None] = {}
        for key, row in zip(groups, store.read("counts", list(groups), "dm"), strict=True):
            if row is None:
                continue
            extrema = [run_plan(store, first_values(first)) for first in self.extrema(key)]
            try:
                shown = self.rows(key, GroupNumbers(row[VALUE].value, tuple(extrema)))
            except OnereadError as error:
                if not is_of_part(error):
                    raise
                raise GroupRefused(key, error) from error
            written |= {place: {VALUE: Cell(value, row[VALUE].stamp)} for place, value in shown.items()}
        if written:
            store.replace("views", written)


def indexed_groups(views: Iterable[CompiledView]) -> dict[type, IndexedGroups]:
    """The aggregates whose groups any of these indexes lists."""
    found: dict[AggregateView, list[CompiledView]] = {}
    for view in views:
        if isinstance(view.groups, AggregateView) and not view.parts:
            found.setdefault(view.groups, []).append(view)
    return {aggregate.cls: IndexedGroups(aggregate, tuple(several)) for aggregate, several in found.items()}


def _named(index: Any) -> Iterable[str]:
    """The fields of the aggregate that an index names."""
    paths = [path_of(rule.field) for rule in rules_of(index).values()]
    return [path.names[0] for path in (*paths, *(() if index.where is None else index.where.paths()))]
