"""The small store of `damaged` on a store that changes one row at a time, and the same hands."""

from oneread.derivations.copy_cells import LaidCopies
from oneread.store.keys import view_part
from oneread.store.requests import Read
from oneread.store.rows import REMOVED, VALUE, Cell, living
from oneread.transactions import outbox
from oneread.transactions.intents import root_row
from oneread.transactions.root import BODY, EMITTED, VERSION
from tests.unit.verify.damaged import SCHEMA, Damaged


class DamagedRows(Damaged):
    """Rows are seen as `Damaged` sees them; those that are written keep the cells that are not seen."""

    def __init__(self, url="memory://?span=row", schema=SCHEMA):
        super().__init__(url, schema)

    def rows(self, table, prefix=b""):
        found = {}
        for key, row in super().rows(table, prefix).items():
            seen = self._seen(table, key, row)
            if seen:
                found[key] = seen
        return found

    def _seen(self, table, key, row):
        if table == "roots":
            return None if outbox.is_group_root(key) else root_row(LaidCopies(self.catalog).lay(key, row))
        if table != "counts":
            return living(row)
        cell = (living(row) or {}).get(VALUE)
        if cell is not None and view_part(key) in self._claims():
            cell = Cell(cell.value[8:], cell.stamp)
        return None if cell is None else {VALUE: cell}

    def _claims(self):
        views = self.catalog.views.values()
        spaces = [each for view in views for each in view.keyspaces(self.catalog.kinds[view.model])]
        return {each.prefix for each in spaces if each.table == "counts" and not each.width}

    def put(self, table, key, row):
        """Gives a row other cells, and leaves those that are not seen, but for a row that goes."""
        row = row and {column: _not_removed(cell) for column, cell in row.items()}
        if table == "counts" and row and VALUE in row and view_part(key) in self._claims():
            row = {**row, VALUE: Cell(bytes(8) + row[VALUE].value, row[VALUE].stamp)}
        if table == "roots" and row:
            row = {**self._unseen(key), **row}
        elif table == "counts" and row:
            row = {**self._unseen_of(table, key), **row}
        self.set(table, stored_key(table, key), row)

    def _unseen(self, key):
        (before,) = self.engine.answer(Read("roots", [key], "dm"))
        ours = (VERSION, BODY, EMITTED)
        return {each: cell for each, cell in (before or {}).items() if each not in ours or cell.value == REMOVED}

    def _unseen_of(self, table, key):
        (before,) = self.engine.answer(Read(table, [key], "dm"))
        return {column: cell for column, cell in (before or {}).items() if column.startswith(b"m:")}

    def set(self, table, key, row):
        """Replaces all cells of a row."""
        self.engine._store.transaction(lambda inside: inside.replace(table, {key: row}), 30)


def _not_removed(cell):
    """A value that cannot be read, where tests of other stores write the one that means removed here."""
    return Cell(b"\xc4\xc4", cell.stamp) if cell.value == REMOVED else cell


def stored_key(table, key):
    """The key of a row: a task has a version in it."""
    is_task = table == "system" and key.startswith(outbox.TASKS.start)
    return key + (1).to_bytes(8, "big") if is_task else key
