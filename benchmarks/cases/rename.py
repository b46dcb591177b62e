"""P6: a product gets a new name, and every purchase that shows it follows, index rows too; readers go on meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count
from pathlib import Path
from time import perf_counter, sleep

from benchmarks.benchmark import Benchmark
from benchmarks.cases.reads import gets, sampled
from benchmarks.context import Context, Sizes
from benchmarks.measure import Ratio, Round, Series, interleaved
from benchmarks.peers.floor import Floor
from benchmarks.peers.postgres import Postgres, postgres
from benchmarks.peers.promises import PROMISES, named
from benchmarks.peers.shop_rows import ShopPeer
from benchmarks.peers.sqlite import Sqlite
from benchmarks.rows import SHOWN, Goal, Row, Subject, with_core
from benchmarks.workloads import ours
from benchmarks.workloads.lines import Shop
from benchmarks.workloads.readers import ProcessReader, ThreadReader
from benchmarks.workloads.shop_schema import Product, Purchase
from examples.shop.source import Line
from oneread import Database

HOLDERS = Goal(40_000, ">=", "figure", " holders/s")
FEW_HOLDERS = with_core(Goal(45_000, ">=", "figure", " holders/s", starred=100_000), without=HOLDERS)
MANY_HOLDERS = with_core(Goal(150_000, ">=", "figure", " holders/s", starred=300_000), without=HOLDERS)
UPDATES = with_core(Goal(1, ">="), without=Goal(0.35, ">="))
READERS = Goal(1.5)
PATIENCE_SECONDS = 600.0
CALM_SECONDS = 0.3
"""How long a reader is watched while nothing else happens."""
MANY = 10_000
FLOOR, SQLITE = named("floor", "none"), named("sqlite", "none", "UPDATE")
UPDATE, JOINED = named("postgres", "none", "UPDATE"), named("postgres", "none", "joined, one row")


@dataclass(frozen=True)
class Popular:
    """The stores of this benchmark: for each number of copies a product with as many purchases."""

    shop: Shop
    path: Path
    db: Database
    floor: Floor
    sqlite: Sqlite
    postgres: Postgres
    names: count[int]

    def rename(self, code: str) -> None:
        """Returns when the last copy is right."""
        renamed = self.db.patch(Product, code, name=self._name())
        self.db.tasks(renamed).wait(PATIENCE_SECONDS)

    @property
    def peers(self) -> Mapping[str, Callable[[str, str], object]]:
        """What renames a product, by the peer's name in the report."""
        return {
            FLOOR: self.floor.rename,
            SQLITE: self.sqlite.rename,
            UPDATE: self.postgres.rename,
            JOINED: self.postgres.rename_normalised,
        }

    def rename_at(self, peer: str, code: str) -> None:
        self.peers[peer](code, self._name())

    def _name(self) -> str:
        return f"name {next(self.names)}"


def renaming(copies: int) -> str:
    """The name of the rows of peers."""
    return f"rename with {copies:,} copies, {PROMISES['none']}"


def code_of(copies: int) -> str:
    return f"popular {copies}"


def popular_lines(shop: Shop, copies: Sequence[int]) -> list[Line]:
    """For each number of copies that many purchases of one product, by the shop's customers in turns."""
    buyers = [(number, country) for number, (_, country) in shop.customers.items()]
    at, price = shop.lines[0].at, Decimal("2.55")

    def line(code: str, n: int) -> Line:
        return Line(f"{code}/{n // 100}", n % 100 + 1, code, None, n % 12 + 1, at, price, *buyers[n % len(buyers)])

    return [line(code_of(many), n) for many in copies for n in range(many)]


def rename(context: Context) -> Sequence[Row]:
    sizes, base = context.sizes, context.shop
    products = base.products | {code_of(many): "name" for many in sizes.copies}
    size = min(sizes.lines, sizes.durable)
    lines = [*base.lines[:size], *popular_lines(base, sizes.copies)]
    shop = Shop(base.data, base.customers, products, lines)
    folder = context.folder("rename")
    with (
        postgres() as dsn,
        ours.opened(folder / "ours") as db,
        Floor(folder / "floor") as floor,
        Sqlite(folder / "shop.sqlite") as sqlite,
    ):
        stores = Popular(shop, folder / "ours", db, floor, sqlite, Postgres(dsn), count())
        _fill(stores)
        subject = Subject("P6", f"{shop.data}, and purchases made up for the renamed products", len(lines))
        rows = [row for many in sizes.copies for row in _timed(stores, subject, many, sizes)]
        last = sizes.copies[-1]
        rows += _read_meanwhile(stores, subject, last, _rounds(sizes.rounds, last), sizes.reads)
        _check(stores, sizes.copies)
        stores.postgres.close()
    return rows


def _rounds(usual: int, copies: int) -> int:
    """Long renames are not repeated more often than a median needs."""
    return usual if copies < MANY else min(usual, 5)


def _fill(stores: Popular) -> None:
    peers: Sequence[ShopPeer] = (stores.floor, stores.sqlite, stores.postgres)
    ours.stock(stores.db, stores.shop)
    for peer in peers:
        peer.stock(stores.shop)
    for start in range(0, len(stores.shop.lines), ours.BATCH):
        batch = stores.shop.lines[start : start + ours.BATCH]
        ours.load(stores.db, batch)
        for peer in peers:
            peer.load(stores.shop, batch)
    for peer in peers:
        peer.settle()


def _timed(stores: Popular, subject: Subject, copies: int, sizes: Sizes) -> list[Row]:
    code, rounds = code_of(copies), _rounds(sizes.rounds, copies)
    goal = FEW_HOLDERS if copies == sizes.copies[0] else MANY_HOLDERS
    contenders = {"oneread": _per_copy(lambda: stores.rename(code), copies)}
    for peer in stores.peers:
        contenders[peer] = _per_copy(lambda peer=peer: stores.rename_at(peer, code), copies)
    series = interleaved(contenders, rounds=rounds)
    mine, unit = series["oneread"], "holders/s"
    rates = Ratio(mine.rate, 1 / max(mine.seconds), 1 / min(mine.seconds))
    return [
        subject.alone(
            f"rename with {copies:,} copies", mine.rate, unit=unit, goal=goal, rounds=rounds, spread=rates.spread
        ),
        *(
            subject.rate(
                renaming(copies),
                mine,
                series[peer],
                peer=peer,
                goal=UPDATES if peer == UPDATE else SHOWN,
                unit=unit,
            )
            for peer in stores.peers
        ),
    ]


def _per_copy(rename_once: Callable[[], None], copies: int) -> Round:
    def run() -> float:
        started = perf_counter()
        rename_once()
        return (perf_counter() - started) / copies

    return run


def _read_meanwhile(stores: Popular, subject: Subject, copies: int, rounds: int, reads: int) -> list[Row]:
    keys = gets(sampled(stores.shop.lines, reads))
    with ProcessReader(stores.path, keys) as apart:
        rows = [_meanwhile(stores, subject, copies, rounds, apart, "in another process")]
    return [*rows, _meanwhile(stores, subject, copies, rounds, ThreadReader(stores.db, keys), "in another thread")]


def _meanwhile(
    stores: Popular, subject: Subject, copies: int, rounds: int, reader: ProcessReader | ThreadReader, where: str
) -> Row:
    before: list[float] = []
    during: list[float] = []
    for _ in range(rounds):
        reader.start()
        sleep(CALM_SECONDS)
        before.append(reader.stop())
        reader.start()
        stores.rename(code_of(copies))
        during.append(reader.stop())
    busy, calm = Series(tuple(during)), Series(tuple(before))
    ratio: Ratio = busy.over(calm)
    return subject.row(
        f"get {where} during a rename with {copies:,} copies",
        "us",
        busy.median * 1e6,
        "the same get before",
        calm.median * 1e6,
        ratio,
        READERS,
        rounds=rounds,
    )


def _check(stores: Popular, copies: Sequence[int]) -> None:
    """The last purchase of each product shows the name that the product has, and the peers have one name for all."""
    for many in copies:
        for peer in (stores.sqlite, stores.postgres):
            names = peer.names_shown(code_of(many))
            if len(names) != 1:
                raise AssertionError(f"{type(peer).__name__} shows one product under the names {names}")
        last = many - 1
        product = stores.db.get(Product, code_of(many))
        holder = stores.db.get(Purchase, f"{code_of(many)}/{last // 100}", last % 100 + 1)
        if holder.product.name != product.name:
            raise AssertionError("a copy does not show its source's new name")


BENCHMARKS = (
    Benchmark(
        "P6",
        "rename of a product until its last copy is right, against UPDATE of SQLite and PostgreSQL; reads meanwhile",
        f"{FEW_HOLDERS}, {MANY_HOLDERS}, {UPDATES} of PostgreSQL's UPDATE; reads {READERS}",
        rename,
        has_core=True,
    ),
)
