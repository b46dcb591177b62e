"""Stores full of the same lines: ours and the floor's side by side, loaded in turns, and peers where asked for.

What loading took is kept, because that is a benchmark of its own (P4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import perf_counter

from benchmarks.measure import Round, Series, interleaved
from benchmarks.peers.floor import Floor
from benchmarks.peers.postgres import Postgres
from benchmarks.peers.promises import Durability, Peer
from benchmarks.peers.redis_shop import RedisShop
from benchmarks.peers.shop_rows import ShopPeer
from benchmarks.peers.sqlite import Sqlite
from benchmarks.workloads import ours
from benchmarks.workloads.lines import Shop
from benchmarks.workloads.ours import BATCH
from examples.shop.source import Line
from oneread import Database

CHUNKS = 10
"""Into how many rounds a load is cut."""
NO_PEERS: Mapping[Peer, ShopPeer] = {}


@dataclass(frozen=True)
class Peers:
    """What one would pick instead, each through one connection."""

    sqlite: Sqlite
    postgres: Postgres
    redis: RedisShop

    @property
    def by_name(self) -> Mapping[Peer, ShopPeer]:
        return {"sqlite": self.sqlite, "postgres": self.postgres, "redis": self.redis}

    def close(self) -> None:
        self.sqlite.close()
        self.postgres.close()
        self.redis.close()


@dataclass
class Stores:
    """The first `size` lines of a shop in every store; `take` answers lines that no store holds yet.

    `path` is ours, for other processes.
    """

    shop: Shop
    size: int
    path: Path
    db: Database
    floor: Floor
    loading: dict[str, Series] = field(default_factory=dict)
    taken: int = 0

    def take(self, count: int) -> list[Line]:
        start = self.size + self.taken
        self.taken += count
        found = self.shop.lines[start : start + count]
        if len(found) < count:
            raise ValueError("the workload spares too few lines for the saves of this run")
        return found

    def close(self) -> None:
        self.db.close()
        self.floor.env.close()


def filled(shop: Shop, size: int, folder: Path, peers: Mapping[Peer, ShopPeer] = NO_PEERS) -> Stores:
    """Fills new stores below `folder`, and these empty peers, in turns."""
    db, floor = ours.opened(folder / "ours"), Floor(folder / "floor")
    lines = shop.lines[:size]
    ours.stock(db, shop)
    contenders = {"oneread": _loader(lines, lambda batch: ours.load(db, batch))}
    for name, peer in {"floor": floor, **peers}.items():
        peer.stock(shop)
        contenders[name] = _loader(lines, lambda batch, peer=peer: peer.load(shop, batch))
    loading = interleaved(contenders, rounds=CHUNKS, warm_up=0)
    for peer in peers.values():
        peer.settle()
    return Stores(shop, size, folder / "ours", db, floor, loading)


def filled_durable(
    shop: Shop, size: int, folder: Path, durability: Durability, peers: Mapping[Peer, ShopPeer]
) -> Stores:
    """Like `filled`, opened again with another durability; loading does not wait for the disk."""
    filled(shop, size, folder, peers).close()
    return Stores(
        shop, size, folder / "ours", ours.opened(folder / "ours", durability), Floor(folder / "floor", durability)
    )


def _loader(lines: Sequence[Line], load: Callable[[Sequence[Line]], object]) -> Round:
    chunks = iter(_cut(lines, CHUNKS))

    def run() -> float:
        chunk = next(chunks)
        started = perf_counter()
        for start in range(0, len(chunk), BATCH):
            load(chunk[start : start + BATCH])
        return (perf_counter() - started) / len(chunk)

    return run


def _cut(lines: Sequence[Line], pieces: int) -> Iterator[Sequence[Line]]:
    bounds = [len(lines) * piece // pieces for piece in range(pieces + 1)]
    return (lines[start:stop] for start, stop in pairwise(bounds))
