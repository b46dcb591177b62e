"""The peers do the work they are compared by: the same rows however they are written, and the same sums everywhere."""

from collections import Counter
from decimal import Decimal
from threading import Thread

import pytest

from benchmarks.peers.floor import Floor, decode_sales, number4, purchase_key
from benchmarks.peers.group_commit import GroupCommit
from benchmarks.peers.orm import Orm
from benchmarks.peers.postgres import Postgres, postgres
from benchmarks.workloads import ours
from benchmarks.workloads.lines import lines, shop
from benchmarks.workloads.shop_schema import BuyerSales, ProductSales, Purchase, PurchasesOfBuyer

NINE = 9


@pytest.fixture(scope="module")
def small(data):
    return shop(data, 200)


@pytest.fixture(scope="module")
def server(small):
    with postgres() as dsn:
        one = Postgres(dsn)
        one.stock(small)
        one.load(small, small.lines[:150])
        one.load_normalised(small.lines)
        for line in small.lines[150:180]:
            one.save(line)
        for line in small.lines[180:]:
            one.save_step_by_step(line)
        yield dsn
        one.close()


def content(floor):
    with floor.env.begin() as transaction:
        return [dict(transaction.cursor(db=table)) for table in (floor.roots, floor.views, floor.counts)]


def saved(floor, small):
    floor.stock(small)
    for line in small.lines:
        floor.save(line)


def expected_sales(found, key):
    return {
        wanted: (
            sum(key(line) == wanted for line in found),
            sum(line.quantity for line in found if key(line) == wanted),
            sum((line.unit_price for line in found if key(line) == wanted), Decimal()),
            max(line.unit_price for line in found if key(line) == wanted),
        )
        for wanted in {key(line) for line in found} - {None}
    }


def test_the_data_repeat_a_year_later_under_other_keys(data):
    found = list(lines(data, 1_000))
    assert len({(line.invoice, line.line) for line in found}) == 1_000
    assert found[400].at > found[399].at
    assert found[400].invoice == f"{found[0].invoice}/1"


def test_without_data_similar_ones_are_made_up():
    made = shop(None, 300)
    assert len(made.lines) == 300
    assert made.lines == shop(None, 300).lines
    assert made.data == "generated with seed 7"


def test_a_name_is_the_latest_description_that_says_something(small):
    assert set(small.products) == {line.code for line in small.lines}
    assert all(name == name.strip() and name for name in small.products.values())


def test_the_floor_writes_nine_rows_for_a_purchase_with_a_customer(small, tmp_path):
    with Floor(tmp_path / "floor") as floor:
        floor.stock(small)
        before = sum(map(len, content(floor)))
        floor.save(next(line for line in small.lines if line.customer is not None))
        assert sum(map(len, content(floor))) - before == NINE


def test_the_floor_holds_the_same_rows_loaded_saved_and_saved_again(small, tmp_path):
    with Floor(tmp_path / "one") as one, Floor(tmp_path / "many") as many:
        saved(one, small)
        many.stock(small)
        for start in range(0, len(small.lines), 70):
            many.load(small, small.lines[start : start + 70])
        assert content(one) == content(many)
        other = small.lines[0]._replace(customer=12347, code="POST", unit_price=Decimal(9))
        one.save(other)
        assert content(one) != content(many)
        one.save(small.lines[0])
        assert content(one) == content(many)


def test_the_floor_s_page_is_the_newest_ten(small, tmp_path):
    with Floor(tmp_path / "floor") as floor:
        saved(floor, small)
        bought = [line for line in small.lines if line.customer == 17850]
        newest = sorted(bought, key=lambda line: (-line.at.timestamp(), line.invoice, line.line))[:10]
        page = floor.page(17850)
        assert [(row.order, row.line, row.at) for row in page] == [
            (line.invoice, line.line, line.at) for line in newest
        ]
        assert page[0].product_name == small.products[page[0].code]


def test_a_rename_on_the_floor_reaches_every_row_that_shows_the_name(small, tmp_path):
    with Floor(tmp_path / "floor") as floor:
        saved(floor, small)
        holders = [line for line in small.lines if line.code == "71053"]
        assert floor.rename("71053", "white lantern") == len(holders)
        assert {floor.get(line.invoice, line.line).product_name for line in holders} == {"white lantern"}
        shown = [row for buyer in small.customers for row in floor.page(buyer, 1_000)]
        assert {row.product_name for row in shown if row.code == "71053"} == {"white lantern"}
        assert Counter(row.code for row in shown)["71053"] == sum(line.customer is not None for line in holders)


def test_what_is_not_there_is_an_error_on_the_floor(tmp_path):
    with Floor(tmp_path / "floor") as floor, pytest.raises(KeyError):
        floor.get("nothing", 1)


def test_threads_that_commit_together_lose_nothing(small, tmp_path):
    with Floor(tmp_path / "one") as one, Floor(tmp_path / "many", "group") as many:
        saved(one, small)
        many.stock(small)
        group = GroupCommit(many.save_all)

        def save(part):
            for line in part:
                group.save(line)

        threads = [Thread(target=save, args=(small.lines[start::4],)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert content(one) == content(many)


def test_postgres_and_the_floor_hold_the_same(small, server, tmp_path):
    with Floor(tmp_path / "floor") as floor:
        saved(floor, small)
        opened, orm = Postgres(server), Orm(server)
        line = next(line for line in small.lines if line.customer is not None)
        mine, theirs = floor.get(line.invoice, line.line), opened.get(line.invoice, line.line)
        mapped = orm.get(line.invoice, line.line)
        assert theirs is not None
        assert (mine.customer_name, mine.product_name, mine.unit_price, mine.at) == (theirs[3], theirs[6], *theirs[8:])
        assert (mapped.buyer.name, mapped.product.name) == (mine.customer_name, mine.product_name)
        for buyer in small.customers:
            page = [
                (row.at, row.order, row.line, row.code, row.product_name, row.quantity) for row in floor.page(buyer)
            ]
            assert opened.page(buyer) == page
            assert [(row.order_number, row.line) for row in orm.page(buyer)] == [row[1:3] for row in page]
        expected = expected_sales(small.lines, lambda one: one.code)
        stored = opened.connection.execute("SELECT code, orders, units, prices, dearest FROM product_sales").fetchall()
        assert {code: tuple(rest) for code, *rest in stored} == expected
        with floor.env.begin(db=floor.counts) as transaction:
            for code, (orders, units, prices, _) in expected.items():
                sales = decode_sales(transaction.get(b"d" + code.encode() + b"\0"))
                assert (sales.orders, sales.units, sales.prices) == (orders, units, prices)
        opened.close()
        orm.close()


def test_a_rename_in_postgres_reaches_every_row(small, server):
    opened = Postgres(server)
    assert opened.rename("22423", "cakestand") == sum(line.code == "22423" for line in small.lines)
    assert opened.names_shown("22423") == {"cakestand"}
    opened.close()


def test_oneread_holds_what_its_peers_hold(small, tmp_path):
    with ours.opened(tmp_path / "ours") as db, Floor(tmp_path / "floor") as floor:
        saved(floor, small)
        ours.stock(db, small)
        ours.load(db, small.lines[:150])
        for line in small.lines[150:]:
            db.save(ours.purchase(line))
        for line in small.lines:
            mine, theirs = db.get(Purchase, line.invoice, line.line), floor.get(line.invoice, line.line)
            assert (mine.product.name, mine.unit_price, mine.ordered_at) == (
                theirs.product_name,
                theirs.unit_price,
                theirs.at,
            )
            assert (None if mine.buyer is None else (mine.buyer.name, mine.buyer.country)) == (
                None if theirs.customer is None else (theirs.customer_name, theirs.country)
            )
        for buyer in small.customers:
            page = db.page(PurchasesOfBuyer, buyer, limit=10).rows
            assert [(row.source.key, row.product.name) for row in page] == [
                ((row.order, row.line), row.product_name) for row in floor.page(buyer)
            ]
        for view, key in ((ProductSales, lambda one: one.code), (BuyerSales, lambda one: one.customer)):
            for wanted, (orders, units, prices, dearest) in expected_sales(small.lines, key).items():
                sales = db.get(view, wanted)
                assert (sales.orders, sales.units, sales.dearest) == (orders, units, dearest)
                assert sales.mean_price == prices / orders


def test_keys_of_the_floor_keep_lines_of_one_order_together():
    assert purchase_key("536365", 2) < purchase_key("536365", 10) < purchase_key("5363650", 1)
    assert number4(1) < number4(256)
