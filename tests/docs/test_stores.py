"""The table of what each store can do says what the engines declare."""

import re
from pathlib import Path

import msgspec
import pytest

from oneread.engines.bigtable import engine as bigtable
from oneread.engines.hbase import engine as hbase
from oneread.engines.lmdb import LmdbEngine
from oneread.engines.memory import MemoryEngine
from oneread.engines.one_row_memory import OneRowMemoryEngine

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/urls.md").read_text(encoding="utf-8")
TABLE = re.compile(r"## What each store can do\n\n((?:\|.*\n)+)")
STORES = {
    "lmdb://": lambda folder: LmdbEngine(str(folder)).capabilities,
    "memory://": lambda _folder: MemoryEngine().capabilities,
    "memory://?span=row": lambda _folder: OneRowMemoryEngine().capabilities,
    "hbase://": lambda _folder: hbase.CAPABILITIES,
    "bigtable://": lambda _folder: bigtable.CAPABILITIES,
}
WORDS = {"yes": True, "no": False}


def rows_of(page):
    """The cells of each store's row, by the name of their column."""
    head, _line, *rows = [
        [cell.strip(" `") for cell in line.strip("|\n").split("|")] for line in TABLE.search(page)[1].splitlines()
    ]
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def value_of(cell):
    if cell.endswith(" MiB"):
        return int(cell.removesuffix(" MiB")) << 20
    return WORDS[cell] if cell in WORDS else int(cell)


def test_every_store_has_a_row():
    assert rows_of(PAGE).keys() == STORES.keys()


@pytest.mark.parametrize("store", STORES)
def test_the_table_says_what_an_engine_declares(store, tmp_path):
    declared = msgspec.structs.asdict(STORES[store](tmp_path))
    shown = {name: value_of(cell) for name, cell in rows_of(PAGE)[store].items()}
    assert shown == {name: declared[name] for name in shown}
    assert declared.keys() - shown.keys() == {"grace"}
