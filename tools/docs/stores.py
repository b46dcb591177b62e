"""The table of what each store can do, from what the engines declare.

`python -m tools.docs.stores` writes it into docs/reference/urls.md; tests/docs/test_stores.py finds an old one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from oneread.engines import memory, one_row_memory
from oneread.engines.bigtable import engine as bigtable
from oneread.engines.hbase import engine as hbase
from oneread.engines.lmdb import engine as lmdb
from oneread.store.engine import Capabilities

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/reference/urls.md"
STORES: Final[dict[str, Capabilities]] = {
    "lmdb://": lmdb.CAPABILITIES,
    "memory://": memory.CAPABILITIES,
    "memory://?span=row": one_row_memory.CAPABILITIES,
    "hbase://": hbase.CAPABILITIES,
    "bigtable://": bigtable.CAPABILITIES,
}
LEFT_OUT: Final = ("grace", "native")
"""An option of a URL and what a process has installed, rather than what an engine can do."""

_TABLE: Final = re.compile(r"(?<=## What each store can do\n\n)(?:\|.*\n)+")
_UNITS: Final = ((1 << 20, "MiB"), (1 << 10, "KiB"))


def table() -> str:
    """The rows of the table, each with its line end."""
    return "".join(f"| {' | '.join(cells)} |\n" for cells in _rows())


def page_with_table(page: str) -> str:
    """The page with the table as it is now."""
    if not _TABLE.search(page):
        raise ValueError(f"{PAGE.name} has no table under its heading of what each store can do")
    return _TABLE.sub(lambda _found: table(), page)


def _rows() -> Iterator[list[str]]:
    names = [each for each in Capabilities.__struct_fields__ if each not in LEFT_OUT]
    yield ["store", *(f"`{name}`" for name in names)]
    yield ["---"] * (1 + len(names))
    for store, capabilities in STORES.items():
        yield [f"`{store}`", *(_shown(name, getattr(capabilities, name)) for name in names)]


def _shown(name: str, value: bool | int) -> str:  # noqa: FBT001 - a value of either type
    if isinstance(value, bool):
        return "yes" if value else "no"
    units = _UNITS if name.startswith("max_") else ()
    return next((f"{value // size} {unit}" for size, unit in units if not value % size), str(value))


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("usage: python -m tools.docs.stores")
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
