"""Proof: whether bytes of what was erased are left where a program can look. See docs/how-to/erase-a-person.md."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import IO, Any, Final

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.errors import Corrupt, InvalidQuery
from oneread.plans.plan import Plan
from oneread.plans.scans import scan_all
from oneread.store.keys import kind_part, view_part
from oneread.store.requests import Found
from oneread.store.rows import TABLES, RowRange, Table

_BATCH: Final = 1_000
_CHUNK: Final = 16 << 20
_SHORTEST: Final = 3
"""Bytes: shorter ones are everywhere by chance."""
_GZIP: Final = b"\x1f\x8b"


class LeftBytes(msgspec.Struct, frozen=True):
    """Where some of the bytes were found.

    Arguments:
        where: `roots`, `views`, `counts` or `system`, or the path of a file.
        what: the model, view or kind of row; empty for a file.
        rows: how many rows have some; of a file, how often some of the bytes are in it.
    """

    where: str
    what: str
    rows: int


def check_needles(wanted: Sequence[bytes]) -> list[bytes]:
    """What is looked for. Raises InvalidQuery for nothing, or what is too short."""
    if not wanted or any(type(each) is not bytes or len(each) < _SHORTEST for each in wanted):
        raise InvalidQuery("give what to look for as bytes, at least 3 each", wanted=list(wanted))
    return list(wanted)


def left_in_rows(catalog: Catalog, wanted: Sequence[bytes]) -> Plan[list[LeftBytes]]:
    """Reads all rows once, with what is removed and not purged yet."""
    found: Counter[tuple[Table, str]] = Counter()
    for table in TABLES:

        def look(rows: list[Found], table: Table = table) -> None:
            for key, row in rows:
                if any(each in key or any(each in cell.value for cell in row.values()) for each in wanted):
                    found[table, _name(catalog, table, key)] += 1

        yield from scan_all(table, RowRange(b"", b""), look, _BATCH)
    return [LeftBytes(table, what, count) for (table, what), count in found.items()]


def _name(catalog: Catalog, table: Table, key: bytes) -> str:
    if table == "system":
        return key.partition(b":")[0].decode(errors="replace")
    if table == "roots":
        kind = catalog.kinds_by_prefix.get(kind_part(key))
        return "rows of no model" if kind is None else kind.cls.__name__
    try:
        return catalog.name_of_row(key).partition("(")[0]
    except (Corrupt, ValueError):
        return f"rows under {view_part(key).hex()}"


def left_in_file(path: str, wanted: Sequence[bytes]) -> list[LeftBytes]:
    """Reads a file once, unpacked where it is compressed."""
    with open(path, "rb") as begun:  # noqa: PTH123 - of any file
        packed = begun.read(len(_GZIP)) == _GZIP
    opened: Any = gzip.open(path) if packed else open(path, "rb")  # noqa: PTH123, SIM115 - closed below
    with opened as file:
        count = sum(list[int](_counts(file, wanted)))
    return [LeftBytes(path, "", count)] if count else []


def _counts(file: IO[bytes], wanted: Sequence[bytes]) -> Iterator[int]:
    kept = max(map(len, wanted)) - 1
    rest = b""
    while chunk := file.read(_CHUNK):
        text = rest + chunk
        yield sum(text.count(each) - rest.count(each) for each in wanted)
        rest = text[-kept:]
