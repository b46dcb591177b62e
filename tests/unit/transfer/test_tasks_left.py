"""A dump of a store whose tasks are not done gives what its copies show once they are."""

import pytest

from oneread import Copy, Index, Key, Model, Ref, Schema, by, connect, reference, within
from oneread.derivations.pending_tasks import sources_with_pending_tasks
from oneread.testing.clock import Clock
from oneread.transfer.load import DumpReader, parse_head
from tests.properties.test_dump_round_trip import dumped, load


class Region(Model[str]):
    code: Key[str]
    name: str


class Within(Copy[Region]):
    name: str


class City(Model[str]):
    code: Key[str]
    name: str
    region: Within


class Home(Copy[City]):
    missing_ok = True

    name: str
    region: str | None = within(City.region, Within.name)


class Person(Model[int]):
    number: Key[int]
    name: str
    home: Home | None = None
    friend: Ref["Person"] | None = reference(missing_ok=True)


class Buyer(Copy[Person]):
    name: str
    city: str | None = within(Person.home, Home.name)
    region: str | None = within(Person.home, Home.region)


class Giver(Copy[Person]):
    missing_ok = True

    name: str


class Order(Model[int]):
    number: Key[int]
    buyer: Buyer
    giver: Giver = Giver.of(99)
    sent_to: Ref[City] | None = reference(missing_ok=True)


class PeopleOfRegionOfFriend(Index[Person]):
    """Its targets are in the same model, and so may be missing when a line of it is loaded."""

    region: str = by(within(within(Person.friend, Person.home), Home.region))


class OrdersOfRegion(Index[Order]):
    region: str = by(within(within(Order.sent_to, City.region), Within.name))


SCHEMA = Schema(Region, City, Person, Order, PeopleOfRegionOfFriend, OrdersOfRegion, inline=0)


class Owner(Copy[Person]):
    on_delete = "delete"

    name: str


class Pet(Model[int]):
    number: Key[int]
    name: str
    owner: Owner


class OfPet(Copy[Pet]):
    name: str


class OfPetCleared(Copy[Pet]):
    on_delete = "clear"

    name: str


class Toy(Model[int]):
    number: Key[int]
    pet: OfPet
    lent_to: OfPetCleared | None = None


WITH_PETS = Schema(Region, City, Person, Pet, Toy, inline=0)


def opened(url, schema):
    return connect(url, schema, workers=0, clock=Clock())


@pytest.fixture
def db(url):
    with opened(url, SCHEMA) as db:
        db.save_all([Region(code="n", name="North"), City(code="a", name="Ayr", region=Within.of("n"))])
        db.save(Person(number=2, name="Bo", home=Home.of("a")))
        db.save(Person(number=1, name="Al", friend=Person.at(2)))
        db.save(Order(number=1, buyer=Buyer.of(2), sent_to=City.at("a")))
        db.drain()
        yield db


def pending(db):
    return db.run(sources_with_pending_tasks())


def everything(db, *models):
    return [each for model in models for page in db.scan(model) for each in page]


def assert_follows(db, target):
    """What is dumped is what the tasks make of it, to the byte."""
    assert pending(db)
    text = dumped(db)
    db.drain()
    assert not pending(db)
    assert dumped(db) == text
    with opened(target, SCHEMA) as loaded:
        load(loaded, text)
        assert everything(loaded, Person, Order) == everything(db, Person, Order)
        assert loaded.page(PeopleOfRegionOfFriend, limit=9).rows == db.page(PeopleOfRegionOfFriend, limit=9).rows
        assert loaded.verify().clean


def test_a_source_of_a_source_has_changed(db, target):
    db.patch(City, "a", name="Bath")
    assert_follows(db, target)
    assert db.get(Order, 1).buyer.city == "Bath"


def test_a_source_three_references_away_has_changed(db, target):
    db.patch(Region, "n", name="South")
    assert_follows(db, target)
    assert db.get(Order, 1).buyer.region == "South"


def test_sources_at_every_distance_have_changed(db, target):
    db.patch(Person, 2, name="Cy")
    db.patch(City, "a", name="Bath")
    db.patch(Region, "n", name="South")
    assert_follows(db, target)
    assert db.get(Order, 1).buyer == Buyer(ref=Person.at(2), name="Cy", city="Bath", region="South")


def test_a_source_of_a_source_is_deleted(db, target):
    db.delete(City, "a")
    assert_follows(db, target)
    assert db.get(Order, 1).buyer.city == "Ayr"


def test_a_source_was_changed_and_deleted(db, target):
    db.patch(City, "a", name="Bath")
    db.delete(City, "a")
    assert_follows(db, target)
    assert db.get(Order, 1).buyer.city == "Bath"


def test_holders_that_are_saved_behind_the_delete_of_a_source_have_nothing_of_it(db, target):
    db.delete(City, "a")
    db.save(Person(number=3, name="Di", home=Home.of("a")))
    db.save(Order(number=2, buyer=Buyer.of(3)))
    assert_follows(db, target)
    assert db.get(Person, 3).home == Home(ref=City.at("a"), name=None, region=None, deleted=True)
    assert db.get(Order, 2).buyer.city is None


def test_a_holder_whose_source_is_not_loaded_has_what_the_tasks_would_have_given_it(db, target):
    db.patch(Region, "n", name="South")
    first, *lines = dumped(db).splitlines()
    with opened(target, SCHEMA) as loaded:
        reader = DumpReader(loaded.operations.catalog, parse_head(first))
        with loaded.bulk() as bulk:
            for line in lines[:-1]:
                if b'"name":"Bo"' not in line and b'"model":"Order"' not in line:
                    bulk.apply(reader.change(line), len(line))
        assert [row.region for row in loaded.page(PeopleOfRegionOfFriend, limit=9).rows] == ["South"]


@pytest.mark.parametrize("between", [False, True], ids=["tasks at the end", "tasks between the lines"])
def test_holders_of_what_waits_to_be_deleted_with_a_source(url, target, between):
    with opened(url, WITH_PETS) as db:
        db.save(Person(number=1, name="Al"))
        db.save(Pet(number=1, name="Rex", owner=Owner.of(1)))
        db.save(Toy(number=1, pet=OfPet.of(1), lent_to=OfPetCleared.of(1)))
        db.drain()
        db.patch(Pet, 1, name="Max")
        db.delete(Person, 1)
        first, *lines = dumped(db).splitlines()
        db.drain()
        with opened(target, WITH_PETS) as loaded:
            reader = DumpReader(loaded.operations.catalog, parse_head(first))
            for line in lines[:-1]:
                with loaded.bulk() as bulk:
                    bulk.apply(reader.change(line), len(line))
                if between:
                    loaded.drain()
            loaded.drain()
            assert everything(loaded, Pet, Toy) == everything(db, Pet, Toy)
            assert loaded.get(Toy, 1).pet == OfPet(ref=Pet.at(1), name="Max", deleted=True)
            assert loaded.verify().clean
