"""Scans over ranges of any size."""

from __future__ import annotations

from typing import Final

from oneread.errors import Corrupt
from oneread.store.requests import Found
from oneread.store.rows import RowRange, Table

_OUT_OF_ORDER: Final = "the rows of a scan are not in ascending order: the file is damaged; restore a backup"


def check_ascending(table: Table, within: RowRange, found: list[Found]) -> None:
    """Raises Corrupt when the keys of a scan do not ascend, or lie outside of its range.

    A damaged page may hide rows from a scan or show them twice, while each row is found by its key.
    """
    before = within.start
    for place, (key, _row) in enumerate(found):
        if key < before or (place and key == before):
            raise Corrupt(_OUT_OF_ORDER, table=table, key=key.hex(), after=before.hex())
        before = key
    if found and within.stop and before >= within.stop:
        raise Corrupt(_OUT_OF_ORDER, table=table, key=before.hex(), before=within.stop.hex())
