"""Back-references as commits on stores that change one row at a time see them: what an entity takes of whom."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from oneread.store.requests import Mutate
from oneread.store.rows import Cell, Row, RowMutation
from oneread.transactions import outbox
from oneread.transactions.commit import Change
from oneread.transactions.root import BODY
from oneread.transactions.unit_of_work import VALUE


def refers(pointers: Collection[bytes], source: bytes) -> bool:
    """Whether one of these is a back-reference to a source."""
    start = outbox.holders_of(source).start
    return any(each.startswith(start) for each in pointers)


def taken(key: bytes, pointers: Iterable[bytes]) -> set[bytes]:
    """The sources and selections that the back-references of an entity name."""
    start, stop = len(outbox.BACK_REFERENCES), -len(key)
    return {each[start:stop] for each in pointers if each.startswith(outbox.BACK_REFERENCES)}


def taken_by(changes: Iterable[Change], follows: bytes | None) -> Callable[[bytes, Row], bool]:
    """Says of which sources changes take the values again, where the reference to them is the same."""
    takes_all = all(each.takes_all for each in changes)
    return lambda source, row: source == follows or (takes_all and BODY in row)


def put_pointers(places: Sequence[bytes], version: int) -> Mutate:
    return Mutate("views", [put_cell(each, VALUE, outbox.PRESENT, version) for each in places])


def put_cell(key: bytes, column: bytes, value: bytes, stamp: int) -> RowMutation:
    return RowMutation(key, {column: Cell(value, stamp)})
