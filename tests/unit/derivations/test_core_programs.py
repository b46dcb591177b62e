"""Compiled code decides what Python does: the rows to the byte, outcome, cost; or leaves it to Python."""

import random
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from typing import Annotated
from uuid import UUID

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    count,
    descending,
    rollup,
    shown,
    within,
)
from oneread.engines.lmdb import binding, transaction
from oneread.errors import InvalidKey, InvalidValue, NotUnique, OnereadError
from tests.schemas.trial import make, run
from tests.unit.derivations.known_to_core import (
    FED,
    FED_BY_PYTHON,
    FED_MODELS,
    FED_WIDELY,
    KNOWN,
    MODELS,
    Ahead,
    Behind,
    ByRaw,
    BySort,
    Chance,
    Club,
    ClubName,
    Colour,
    Fan,
    FedChance,
    Held,
    Joining,
    Known,
    Line,
    Notice,
    Pass,
    Person,
    Place,
    Post,
    Seen,
    Stall,
    Tagged,
    Trip,
    Visit,
)
from tests.unit.derivations.twin import Twin

SEEDS = 60
HISTORIES = 12
STEPS = 500
DAY = date(2020, 1, 1)
GIVEN = ("people", "stalls", "lines", "helped", "views", "likes", "made", "changed", "posts", "fans")

pytestmark = pytest.mark.skipif(binding.Program is None, reason="oneread-native is not installed")


def test_random_schemas(monkeypatch):
    twin = Twin(monkeypatch)
    for seed in range(SEEDS):
        run(make(seed), ("lmdb",))
    assert twin.decided.total() > 20


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_random_values_of_known_models(seed, monkeypatch, tmp_path):
    twin, chance, now = Twin(monkeypatch), Chance(random.Random(seed)), [1_000_000]
    with connect(f"lmdb://{tmp_path}/store?durability=none", KNOWN, clock=lambda: now[0], workers=0) as db:
        kept = []
        for _ in range(STEPS):
            now[0] += chance.one(0, 0, 1, 5, 900, -3, 1000 - now[0] % 1000)
            with suppress(OnereadError):
                do(db, chance, kept)
        assert not db.verify().faults
    assert len(twin.decided) >= len(MODELS) - 1
    assert twin.decided.total() > STEPS // 4
    assert twin.followed > 5
    assert twin.holders > 3
    assert twin.together
    assert twin.patched > 10
    assert twin.deleted
    assert twin.in_turn > 3


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_what_follows_from_rows_of_feeds_and_logs(seed, monkeypatch, tmp_path):
    twin, chance, now = Twin(monkeypatch), FedChance(random.Random(seed)), [1_000_000]
    schema = FED_BY_PYTHON if seed % 4 == 3 else FED
    with connect(f"lmdb://{tmp_path}/store?durability=none", schema, clock=lambda: now[0], workers=0) as db:
        kept = []
        for _ in range(STEPS):
            now[0] += chance.one(0, 0, 1, 5, 900, -3)
            with suppress(OnereadError):
                do(db, chance, kept)
            if not chance.random.randrange(40):
                db.drain()
        db.drain()
        assert not db.verify().faults
    assert set(twin.decided) >= {each.__name__ for each in FED_MODELS}
    assert twin.decided.total() > STEPS // 4
    assert twin.entries > 100
    assert twin.logged > 50
    assert 3 < twin.by_python < twin.decided.total() // (1 if schema is FED_BY_PYTHON else 3)
    assert twin.tasks > 3
    assert twin.holders > 3
    assert twin.together
    assert twin.patched > 10
    assert twin.deleted
    assert twin.in_turn > 3


@pytest.fixture
def fed(twin, tmp_path):
    """A store with a club and a fan, whose logs have entries, and what was decided twice in it."""
    with connect(f"lmdb://{tmp_path}/store?durability=none", FED_WIDELY, workers=0) as db:
        db.save(Club(code="A", name="Ulm"))
        db.save(Fan(number=1, name="Ann"))
        db.save(post_of(0))
        db.save(joining_of(0))
        yield db
        db.drain()
        assert not db.verify().faults
        assert twin.entries


def test_entries_of_a_log_have_a_hundred_keys(twin, fed):
    for size in (100, 101, 200, 250):
        twin.by_python = 0
        fed.save_all([Club(code=f"{size}/{number}", name="") for number in range(size)])
        assert not twin.by_python


def test_entries_that_many_memberships_show(twin, fed):
    """They are Python's, from the hundred and first on."""
    fed.save_all([joining_of(number) for number in range(1, 100)])
    for more, by_python in ((0, 0), (1, 1)):
        twin.by_python = 0
        fed.save_all([joining_of(100 + number) for number in range(more)])
        fed.save(post_of(1))
        assert (twin.by_python > 0) == by_python


def test_entries_of_a_bulk_of_items(twin, fed):
    """50,000 follow in one commit at most; tasks do the rest."""
    fed.save(Club(code="B", name=""))
    fed.save_all([Fan(number=number, name="") for number in range(2, 201)])
    members = [msgspec.structs.replace(joining_of(number), fan=Fan.at(number)) for number in range(2, 201)]
    fed.save_all([*members, msgspec.structs.replace(joining_of(201), club=Club.at("B"))])
    fed.save_all([msgspec.structs.replace(each, number=each.number + 300, club=Club.at("B")) for each in members])
    twin.by_python = 0
    others = [msgspec.structs.replace(post_of(300 + number), club=ClubName.of("B")) for number in range(125)]
    fed.save_all([*[post_of(number) for number in range(1, 127)], *others])
    assert twin.by_python == 1


def test_entries_of_a_bulk_of_memberships(twin, fed):
    fed.save_all([Fan(number=number, name="") for number in range(2, 260)])
    fed.save_all([post_of(number) for number in range(1, 200)])
    twin.by_python = 0
    fed.save_all([msgspec.structs.replace(joining_of(number), fan=Fan.at(number)) for number in range(2, 253)])
    assert twin.by_python == 1


def test_an_entry_of_a_member_who_comes_and_goes_in_one_commit(twin, fed):
    def move(tx):
        tx.delete(Joining, 0)
        tx.save(joining_of(1))
        tx.delete(Post, UUID(int=0))
        tx.save(post_of(1))

    twin.by_python = 0
    fed.transact(move)
    fed.transact(lambda tx: [tx.save(joining_of(0)), tx.delete(Joining, 1), tx.save(post_of(0))])
    assert (twin.in_turn, twin.by_python) == (2, 0)


def test_members_leave_in_the_commit_of_an_item(twin, tmp_path):
    """There were too many for one commit before."""
    with connect(f"lmdb://{tmp_path}/store?durability=none", FED, workers=0) as db:
        db.save(Club(code="A", name="Ulm"))
        db.save_all([Fan(number=number, name="") for number in range(6)])
        db.save(post_of(0))
        for number in range(6):
            db.save(msgspec.structs.replace(joining_of(number), fan=Fan.at(number)))
        twin.by_python = 0
        db.transact(lambda tx: [tx.delete(Joining, 1), tx.delete(Joining, 2), tx.save(post_of(1))])
        assert (twin.in_turn, twin.by_python) == (1, 0)
        db.drain()
        assert not db.verify().faults


def test_a_member_who_comes_to_as_many_items_as_follow(twin, tmp_path):
    """Of notices only the last one is not too old, by a microsecond."""
    clock = [5_000]
    with connect(f"lmdb://{tmp_path}/store?durability=none", FED, clock=lambda: clock[0], workers=0) as db:
        db.save(Club(code="A", name="Ulm"))
        db.save_all([Fan(number=number, name="") for number in range(3)])
        db.save_all([post_of(number) for number in range(4)])
        now = datetime.fromtimestamp(10, UTC)
        ages = [timedelta(seconds=4, microseconds=each) for each in (1, 0, -1, -999, -1000)]
        db.save_all([Notice(number=at, club=Club.at("A"), at=now - age) for at, age in enumerate(ages)])
        clock[0] = 10_000
        for number in range(2):
            twin.by_python = 0
            db.save(msgspec.structs.replace(joining_of(number), fan=Fan.at(number)))
        assert not twin.by_python
        db.save(post_of(4))
        db.save(msgspec.structs.replace(joining_of(2), fan=Fan.at(2)))
        assert twin.by_python == 1
        assert not db.verify().faults


def test_an_item_that_is_as_before_when_its_commit_ends(twin, fed):
    twin.by_python = 0
    fed.transact(lambda tx: [tx.save(msgspec.structs.replace(post_of(0), text="x")), tx.save(post_of(0))])
    assert (twin.in_turn, twin.by_python) == (1, 0)


def post_of(number):
    at = datetime(2020, 1, 1, tzinfo=UTC)
    return Post(
        id=UUID(int=number), club=ClubName.of("A"), second=None, at=at, text="", price=None, rank=None, by=None
    )  # fmt: skip


def joining_of(number):
    return Joining(number=number, fan=Fan.at(1), club=Club.at("A"), role="", since=DAY)


def test_a_sum_that_python_writes_with_an_exponent(monkeypatch, tmp_path):
    twin, chance = Twin(monkeypatch), Chance(random.Random(1))
    with connect(f"lmdb://{tmp_path}/store?durability=none", KNOWN, workers=0) as db:
        db.save(Place(code="A", name="", area=None, since=DAY))
        db.save(Person(number=1, name="", home=None))
        visits = [visit_of(chance, number) for number in range(2)]
        for visit, price in zip(visits, ("0.0000011", "-0.000001"), strict=True):
            db.save(msgspec.structs.replace(visit, price=Decimal(price)))
        assert (twin.decided["Visit"], twin.left["Visit"]) == (1, 1)  # their sum is 1E-7
        assert db.native.commits["snapshot, an unusual group"] == 1
        db.save(msgspec.structs.replace(visits[1], price=Decimal("-0.0000009")))
        assert not db.verify().faults


@pytest.fixture
def twin(monkeypatch):
    return Twin(monkeypatch)


@pytest.fixture
def known(twin, tmp_path):
    """A store with a place and a person, and what was decided twice in it."""
    with connect(f"lmdb://{tmp_path}/store?durability=none", KNOWN, workers=0) as db:
        db.save(Place(code="A", name="Ulm", area=None, since=DAY))
        db.save(Person(number=1, name="Ann", home=None))
        yield db
        assert not db.verify().faults
        assert twin.decided


def test_a_source_that_is_saved_twice_in_a_transaction(twin, known):
    place, visit = known.get(Place, "A"), known.save(visit_of(Chance(random.Random(1)), 1))

    def save_twice(tx):
        tx.save(msgspec.structs.replace(place, name="Bonn"))
        tx.save(msgspec.structs.replace(place, name="Köln"))

    known.transact(save_twice)
    assert known.get(Visit, visit.ref()).place.name == "Köln"
    assert twin.in_turn == 1


def test_holders_of_holders_and_what_shows_them(twin, known):
    visit = known.save(msgspec.structs.replace(visit_of(Chance(random.Random(1)), 1), by=Known.of(1)))
    known.patch(Person, 1, home=Seen.of("A"))
    known.patch(Place, "A", name="Bonn")
    found = known.get(Visit, visit.ref())
    assert (found.place.name, found.by.place) == ("Bonn", "Bonn")
    assert twin.sources == 1
    assert not twin.left


def test_holders_of_several_sources_of_one_commit(twin, known):
    known.save(Place(code="B", name="Bonn", area=None, since=DAY))
    known.save_all([Person(number=each, name="Eve", home=Seen.of("AB"[each % 2])) for each in (2, 3)])
    known.save_all([Place(code=each, name="Köln", area=None, since=DAY) for each in "AB"])
    assert [known.get(Person, each).home.name for each in (2, 3)] == ["Köln", "Köln"]
    assert not twin.left


class Town(Model[int]):
    number: Key[int]
    name: str


class TownOf(Copy[Town]):
    name: str


class Shop(Model[int]):
    number: Key[int]
    town: TownOf
    sign: Annotated[str, msgspec.Meta(max_length=3)]
    lamps: int = rollup(lambda: Lamps.lamps)


class ShopOf(Copy[Shop]):
    town: str = shown(within(Shop.town, Town.name))


class Lamp(Model[int]):
    number: Key[int]
    shop: Ref[Shop]


class Lamps(Aggregate[Lamp]):
    shop: Ref[Shop] = by(Lamp.shop)
    lamps: int = count()


class Sale(Model[int]):
    number: Key[int]
    shop: ShopOf


def test_holders_that_their_own_limits_refuse_are_left_to_python(twin, tmp_path):
    url, schema = f"lmdb://{tmp_path}/store?durability=none", Schema(Town, Shop, Lamp, Lamps, Sale)
    with connect(url, schema, workers=0) as db:
        db.save(Town(number=1, name="Ulm"))
        db.save(Shop(number=1, town=TownOf.of(1), sign="abc"))
        db.save(Sale(number=1, shop=ShopOf.of(1)))
        db.patch(Town, 1, name="Bonn")
        db.save(Lamp(number=1, shop=Shop.at(1)))
        assert db.get(Sale, 1).shop.town == "Bonn"
        assert not twin.left
        layout = db.operations.catalog.entity_types[Shop].layout
        accepts, layout._take = layout._take, refuse
        db.patch(Town, 1, name="Köln")
        with pytest.raises(OnereadError):
            db.save(Lamp(number=2, shop=Shop.at(1)))
        layout._take = accepts
        assert twin.left == {"Town": 1, "Lamp": 1}
        assert db.survey().set_aside == 1


def refuse(document):
    """Refuses what a limit refuses that was declared when there were entities beyond it."""
    raise msgspec.ValidationError(document)


def test_what_waits_to_go_with_its_source(known):
    stalls = [Stall(number=number, place=Place.at("A"), keeper=None) for number in range(9)]
    known.save_all(stalls)
    known.delete(Place, "A")
    for stall in stalls:
        with pytest.raises(OnereadError):
            known.save(stall)


def test_holders_that_come_in_the_same_transaction(monkeypatch, tmp_path):
    twin = Twin(monkeypatch)
    with connect(f"lmdb://{tmp_path}/store?durability=none", KNOWN, workers=0) as db:
        place = db.save(Place(code="A", name="Ulm", area=None, since=DAY))

        def settle(tx):
            tx.create(Person(number=1, name="Ann", home=Seen.of("A")))
            tx.patch(Place, "A", name="Bonn")

        db.transact(settle)
        assert db.get(Person, 1).home.name == "Bonn"
        assert (twin.left["Person"], twin.in_turn) == (1, 0)
        assert db.native.commits["snapshot, holders follow"] == 1

        def leave(tx):
            tx.delete(Person, 1)
            tx.save(place)

        db.transact(leave)
        assert not db.verify().faults


class ShopsOfTown(Aggregate[Shop]):
    town: TownOf = by(Shop.town)
    shops: int = count()


class TownsByShops(Index[ShopsOfTown]):
    shops: int = descending(ShopsOfTown.shops)
    town: TownOf = shown(ShopsOfTown.town)


def test_groups_of_copies_that_indexes_list_are_left_to_python(twin, tmp_path):
    schema = Schema(Town, Shop, Lamp, Lamps, ShopsOfTown, TownsByShops)
    with connect(f"lmdb://{tmp_path}/store?durability=none", schema, workers=0) as db:
        db.save(Town(number=1, name="Ulm"))
        db.save(Shop(number=1, town=TownOf.of(1), sign="abc"))
        assert (twin.left["Shop"], twin.decided["Shop"]) == (1, 0)
        assert [(row.shops, row.town.ref) for row in db.page(TownsByShops)] == [(1, Town.at(1))]


class ShortName(Copy[Town]):
    name: Annotated[str, msgspec.Meta(max_length=3)]


class Market(Model[int]):
    number: Key[int]
    town: ShortName


def test_only_what_holders_take_has_to_fit_them(twin, tmp_path):
    with connect(f"lmdb://{tmp_path}/store?durability=none", Schema(Town, Market), workers=0) as db:
        db.save(Town(number=1, name="Ulm"))
        db.save(Market(number=1, town=ShortName.of(1)))

        def rename_and_found(tx):
            tx.patch(Town, 1, name="Bon")
            tx.create(Town(number=2, name="Heidelberg"))

        db.transact(rename_and_found)
        assert db.get(Town, 2).name == "Heidelberg"
        assert twin.in_turn == 1
        with pytest.raises(InvalidValue):
            db.transact(lambda tx: tx.patch(Town, 1, name="Heidelberg"))


def test_a_value_behind_a_reference_that_follows(twin, known):
    """Of a hidden copy, by an entity that is in a group which others show."""
    person = known.get(Person, 1)
    known.create(Line(place=Place.at("A"), by=Person.at(1), text="", season=None))
    known.save(msgspec.structs.replace(person, name="Bea", friend=Person.at(1), home=Seen.of("A")))
    assert twin.holders == 1
    [row] = known.page(Behind, Person.at(1))
    assert (row.home, row.name) == (Place.at("A"), "Bea")


def test_a_new_entity_that_shows_counters(twin, known):
    known.counter("likes:2").add(3)
    saved = [known.save(trip(number)) for number in (1, 2)]
    assert [each.likes for each in saved] == [0, 3]
    assert (twin.decided["Trip"], twin.left["Trip"]) == (1, 1)
    known.counter("trip:1").add(2)
    known.save(trip(1, 5))
    assert (twin.decided["Trip"], twin.left["Trip"]) == (2, 1)
    known.delete(Trip, 1)
    assert known.save(trip(1, 5)).views == 2


def test_counters_of_an_entity_that_is_made_twice_in_a_transaction(known):
    def make(tx):
        tx.save(trip(1))
        tx.delete(Trip, 1)
        tx.save(trip(1, 4))

    known.transact(make)
    assert known.get(Trip, 1).views == 0


def trip(number, *hours):
    """A trip that has the unique values of some hours."""
    times = [datetime(2020, 1, 1, hour, tzinfo=UTC) for hour in hours]
    return Trip(number=number, by=Person.at(1), ticket=None, times=times)


@pytest.mark.parametrize("later", [1, 0, -5])
def test_unique_values_that_pass_within_a_commit(later, twin, tmp_path):
    now = [1_000_000]
    with connect(f"lmdb://{tmp_path}/store?durability=none", KNOWN, clock=lambda: now[0], workers=0) as db:
        db.save(Place(code="A", name="", area=None, since=DAY))
        db.save(Person(number=1, name="", home=None))
        db.save(trip(1, 0, 1))
        now[0] += later
        db.save_all([trip(1, 1), trip(2, 0)])
        db.save_all([trip(1, 0), trip(2, 1)])
        db.transact(lambda tx: [tx.save(each) for each in (trip(1), trip(3, 0), trip(3))])
        db.transact(lambda tx: [tx.save(each) for each in (trip(4, 0, 2, 3), trip(4, 0), trip(4, 2))])
        assert not twin.left["Trip"]
        with pytest.raises(NotUnique):
            db.save_all([trip(5, 4), trip(6, 4)])
        with pytest.raises(NotUnique):
            db.save(trip(5, 1))
        assert twin.left["Trip"]
        assert not db.verify().faults


@pytest.mark.parametrize("early", [-1, 0, 1])
def test_rows_that_end_now(early, monkeypatch, tmp_path):
    twin, now, until = Twin(monkeypatch), [1_000_000], datetime.fromtimestamp(1_000, UTC)
    with connect(f"lmdb://{tmp_path}/store?durability=none", KNOWN, clock=lambda: now[0], workers=0) as db:
        db.save(Place(code="A", name="", area=None, since=DAY))
        db.save(Person(number=1, name="", home=None))
        db.save(Pass(code="p", until=until))
        now[0] += 2000 + early
        db.save(Trip(number=1, by=Person.at(1), ticket=Held.of("p"), times=None))
        assert twin.decided["Trip"]
        assert len([*db.page(Ahead, Person.at(1))]) == (early < 0)


def test_groups_that_indexes_list(twin, known):
    chance = Chance(random.Random(1))
    visits = [visit_of(chance, number) for number in range(3)]
    visits = [
        msgspec.structs.replace(each, colour=Colour.BLUE, is_paid=True, level=None, tags=["a"]) for each in visits
    ]
    known.save(visits[0])
    assert [*known.page(BySort)] == [*known.page(Tagged)] == []
    known.save_all([msgspec.structs.replace(each, rank=4) for each in visits[1:]])
    [row] = known.page(BySort)
    assert (row.ranks, row.hour, row.visits) == (8, visits[0].at, 3)
    [row] = known.page(Tagged)
    assert (row.visits, row.tag) == (3, "a")
    known.patch(Visit, visits[1].person, visits[1].day, visits[1].id, tip=Decimal(1))  # which no row of an index shows
    known.save(msgspec.structs.replace(visits[0], id=UUID(int=9)))  # which changes a row, and not its key
    assert [row.visits for row in known.page(BySort)] == [4]
    known.delete(Visit, visits[0].person, visits[0].day, UUID(int=9))
    for each in visits[1:]:
        known.delete(Visit, each.person, each.day, each.id)
    assert [*known.page(BySort)] == [*known.page(Tagged)] == []
    assert not twin.left["Visit"]
    assert [(row.day, row.rank) for row in known.page(ByRaw)] == [(visits[0].day, None)]


def test_a_group_whose_index_row_would_be_too_long(twin, known):
    known.patch(Place, "A", name="n" * 80)
    visit, outcomes = visit_of(Chance(random.Random(1)), 1), []
    for size in range(140, 165):
        with suppress(InvalidKey):
            known.save(msgspec.structs.replace(visit, raw=b"r" * size))
        outcomes.append(twin.decided["Visit"])
    assert 1 < outcomes[-1] < len(outcomes)


@pytest.mark.parametrize(("size", "is_short"), [(996, True), (997, False)])
def test_a_newest_value_at_its_limit(size, is_short, twin, known):
    at = datetime(2020, 1, 1, tzinfo=UTC)
    visit = msgspec.structs.replace(visit_of(Chance(random.Random(1)), 1), left=at, note="n" * size)
    with suppress(OnereadError):
        known.save(visit)
    assert twin.decided["Visit"] == is_short


def visit_of(chance, number):
    """A visit that compiled code decides, of one day and place."""
    at = datetime(2020, 1, 1, tzinfo=UTC)
    return msgspec.structs.replace(
        chance.visit(), person=Person.at(1), day=DAY, id=UUID(int=number), place=Seen.of("A"), by=None, ticket=None,
        guide=None, at=at, left=None, tip=None, weight=1.5, rank=None, note="", raw=b"",
    )  # fmt: skip


@pytest.mark.parametrize(("count", "is_known"), [(63, True), (64, False)])
def test_a_class_of_more_fields_is_left_to_python(count, is_known, tmp_path):
    fields = {f"f{place}": int for place in range(count)}
    large = type(Model)("Large", (Model,), {"__annotations__": {"key": Key[int], **fields}})
    with connect(f"lmdb://{tmp_path}/store?durability=none", Schema(large), workers=0) as db:
        program = transaction.program_of(db.operations.catalog.core_programs[large].table)
        assert (program is not None) == is_known
        saved = db.save(large(key=1, **dict.fromkeys(fields, 7)))
        assert db.get(large, 1) == saved


def test_every_table_of_random_schemas_is_a_program():
    tables = []
    for seed in range(SEEDS):
        schema, _names = make(seed).declare()
        with connect("memory://", schema) as db:
            catalog = db.operations.catalog
            tables += [catalog.core_programs[cls] for cls in catalog.stored_types]
    assert all(binding.Program(each.table) for each in tables if each is not None)
    assert len(tables) > len([each for each in tables if each is not None]) > SEEDS // 2


def test_how_much_of_the_example_sites_is_known():
    known = [program is not None for program in programs_of_examples()]
    assert (sum(known), len(known)) == (38, 38)


def programs_of_examples():
    """The table of each stored class of the example sites, None where Python decides."""
    for site in ("community", "events", "qa", "search", "shop"):
        module = import_module(f"examples.{site}.schema")
        schema = next(each for each in vars(module).values() if isinstance(each, Schema))
        with connect("memory://", schema) as db:
            catalog = db.operations.catalog
            yield from [catalog.core_programs[cls] for cls in catalog.stored_types]


def do(db, chance, kept):
    """One step: mostly a save, of a new entity, or of one that was stored and is changed or not."""
    entity = chance.entity()
    match chance.random.randrange(36):
        case 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8:
            kept += changed(db, chance, entity)
        case 9 | 10 | 11 | 12:
            db.transact(lambda tx: [written(tx, chance, kept) for _ in range(chance.one(1, 2, 3, 6))])
        case 13:
            db.create(entity)
        case 14 if kept:
            db.save(kept[-1], if_version=chance.one(0, 1, db.version(kept[-1])))
        case 15 | 16 if kept:
            kept.append(db.save(chance.one(*kept[-9:])))
        case 17:
            kept += db.save_all([entity, *[chance.entity() for _ in range(chance.one(1, 3, 9))]])
        case 20:
            db.counter(chance.one("trip:0", "trip:1", "trip:2", "likes:1")).add(chance.one(1, 5, -2))
        case 18 | 19 if kept:
            latest = {each.ref(): each for each in kept[-chance.one(2, 4, 20) :]}
            kept += db.save_all(latest.values())
        case 20:
            kept.append(db.patch(Place, chance.one(*"ABCD"), name=chance.text()[:60]))
        case _:
            kept.append(db.save(entity))


def changed(db, chance, entity):
    """The entities that a verb gives back which changes one that may not be there."""
    match chance.random.randrange(9):
        case 0 | 1 | 2:
            deleted(db, chance, entity)
            return []
        case 3 | 4:
            return [db.upsert(entity, **some_fields(chance, entity))]
        case 5:
            return [db.get_or_create(entity)[0]]
        case _:
            return [patched(db, chance, entity)]


def written(tx, chance, kept):
    """One step of a transaction; what it refuses is left out."""
    entity = chance.one(chance.entity(), *kept[-3:])
    verb = chance.one(tx.save, tx.save, tx.create, tx.patch, tx.patch, tx.delete)
    with suppress(OnereadError):
        if verb == tx.delete:
            tx.delete(type(entity), entity.ref())
        elif verb == tx.patch:
            tx.patch(type(entity), entity.ref(), **some_fields(chance, entity))
        else:
            kept.append(verb(entity))


def deleted(db, chance, entity):
    version = db.version(entity) if not chance.random.randrange(4) else None
    db.delete(type(entity), entity.ref(), if_version=version)


def patched(db, chance, entity):
    """An entity, which may not be there, with some fields of another."""
    stored = db.get(type(entity), entity.ref())
    version = db.version(stored) if stored is not None and not chance.random.randrange(4) else None
    return db.patch(type(entity), entity.ref(), if_version=version, **some_fields(chance, entity))


def some_fields(chance, entity):
    own = [name for name in type(entity).__struct_fields__[len(entity.ref().key) :] if name not in GIVEN]
    names = chance.random.sample(own, min(chance.one(1, 1, 2, 99), len(own)))
    return {name: getattr(entity, name) for name in names}
