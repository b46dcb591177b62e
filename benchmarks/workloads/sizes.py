"""What each store of the shop takes on disk, or in a server's memory: as loaded, and copied in the order of keys."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from benchmarks.peers.postgres import NORMALISED
from benchmarks.workloads.stores import Peers, Stores

FILE = "data.mdb"


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
    oneread_packed = stores.db.backup(str(packed), compact=True)
    rmtree(packed)
    sqlite_packed = peers.sqlite.packed(packed)
    packed.unlink()
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
