"""What each store of the shop takes on disk, or in a server's memory: as loaded, and copied in the order of keys."""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from pathlib import Path

import lmdb

from benchmarks.peers.postgres import NORMALISED
from benchmarks.workloads.stores import Peers, Stores

SPAWN = multiprocessing.get_context("spawn")
FILE = "data.mdb"
BATCH = 10_000


@dataclass(frozen=True)
class Bytes:
    """Bytes of each store; `packed` is a copy whose pages are full.

    `joined` is PostgreSQL's normalised tables, `postgres` the denormalised ones and their sums; both with indexes.
    """

    oneread: int
    oneread_packed: int
    floor: int
    sqlite: int
    sqlite_packed: int
    postgres: int
    joined: int
    redis: int


def bytes_stored(stores: Stores, peers: Peers, folder: Path) -> Bytes:
    """Measures what is loaded; copies are made below `folder`, one at a time, and removed."""
    packed = folder / "copy"
    sqlite_packed = peers.sqlite.packed(packed)
    packed.unlink()
    with SPAWN.Pool(1) as pool:  # this process has the store open, and LMDB forbids to open it twice
        oneread_packed = pool.apply(packed_copy, (stores.path, packed))
    (packed / FILE).unlink()
    return Bytes(
        oneread=(stores.path / FILE).stat().st_size,
        oneread_packed=oneread_packed,
        floor=stores.floor.size(),
        sqlite=peers.sqlite.size(),
        sqlite_packed=sqlite_packed,
        postgres=peers.postgres.size(),
        joined=peers.postgres.size(NORMALISED),
        redis=peers.redis.size(),
    )


def packed_copy(path: Path, target: Path) -> int:
    """Copies an LMDB store row by row, appending, so that pages become full; answers the copy's bytes."""
    target.mkdir()
    with (
        lmdb.open(str(path), readonly=True, max_dbs=16, map_size=1 << 40) as source,
        lmdb.open(str(target), max_dbs=16, map_size=1 << 40, sync=False) as copy,
        source.begin() as transaction,
    ):
        names = list(transaction.cursor().iternext(values=False))
        for name in names:
            table, own = source.open_db(name, transaction, create=False), copy.open_db(name)
            rows = transaction.cursor(db=table).iternext()
            while batch := [row for _, row in zip(range(BATCH), rows, strict=False)]:
                with copy.begin(write=True) as writing:
                    writing.cursor(db=own).putmulti(batch, append=True)
    return (target / FILE).stat().st_size
