"""What benchmarks of one run share: sizes, data, a scratch folder, loaded stores and peers, each made when first asked
for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.peers.postgres import Postgres, postgres
from benchmarks.peers.promises import Peer
from benchmarks.peers.redis_shop import RedisShop, redis_shop
from benchmarks.peers.shop_rows import ShopPeer
from benchmarks.peers.sqlite import Sqlite
from benchmarks.workloads.lines import Shop, data_folder, shop
from benchmarks.workloads.sizes import Bytes, bytes_stored
from benchmarks.workloads.stores import NO_PEERS, Peers, Stores, filled


@dataclass(frozen=True)
class Sizes:
    """How much a run does.

    Arguments:
        lines: loaded for P1 to P6.
        spare: further lines, which the saves of a run use up.
        reads, saves: in one round.
        rounds: that count.
        copies: how many purchases of the product that P6 renames.
        growth: the sizes that P8 compares.
        durable: loaded for P3b.
        writers: at the same time, in P3b.
        starts: processes started in one round of P12.
        members: of the groups that P7 publishes to.
        posts: of the data that P7 loads.
        entries: written in one round of P7.
        mixed: seconds of P15.
    """

    lines: int
    spare: int
    reads: int
    saves: int
    rounds: int
    copies: tuple[int, ...]
    growth: tuple[int, ...]
    durable: int
    writers: int
    starts: int
    members: tuple[int, ...]
    posts: int
    entries: int
    mixed: float


FULL = Sizes(
    541_909, 120_000, 5_000, 1_000, 9, (10, 1_000, 100_000), (10_000, 100_000, 1_000_000), 50_000, 8, 5,
    (10, 100, 1_000, 15_000), 20_000, 20_000, 600.0,
)  # fmt: skip
QUICK = Sizes(
    30_000, 30_000, 2_000, 300, 5, (10, 1_000, 5_000), (3_000, 30_000), 5_000, 8, 3,
    (10, 100, 1_000, 15_000), 1_000, 5_000, 60.0,
)  # fmt: skip
SMOKE = Sizes(300, 1_500, 20, 5, 2, (3, 12), (50, 150), 50, 2, 1, (3, 1_100), 60, 40, 0.5)
"""For tests: every path, no figure worth reading."""


class Context:
    """One run.

    Arguments:
        sizes: how much it does.
        data: the folder of data sets; see `data_folder` for what None means.
    """

    def __init__(self, sizes: Sizes, data: Path | None = None) -> None:
        self.sizes = sizes
        self.data = data_folder(data)
        self._open = ExitStack()
        self._stores: dict[int, Stores] = {}
        self._bytes: Bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

    @cached_property
    def scratch(self) -> Path:
        """A folder on disk (TMPDIR says where) that is gone after the run."""
        return Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="oneread-benchmarks-")))

    @cached_property
    def postgres(self) -> str:
        """The DSN of the run's PostgreSQL; `peers` fills it."""
        return self._open.enter_context(postgres())

    @cached_property
    def shop(self) -> Shop:
        largest = max(self.sizes.lines, *self.sizes.growth)
        return shop(self.data, largest + self.sizes.spare)

    @cached_property
    def stores(self) -> Stores:
        """All of the run's lines in ours, the floor and the peers."""
        made = self._filled(self.sizes.lines, self._peers.by_name)
        self._peers.postgres.load_normalised(made.shop.lines[: made.size])
        self._peers.postgres.settle()
        self._bytes = bytes_stored(made, self._peers, self.folder("packed"))
        return made

    @property
    def bytes(self) -> Bytes:
        """What `stores` and `peers` took when they were loaded."""
        assert self.stores
        return self._bytes

    @property
    def peers(self) -> Peers:
        """SQLite, PostgreSQL and Redis with what `stores` holds."""
        assert self.stores
        return self._peers

    def stores_of(self, size: int) -> Stores:
        """Another number of lines, in ours and the floor."""
        if size not in self._stores:
            self._stores[size] = self._filled(size)
        return self._stores[size]

    def folder(self, name: str) -> Path:
        """An empty folder below the scratch folder."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.scratch))

    @cached_property
    def _peers(self) -> Peers:
        url = self._open.enter_context(redis_shop())
        opened = Peers(Sqlite(self.scratch / "shop.sqlite"), Postgres(self.postgres), RedisShop(url))
        self._open.callback(opened.close)
        return opened

    def _filled(self, size: int, peers: Mapping[Peer, ShopPeer] = NO_PEERS) -> Stores:
        made = filled(self.shop, size, self.folder(f"shop-{size}"), peers)
        self._open.callback(made.close)
        return made
