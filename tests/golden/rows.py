"""Every row of a store that was written through the public verbs, to be compared byte by byte."""

from oneread.store.requests import Scan
from oneread.store.rows import TABLES, RowRange

MANY = 10_000


def rows_of(database):
    """(table, key, column, stamp, value) of every cell, in order."""
    engine = database._driver.engine
    return [
        (table, key, column, cell.stamp, cell.value)
        for table in TABLES
        for key, row in engine.answer(Scan(table, RowRange(b"", b""), MANY, families="dm"))
        for column, cell in sorted(row.items())
    ]
