"""P10: HBase and Bigtable's emulator beside their bare clients, with the same requests on the same tables.

Both servers run on this machine: what is left of a network is what a loopback costs. The writes are those of P3; a
rename is timed until the last copy is right.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from time import perf_counter

from benchmarks.benchmark import Benchmark
from benchmarks.contention import SHARDS, WARMING, WRITERS
from benchmarks.context import Context
from benchmarks.measure import Round, each, fresh, interleaved
from benchmarks.peers.remote import RawStore
from benchmarks.rows import SHOWN, Goal, Row, Subject
from benchmarks.workloads.lines import Shop
from benchmarks.workloads.our_feeds import FEEDS, Membership, Post
from benchmarks.workloads.ours import purchase
from benchmarks.workloads.remote import EMULATOR, HBASE, LEAVES, Box, Label, Labelled, Lost, Recorder, Remote, remotes
from benchmarks.workloads.shop_schema import SHOP, Customer, Product, Purchase, PurchasesOfBuyer, Sold
from benchmarks.workloads.times import instant
from oneread import Database

READS = Goal(1.3)
SAVES = {HBASE: Goal(16), EMULATOR: Goal(21)}
RENAMES = {HBASE: Goal(2, "<=", "figure", " s"), EMULATOR: Goal(1.5, "<=", "figure", " s")}
LEAF = Goal(0.15, "<=", "figure", " s")
ENTRIES = {HBASE: Goal(15_000, ">=", "figure", " entries/s")}
RETRIES = {False: Goal(0, "<=", "figure", " retries/add"), True: Goal(0.3, "<=", "figure", " retries/add")}
"""Without a token, and with one."""

LOADED, HOLDERS, MEMBERS = 3_000, 1_600, 1_000
SHARE = 10
"""Of the reads and saves of other benchmarks, one in so many: a server's are so much slower."""

ROUNDS = 5
POSTS_BEFORE = 10
"""Posts that are not counted: a server's Java takes thousands of entries to compile what writes them."""

CALL = 100
"""Rows of one call of the bare client where it writes many."""

RENAMED = "P10"
PATIENCE_SECONDS = 600.0


def remote(context: Context) -> Sequence[Row]:
    shop = context.shop
    with remotes() as servers:
        return [row for server in servers for row in _rows(context, server, shop)]


def _rows(context: Context, server: Remote, shop: Shop) -> Iterator[Row]:
    loaded = min(LOADED, context.sizes.lines)
    holders = min(HOLDERS, context.sizes.lines)
    subject = Subject("P10", shop.data, loaded)
    opened, raw = server.opens(SHOP)
    with opened(workers=1) as db:
        _load(db, shop, loaded, holders)
        yield from _reads(context, server, subject, opened, raw)
        yield from _saves(context, server, subject, db, raw)
        yield _rename(server, subject, db, raw, holders)
        yield _counter(context, server, subject, db, raw)
        yield from _contended(context, server, subject, opened, db)
    raw.close()
    yield _leaf(server, subject, holders)
    yield _publish(server, subject, min(MEMBERS, context.sizes.lines))


def _load(db: Database, shop: Shop, loaded: int, holders: int) -> None:
    """The first lines, and purchases of one product that is renamed."""
    with db.bulk() as bulk:
        for number, (name, country) in shop.customers.items():
            bulk.save(Customer(number=number, name=name, country=country))
        for code, name in shop.products.items():
            bulk.save(Product(code=code, name=name))
        bulk.save(Product(code=RENAMED, name="first"))
        for line in shop.lines[:loaded]:
            bulk.save(purchase(line))
        for number in range(holders):
            held = purchase(shop.lines[number % loaded])
            bulk.save(Purchase(**{**_fields(held), "order": "renamed", "line": number, "product": Sold.of(RENAMED)}))


def _fields(held: Purchase) -> dict[str, object]:
    return {name: getattr(held, name) for name in held.__struct_fields__}


def _reads(
    context: Context, server: Remote, subject: Subject, opened: Callable[..., Database], raw: RawStore
) -> Iterator[Row]:
    reads = max(1, context.sizes.reads // SHARE)
    recorder, chance = Recorder(), random.Random(10)
    with opened(workers=0, observers=(recorder,)) as db:
        found = [row for page in db.scan(Purchase) for row in page]
        drawn = [chance.choice(found) for _ in range(reads)]
        gets = [(Purchase, each.order, each.line) for each in drawn]
        buyers = [(each.buyer.ref.key[0],) for each in found if each.buyer is not None]
        pages = [chance.choice(buyers) for _ in range(reads)]
        recorder.gets.clear()
        recorder.scans.clear()
        for key in gets:
            db.get(*key)
        for page in pages:
            db.page(PurchasesOfBuyer, *page, limit=10)
    with opened(workers=0) as db:
        series = interleaved(
            {
                "get": each(db.get, gets),
                "raw get": each(raw.get, recorder.gets),
                "page": each(lambda number: db.page(PurchasesOfBuyer, number, limit=10), pages),
                "raw page": each(raw.page, recorder.scans),
            },
            rounds=ROUNDS,
        )
    for name, called in (("get", "get of a purchase"), ("page", "page of 10 purchases")):
        peer = f"the bare client's {'get' if name == 'get' else 'scan'}"
        mine, theirs = series[name], series[f"raw {name}"]
        yield subject.slower(f"{called}, {server.name}", mine, theirs, peer=peer, goal=READS)


def _saves(context: Context, server: Remote, subject: Subject, db: Database, raw: RawStore) -> Iterator[Row]:
    saves = max(1, context.sizes.saves // SHARE)
    lines = iter(context.shop.lines[subject.rows :])
    stored = {b"d:b": b"x" * 200, b"d:v": b"12345678"}
    numbers = count()
    series = interleaved(
        {
            "oneread": fresh(db.save, lambda: [(purchase(next(lines)),) for _ in range(saves)]),
            "raw": fresh(
                lambda key: raw.put("roots", key, stored), lambda: [(_key(next(numbers)),) for _ in range(saves)]
            ),
        },
        rounds=ROUNDS,
    )
    name, goal = f"save with every view, {server.name}", SAVES[server.name]
    yield subject.slower(name, series["oneread"], series["raw"], peer="the bare client's put of one row", goal=goal)


def _key(number: int) -> bytes:
    """The key of a row that no model has."""
    return b"\x7e" + number.to_bytes(8, "big")


def _rename(server: Remote, subject: Subject, db: Database, raw: RawStore, holders: int) -> Row:
    names = count()

    def rename() -> float:
        started = perf_counter()
        db.tasks(db.patch(Product, RENAMED, name=f"name {next(names)}")).wait(PATIENCE_SECONDS)
        return perf_counter() - started

    return _timed(server, subject, f"rename of {holders:,} dependent holders", (rename, raw, holders), RENAMES)


def _leaf(server: Remote, subject: Subject, holders: int) -> Row:
    opened, raw = server.opens(LEAVES)
    names = count()
    with opened(workers=1) as db:
        db.save(Label(code="a", name="first"))
        with db.bulk() as bulk:
            for number in range(holders):
                bulk.save(Box(number=number, label=Labelled.of("a")))

        def rename() -> float:
            started = perf_counter()
            db.tasks(db.patch(Label, "a", name=f"name {next(names)}")).wait(PATIENCE_SECONDS)
            return perf_counter() - started

        name = f"rename of {holders:,} leaves"
        row = _timed(server, subject, name, (rename, raw, holders), dict.fromkeys(RENAMES, LEAF))
    raw.close()
    return row


def _timed(
    server: Remote, subject: Subject, name: str, sides: tuple[Round, RawStore, int], goals: dict[str, Goal]
) -> Row:
    """Seconds of ours beside as many rows that the bare client writes."""
    mine, raw, rows = sides
    written = [{_key(number): {b"d:b": b"x" * 200} for number in range(first, min(rows, first + CALL))}
               for first in range(0, rows, CALL)]  # fmt: skip

    def put() -> float:
        started = perf_counter()
        for part in written:
            raw.put_all("roots", part)
        return perf_counter() - started

    series = interleaved({"oneread": mine, "raw": put}, rounds=ROUNDS)
    peer = f"the bare client writes as many rows, {CALL} a call"
    named = f"{name}, {server.name}"
    return subject.slower(named, series["oneread"], series["raw"], peer=peer, goal=goals[server.name], unit="s")


def _publish(server: Remote, subject: Subject, members: int) -> Row:
    opened, raw = server.opens(FEEDS)
    numbers = count()
    with opened(workers=1) as db:
        with db.bulk() as bulk:
            for member in range(members):
                bulk.save(Membership(group=1, member=member))

        def publish() -> float:
            number = next(numbers)
            post = Post(id=f"post {number}", group=1, title="A title of a post", at=instant(number * 1_000_000))
            started = perf_counter()
            db.tasks(db.save(post)).wait(PATIENCE_SECONDS)
            return (perf_counter() - started) / members

        def put() -> float:
            number = next(numbers)
            entries = [_key(number << 32 | member) for member in range(members)]
            started = perf_counter()
            for first in range(0, members, CALL):
                raw.put_all("views", {key: {b"d:b": b"x" * 60} for key in entries[first : first + CALL]})
            return (perf_counter() - started) / members

        series = interleaved({"oneread": publish, "raw": put}, rounds=ROUNDS, warm_up=POSTS_BEFORE)
    raw.close()
    return subject.rate(
        f"publish to a group of {members:,}, {server.name}", series["oneread"], series["raw"],
        peer=f"the bare client writes the entries, {CALL} a call", goal=ENTRIES.get(server.name, SHOWN),
        unit="entries/s",
    )  # fmt: skip


def _counter(context: Context, server: Remote, subject: Subject, db: Database, raw: RawStore) -> Row:
    adds = max(1, context.sizes.saves // SHARE)
    hot = db.counter("hot")
    series = interleaved(
        {
            "oneread": each(hot.add, [(1,)] * adds),
            "raw": each(raw.increment, [("counts", _key(0), b"d:n")] * adds),
        },
        rounds=ROUNDS,
    )
    mine, theirs = series["oneread"], series["raw"]
    name = f"one hot counter, one writer, {server.name}"
    return subject.rate(name, mine, theirs, peer="the bare client's increment", goal=SHOWN, unit="adds/s")


def _contended(
    context: Context, server: Remote, subject: Subject, opened: Callable[..., Database], db: Database
) -> Iterator[Row]:
    """Compare-and-sets that were lost by writers of one counter, each with a database of its own."""
    adds = max(1, context.sizes.saves // SHARE)
    for with_token, goal in RETRIES.items():
        name = f"contended {with_token}"
        db.counter(name).configure(shards=SHARDS)

        def write(writer: int, name: str = name, with_token: bool = with_token) -> int:  # noqa: FBT001 - of the loop
            lost = Lost()
            with opened(workers=0, observers=(lost,)) as own:
                counter = own.counter(name)
                for number in range(WARMING + adds):
                    if number == WARMING:
                        lost.count = 0
                    counter.add(1, once=f"{writer} {number}" if with_token else None)
            return lost.count

        with ThreadPoolExecutor(WRITERS) as threads:
            lost = sum(threads.map(write, range(WRITERS)))
        assert db.counter(name).read(max_age=0) == WRITERS * (WARMING + adds), "each add counts once"
        tokens = "with tokens" if with_token else "without"
        called = f"{WRITERS} writers of a counter of {SHARDS} shards, {tokens}, {server.name}"
        yield subject.alone(called, lost / (WRITERS * adds), unit="retries/add", goal=goal)


BENCHMARKS = (
    Benchmark(
        "P10",
        "get, page, save, rename and publish on HBase and on Bigtable's emulator, against their bare clients",
        f"get and page {READS} of the bare client, a save {SAVES[HBASE]} and {SAVES[EMULATOR]} a put, "
        f"renames {RENAMES[HBASE]} and {RENAMES[EMULATOR]}, leaves {LEAF}, {ENTRIES[HBASE]}; "
        f"{RETRIES[False]}, {RETRIES[True]} with tokens",
        remote,
    ),
)
