"""Reads of a moved store are made in the target as well, and compared: what differs is found, what is late is not."""

import asyncio
import threading
from functools import partial

import pytest

from oneread import LaunchOptions, Schema, connect, connect_async
from oneread.database import async_launch, async_move_shadows
from oneread.database._sync import launch, move_shadows
from oneread.errors import InvalidValue, NotFound, UsageError
from oneread.testing.clock import Clock
from oneread.transactions import moves as rules
from oneread.transactions.move_gate import MoveGate
from tests.stores import KINDS, forget, make_url
from tests.unit.copying.test_moves import moving, opened
from tests.unit.database.faces import FACES
from tests.unit.database.test_launches import until
from tests.unit.transfer import moved
from tests.unit.transfer.moved import DECLARED, SCHEMA, Account, Home, Member

EXTRA = Member(number=77, name="more")
AT_ONCE = LaunchOptions(settle=0.0, guard=None)


@pytest.fixture(autouse=True)
def many_looks(monkeypatch):
    """As there is no pause between them."""
    for module in (launch, async_launch):
        monkeypatch.setattr(module, "_LOOKS_BEHIND", 100_000)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=KINDS)
def source(request, tmp_path):
    made = make_url(request.param, tmp_path)
    yield made
    forget(made)


@pytest.fixture(params=["lmdb", "row"])
def target(request, tmp_path):
    made = make_url(request.param, tmp_path)
    yield made
    forget(made)


@pytest.fixture
def following(source, target, clock):
    with opened(source, clock) as db:
        moved.fill(db, clock)
        clock.tick()
    with moving(source, target, clock) as it:
        it.start()
        it.copy()
        it.follow(until_lag=0.0)
        yield it


class Program:
    """A program of either face that knows both stores; `asked` are the requests that it makes of the target."""

    def __init__(self, face, move, urls, clock, schema=None):
        source, target = urls
        self.move = move
        self.here, self.asked = [], []
        place = target if schema is None else (target, schema)
        observers = (lambda request, _answer: self.here.append(request),)
        self.face = face(source, SCHEMA, workers=0, clock=clock, next=place, observers=observers)
        self.shadows = self.face.db._moves.shadows
        observers = (lambda request, _answer: self.asked.append(request),)
        is_async = face is FACES["async"]
        opening = partial(connect_async if is_async else connect, target, SCHEMA, workers=0, clock=clock)
        self.shadows._open = partial(opening, observers=observers)

    def __getattr__(self, verb):
        return getattr(self.face, verb)

    def shadow(self, percent=100):
        """From the first read on, which waits for the options."""
        self.move.shadow(percent)
        source = self.move._opened().states.source
        name = self.move.status().launch
        source.launches.set(name, options=AT_ONCE)
        self.tally = self.face.db.launches.keeper.track(name).tally

    def rest(self):
        self.find(Member, 0)  # lets a lease end, and tasks of the loop go on

    def until(self, holds):
        def after_a_rest():
            if isinstance(self.face, FACES["async"]):
                self.face.runner.run(pause())
            return holds(self.tally)

        until(after_a_rest)


async def pause():
    await asyncio.sleep(0.001)


@pytest.fixture(params=FACES.values(), ids=FACES)
def program(request, following, source, target, clock):
    made = Program(request.param, following, (source, target), clock)
    yield made
    made.face.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("oneread-launch")]


def spoil(target, clock, monkeypatch, change):
    """Changes the target behind the follower's back."""
    with monkeypatch.context() as patched:
        patched.setattr(rules, "_note", lambda *_given: None)
        patched.setattr(MoveGate, "enter", lambda *_given: iter(()))
        with opened(target, clock) as other:
            change(other)


READS = {
    "get": lambda db: db.get(Member, 1),
    "find": lambda db: db.find(Member, 1),
    "get_many": lambda db: db.get_many(Member, iter([(1,), (2,)])),
    "page": lambda db: db.page(Member, limit=3),
    "exists": lambda db: db.exists(Member, 1),
}


@pytest.mark.parametrize("verb", READS)
def test_a_read_is_made_once_in_the_target(program, verb):
    read = READS[verb]
    program.shadow()
    read(program)
    program.until(lambda tally: tally.compared == 1)
    program.here.clear()
    program.asked.clear()
    opening = program.tally.new.requests
    read(program)
    program.until(lambda tally: tally.compared == 2)
    here = [each for each in program.here if each.table != "system"]
    assert here == program.asked
    assert len(here) == (2 if verb == "page" else 1), "one of the members was deleted"
    assert program.tally.new.requests - opening == len(here)
    assert (program.tally.differing, program.tally.settled) == (0, 0)


def test_nothing_is_read_of_the_target_before_it_is_asked_for(program):
    for read in READS.values():
        read(program)
    assert program.shadows._target is None
    assert program.move.status().shadow == 0
    assert program.move.status().launch == ""


def test_none_is_shadowed_any_more_at_0(program):
    program.shadow()
    program.get(Member, 1)
    program.until(lambda tally: tally.compared == 1)
    assert program.move.shadow(0).shadow == 0
    until(lambda: program.rest() or not program.face.db._moves.seen().shadow)
    program.asked.clear()
    answered = program.tally.old.answered
    for read in READS.values():
        read(program)
    assert (program.asked, program.tally.old.answered) == ([], answered)


def test_a_share_is_shadowed(program, monkeypatch):
    chances = iter([0.299, 0.3, 0.0, 0.9])
    for module in (move_shadows, async_move_shadows):
        monkeypatch.setattr(module, "random", lambda: next(chances))
    program.shadow(30)
    for _ in range(4):
        program.get(Member, 1)
    program.until(lambda tally: tally.compared == 2)
    assert program.tally.old.answered == 2


def test_what_differs_is_found_and_named(program, target, clock, monkeypatch):
    spoil(target, clock, monkeypatch, lambda other: (other.patch(Member, 1, name="spoilt"), other.save(EXTRA)))
    program.shadow()
    for read in (
        lambda: program.get(Member, 1),
        lambda: program.find(Member, 2),
        lambda: program.find(Member, 77),
        lambda: program.get_many(Member, [(1,), (2,)]),
        lambda: program.page(Member, limit=2),
    ):
        read()
    program.until(lambda tally: tally.compared == 5)
    assert (program.tally.differing, program.tally.settled) == (4, 0)
    program.face.db.launches.keeper.flush()
    status = program.move.status()
    assert (status.shadow, status.shadowed, status.shadow_differs) == (100, 5, 4)
    until(lambda: len(program.move.differences()) == 4)
    found = {each.verb: each for each in program.move.differences()}
    assert found["get"].key == ("Member", 1)
    assert (found["get"].old["result"]["name"], found["get"].new["result"]["name"]) == ("M1", "spoilt")
    assert (found["find"].key, found["find"].old) == (("Member", 77), {"result": None})
    assert found["get_many"].key == ("Member", [[1], [2]])
    assert (found["page"].key, found["page"].row, found["page"].fields) == (("Member",), (1,), ("name",))
    assert found["page"].new["name"] == "spoilt"


def test_an_entity_that_the_target_lacks_is_found(program, target, clock, monkeypatch):
    spoil(target, clock, monkeypatch, lambda other: other.delete(Account, 0))
    program.shadow()
    assert program.get(Account, 0).number == 0
    with pytest.raises(NotFound):
        program.get(Account, 999)
    program.until(lambda tally: tally.compared == 2)
    until(lambda: len(program.move.differences()) == 1)
    assert (program.tally.differing, program.move.differences()[0].kind) == (1, "failed")


def test_what_is_not_followed_yet_is_waited_for(program, clock):
    program.shadow()
    clock.tick()
    program.patch(Member, 1, name="late")
    assert program.get(Member, 1).name == "late"
    program.until(lambda tally: sum(tally.new.dark))
    program.move.follow(until_lag=0.0)
    program.until(lambda tally: tally.compared == 1)
    assert (program.tally.differing, program.tally.settled, program.tally.late) == (0, 1, 0)


def test_a_target_that_does_not_follow_is_late(program, clock, monkeypatch):
    for module in (launch, async_launch):
        monkeypatch.setattr(module, "_LOOKS_BEHIND", 3)
    program.shadow()
    clock.tick()
    program.patch(Member, 1, name="late")
    program.get(Member, 1)
    program.until(lambda tally: tally.late == 1)
    assert (program.tally.compared, program.tally.differing) == (0, 0)


def around(program, verb, *steps):
    """Runs the next step before each read of the target; None for nothing."""
    found = program.shadows._launch(verb, program.move._opened().states.of_source().row)
    read, rest = found._new, iter(steps)

    def step():
        do = next(rest, None)
        if do is not None:
            do()

    def after_a_step(*given, **named):
        step()
        return read(*given, **named)

    async def after_a_step_async(*given, **named):
        step()
        return await read(*given, **named)

    found._new = after_a_step_async if isinstance(program.face, FACES["async"]) else after_a_step


def writes(source, clock, name):
    def write():
        clock.tick()
        with opened(source, clock) as other:
            other.patch(Member, 1, name=name)

    return write


def test_what_changes_all_the_time_does_not_count(program, source, clock):
    """The target has what the source had between two looks, which is neither of what these show."""
    program.shadow()
    read = program.shadows.verbs["get"]

    def old_after_a_write(*given, **named):
        if program.tally.new.dark != [0] * len(program.tally.new.dark):  # it is the second look
            writes(source, clock, "third")()
        return read(*given, **named)

    program.shadows._launch("get", program.move._opened().states.of_source().row)._old = old_after_a_write
    writes(source, clock, "first")()
    around(program, "get", None, lambda: (writes(source, clock, "second")(), program.move.follow(until_lag=0.0)))
    assert program.get(Member, 1).name == "first"
    program.until(lambda tally: sum(tally.new.dark))
    program.move.follow(until_lag=0.0)
    program.until(lambda tally: tally.compared == 1)
    assert (program.tally.differing, program.tally.settled) == (0, 1)


@pytest.mark.parametrize("when", ["before the second look", "in the second look"])
def test_what_is_written_after_the_switch_does_not_count(program, target, clock, monkeypatch, when):
    for module in (launch, async_launch):
        monkeypatch.setattr(module, "_LOOKS_BEHIND", 2)

    def switch():
        program.move.switch(force=True)
        with opened(target, clock) as other:
            other.patch(Member, 1, name="after")

    spoil(target, clock, monkeypatch, lambda other: other.patch(Member, 1, name="spoilt"))
    program.shadow()
    around(program, "get", *([switch] if when == "before the second look" else [None, switch]))
    assert program.get(Member, 1).name == "M1"
    program.until(lambda tally: tally.late == 1)
    assert (program.tally.compared, program.tally.differing) == (0, 0)
    until(lambda: program.rest() or program.face.db.moved)
    assert program.get(Member, 1).name == "after"
    assert program.move.status().shadow == 0


def test_it_ends_with_the_switch_and_does_not_begin_again_on_the_way_back(program, target, clock, monkeypatch):
    program.shadow()
    program.get(Member, 1)
    program.until(lambda tally: tally.compared == 1)
    program.move.switch(force=True)
    program.rest()
    with pytest.raises(UsageError, match="while the target follows"):
        program.move.shadow(5)
    program.move.follow(until_lag=0.0)
    assert program.move.back(force=True).shadow == 0
    spoil(target, clock, monkeypatch, lambda other: other.patch(Member, 1, name="spoilt"))
    assert program.move.shadow(100).shadow == 100
    program.rest()
    program.until(lambda _tally: program.get(Member, 1) and program.tally.differing)
    assert program.tally.late == 0
    program.move.cancel()
    until(lambda: program.rest() or not program.face.db._moves.seen())


def test_a_switch_that_was_given_up_does_not_end_it(program):
    program.shadow()
    states = program.move._opened().states
    states.decide(states.close(10), "following")
    assert program.move.status().shadow == 100


def test_other_verbs_are_made_of_these(program):
    program.shadow()
    assert len(program.pages(Member, batch=10)) == 1
    is_async = isinstance(program.face, FACES["async"])
    db = program.face.db
    found = program.together(lambda: db.get(Member, 1), lambda: db.find(Member, 3))
    assert [each.number for each in found] == [1, 3]
    program.until(lambda tally: tally.compared == 3)
    assert is_async == asyncio.iscoroutinefunction(db.together)
    assert program.tally.old.answered == 3


def test_pages_are_continued_in_both(program):
    program.shadow()
    first = program.page(Member, limit=2)
    assert program.page(Member, cursor=first.next)
    program.until(lambda tally: tally.compared == 2)
    assert program.tally.differing == 0


def test_what_asks_for_tasks_of_one_store_is_not_shadowed(program):
    program.shadow()
    program.find(Member, 0)
    program.page(Home, 0, lag=True)
    program.until(lambda tally: tally.compared == 1)
    assert program.tally.old.answered == 1


def test_a_program_that_knows_one_store_shadows_nothing(following, source, clock):
    following.shadow(100)
    with opened(source, clock) as db:
        assert db.get(Member, 1)
        assert db.launches.keeper.tracks == {}


def test_with_another_schema_pages_of_cursors_are_not_shadowed(following, source, target, clock):
    program = Program(FACES["sync"], following, (source, target), clock, Schema(*DECLARED))
    try:
        program.shadow()
        page = program.page(Member, limit=2)
        assert program.page(Member, limit=2, cursor=page.next)
        program.until(lambda tally: tally.compared == 1)
        assert program.tally.old.answered == 1
    finally:
        program.face.close()


@pytest.mark.parametrize("percent", [-1, 101, "5", None, True])
def test_what_is_not_a_percentage_is_refused(following, percent):
    with pytest.raises(InvalidValue, match="a percentage"):
        following.shadow(percent)


def test_a_copy_that_is_not_complete_is_not_read(source, target, clock):
    with opened(source, clock) as db:
        db.save(Member(number=1, name="M1"))
        with moving(source, target, clock) as it:
            it.start()
            with pytest.raises(UsageError, match="while the target follows"):
                it.shadow(5)


def test_its_launch_takes_no_reads(following):
    name = following.shadow(5).launch
    launches = following._opened().states.source.launches
    with pytest.raises(UsageError, match="answers all reads"):
        launches.set(name, reads=5)
    with pytest.raises(UsageError, match="when its new side answers all"):
        launches.finish(name)
    assert launches.report(name).shadow == 100


class Meter:
    """What telemetry is told of."""

    def __init__(self):
        self.answers, self.counts = [], []

    def note_launch(self, name, counts, _age):
        self.counts += [(name, what, count) for what, _attributes, count in counts if count]

    def note_launch_answer(self, name, side, _seconds):
        self.answers.append((name, side))


def test_telemetry_has_it_as_a_launch(program):
    meter = program.face.db.launches.keeper.meter = Meter()
    program.shadow()
    program.get(Member, 1)
    program.until(lambda tally: tally.compared == 1)
    name = program.move.status().launch
    assert meter.answers == [(name, "old")]
    program.until(lambda _tally: (name, "compared", 1) in meter.counts)


def test_what_is_beyond_the_bounds_is_dropped(program):
    program.shadow()
    source, name = program.move._opened().states.source, program.move.status().launch
    source.launches.set(name, options=LaunchOptions(requests=0, guard=None))
    program.get(Member, 1)
    program.until(lambda tally: tally.dropped == 1)
    assert (program.tally.compared, program.shadows._target) == (0, None)


def test_the_target_is_opened_without_workers(source, target, clock):
    made = FACES["sync"](source, SCHEMA, workers=2, clock=clock, next=target, telemetry=True, cache="memory://")
    with made.db as db, db._moves.shadows._open() as other:
        assert (other._worker, other._driver.cache, other._launches.keeper.meter) == (None, None, None)
