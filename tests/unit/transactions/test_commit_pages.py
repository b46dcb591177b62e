"""Pages of commits: their cost, and what others do to their rows meanwhile."""

from uuid import uuid4

import pytest

from oneread import Index, Key, Model, Schema, by, connect
from oneread.store.requests import Read
from tests.unit.database.shop import SCHEMA, Purchase, SalesOfProduct, fill, product, purchase

FIRST, MANY = 100, 100


@pytest.fixture
def url():
    return f"memory://{uuid4()}?span=row"


@pytest.fixture
def db(url):
    with connect(url, SCHEMA, workers=0) as opened:
        fill(opened)
        yield opened


def write(db, lines=range(FIRST, FIRST + MANY)):
    with db.bulk() as bulk:
        for line in lines:
            bulk.save(purchase(line, sold="q"))
    return bulk


def test_a_page_asks_once_for_all_but_for_the_commit_points(db):
    requests = write(db).cost.requests
    commits, sums, rounds = MANY, 2, 10
    assert requests <= commits + sums + rounds


def test_entities_that_come_again_in_a_batch_are_made_in_order(db):
    with db.bulk() as bulk:
        for quantity in range(1, 6):
            bulk.save(purchase(FIRST, sold="q", quantity=quantity))
    assert db.get(Purchase, "o", FIRST).quantity == 5
    assert db.get(SalesOfProduct, "q").units == 5


def test_a_change_that_another_came_before_is_made_alone(db, url):
    """Another program renames the product, and changes a purchase, when the rows of the page were read."""
    write(db)
    met = []

    def interfering(request, _answer):
        if isinstance(request, Read) and request.table == "roots" and len(request.keys) == MANY and not met:
            met.append(request)
            with connect(url, SCHEMA, workers=0) as other:
                other.save(product("q", name="renamed"))
                other.patch(Purchase, "o", FIRST + 5, remark="of another")

    with connect(url, SCHEMA, workers=0, observers=(interfering,)) as watched, watched.bulk() as bulk:
        for line in range(FIRST, FIRST + MANY):
            bulk.patch(Purchase, "o", line, quantity=7)
    assert met
    with connect(url, SCHEMA, workers=0) as after:
        found = [after.get(Purchase, "o", line) for line in range(FIRST, FIRST + MANY)]
        assert {(each.quantity, each.product.name) for each in found} == {(7, "renamed")}
        assert [each.line for each in found if each.remark == "of another"] == [FIRST + 5]
        assert after.get(SalesOfProduct, "q").units == 7 * MANY


class Customer(Model[int]):
    number: Key[int]
    mail: str


class CustomersByMail(Index[Customer]):
    unique = True
    mail: str = by(Customer.mail)


def test_changes_behind_many_that_must_be_alone_go_together_again(url):
    """Seven pages in a row end before their first change, which takes a unique value."""
    with connect(url, Schema(Customer, CustomersByMail), workers=0) as db:
        db.save_all([Customer(number=number, mail=f"{number}") for number in range(MANY)])
        with db.bulk() as bulk:
            for number in range(MANY, MANY + 7):
                bulk.save(Customer(number=number, mail=f"{number}"))
            alone = bulk.cost.requests
            for number in range(MANY):
                bulk.delete(Customer, number)
        assert bulk.cost.requests - alone < 3 * MANY
