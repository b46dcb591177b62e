"""What a commit reads into a unit of work before it decides, and the rows that must be as they were, or absent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from oneread.errors import Conflict, StillReferenced
from oneread.store.rows import EntityRow, Row, RowRange
from oneread.transactions.commit import Basis, Change
from oneread.transactions.root import parse_root
from oneread.transactions.sequences import NumberSequence, last_number
from oneread.transactions.unit_of_work import UnitOfWork


def wanted_rows(changes: Sequence[Change]) -> list[bytes]:
    """The root rows that changes name before anything is read."""
    wanted = [change.key for change in changes if change.sequence is None]
    for change in changes:
        wanted.extend(change.hints())
    return wanted


def load_rows(unit: UnitOfWork, changes: Sequence[Change]) -> None:
    """Reads the root rows that changes need; in a second request those at the numbers that several children get."""
    unit.load("roots", wanted_rows(changes))
    numbered = [change for change in changes if change.sequence is not None]
    if len(numbered) > 1:
        unit.load_new(take_numbers(numbered, unit.roots.row, unit.name_of))


def take_numbers(
    changes: Iterable[Change], row_of: Callable[[bytes], Row | None], name_of: Callable[[bytes], object]
) -> list[bytes]:
    """Gives children the numbers that they will have, unless one of their commit brings one; returns their keys.

    `row_of` are root rows as they were read.
    """
    last: dict[NumberSequence, int] = {}
    keys: list[bytes] = []
    for change in changes:
        sequence = change.sequence
        assert sequence is not None, "only children that wait for a number"
        if sequence not in last:
            last[sequence] = last_number(row_of(sequence.root), sequence, name_of)
        last[sequence] += 1
        change.take_number(last[sequence])
        keys.append(change.key)
    return keys


def check_unchanged(unit: UnitOfWork, basis: Basis) -> None:
    """Raises Conflict unless the root rows of a basis still have the versions they had. One request."""
    unit.load("roots", [*basis.rows, *basis.followed])
    for key, row in basis.rows.items():
        if _version(unit.roots.root(key)) != _version(row):
            raise Conflict("an entity that this transaction read was changed meanwhile", key=unit.name_of(key))


def _version(row: EntityRow | Row | None) -> int:
    return row.version if isinstance(row, EntityRow) else parse_root(row).version


def refuse_referenced(unit: UnitOfWork, unreferenced: list[tuple[bytes, RowRange]]) -> None:
    """Raises StillReferenced for the first entity whose range of holds is not empty. One request each."""
    for source, within in unreferenced:
        rows = unit.scan("views", within, 1)
        if rows:
            holder = rows[0][0][len(within.start) :]
            raise still_referenced(unit.name_of(source), unit.name_of(holder))


def still_referenced(key: object, owner: object) -> StillReferenced:
    """The error of a delete that another entity forbids, by the names of both."""
    return StillReferenced(
        'others refer to this entity, and on_delete="refuse" or its entity group forbids its delete; delete or change'
        " them first",
        key=key,
        owner=owner,
    )
