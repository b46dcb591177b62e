"""The shop: what is made of dirt, totals against a naive recomputation, and every command with its mistakes."""

import re
import shlex
from collections import Counter, defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from examples.resuming import PAUSE_SECONDS, PAUSES, patiently
from examples.shop import cleaning, loading, recount, source, stores
from examples.shop.loading import Source
from examples.shop.mistakes import Mistake
from examples.shop.schema import (
    SHOP,
    BuyerTotals,
    CountryRevenue,
    Customer,
    MonthlyRevenue,
    Product,
    ProductSales,
    Purchase,
    PurchasesOfBuyer,
    PurchasesOfProduct,
)
from examples.shop.sql import Sql
from oneread import connect
from oneread.errors import OutcomeUnknown, Unavailable
from tests.examples.conftest import imported_from_library, kill_load

GENERATED = 3_000


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """The URL of a store of generated lines that no test changes."""
    url = f"lmdb://{tmp_path_factory.mktemp('stock')}/shop"
    with stores.for_loading(url) as db:
        loading.load(db, Source(limit=GENERATED))
    return url


@pytest.fixture
def db(stock):
    """That store, open for reading."""
    with stores.for_reading(stock) as opened:
        yield opened


def lines(folder=None, limit=None, **more):
    return list(source.lines(folder, limit=limit, **more))


def everything(db, view, *key):
    return [row for page in db.scan(view, *key) for row in page]


# --- Lines -----------------------------------------------------------------------------------------------------------


def test_the_file_is_read_as_it_stands(data):
    first, *_, last = lines(data())
    assert first == source.Line(
        "536365", 1, "85123A", " WHITE  HEART ", 6, datetime(2010, 12, 1, 8, 26, tzinfo=UTC), Decimal("2.55"), 17850,
        "United Kingdom",
    )  # fmt: skip
    assert (last.line, last.description, last.customer) == (2, None, None)


def test_local_times_become_instants(data):
    summer = next(line for line in lines(data()) if line.invoice == "536370")
    assert summer.at == datetime(2011, 7, 31, 23, 30, tzinfo=UTC)


def test_a_limit_is_a_beginning():
    assert lines(limit=50) == lines(limit=80)[:50]
    assert len(lines(limit=80)) == 80


def test_the_same_seed_gives_the_same_lines():
    assert lines(limit=2_000) == lines(limit=2_000) != lines(limit=2_000, seed=8)


def test_generated_lines_are_as_dirty_as_the_real_ones():
    dirt = cleaning.survey(source.lines(None, limit=60_000)).dirt
    assert all(msgspec.structs.asdict(dirt).values())


def test_generated_lines_go_by_time_and_have_keys_of_their_own():
    found = lines(limit=5_000)
    assert [line.at for line in found] == sorted(line.at for line in found)
    assert len({(line.invoice, line.line) for line in found}) == 5_000


# --- Dirt ------------------------------------------------------------------------------------------------------------


def test_every_kind_of_dirt_is_counted(data):
    assert cleaning.survey(lines(data())).dirt == cleaning.Dirt(
        lines=12,
        no_customer=6,
        no_description=2,
        blanks=2,
        remarks=3,
        exact_repeats=1,
        cancellations=1,
        negative_quantities=3,
        adjustments=1,
        zero_prices=3,
        negative_prices=1,
        codes_with_several_names=1,
        codes_never_named=3,
        codes_differing_by_case=1,
        customers_who_moved=1,
    )


def test_every_count_says_what_is_made_of_it():
    assert tuple(cleaning.MEANINGS) == cleaning.Dirt.__struct_fields__


def test_the_newest_name_at_which_it_was_sold_stands(data):
    products = cleaning.survey(lines(data())).products
    assert {code: product.name for code, product in products.items()} == {
        "85123A": "CREAM HEART",
        "85123a": "Red heart",
        "71053": "LANTERN",
        "20950": "20950",
        "72759": "72759",
        "B": "B",
        "POST": "POSTAGE",
    }


def test_a_name_that_came_back_is_the_newest(data):
    text = "\n".join(f"{number},1,{name},1,2011-01-01 10:00:00,1.0,,EIRE" for number, name in enumerate("ABA", 1))
    found = cleaning.survey(lines(data(text)))
    assert found.products["1"].name == "A"
    assert found.dirt.codes_with_several_names == 1


def test_the_newest_country_stands_and_each_purchase_keeps_its_own(shop, data, tmp_path):
    url = f"lmdb://{tmp_path}/shop"
    assert shop("load", "--db", url, "--data", data()).code == 0
    with connect(url, SHOP) as db:
        moved = [(row.source.key, db.get(Purchase, *row.source.key)) for row in everything(db, PurchasesOfBuyer, 12431)]
        assert [(key[0], each.country, each.buyer.country) for key, each in moved] == [
            ("536370", "Belgium", "Belgium"),
            ("536366", "Australia", "Belgium"),
        ]


def test_a_sale_without_a_customer_is_in_no_customers_list_and_in_all_other_totals(shop, data, tmp_path):
    url = f"lmdb://{tmp_path}/shop"
    assert shop("load", "--db", url, "--data", data()).code == 0
    with connect(url, SHOP) as db:
        assert db.get(Purchase, "536371", 1).buyer is None
        assert len(everything(db, PurchasesOfBuyer)) == 6
        assert len(everything(db, PurchasesOfProduct)) == 12
        assert db.get(CountryRevenue, "EIRE").revenue == Decimal("20.95")
        assert db.get(ProductSales, "85123A").units == 6 + 6 - 5 - 30 + 10 + 1


# --- Totals ----------------------------------------------------------------------------------------------------------


def test_totals_are_those_of_the_lines(db):
    products, buyers, months, countries = (defaultdict(list) for _ in range(4))
    for line in source.lines(None, limit=GENERATED):
        products[line.code].append(line)
        months[line.at.replace(day=1, hour=0, minute=0)].append(line)
        countries[line.country].append(line)
        if line.customer is not None:
            buyers[line.customer].append(line)

    def revenue(of):
        return sum((line.quantity * line.unit_price for line in of), Decimal())

    sold = {each.product.ref.key[0]: each for each in everything(db, ProductSales)}
    assert sold.keys() == products.keys()
    for code, of in products.items():
        prices = [line.unit_price for line in of]
        expected = (len(of), sum(line.quantity for line in of), revenue(of), sum(prices) / len(of), max(prices))
        found = sold[code]
        assert (found.orders, found.units, found.revenue, found.mean_price, found.dearest) == expected
    bought = {each.buyer.ref.key[0]: (each.orders, each.spent) for each in everything(db, BuyerTotals)}
    assert bought == {number: (len(of), revenue(of)) for number, of in buyers.items()}
    assert {each.month: each.revenue for each in db.page(MonthlyRevenue)} == {
        month: revenue(of) for month, of in months.items()
    }
    assert {each.country: each.revenue for each in db.page(CountryRevenue)} == {
        country: revenue(of) for country, of in countries.items()
    }


def test_sql_finds_the_same(db, tmp_path):
    sql = Sql(tmp_path / "peer")
    sql.load(cleaning.survey(source.lines(None, limit=GENERATED)), source.lines(None, limit=GENERATED))
    for purchase in islice(everything(db, Purchase), 0, None, 20):
        buyer = purchase.buyer
        assert sql.purchase(purchase.order, purchase.line) == (
            purchase.order, purchase.line,
            *((None,) * 3 if buyer is None else (*buyer.ref.key, buyer.name, buyer.country)),
            *purchase.product.ref.key, purchase.product.name, purchase.quantity, purchase.unit_price, purchase.country,
            purchase.ordered_at,
        )  # fmt: skip
    for customer in everything(db, Customer):
        assert sql.newest_of_customer(customer.number) == [
            (*row.source.key, row.ordered_at, *row.product.ref.key, row.product.name, row.quantity, row.unit_price)
            for row in db.page(PurchasesOfBuyer, customer.number, limit=10)
        ]
    for product in everything(db, Product):
        found = db.get(ProductSales, product.code)
        assert sql.sales(product.code) == (found.orders, found.units, found.revenue, found.mean_price, found.dearest)
        assert [row[:3] for row in sql.newest_of_product(product.code)] == [
            (*row.source.key, row.ordered_at) for row in db.page(PurchasesOfProduct, product.code, limit=10)
        ]
    assert sql.months() == [(f"{each.month:%Y-%m}", each.orders, each.revenue) for each in db.page(MonthlyRevenue)]
    sql.close()


def test_pages_cost_what_the_readme_says(db):
    busiest = Counter(line.customer for line in source.lines(None, limit=GENERATED) if line.customer).most_common(1)[0][
        0
    ]
    page = db.page(PurchasesOfBuyer, busiest, limit=10)
    assert (page.cost.requests, page.cost.rows) == (1, 11)
    cost = db.cost(db.get(Purchase, *page[0].source.key))
    assert (cost.requests, cost.rows) == (1, 1)


def test_a_check_finds_nothing_in_what_was_loaded_and_each_kind_of_difference(shop, data, tmp_path):
    url, lines = f"lmdb://{tmp_path}/shop?durability=none", ("--data", data())
    assert shop("load", "--db", url, *lines).code == 0
    checked = shop("check", "--db", url, *lines)
    assert checked.code == 0, checked.out
    assert re.search(r" 0 differ\n  verify: [\d,]+ entities, [\d,]+ rows: clean", checked.out)
    with connect(url, SHOP, workers=0) as db:
        purchase = next(each for each in everything(db, Purchase) if each.buyer is not None)
        db.patch(Purchase, purchase.order, purchase.line, quantity=purchase.quantity + 1, country="Elsewhere")
        db.patch(Customer, *purchase.buyer.ref.key, country="Elsewhere")
    found = shop("check", "--db", url, *lines)
    assert found.code == 1
    differing = {
        name
        for name, _compared, differ in re.findall(r"^  (\S.*?)  +([\d,]+) +(\d+)$", found.out, re.MULTILINE)
        if differ != "0"
    }
    assert differing == {
        "customers: name, country", "purchases: all fields", "list: purchases of buyers", "list: purchases of products",
        "products: lines, units, revenue, mean price, dearest", "buyers: lines, units, spent",
        "countries: lines, revenue",
    }  # fmt: skip


def test_what_is_added_up_again_shares_no_code_with_the_library():
    assert not imported_from_library(recount)


# --- Loading ---------------------------------------------------------------------------------------------------------


def test_a_load_resumes_where_it_ended(tmp_path):
    with stores.for_loading(f"lmdb://{tmp_path}/shop") as db:
        assert loading.load(db, Source(limit=300), batch=128).lines == 300
        db.patch(Product, "20000A", name="MINE")
        grown = loading.load(db, Source(limit=500), batch=128)
        assert (grown.before, grown.lines) == (300, 200)
        assert loading.load(db, Source(limit=500)).lines == 0
        assert len(everything(db, Purchase)) == 500
        assert db.get(Product, "20000A").name == "MINE"
        with db.bulk(checkpoint=loading.checkpoint_of(Source())) as bulk:
            assert (bulk.position, bulk.finished) == (500, True)


def test_a_killed_load_has_saved_as_many_lines_as_it_says(tmp_path):
    class Killed(Exception):
        pass

    def killer(done, _everything, _seconds):
        if done >= 256:
            raise Killed

    with stores.for_loading(f"lmdb://{tmp_path}/shop") as db:
        with pytest.raises(Killed):
            loading.load(db, Source(limit=500), batch=128, progress=killer)
        assert len(everything(db, Purchase)) == 256
        assert loading.load(db, Source(limit=500), batch=128).before == 256
        assert len(everything(db, Purchase)) == 500


def test_a_load_that_is_killed_twice_ends_as_one_that_is_not(shop, tmp_path):
    killed, unharmed = (f"lmdb://{tmp_path}/{name}" for name in ("killed", "unharmed"))
    most, saved = 4_000, [0]
    for _ in range(2):
        kill_load(["examples.shop", "load", "--limit", str(most), "--db", killed], "lines", saved[-1])
        with connect(killed, SHOP, workers=0) as db:
            saved.append(len(everything(db, Purchase)))
            with db.bulk(checkpoint=loading.checkpoint_of(Source())) as bulk:
                assert saved[-2] < bulk.position == saved[-1] < most
    assert f"{saved[-1]:,} were there" in shop("load", "--limit", most, "--db", killed).out
    assert shop("load", "--limit", most, "--db", f"{unharmed}?durability=none").code == 0
    with connect(killed, SHOP) as one, connect(unharmed, SHOP) as other:
        for listed in (*SHOP.models, *SHOP.views):
            assert everything(one, listed) == everything(other, listed), listed
        assert one.verify().clean


@pytest.mark.parametrize("other", [Source(limit=20, seed=8), Source(limit=5)], ids=["another source", "fewer lines"])
def test_a_store_of_other_lines_is_left_alone(tmp_path, other):
    with stores.for_loading(f"lmdb://{tmp_path}/shop") as db:
        loading.load(db, Source(limit=20))
        with pytest.raises(Mistake, match="fresh --db"):
            loading.load(db, other)
        assert len(everything(db, Purchase)) == 20


# --- Commands --------------------------------------------------------------------------------------------------------


def test_the_demo_shows_every_step_and_leaves_a_store(shop, tmp_path):
    folder = tmp_path / "demo-store"
    ran = shop("demo", "--limit", 2_000, "--folder", folder)
    assert ran.code == 0, ran.err
    assert [line[0] for line in ran.out.splitlines() if re.match(r"\d\. ", line)] == list("1234567")
    assert "2,000 lines saved" in ran.out
    assert re.search(r"Looked at \d+ copies afterwards, in purchases and lists: 0 with another name", ran.out)
    again = shop("demo", "--limit", 500, "--folder", folder)
    assert "from an earlier run" in again.out
    for typed in re.findall(r"python -m examples\.shop (.*)", again.out):
        assert shop(*shlex.split(typed)).code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["data.mdb", "lock.mdb", "made-by-the-demo", "writer.lock"]


def test_the_demo_runs_on_a_store_that_changes_one_row_at_a_time(shop, tmp_path):
    ran = shop("demo", "--db", "memory://?span=row", "--limit", 300, "--folder", tmp_path / "peer")
    assert ran.code == 0, ran.err
    assert "0 with another name" in ran.out
    assert "commit of several requests for each" in ran.out
    assert ran.out.endswith("The store was in memory and ends with this program.\n")


def test_the_demo_takes_real_data_from_the_environment(shop, data, tmp_path, monkeypatch):
    monkeypatch.setenv("ONEREAD_DATA", str(data()))
    ran = shop("demo", "--folder", tmp_path / "store")
    assert ran.code == 0, ran.err
    assert "online-retail into" in ran.out


def test_a_rename_reaches_every_copy_by_a_task_as_well(tmp_path, shop, data):
    many = "\n".join(
        f"{number},1,HEART,1,2011-01-01 10:00:00,1.0,{12_346 + number % 7},EIRE" for number in range(1_100)
    )
    url = f"lmdb://{tmp_path}/shop"
    assert shop("load", "--db", url, "--data", data(many)).code == 0
    ran = shop("rename", "--db", url, "1", "STAR")
    assert "1: HEART -> STAR" in ran.out
    assert "1,100 purchases show the new name, by a task of the outbox" in ran.out
    with stores.for_reading(url) as db:
        assert {each.product.name for each in everything(db, Purchase)} == {"STAR"}
        assert {each.product.name for each in everything(db, PurchasesOfBuyer)} == {"STAR"}


def test_a_page_leads_to_the_next_and_back(stock, db, shop):
    number = next(each.buyer.ref.key[0] for each in everything(db, BuyerTotals) if each.orders > 8)

    def page(*more):
        ran = shop("page", "--db", stock, "--limit", 4, number, *more)
        assert ran.code == 0, ran.err
        return ran.out, dict(re.findall(r"(next|previous): python -m examples.shop (.*)", ran.out))

    def rows(out):
        return re.findall(r"^  (\S+/\d+) ", out, re.MULTILINE)

    first, ways = page()
    second = shop(*shlex.split(ways["next"])).out
    assert len(rows(first)) == len(rows(second)) == 4
    assert not set(rows(first)) & set(rows(second))
    back = dict(re.findall(r"(next|previous): python -m examples.shop (.*)", second))["previous"]
    assert rows(shop(*shlex.split(back)).out) == rows(first)
    assert "1 request, 5 rows" in first


def test_the_report_adds_up(stock, db, shop):
    ran = shop("report", "--db", stock)
    assert ran.code == 0, ran.err
    best = max(everything(db, ProductSales), key=lambda each: each.revenue)
    assert f"{best.revenue:,.2f}" in ran.out
    assert "Revenue by month: 1 request," in ran.out


@pytest.mark.parametrize("verb", ["demo", "load", "page", "rename", "report"])
def test_every_command_has_help(shop, verb):
    ran = shop(verb, "--help")
    assert ran.code == 0
    assert f"python -m examples.shop {verb}" in ran.out


STORE = "a store"
MISTAKES = {
    "no verb": ([], "the following arguments are required: VERB"),
    "unknown verb": (["fly"], "invalid choice: 'fly'"),
    "wrong folder": (["load", "--data", "nowhere", "--db", "lmdb://x"], "no online-retail.csv.gz in nowhere"),
    "demo, wrong folder": (["demo", "--data", "nowhere"], "no online-retail.csv.gz in nowhere"),
    "no lines": (["load", "--limit", "0"], "'0' is not a whole number above 0"),
    "unknown scheme": (["load", "--db", "mongo://x"], "the scheme of the URL is unknown"),
    "unknown option": (["report", "--db", "lmdb://x?fast=1"], "lmdb: URLs do not have this option"),
    "no store": (["report", "--db", "lmdb://nowhere"], "the path has no store"),
    "no store to rename in": (["rename", "--db", "lmdb://nowhere", "1", "STAR"], "the path has no store"),
    "no store in memory": (["page", "--db", "memory://", "17850"], "there is no store here"),
    "no number": (["page", "Ada"], "'Ada' is not a whole number above 0"),
    "no customer": (["page", "--db", STORE, "1"], "there is no customer 1; there is 1"),
    "too long a page": (["page", "--db", STORE, "--limit", "1001", "CUSTOMER"], "max_limit=1000"),
    "bad cursor": (["page", "--db", STORE, "CUSTOMER", "--cursor", "abc"], "cursor"),
    "no product": (["rename", "--db", STORE, "2000", "STAR"], "there is no product 2000; there are 20"),
    "no name": (["rename", "--db", STORE, "20000A", "  "], "a product needs a name"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_a_line_that_says_what_to_do(stock, shop, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with stores.for_reading(stock) as db:
        customer = db.page(Customer, limit=1)[0].number
    ran = shop(*[{STORE: stock, "CUSTOMER": customer}.get(each, each) for each in arguments])
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["letters.txt", "data.mdb"])
def test_a_folder_that_no_demo_made_is_left_alone(shop, tmp_path, name):
    (tmp_path / name).write_text("Dear Ada,")
    ran = shop("demo", "--limit", 100, "--folder", tmp_path)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert (tmp_path / name).read_text() == "Dear Ada,"


def test_a_store_that_nothing_was_loaded_into_says_so(shop, tmp_path):
    url = f"lmdb://{tmp_path}/empty"
    connect(url, SHOP).close()
    assert "nothing was loaded" in shop("report", "--db", url).err


@pytest.mark.parametrize(
    ("text", "header", "message"),
    [
        ("1,2,3", None, "line 2 is not a line of online-retail"),
        ("1,2,HEART,many,2011-01-01 10:00:00,1.0,,EIRE", None, "line 2 is not"),
        ("1,2,HEART,1,2011-01-01 10:00:00,cheap,,EIRE", None, "line 2 is not"),
        ("1,2,HEART,1,yesterday,1.0,,EIRE", None, "line 2 is not"),
        ("1,2", "a,b", "has other columns"),
    ],
)
def test_a_file_that_is_not_the_data_is_refused(shop, data, tmp_path, text, header, message):
    folder = data(text) if header is None else data(text, header)
    ran = shop("load", "--data", folder, "--db", f"lmdb://{tmp_path}/shop")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert message in ran.err
    assert not (tmp_path / "shop").exists()


def test_a_file_that_breaks_off_is_refused(shop, data, tmp_path):
    file = data() / "online-retail.csv.gz"
    file.write_bytes(file.read_bytes()[:-20])
    ran = shop("load", "--data", file.parent, "--db", f"lmdb://{tmp_path}/shop")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "cannot be read" in ran.err


def test_the_schema_knows_no_machine():
    assert not re.search(r"[\"']/", (Path(source.__file__).parent / "schema.py").read_text())


def test_a_load_is_begun_again_while_the_store_does_not_answer(capsys):
    outcomes, pauses = [Unavailable("no server"), OutcomeUnknown("no answer"), "loaded"], []

    def load():
        outcome = outcomes.pop(0)
        if isinstance(outcome, str):
            return outcome
        raise outcome

    assert patiently(load, pauses.append) == "loaded"
    assert pauses == [PAUSE_SECONDS] * 2
    assert "no server; the load continues in 5 seconds" in capsys.readouterr().err


def test_a_load_does_not_wait_for_ever():
    tried, pauses = [], []

    def load():
        tried.append(1)
        raise Unavailable("no server")

    with pytest.raises(Unavailable):
        patiently(load, pauses.append)
    assert len(tried) == len(pauses) + 1 == PAUSES + 1
