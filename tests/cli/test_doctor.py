"""`oneread doctor`, on the shop of the examples with lines that are made."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from examples.shop.schema import SHOP, Buyer, Customer, Product, Purchase, Sold
from oneread import connect
from oneread.cli import doctor
from oneread.engines.lmdb import binding
from oneread.heat.doctor import HeatFinding
from oneread.store.engine import NOT_NATIVE

GIVEN = "--schema", "examples.shop.schema:SHOP"
COUNTRIES = ("NL", "BE", "DE", "FR", "PT", "IE")
LINES = 340


@pytest.fixture
def shop(bare, new_url):
    """The command on a shop of whose purchases nine of ten are of one product, in one minute."""
    url, at = new_url(), datetime.now(UTC)
    with connect(url, SHOP, workers=0, heat=1.0, clock=lambda: int(at.timestamp() * 1000)) as db:
        for number in range(50):
            db.save(Customer(number=number, name=f"Customer {number}", country="NL"))
            db.save(Product(code=f"P{number:02}", name=f"Product {number}"))
        for line in range(LINES):
            code = f"P{line * 7 % 50:02}" if line % 10 == 9 else "P07"
            db.save(
                Purchase(
                    order=f"{line * 7919 % 9973:05}", line=1, buyer=Buyer.of(line * 7 % 50), product=Sold.of(code),
                    quantity=1, unit_price=Decimal(1), amount=Decimal(1), country=COUNTRIES[line % 6],
                    ordered_at=at - timedelta(days=40 * (line * 7 % 50)),
                )
            )  # fmt: skip

    def run(*arguments):
        return bare("doctor", *arguments, "--last", "14d", *GIVEN, "--db", url)

    return run


def test_a_hot_group_is_named_with_its_declaration(shop, kind_of_store):
    ran, native = shop(), binding.NATIVE if kind_of_store == "lmdb" else NOT_NATIVE
    assert ran.code == 0
    severity, declaration, option, *others = ran.out.splitlines()
    assert severity == (
        f"{'act ' if kind_of_store == 'row' else 'know'}  ProductSales: one row takes the writes of "
        "ProductSales('P07') (90% of those of all groups, 5.1 a second)"
    )
    assert declaration.startswith("      class ProductSales(Aggregate[Purchase]):  # ")
    assert "examples/shop/schema.py:" in declaration
    assert option == "          shards = 16"
    assert [each.split(" cost")[0].strip() for each in others[:2]] == ["a get", "a save"]
    assert others[2].endswith("a row gets 0.3 a second")
    assert others[3] == f"native: {'yes' if native else 'no'}, because {native.why}"
    assert len(others) == 4


def test_all_of_it_as_json(shop):
    (found,) = shop("--json").document(list[HeatFinding])
    assert (found.declared, found.remedy) == ("ProductSales", "shards")
    assert found.rebuilds == timedelta(0)


@pytest.mark.parametrize(("check", "codes"), [("act", (1, 0)), ("look", (1, 0)), ("know", (1, 1))])
def test_a_severity_may_fail_a_build(shop, kind_of_store, check, codes):
    assert shop("--check", check).code == codes[kind_of_store != "row"]


def test_where_nothing_was_recorded_it_says_how(oneread):
    ran = oneread("doctor", "--check", "know")
    assert ran.code == 0
    assert "heat=1.0" in ran.out


@pytest.mark.parametrize("arguments", [("--last", "6"), ("--last", "15d"), ("--check", "all")])
def test_wrong_options_are_refused(oneread, arguments):
    assert oneread("doctor", *arguments).code == 2


def test_how_long_it_takes_is_said_where_it_is_known():
    assert [*doctor._built(timedelta(seconds=245))] == ["built again in 4 min at 5,000 a second"]
    assert [*doctor._built(timedelta(seconds=12))] == ["built again in 12 s at 5,000 a second"]
    assert [*doctor._built(timedelta(0)), *doctor._built(None)] == []
