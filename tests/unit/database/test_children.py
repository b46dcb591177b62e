"""Children of roots of all sorts: variants, generated keys, keys of several parts; and children that are variants."""

from uuid import UUID

import pytest

from oneread import GENERATED, Key, Model, Ref, Schema, connect
from oneread.errors import AlreadyExists, InvalidDeclaration, InvalidKey


class Shop(Model[str, int]):
    country: Key[str]
    branch: Key[int]


class Outlet(Shop):
    rebate: int = 0


class Order(Model[int, str, int]):
    """The parts of the root's key are in another order, around the number."""

    child_of = Shop
    branch: Key[int]
    country: Key[str]
    number: Key[int] = GENERATED
    text: str = ""


class Gift(Order):
    card: str = ""


class Thread(Model[UUID]):
    id: Key[UUID] = GENERATED


class Reply(Model[UUID, int]):
    child_of = Thread
    id: Key[UUID]
    number: Key[int] = GENERATED
    answers: Ref["Reply"] | None = None


SCHEMA = Schema(Shop, Outlet, Order, Gift, Thread, Reply)


@pytest.fixture
def db():
    with connect("memory://", SCHEMA) as opened:
        yield opened
        assert opened.verify().clean


def test_a_root_may_be_a_variant_and_its_key_of_several_parts(db):
    db.save_all([Outlet(country="is", branch=1), Shop(country="is", branch=2)])
    assert db.create(Order(branch=1, country="is")).number == 1
    assert db.create(Order(branch=2, country="is")).number == 1
    assert db.create(Order(branch=1, country="is")).number == 2
    db.delete(Outlet, "is", 1, children="delete")
    assert [(each.branch, each.number) for each in db.page(Order).rows] == [(2, 1)]


def test_variants_of_children_share_a_sequence(db):
    db.save(Shop(country="is", branch=1))
    assert db.create(Order(branch=1, country="is")).number == 1
    assert db.create(Gift(branch=1, country="is")).number == 2
    with pytest.raises(AlreadyExists):
        db.save(Order(branch=1, country="is", number=2))
    for attempt in db.group(Shop, "is", 1):
        with attempt as group:
            assert group.create(Gift(branch=1, country="is")).number == 3


def test_a_root_with_a_generated_key_and_its_children_are_one_transaction(db):
    def body(tx):
        thread = tx.create(Thread())
        first = tx.create(Reply(id=thread.id))
        return tx.create(Reply(id=thread.id, answers=first.ref()))

    made = db.transact(body)
    assert (made.number, made.answers) == (2, Reply.at(made.id, 1))


def test_a_variant_does_not_change_the_group():
    class Other(Order):
        child_of = Thread

    with pytest.raises(InvalidDeclaration, match="leave child_of"):
        Schema(Shop, Thread, Order, Other)
    child = type(Model)("Child", (Model,), {"__annotations__": {"country": Key[str]}, "child_of": Outlet})
    with pytest.raises(InvalidDeclaration, match="child_of"):
        Schema(Shop, Outlet, child)


@pytest.mark.parametrize("number", ["text", 1.0, None, True, b"bytes"])
def test_a_number_of_another_type_is_refused(db, number):
    db.save(Shop(country="is", branch=1))
    db.create(Order(branch=1, country="is"))
    with pytest.raises(InvalidKey):
        db.save(Order(branch=1, country="is", number=number))


@pytest.mark.parametrize("country", [None, 7, "x" * 300])
def test_a_root_key_that_cannot_be_one_is_refused(db, country):
    with pytest.raises(InvalidKey):
        db.create(Order(branch=1, country=country))
