"""The requests a plan may make of a store.

`row = yield from Read(...)` is typed: each request's type parameter is its answer. Five requests are answered by every
engine; `Replace` only by engines whose atomic span is many rows, inside `Atomically`. See "The store contract" of the
architecture page.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from oneread.store.rows import Families, Row, RowMutation, RowRange, Table

Answer = TypeVar("Answer")

ABSENT: Final = None
"""What `CheckAndMutate` expects of a column that must be absent."""

Found: TypeAlias = "tuple[bytes, Row]"
"""One row of a scan: its key and its cells."""


class Request(msgspec.Struct, Generic[Answer], frozen=True, gc=False):
    """A base of requests: a plan yields one and is sent its answer."""

    def __iter__(self) -> Generator[Any, Any, Answer]:
        answer: Answer = yield self
        return answer


class Read(Request["list[Row | None]"], frozen=True, gc=False):
    """Several rows by key, in one round trip. Answers in the order of `keys`, None for a row that is absent."""

    table: Table
    keys: list[bytes]
    families: Families = "d"


class Scan(Request["list[Found]"], frozen=True, gc=False):
    """The first `limit` rows of a range in key order (from its end when `reverse`).

    Fewer than `limit` means the range is exhausted.

    Atomic per row; not a snapshot, except inside `Atomically` and on engines that declare `snapshot`. Inside a snapshot
    a `checked` scan reads each row by its key as well, and raises Corrupt where the two differ: a damaged page may
    mislead either.
    """

    table: Table
    range: RowRange
    limit: int
    reverse: bool = False
    families: Families = "d"
    checked: bool = False


class Mutate(Request[None], frozen=True, gc=False):
    """Blind stamped puts and deletes; atomic per row, batched in one round trip.

    On failure any subset of the rows may be written.
    """

    table: Table
    rows: list[RowMutation]


class CheckAndMutate(Request[bool], frozen=True, gc=False):
    """Applies `mutation` to one row if `column` holds exactly `expected` (or is absent, when ABSENT).

    The only conditional write.

    Answers whether it was applied. A checked column never holds an empty value: HBase cannot tell it from an absent
    column. With `has_history` the row says which changes it had: an engine whose server may make a request twice, and
    answer for the second time, raises OutcomeUnknown where it would answer False.
    """

    table: Table
    column: bytes
    expected: bytes | None
    mutation: RowMutation
    has_history: bool = False


class Increment(Request[int], frozen=True, gc=False):
    """Adds to an 8-byte big-endian signed column and answers the new value.

    Not idempotent: only for counters declared approximate.
    """

    table: Table
    key: bytes
    column: bytes
    amount: int


class Replace(Request[None], frozen=True, gc=False):
    """Replaces whole rows: all cells of each, or None to delete it.

    Only inside `Atomically`: the transaction has read each row, or is its only writer, so there is nothing to merge and
    the engine saves a read per row. See docs/decisions/0002-replace.md.
    """

    table: Table
    rows: Mapping[bytes, Row | None]


REQUESTS: Final[frozenset[type]] = frozenset({Read, Scan, Mutate, CheckAndMutate, Increment, Replace})
"""Every class of request. Drivers look the class up here, which is faster than `isinstance`."""

CHANGES: Final[frozenset[type]] = frozenset({Mutate, CheckAndMutate})
"""The requests by which stores that change one row at a time are written to."""
