"""Approximate counters: increments of the store where it changes one row at a time, exact elsewhere."""

from concurrent.futures import ThreadPoolExecutor
from random import Random as Chance
from uuid import uuid4

import pytest

from oneread import Index, Key, Model, Schema, connect, counter, descending, rollup
from oneread.counters.dumping import CounterLine, RestoreCounter
from oneread.counters.rows import FORGOTTEN, INCREMENTS, CounterSettings, name_key, number_of, shard_key
from oneread.counters.shard_counters import ShardCounters
from oneread.counters.wanted import Add
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import Corrupt, InvalidQuery, InvalidValue, OutcomeUnknown, Unavailable, UsageError
from oneread.plans.effects import Now, Random, Sleep
from oneread.store.requests import Increment, Read
from oneread.store.rows import Cell
from tests.unit.counters.handles import SCHEMA, handle, is_clean
from tests.unit.counters.test_dumping import dumped, load
from tests.unit.counters.test_shard_counters_lost import Lossy, Program, done, dropped, failed

VIEWS = name_key("views")
APPROXIMATE = CounterSettings(0, 20, approximate=True)


def views_of(face, **options):
    return handle(face, "views", approximate=True, **options)


def test_an_approximate_counter_counts_on_every_engine(face):
    views = views_of(face)
    for amount in (1, 2, 2**32):
        assert views.add(amount) is True
    assert views.read() == 3 + 2**32
    seen = views.look()
    assert (seen.raised, seen.lowered, seen.add_only) == (3 + 2**32, 0, True)
    assert views.settings().approximate is True
    assert [(each.name, each.approximate) for each in face.counters()] == [("views", True)]
    assert is_clean(face)


def test_deleting_one_leaves_nothing_and_the_next_add_begins_from_0(face):
    views = views_of(face, shards=3)
    for number in range(10):
        views.add(number + 1)
    views.delete()
    assert (views.read(), face.counters()) == (0, [])
    views.add(4)
    assert views.read() == 4
    views.configure(shards=7)
    assert (views.read(), views.settings().shards, views.settings().approximate) == (4, 7, True)


@pytest.mark.parametrize("first", [True, False])
def test_a_counter_is_of_one_kind(face, first):
    handle(face, "views", approximate=first).add()
    for _ in range(2):  # what the process remembers, and what it reads
        with pytest.raises(UsageError, match="one program adds to this counter approximately, another exactly"):
            handle(face, "views", approximate=not first).add()
        if hasattr(face.db.operations.counters.committer, "_known"):
            face.db.operations.counters.committer._known.clear()
    assert views_of(face).read() == 1
    views_of(face).delete()
    handle(face, "views", approximate=not first).add(5)
    assert views_of(face).read() == 5


def test_what_an_approximate_counter_refuses(face):
    views = views_of(face)
    with pytest.raises(UsageError, match="takes no token"):
        views.add(1, once="request 7")
    for amount in (0, -1, 2**32 + 1, True, 1.0):
        with pytest.raises(InvalidValue, match="only grows"):
            views.add(amount)
    with pytest.raises(UsageError, match="has no windows"):
        views_of(face, keep={"hour": 2})
    with pytest.raises(InvalidValue, match="True or False"):
        handle(face, "views", approximate="yes")
    views.add()
    with pytest.raises(UsageError, match="has no windows"):
        views.configure(keep={"day": 1})
    assert views.read() == 1


def test_a_batch_adds_to_it_exactly(face):
    views_of(face).add()
    batch = face.db.counter_batch(seconds=60.0, keep={"hour": 2})
    batch.add("views", 3)
    batch.add("votes", 4)
    batch.close()
    assert (views_of(face).read(), handle(face, "votes").read()) == (4, 4)
    with pytest.raises(InvalidQuery, match="keeps no windows of this size"):
        views_of(face).windows("hour")


def test_an_add_is_one_request(url):
    asked = []

    def observe(made, _answer):
        asked.append(type(made).__name__)

    with connect(url, Schema(Page), observers=(observe,), workers=0) as db:
        views = db.counter("hits", approximate=True)
        views.add()
        assert asked == ["Read", "CheckAndMutate", "Increment"]
        asked.clear()
        for _ in range(5):
            views.add()
        assert asked == ["Increment"] * 5
        asked.clear()
        assert views.read() == 6
        assert asked == ["Scan"]


class Page(Model[int]):
    number: Key[int]
    views: int = rollup(counter("views:{number}"), every=10)


class PagesByViews(Index[Page]):
    views: int = descending(Page.views)


def test_one_that_entities_show_is_refused_when_it_is_named(url):
    with connect(url, Schema(Page, PagesByViews), workers=0) as db:
        with pytest.raises(UsageError, match="entities show this counter"):
            db.counter("views:7", approximate=True)
        db.counter("views:of all", approximate=True).add(3)
        assert (db.counter("views:7").read(), db.counter("views:of all").read()) == (0, 3)


def test_one_that_entities_began_to_show_is_added_to_exactly_and_copied(url):
    """As by a program that does not have the field: it marks the counter once it has read the settings again."""
    with connect(url, Schema(Page, PagesByViews), workers=0) as db:
        db.run(ShardCounters().add([Add(name_key("views:7"), 3, APPROXIMATE)]))
        db.save(Page(number=7))
        assert db.get(Page, 7).views == 3
        db.run(ShardCounters().add([Add(name_key("views:7"), 2, APPROXIMATE)]))
        db.drain()
        assert (db.get(Page, 7).views, db.counter("views:7").read()) == (5, 5)
        db.counter("views:7").delete()
        db.drain()
        assert (db.get(Page, 7).views, db.counter("views:7").read()) == (0, 0)


def test_a_dump_keeps_the_kind(new_url):
    with connect(new_url(), Schema(Page), workers=0) as db:
        db.counter("hits", approximate=True).add(6)
        lines = dumped(db)
    with connect(new_url(), Schema(Page), workers=0) as db:
        load(db, lines)
        db.counter("hits", approximate=True).add()
        assert db.counter("hits").read() == 7
    line = CounterLine("hits", 1, 0, 20, keep={"day": 1}, approximate=True)
    with pytest.raises(InvalidValue, match="an approximate one has no windows"):
        RestoreCounter(line)


# Lost answers.


def approximate_program():
    program = Program(Lossy())
    program.do(program.counters.add([Add(VIEWS, 1, APPROXIMATE)]))
    program.engine.of = (Increment,)
    return program


def value_of(program):
    from_rows = Program(program.engine)
    rows = [from_rows.row(shard_key(VIEWS, number)) for number in range(20)]
    return sum(number_of(row, INCREMENTS) - number_of(row, FORGOTTEN) for row in rows if row)


@pytest.mark.parametrize(("fate", "counted"), [(done, 2), (dropped, 1)])
def test_an_add_whose_answer_is_lost_is_not_repeated(fate, counted):
    program = approximate_program()
    program.engine.fates = [fate]
    with pytest.raises(OutcomeUnknown):
        program.do(program.counters.add([Add(VIEWS, 1, APPROXIMATE)]))
    assert (value_of(program), program.engine.fates) == (counted, [])


def test_an_add_to_a_store_that_is_away_is_not_counted():
    program = approximate_program()
    program.engine.fates = [failed]
    with pytest.raises(Unavailable):
        program.do(program.counters.add([Add(VIEWS, 1, APPROXIMATE)]))
    assert value_of(program) == 1


# Many programs at the same time, request by request.


class Several:
    """Plans of several programs whose requests are answered in an order drawn by chance."""

    def __init__(self, seed):
        self.engine = OneRowMemoryEngine("remove")
        self.chance = Chance(seed)
        self.asked = 0
        self.now = 1_700_000_000_000

    def run(self, plans):
        waiting = dict.fromkeys(plans)
        while waiting:
            plan = self.chance.choice(list(waiting))
            try:
                waiting[plan] = self.answer(plan.send(waiting[plan]))
            except StopIteration:
                del waiting[plan]

    def answer(self, asked):
        self.now += 1
        if isinstance(asked, Now):
            return self.now
        if isinstance(asked, Random):
            return self.chance.random()
        if isinstance(asked, Sleep):
            return None
        self.asked += 1
        return self.engine.answer(asked)

    def value(self):
        rows = self.engine.answer(Read("counts", [shard_key(VIEWS, number) for number in range(256)], "dm"))
        return sum(number_of(row, INCREMENTS) - number_of(row, FORGOTTEN) for row in rows if row)


@pytest.mark.parametrize("seed", range(5))
def test_all_adds_of_many_programs_count_while_the_shards_change(seed):
    several = Several(seed)
    programs = [ShardCounters() for _ in range(10)]
    adds = [each.add([Add(VIEWS, 1, APPROXIMATE)]) for each in programs for _ in range(4)]
    changes = [programs[0].configure(VIEWS, APPROXIMATE, shards, None) for shards in (1, 256, 3)]
    several.run([*adds, *changes])
    assert several.value() == 40
    before = several.asked
    several.run([each.add([Add(VIEWS, 1, APPROXIMATE)]) for each in programs[1:] for _ in range(4)])
    assert (several.value(), several.asked - before) == (76, 36), "one request each, none repeated"


@pytest.mark.parametrize("seed", range(20))
def test_a_delete_forgets_what_it_has_read_and_nothing_that_comes_later(seed):
    """Adds that are done before the delete begins do not count; those that begin after it do, once."""
    several = Several(seed)
    one, other = ShardCounters(), ShardCounters()
    several.run([one.add([Add(VIEWS, 1000, APPROXIMATE)]) for _ in range(5)])
    several.run([other.add([Add(VIEWS, 1, APPROXIMATE)]) for _ in range(7)] + [one.delete(VIEWS)])
    assert 0 <= several.value() <= 7
    left = several.value()
    several.run([one.add([Add(VIEWS, 1000, APPROXIMATE)]) for _ in range(2)])
    assert several.value() == 2000 + left


@pytest.fixture(params=["bigtable", "hbase"])
def server_url(request, monkeypatch):
    """An empty store on a real server."""
    if request.param == "bigtable":
        monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", request.getfixturevalue("emulator").host)
        return f"bigtable://test/i{uuid4().hex}"
    place = request.getfixturevalue("hbase").place
    return f"hbase://{place}/default?prefix=approximate_{uuid4().hex[:12]}_&compression=none"


def test_a_real_server_counts_deletes_and_counts_again(server_url):
    asked = []
    with connect(server_url, SCHEMA, workers=0, observers=(lambda made, _answer: asked.append(type(made)),)) as db:
        views = db.counter("views", approximate=True, shards=1)
        views.add()
        asked.clear()
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(views.add, range(1, 21))) == [True] * 20
        assert asked == [Increment] * 20
        assert (views.read(), [each.number for each in views.shards()]) == (211, [0])
        views.delete()
        assert (views.read(), db.counters()) == (0, [])
        views.add(5)
        with db.counter_batch() as batch:
            batch.add("views", 2)
        assert (views.read(), db.verify().clean) == (7, True)


def test_a_number_that_is_not_of_an_increment_is_unreadable():
    with pytest.raises(Corrupt, match="unreadable"):
        number_of({INCREMENTS: Cell(b"1", 1)}, INCREMENTS)
