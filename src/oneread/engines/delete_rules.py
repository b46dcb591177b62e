"""What the memory engines do with puts that meet an earlier delete, which servers answer differently.

A delete has a stamp T, and a put with a stamp of at most T may come after it: late, from a program that was paused. See
"The store contract" of the architecture page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from oneread.errors import InvalidValue
from oneread.store.keys import PREFIX_BYTES
from oneread.store.requests import CheckAndMutate
from oneread.store.rows import RowMutation, Table

Note: TypeAlias = Callable[[], object]
"""Remembers what follows from a request, once it is applied."""

_WHOLE_ROW: Final = b""


def _keyspace(table: Table, key: bytes) -> bytes:
    """What the keys of rows begin with that are changed alike: those of a view, of a kind."""
    return key[: PREFIX_BYTES.get(table, 0)]


class RemovingDeletes:
    """A delete takes what is there, and an older put that comes later stays, as Bigtable has it.

    A checked column never holds an empty value, under these rules and all others: HBase cannot tell it from none.
    """

    def __init__(self) -> None:
        self._checked: set[tuple[Table, bytes, bytes]] = set()

    def apply(self, table: Table, mutation: RowMutation) -> tuple[RowMutation, Note]:
        """The mutation as it takes effect. Raises InvalidValue for one that the contract leaves undefined."""
        for column, cell in mutation.puts.items():
            if not cell.value and (table, _keyspace(table, mutation.key), column) in self._checked:
                raise InvalidValue("a checked column never holds an empty value", table=table, column=column)
        return mutation, lambda: None

    def check(self, asked: CheckAndMutate) -> Note:
        put = asked.mutation.puts.get(asked.column)
        if asked.expected == b"" or (put is not None and not put.value):
            raise InvalidValue("a checked column never holds an empty value", table=asked.table, column=asked.column)
        checked = asked.table, _keyspace(asked.table, asked.mutation.key), asked.column
        return lambda: self._checked.add(checked)

    def forget(self, table: Table, key: bytes) -> Note:  # noqa: ARG002 - for rules that remember deletes
        """A row was replaced."""
        return lambda: None


class HidingDeletes(RemovingDeletes):
    """A delete also hides older puts that come later, as HBase has it, until the store is compacted."""

    def __init__(self) -> None:
        super().__init__()
        self._deleted: dict[tuple[Table, bytes], dict[bytes, int]] = {}

    def apply(self, table: Table, mutation: RowMutation) -> tuple[RowMutation, Note]:
        super().apply(table, mutation)
        hidden = self._hidden(table, mutation)
        puts = {column: cell for column, cell in mutation.puts.items() if cell.stamp > hidden(column)}
        seen = RowMutation(mutation.key, puts, mutation.deletes, mutation.delete_row)
        return seen, lambda: self._remember(table, mutation)

    def _hidden(self, table: Table, mutation: RowMutation) -> Callable[[bytes], int]:
        """The last stamp that is hidden in a column."""
        known = self._deleted.get((table, mutation.key), {})
        whole = max(known.get(_WHOLE_ROW, -1), -1 if mutation.delete_row is None else mutation.delete_row)
        return lambda column: max(whole, known.get(column, -1), mutation.deletes.get(column, -1))

    def _remember(self, table: Table, mutation: RowMutation) -> None:
        stamps = dict(mutation.deletes)
        if mutation.delete_row is not None:
            stamps[_WHOLE_ROW] = mutation.delete_row
        if stamps:
            known = self._deleted.setdefault((table, mutation.key), {})
            known.update({column: max(last, known.get(column, -1)) for column, last in stamps.items()})

    def forget(self, table: Table, key: bytes) -> Note:
        return lambda: self._deleted.pop((table, key), None)

    def compact(self) -> None:
        """Forgets all deletes: what comes from now on is not hidden by them."""
        self._deleted.clear()


class StrictDeletes(HidingDeletes):
    """A put that meets an earlier delete is refused, so that a test finds it before a cluster does."""

    def apply(self, table: Table, mutation: RowMutation) -> tuple[RowMutation, Note]:
        hidden = self._hidden(table, mutation)
        for column, cell in mutation.puts.items():
            if cell.stamp <= hidden(column):
                raise InvalidValue(
                    "a put at or below the stamp of an earlier delete is undefined",
                    table=table,
                    key=mutation.key,
                    column=column,
                    stamp=cell.stamp,
                    deleted=hidden(column),
                )
        return super().apply(table, mutation)
