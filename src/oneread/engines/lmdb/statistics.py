"""The size of an LMDB store and its readers, from the heads of its trees only.

See "The store contract" of the architecture page.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from oneread.engines.lmdb.data_file import held_back
from oneread.engines.lmdb.disk import DATA
from oneread.engines.lmdb.environment import Environment
from oneread.engines.lmdb.transaction import Tables
from oneread.store.engine import Statistics, TableSize
from oneread.store.rows import Table

_OWN_DATABASES: Final = 5
"""The four tables of one prefix and the mark: with more, the folder has other tenants, and free space is unknown."""
_HEADS: Final = 2
"""LMDB's first two pages."""
_BLOCK: Final = 512


def measure(environment: Environment, tables: Tables) -> Statistics:
    """The sizes of one tenant's tables, and the state of the file that all tenants share."""
    opened = environment.lmdb
    with opened.begin() as reading:
        info, main = opened.info(), opened.stat()
        trees: dict[Table, Any] = {table: reading.stat(database) for table, database in tables.items()}
    sizes: dict[Table, TableSize] = {
        table: TableSize(tree["entries"], _pages(tree) * tree["psize"]) for table, tree in trees.items()
    }
    page = main["psize"]
    in_file = info["last_pgno"] + 1
    pages = sum(map(_pages, trees.values())) + _pages(main) + _HEADS
    others = {} if main["entries"] > _OWN_DATABASES else {"free_bytes": max(in_file - pages, 0) * page}
    reading_now = environment.readers()
    disk = Path(environment.path, DATA).stat()
    facts = {
        "file_bytes": in_file * page,
        "disk_bytes": disk.st_blocks * _BLOCK,
        **others,
        "map_size_bytes": environment.settings.map_size,
        "page_bytes": page,
        "commits": info["last_txnid"],
        "readers": len(reading_now),
        **_oldest(Path(environment.path, DATA), reading_now, info["last_txnid"]),
        "max_readers": info["max_readers"],
    }
    return Statistics(sizes, facts)


def _pages(tree: Mapping[str, Any]) -> int:
    return int(tree["branch_pages"] + tree["leaf_pages"] + tree["overflow_pages"])


def _oldest(path: Path, reading: list[tuple[int, int]], last: int) -> dict[str, int]:
    """The oldest reader: how many commits old, the bytes writers cannot reuse because of it, and its PID."""
    if not reading:
        return {"oldest_reader_commits_behind": 0}
    transaction, pid = min(reading)
    return {
        "oldest_reader_commits_behind": last - transaction,
        "oldest_reader_holds_back_bytes": held_back(path, transaction),
        "oldest_reader_pid": pid,
    }
