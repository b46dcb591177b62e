"""Every peer of the shop stores what oneread stores: their answers are compared, however the lines were written."""

from contextlib import ExitStack
from decimal import Decimal
from threading import Thread

import pytest

from benchmarks.peers import sqlite
from benchmarks.peers.group_commit import GroupCommit
from benchmarks.peers.postgres import NORMALISED, Postgres, postgres
from benchmarks.peers.promises import PROMISES, SETTINGS
from benchmarks.peers.redis_shop import RedisShop, redis_shop
from benchmarks.peers.shop_rows import PAGE, price_of, tenths_of_pence
from benchmarks.peers.sqlite import Sqlite
from benchmarks.workloads import ours
from benchmarks.workloads.lines import shop
from benchmarks.workloads.shop_schema import BuyerSales, ProductSales, Purchase, PurchasesOfBuyer
from benchmarks.workloads.stores import Peers, filled
from benchmarks.workloads.writers import Place, Processes

LOADED = 150


@pytest.fixture(scope="module")
def small(data):
    return shop(data, 200)


@pytest.fixture(scope="module")
def servers():
    with postgres() as dsn, redis_shop() as url:
        yield dsn, url


@pytest.fixture(scope="module")
def db(small, tmp_path_factory):
    with ours.opened(tmp_path_factory.mktemp("ours")) as opened:
        ours.stock(opened, small)
        ours.load(opened, small.lines[:LOADED])
        for line in small.lines[LOADED:]:
            opened.save(ours.purchase(line))
        yield opened


def opened_peers(folder, servers):
    dsn, url = servers
    return Peers(Sqlite(folder / "shop.sqlite"), Postgres(dsn), RedisShop(url))


@pytest.fixture(scope="module")
def peers(small, servers, tmp_path_factory):
    opened = opened_peers(tmp_path_factory.mktemp("peers"), servers)
    for peer in opened.by_name.values():
        peer.stock(small)
        peer.load(small, small.lines[:LOADED])
        for line in small.lines[LOADED:]:
            peer.save(line)
        peer.settle()
    opened.postgres.load_normalised(small.lines)
    yield opened
    opened.close()


@pytest.fixture(params=["sqlite", "postgres, joined", "postgres, one table", "redis"])
def reads(request, peers):
    """What gets a purchase and what gets a page, of each peer and each way a user would do it."""
    return {
        "sqlite": (peers.sqlite.get, peers.sqlite.page),
        "postgres, joined": (peers.postgres.get, peers.postgres.page),
        "postgres, one table": (peers.postgres.get_from_one_table, peers.postgres.page_from_one_table),
        "redis": (peers.redis.get, peers.redis.page),
    }[request.param]


def purchase_of(db, line):
    found = db.get(Purchase, line.invoice, line.line)
    buyer, sold = found.buyer, found.product
    person = (None, None, None) if buyer is None else (*buyer.ref.key, buyer.name, buyer.country)
    return (
        found.order, found.line, *person, *sold.ref.key, sold.name, found.quantity, found.unit_price, found.ordered_at,
    )  # fmt: skip


def page_of(db, buyer):
    return [
        (row.ordered_at, *row.source.key, *row.product.ref.key, row.product.name, row.quantity)
        for row in db.page(PurchasesOfBuyer, buyer, limit=PAGE)
    ]


def sales_of(db, view, group):
    found = db.get(view, group)
    prices = tenths_of_pence(found.mean_price * found.orders)
    return found.orders, found.units, prices, tenths_of_pence(found.dearest)


def test_a_peer_s_purchases_are_ours(reads, db, small):
    get, _page = reads
    assert [get(line.invoice, line.line) for line in small.lines] == [purchase_of(db, line) for line in small.lines]


def test_a_peer_s_pages_are_ours(reads, db, small):
    _get, page = reads
    pages = {buyer: page_of(db, buyer) for buyer in small.customers}
    assert {buyer: page(buyer) for buyer in small.customers} == pages
    assert max(map(len, pages.values())) == PAGE


@pytest.mark.parametrize("name", ["sqlite", "postgres", "redis"])
def test_a_peer_s_sums_are_ours(name, peers, db, small):
    codes = {code: sales_of(db, ProductSales, code) for code in small.products}
    buyers = {buyer: sales_of(db, BuyerSales, buyer) for buyer in small.customers}
    if name == "redis":
        assert {code: peers.redis.sales(f"product_sales:{code}") for code in codes} == codes
        assert {buyer: peers.redis.sales(f"buyer_sales:{buyer}") for buyer in buyers} == buyers
        return
    connection = getattr(peers, name).connection
    scale = tenths_of_pence if name == "postgres" else int
    for table, expected in (("product_sales", codes), ("buyer_sales", buyers)):
        stored = connection.execute(f"SELECT * FROM {table}").fetchall()
        found = {key: (orders, units, scale(prices), scale(dearest)) for key, orders, units, prices, dearest in stored}
        assert found == expected


def test_what_a_peer_does_not_hold_is_an_error(peers):
    for peer in (peers.sqlite, peers.redis):
        with pytest.raises(KeyError):
            peer.get("nothing", 1)


def test_a_rename_in_sqlite_reaches_every_row(small, tmp_path):
    with Sqlite(tmp_path / "shop.sqlite") as opened:
        opened.stock(small)
        opened.load(small, small.lines)
        assert opened.rename("22423", "cakestand") == sum(line.code == "22423" for line in small.lines)
        assert opened.names_shown("22423") == {"cakestand"}
        shown = [row for buyer in small.customers for row in opened.page(buyer)]
        assert {row[4] for row in shown if row[3] == "22423"} == {"cakestand"}


@pytest.mark.parametrize("statement", ["page", "sold"])
def test_sqlite_answers_pages_from_covering_indexes_alone(statement, peers):
    text, values = {"page": (sqlite.BOUGHT, (1,)), "sold": (sqlite.SOLD, ("POST", 10))}[statement]
    plan = [row[3] for row in peers.sqlite.connection.execute(f"EXPLAIN QUERY PLAN {text}", values)]
    assert len(plan) == 1
    assert "USING COVERING INDEX" in plan[0]


def test_a_save_that_fails_in_sqlite_leaves_nothing(small, tmp_path):
    with Sqlite(tmp_path / "shop.sqlite") as opened:
        opened.stock(small)
        opened.save(small.lines[0])
        before = list(opened.connection.iterdump())
        with pytest.raises(Exception, match="UNIQUE"):
            opened.save_all(small.lines[1::-1])
        assert list(opened.connection.iterdump()) == before


def test_sqlite_keeps_the_promise_that_its_row_names(tmp_path):
    for durability, level in (("none", 1), ("group", 2)):
        with Sqlite(tmp_path / durability, durability) as opened:
            assert opened.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert opened.connection.execute("PRAGMA synchronous").fetchone() == (level,)


@pytest.mark.parametrize("durability", PROMISES)
def test_the_servers_keep_the_promises_that_their_rows_name(durability, servers):
    with redis_shop(durability) as url:
        opened = RedisShop(url)
        asked = dict(part.split("=") for part in (SETTINGS[durability]["redis"],))
        assert opened.client.config_get("appendfsync") == asked
        assert opened.client.config_get("appendonly") == {"appendonly": "yes"}
        opened.close()
    postgres_connection = Postgres(servers[0], durable=durability == "group")
    shown = postgres_connection.connection.execute("SHOW synchronous_commit").fetchone()
    assert f"synchronous_commit={shown[0]}" == SETTINGS[durability]["postgres"]
    postgres_connection.close()


def test_threads_that_commit_together_in_sqlite_lose_nothing(small, tmp_path):
    with Sqlite(tmp_path / "one") as one, Sqlite(tmp_path / "many", "group") as many:
        for opened in (one, many):
            opened.stock(small)
        one.load(small, small.lines)
        group = GroupCommit(many.save_all)
        threads = [
            Thread(target=lambda part: [group.save(line) for line in part], args=(small.lines[start::4],))
            for start in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(one.connection.iterdump()) == set(many.connection.iterdump())


def test_processes_of_every_kind_save_what_they_are_given(small, tmp_path):
    with ExitStack() as stack:
        dsn, url = stack.enter_context(postgres()), stack.enter_context(redis_shop())
        opened = opened_peers(tmp_path, (dsn, url))
        stack.callback(opened.close)
        filled(small, 10, tmp_path, opened.by_name).close()
        where = {"sqlite": str(tmp_path / "shop.sqlite"), "postgres": dsn, "redis": url}
        for kind, at in where.items():
            with Processes(Place(kind, at), 2) as writers:
                writers.round(iter(small.lines[10:14]), 2)()
        for line in small.lines[10:14]:
            row = opened.sqlite.get(line.invoice, line.line)
            assert opened.postgres.get_from_one_table(line.invoice, line.line) == row
            assert opened.redis.get(line.invoice, line.line) == row


def test_every_store_has_a_size_and_packing_makes_no_row_less(peers, tmp_path):
    packed = peers.sqlite.packed(tmp_path / "copy")
    assert 0 < packed <= peers.sqlite.size()
    with Sqlite(tmp_path / "copy") as copy:
        assert set(copy.connection.iterdump()) == set(peers.sqlite.connection.iterdump())
    assert peers.postgres.size(NORMALISED) > 0
    assert min(peers.postgres.size(), peers.redis.size()) > 0


def test_prices_are_whole_numbers_and_come_back():
    for price in ("2.55", "0.00", "-11062.06", "4.951", "0.001"):
        assert price_of(tenths_of_pence(Decimal(price))) == Decimal(price)
