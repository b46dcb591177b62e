"""Children of roots of all sorts: variants, generated keys, keys of several parts; and children that are variants."""

from uuid import UUID

import pytest

from oneread import GENERATED, Aggregate, Key, Model, Ref, Schema, by, connect, count, rollup
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


class Ballot(Model[int, int]):
    """Its root is declared further down, because it shows a total of its children."""

    child_of = "Poll"
    poll: Key[int]
    number: Key[int] = GENERATED


class Ballots(Aggregate[Ballot]):
    poll: int = by(Ballot.poll)
    ballots: int = count()


class Poll(Model[int]):
    poll: Key[int]
    ballots: int = rollup(Ballots.ballots)


SCHEMA = Schema(Shop, Outlet, Order, Gift, Thread, Reply, Ballot, Ballots, Poll)


@pytest.fixture
def db(url):
    with connect(url, SCHEMA) as opened:
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


def test_a_root_that_shows_a_total_of_its_children_is_named_in_quotes(db):
    db.save_all([Poll(poll=1), Poll(poll=2)])
    for attempt in db.group(Poll, 1):
        with attempt as group:
            assert [group.create(Ballot(poll=1)).number for _ in range(3)] == [1, 2, 3]
    assert [each.ballots for each in db.page(Poll)] == [3, 0]
    db.delete(Ballot, 1, 3)
    assert db.get(Poll, 1).ballots == 2
    db.delete(Poll, 1, children="delete")
    assert [each.poll for each in db.page(Poll)] == [2]


@pytest.mark.parametrize("name", ["Pol", "", "Ballots", "Ballot"])
def test_a_name_that_is_not_a_root_of_the_schema_is_refused(name):
    child = type(Model)("Child", (Model,), {"__annotations__": {"poll": Key[int]}, "child_of": name})
    with pytest.raises(InvalidDeclaration, match="child_of: expected a model of the schema"):
        Schema(Ballot, Ballots, Poll, child)


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
