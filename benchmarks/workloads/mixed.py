"""A site under way on HBase: processes that read and write by chance, and the bare client that asks the same.

Half of the verbs write: saves, patches, adds and posts; half read: gets, and pages of a view of which a launch answers
some. Each process keeps the requests of its first verbs, and sends them again through the bare client where the peer
has its turn.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import count, cycle
from multiprocessing.connection import Connection
from time import perf_counter, sleep
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

import msgspec

from benchmarks.workloads.our_feeds import Home, Membership, Post
from benchmarks.workloads.ours import purchase
from benchmarks.workloads.remote import HbaseTables
from benchmarks.workloads.shop_schema import (
    Buyer,
    BuyerSales,
    Customer,
    Product,
    ProductSales,
    Purchase,
    PurchasesOfBuyer,
    PurchasesOfProduct,
    Sold,
)
from benchmarks.workloads.times import instant
from benchmarks.workloads.writers import FRESH
from examples.shop.source import Line
from oneread import Database, Index, Schema, by, connect, newest, shown
from oneread.errors import OnereadError
from oneread.store.requests import CheckAndMutate, Increment, Mutate, Read, Request, Scan
from oneread.store.rows import RowMutation

Job: TypeAlias = Literal["ours", "bare"]
Role: TypeAlias = Literal["visitor", "worker", "auditor"]

MIX: Final = {"get": 30, "page": 20, "save": 15, "patch": 15, "add": 15, "publish": 5}
"""Of a hundred verbs."""

GROUPS: Final = 100
MEMBERS: Final = 20
"""Of each group: a post makes as many entries of a feed."""

COUNTERS: Final = 100
KEPT: Final = 2_000
"""Requests of a process that the bare client sends again."""

LAUNCHED_PERCENT: Final = 5.0
LOOK_SECONDS: Final = 0.1
VERIFY: Final = "verify"
LAG: Final = "lag"
"""What a tally has beside the verbs: seconds of each verify, and of the oldest change that a task still copied."""


class LatestOfBuyer(Index[Purchase]):
    """A new form of a view, launched beside it."""

    buyer: Buyer = by(Purchase.buyer)
    ordered_at: datetime = newest(Purchase.ordered_at)
    product: Sold = shown(Purchase.product)
    quantity: int = shown(Purchase.quantity)
    unit_price: Decimal = shown(Purchase.unit_price)

    replaces = PurchasesOfBuyer


SITE: Final = Schema(
    Customer, Product, Purchase, PurchasesOfBuyer, LatestOfBuyer, PurchasesOfProduct, ProductSales, BuyerSales,
    Membership, Post, Home,
)  # fmt: skip


class Tally(msgspec.Struct):
    """What one process did in its turn: seconds by verb, requests of the store, what failed, and adds that count."""

    seconds: float = 0.0
    requests: int = 0
    verbs: dict[str, list[float]] = msgspec.field(default_factory=dict)
    errors: list[str] = msgspec.field(default_factory=list)
    added: int = 0


@dataclass(frozen=True)
class Site:
    """Where the processes open the store and the bare client; it is sent to them.

    Arguments:
        tables: the store's; the bare client reads them.
        written: those that the bare client writes.
        lines: those that are stored.
    """

    tables: HbaseTables
    written: HbaseTables
    lines: Sequence[Line]

    def open(self, role: Role, observers: tuple[Callable[..., None], ...] = ()) -> Database:
        return connect(self.tables.url, SITE, workers=int(role == "worker"), heat=1.0, observers=observers)


class Requests:
    """Counts the requests of a database; keeps the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.kept: list[Request[Any]] = []

    def __call__(self, request: Request[Any], _answer: object) -> None:
        self.count += 1
        if len(self.kept) < KEPT:
            self.kept.append(request)


class Visitor:
    """One process that reads and writes by chance."""

    def __init__(self, site: Site, number: int, stack: ExitStack) -> None:
        self._site, self._number = site, number
        self._chance = random.Random(number)
        self._fresh = count()
        self._requests = Requests()
        self._db = stack.enter_context(site.open("visitor", (self._requests,)))
        self._verbs: dict[str, Callable[[Line], object]] = {
            "get": lambda line: self._db.get(Purchase, line.invoice, line.line),
            "page": lambda line: self._db.page(PurchasesOfBuyer, line.customer, limit=10),
            "save": self._save,
            "patch": lambda line: self._db.patch(
                Purchase, line.invoice, line.line, quantity=self._chance.randrange(1, 100)
            ),
            "add": lambda _line: self._db.counter(f"visits:{int(self._chance.paretovariate(1)) % COUNTERS}").add(),
            "publish": self._publish,
        }

    def run(self, job: Job, seconds: float) -> Tally:
        return self._visit(seconds) if job == "ours" else self._repeat(seconds)

    def _visit(self, seconds: float) -> Tally:
        taken: defaultdict[str, list[float]] = defaultdict(list)
        errors: list[str] = []
        begun, started = self._requests.count, perf_counter()
        now = started
        while now - started < seconds:
            (verb,) = self._chance.choices(tuple(MIX), tuple(MIX.values()))
            line = self._chance.choice(self._site.lines)
            now = perf_counter()
            try:
                self._verbs[verb](line)
            except OnereadError as error:
                errors.append(f"{verb}: {error!r}")
            before, now = now, perf_counter()
            taken[verb].append(now - before)
        added = len(taken["add"]) - sum(each.startswith("add") for each in errors)
        return Tally(now - started, self._requests.count - begun, dict(taken), errors, added)

    def _repeat(self, seconds: float) -> Tally:
        """The kept requests again, through the bare client: a server closes connections that rest for a minute."""
        with closing(self._site.tables.bare()) as reads, closing(self._site.written.bare()) as writes:
            sent, started = 0, perf_counter()
            for request in cycle(self._requests.kept):
                self._send(request, reads, writes)
                sent += 1
                if perf_counter() - started >= seconds:
                    break
            return Tally(perf_counter() - started, sent)

    def _send(self, request: Request[Any], reads: Any, writes: Any) -> None:
        match request:
            case Read(table, keys):
                reads.get_all(table, keys)
            case Scan(table, range_, limit):
                reads.page(table, range_.start, range_.stop, limit)
            case CheckAndMutate(table, _column, _expected, mutation):
                writes.swap(table, mutation.key, _cells(mutation))
            case Mutate(table, rows):
                writes.put_all(table, {each.key: _cells(each) for each in rows})
            case Increment(table, key, column):
                writes.increment(table, key, column)
            case _:
                raise TypeError(f"no request of a store that changes one row at a time: {request}")

    def _save(self, line: Line) -> object:
        return self._db.save(purchase(line._replace(invoice=f"V{self._number}-{next(self._fresh)}")))

    def _publish(self, line: Line) -> object:
        name = f"{self._number}-{next(self._fresh)}"
        return self._db.save(
            Post(id=name, group=self._chance.randrange(GROUPS), title=f"About {line.code}", at=instant(0))
        )


def _cells(mutation: RowMutation) -> dict[bytes, bytes]:
    """What is put; where a request only removes cells, one of no meaning is put."""
    return {column: cell.value for column, cell in mutation.puts.items()} or {b"d:b": b""}


class Worker:
    """One process that does what commits leave, and looks how far it is behind; it does so in everybody's turn."""

    def __init__(self, site: Site, _number: int, stack: ExitStack) -> None:
        self._requests = Requests()
        self._db = stack.enter_context(site.open("worker", (self._requests,)))

    def run(self, _job: Job, seconds: float) -> Tally:
        begun, started = self._requests.count, perf_counter()
        found = Tally(verbs={LAG: []})
        while perf_counter() - started < seconds:
            lags = self._db.run(self._db.operations.lag())
            found.verbs[LAG].append(max(each.oldest for each in lags.values()))
            sleep(LOOK_SECONDS)
        found.seconds, found.requests = perf_counter() - started, self._requests.count - begun
        return found


class Auditor:
    """One process that verifies again and again."""

    def __init__(self, site: Site, _number: int, stack: ExitStack) -> None:
        self._requests = Requests()
        self._db = stack.enter_context(site.open("auditor", (self._requests,)))

    def run(self, job: Job, seconds: float) -> Tally:
        found = Tally(verbs={VERIFY: []})
        begun, started = self._requests.count, perf_counter()
        while job == "ours" and perf_counter() - started < seconds:
            before = perf_counter()
            found.errors += [f"verify: {fault}" for fault in self._db.verify().faults]
            found.verbs[VERIFY].append(perf_counter() - before)
        found.seconds, found.requests = perf_counter() - started, self._requests.count - begun
        return found


ROLES: Final[dict[Role, Callable[[Site, int, ExitStack], Any]]] = {
    "visitor": Visitor,
    "worker": Worker,
    "auditor": Auditor,
}


class Crowd:
    """Processes of a site, each waiting for its turn; a context manager."""

    def __init__(self, site: Site, visitors: int) -> None:
        self._processes: list[tuple[Role, Any, Any]] = []
        for number, role in enumerate(["visitor"] * visitors + ["worker", "auditor"]):
            here, there = FRESH.Pipe()
            process = FRESH.Process(target=_live, args=(site, role, number, there), daemon=True)
            process.start()
            there.close()
            self._processes.append((role, process, here))
        for _role, _process, connection in self._processes:
            connection.recv()

    def turn(self, job: Job, seconds: float) -> list[tuple[Role, Tally]]:
        """Lets all do their part for so long; what each did."""
        for _role, _process, connection in self._processes:
            connection.send((job, seconds))
        return [(role, connection.recv()) for role, _process, connection in self._processes]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for _role, process, connection in self._processes:
            connection.close()
            process.join(timeout=60)


def _live(site: Site, role: Role, number: int, connection: Connection) -> None:
    with ExitStack() as stack:
        made = ROLES[role](site, number, stack)
        connection.send(None)
        while True:
            try:
                job, seconds = connection.recv()
            except EOFError:
                return
            connection.send(made.run(job, seconds))


def fill(db: Database, customers: dict[int, tuple[str, str]], products: dict[str, str], lines: Sequence[Line]) -> None:
    """Stores the shop, groups with members, and the launch."""
    with db.bulk() as bulk:
        for number, (name, country) in customers.items():
            bulk.save(Customer(number=number, name=name, country=country))
        for code, name in products.items():
            bulk.save(Product(code=code, name=name))
        for line in lines:
            bulk.save(purchase(line))
        for group in range(GROUPS):
            for member in range(MEMBERS):
                bulk.save(Membership(group=group, member=group * 7 + member))
    db.launches.set("LatestOfBuyer", shadow=LAUNCHED_PERCENT, reads=LAUNCHED_PERCENT, by="benchmark")
