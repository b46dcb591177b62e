"""What one commit derives, as data: rows, sums, unique values, and the groups whose numbers follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from oneread.store.rows import Row, RowRange
from oneread.transactions.deltas import Number
from oneread.transactions.first_rows import FirstRows
from oneread.transactions.root_rows import GroupNumbers


class DerivedWrites(msgspec.Struct, frozen=True, gc=False):
    """The derived operations of one commit, fully determined, as data.

    An intent holds them on stores that change one row at a time. `puts` are index rows and back-references: key in
    `views` to the row's value; `deletes` are keys in `views`. `deltas` are (key in `counts`, amounts, sign) of every
    contribution gained or lost. `released` and `claimed` are unique values: claim key in `counts` to the root key of
    the entity that gives the value up, or takes it.
    """

    puts: dict[bytes, bytes] = {}
    deletes: list[bytes] = []
    deltas: list[tuple[bytes, Sequence[Number | None], int]] = []
    released: dict[bytes, bytes] = {}
    claimed: dict[bytes, bytes] = {}


NO_DERIVED_WRITES: Final = DerivedWrites()


class GroupIndexes(Protocol):
    """The indexes over the groups of one aggregate."""

    def extrema(self, key: bytes, /) -> Sequence[FirstRows]:
        """The rows of `views` that the indexes show, for the group with this row in `counts`."""
        ...

    def rows(self, key: bytes, numbers: GroupNumbers, /) -> Mapping[bytes, bytes]:
        """The index rows of a group. Raises OnereadError for numbers that cannot be shown."""
        ...

    def row_writes(self, key: bytes, before: GroupNumbers, after: GroupNumbers, /) -> DerivedWrites:
        """The writes that follow from new numbers of a group. Raises OnereadError as `rows` of the new ones."""
        ...


class CounterRows(NamedTuple):
    """Where a named counter is that entities show; all of it in `counts`."""

    shards: RowRange
    settings: bytes
    mark: bytes
    """Its row is there while something was added that the entities do not show yet."""
    show: Callable[[Row | None], bytes | None]
    """The settings that make adds mark the counter; None if these do."""


COUNTER_ROWS: Final = 256
"""Rows that hold one counter, at most."""


class Group(NamedTuple):
    """A group of an aggregate whose numbers entities or indexes show; or a named counter that entities show.

    `rank` orders what follows from one commit: a group settles when everything of lower rank has settled.
    """

    key: bytes
    """In `counts`."""
    rank: int
    extrema: tuple[FirstRows, ...]
    """In `views`: the rows of its least, greatest and newest values."""
    holders: tuple[bytes, ...]
    """The root keys of the entities that show it; not all of them exist."""
    indexes: GroupIndexes | None = None
    """What lists it; None if nothing does."""
    counter: CounterRows | None = None
    """Where the counter is; None for a group of an aggregate, whose row has the key `key`."""


def group_keys(groups: Iterable[Group]) -> list[bytes]:
    """The keys in `counts` of rows that are read for groups: that of the group, or a counter's settings."""
    return [each.key if each.counter is None else each.counter.settings for each in groups]
