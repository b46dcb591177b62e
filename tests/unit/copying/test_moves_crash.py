"""A move whose controllers end at every request, or lose its answer, with writes between all of them: nothing is lost.

Each rule that a move rests on is broken once, and is found by that.
"""

from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from uuid import uuid4

import pytest

from oneread import connect
from oneread.copying import move_flow, moves
from oneread.copying.move_flow import MoveFlow
from oneread.copying.move_follower import Follower
from oneread.copying.move_states import MoveStates
from oneread.copying.moves import Move
from oneread.database import moving_verbs
from oneread.engines.memory import MemoryEngine
from oneread.errors import NotUnique, OnereadError, OutcomeUnknown, StoreMoved, Unavailable
from oneread.testing.clock import Clock
from oneread.transactions import moves as rules
from oneread.transactions.moves import FOLLOWER
from tests.stores import forget
from tests.unit.transfer import moved
from tests.unit.transfer.moved import SCHEMA, Account, Author, Board, Home, Member, Post

FAULTS = ("killed before", "killed after", "lost answer")
TURNS = ("switch", "back", "switch")
MOST = 150
"""Writes of the program: fewer than the requests of a move, or it would never end."""


class Killed(BaseException):
    pass


class World:
    """Two stores, a program that writes to the source before each write of a controller, and one fault."""

    def __init__(self, monkeypatch, kind="memory", **options):
        self.options, self.most = options, MOST
        self.emails = 7 if kind == "memory" else MOST  # a target of one row takes no values that are exchanged
        self.clock, self.name = Clock(), uuid4().hex
        self.urls = f"memory://{self.name}", f"memory://{self.name}-2" + ("?span=row" if kind == "row" else "")
        self.requests = self.writes = 0
        self.fault_at, self.fault, self.beside = 0, "", None
        self.is_dead = self.is_program = False
        self.tokens = []
        self.turns = 0
        self.numbers = []
        self._transaction = transaction = MemoryEngine.transaction
        monkeypatch.setattr(MemoryEngine, "transaction", lambda *given: self._step(transaction, *given))

    @contextmanager
    def programs(self):
        """What others do meanwhile: no request of it is counted, or fails."""
        before, self.is_program = self.is_program, True
        token = FOLLOWER.set("")  # they are other processes
        try:
            yield
        finally:
            FOLLOWER.reset(token)
            self.is_program = before

    def _step(self, transaction, *given):
        if self.is_program:
            return transaction(*given)
        if self.is_dead:
            raise Killed
        self.requests += 1
        is_due = self.requests == self.fault_at
        with self.programs():
            self.write()
            if is_due and self.beside is not None:
                self.beside()
        if is_due and self.fault == "killed before":
            self._die()
        answer = transaction(*given)
        if is_due and self.fault == "killed after":
            self._die()
        if is_due and self.fault == "lost answer":
            raise OutcomeUnknown("simulated")
        return answer

    def _die(self):
        self.is_dead = True
        raise Killed

    def write(self):
        """One write of the program, unless it has to wait."""
        self.writes += 1
        if self.writes > self.most:
            return
        self.clock.tick(0.001)
        with suppress(StoreMoved, Unavailable, NotUnique):
            self._write(self.db, self.writes)

    def _write(self, db, number):
        match number % 9:
            case 0:
                db.save(Member(number=number % 4, name=f"w{number}"))
            case 1:
                made = db.create(Post(board="a", to=Board.at("a"), author=Author.of(0), at=self.clock.now))
                self.numbers.append(made.number)
            case 2 | 3:
                db.counter("votes").add(1, once=f"token {number}")
                self.tokens.append(f"token {number}")
            case 4:
                db.patch(Member, 0, name=f"renamed {number}")
            case 5:
                db.delete(Account, number % 5)
            case 6:
                db.save(Account(number=number % 5, email=f"{number % self.emails}@new"))
            case 7:
                entries = db.page(Home, 0).rows
                db.mark(Home, 0, read=entries[0], seen=entries[0])
            case 8:
                db.save(Member(number=number, name="late"))
                db.patch(Member, 1, friend=Member.at(number))

    @contextmanager
    def opened(self):
        """The program, with a store that has a history."""
        with self.programs():
            db = connect(self.urls[0], SCHEMA, workers=0, clock=self.clock, cache="memory://", **self.options)
            moved.fill(db, self.clock)
            self.before = db.counter("votes").read()
        self.db = db
        try:
            yield
        finally:
            with self.programs():
                db.close()
                for each in self.urls:
                    forget(each)

    def control(self, *, late=False):
        """A controller that does a whole move, from where others left it."""
        self.is_dead = False
        if late:
            self.clock.tick(60)
        looks = iter(range(4))
        with Move(*self.urls, (SCHEMA, SCHEMA), self.clock, 0.0) as it:
            it.start()
            it.copy()
            it.follow(stop=lambda: next(looks, None) is None)
            it.switch(force=True)

    def control_and_return(self, *, late=False):
        """A controller that moves the store, goes back, and moves it again, from where others left it."""
        self.is_dead = False
        if late:
            self.clock.tick(60)
        with Move(*self.urls, (SCHEMA, SCHEMA), self.clock, 0.0) as it:
            it.start()
            it.copy()
            while self.turns < len(TURNS):
                looks = iter(range(4))
                it.follow(stop=lambda looks=looks: next(looks, None) is None)
                (it.back if TURNS[self.turns] == "back" else it.switch)(force=True)
                self.turns += 1
            self.most = 0
            it.follow(until_lag=0.0)

    def check_both(self):
        """What was acknowledged is in the store that takes the writes, each once, and the other one follows."""
        with self.programs():
            assert self.db.moved
            with (
                connect(self.urls[0], SCHEMA, workers=0, clock=self.clock, cache="memory://") as one,
                connect(self.urls[1], SCHEMA, workers=0, clock=self.clock, cache="memory://") as two,
            ):
                one.drain()
                assert moved.lines(two) == moved.lines(one)
                assert moved.reads(two) == moved.reads(one)
                assert two.counter("votes").read() == self.before + len(self.tokens)
                assert len({*self.numbers}) == len(self.numbers)
                assert {two.counter("votes").add(1, once=each) for each in self.tokens} <= {False}
                assert one.verify().clean
                assert two.verify().clean

    def check(self):
        """What was acknowledged is in the store that takes the writes, each once, and both are equal."""
        with self.programs():
            for _ in range(9):  # each kind of write is refused by now
                self.writes = min(self.writes, self.most - 1)
                self.write()
            with connect(self.urls[1], SCHEMA, workers=0, clock=self.clock, cache="memory://") as two:
                assert moved.lines(two) == moved.lines(self.db)
                assert moved.reads(two) == moved.reads(self.db)
                assert two.counter("votes").read() == self.before + len(self.tokens)
                assert len({*self.numbers}) == len(self.numbers)
                assert {two.counter("votes").add(1, once=each) for each in self.tokens} <= {False}
                assert two.verify().clean


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(rules, "HOLD_SECONDS", 1e-6)
    monkeypatch.setattr(rules, "_PAUSE", 1e-6)
    monkeypatch.setattr(moves, "PAUSE", 0)
    monkeypatch.setattr(move_flow, "PAUSE", 0)
    monkeypatch.setattr(moving_verbs, "_PAUSE", 0)
    monkeypatch.setattr(moving_verbs, "_LOOKS", 3)
    original = MemoryEngine.transaction

    def new(kind="memory", **options):
        monkeypatch.setattr(MemoryEngine, "transaction", original)
        return World(monkeypatch, kind, **options)

    return new


def run(world, fault_at, fault="", *, late=False):
    """A move with one fault, and another controller behind it; how many requests it took."""
    world.fault_at, world.fault = fault_at, fault
    with world.opened():
        with suppress(Killed, OnereadError):
            world.control()
        world.fault_at = 0
        world.control(late=late)
        world.check()
    return world.requests


@pytest.mark.parametrize(("kind", "every"), [("memory", 3), ("row", 100)])
@pytest.mark.parametrize("fault", FAULTS)
def test_controllers_end_at_every_request(world, fault, kind, every):
    """Each request has one of the faults; every other one is found by a controller that comes a minute later."""
    most = run(world(kind), 0)
    for fault_at in range(1 + FAULTS.index(fault), most + 1, every):
        run(world(kind), fault_at, fault, late=bool(fault_at % 2))


def new_returning(world):
    made = world()
    made.options = {"next": made.urls[1]}
    return made


def run_and_return(world, fault_at, fault="", *, late=False):
    world.fault_at, world.fault = fault_at, fault
    with world.opened():
        with suppress(Killed, OnereadError):
            world.control_and_return()
        world.fault_at = 0
        world.control_and_return(late=late)
        world.check_both()
    return world.requests


@pytest.mark.parametrize("fault", FAULTS)
def test_controllers_end_while_a_move_is_taken_back(world, fault):
    most = run_and_return(new_returning(world), 0)
    for fault_at in range(40 + FAULTS.index(fault), most + 1, 9):
        run_and_return(new_returning(world), fault_at, fault, late=bool(fault_at % 2))


def give_up(world):
    """Another controller that finds that a switch should have ended long ago."""
    world.clock.tick(60)
    looks = iter(range(2))
    with Move(*world.urls, (SCHEMA, SCHEMA), world.clock, 0.0) as other, suppress(OnereadError):
        other.follow(stop=lambda: next(looks, None) is None)
    world.write()


def switch_too(world):
    """Another controller that does the same, behind writes of each kind."""
    for _ in range(9):
        world.write()
    with suppress(OnereadError):
        world.control()


OTHERS = {"give up": give_up, "switch too": switch_too}


def run_two(world, fault_at, other):
    world.fault_at, world.beside = fault_at, lambda: OTHERS[other](world)
    with world.opened():
        with suppress(OnereadError):
            world.control()
        world.fault_at = 0
        world.control()
        world.check()
    return world.requests


@pytest.mark.parametrize("other", OTHERS)
def test_two_controllers_at_once(world, other):
    most = run(world(), 0)
    for fault_at in range(most % 2, most + 1, 2):
        run_two(world(), fault_at, other)


def no_drain(monkeypatch):
    """The switch is decided before the log has ended."""
    monkeypatch.setattr(MoveFlow, "drain", lambda *_given, **_named: None)


def no_epoch(monkeypatch):
    """Whoever has closed the source decides, whatever was decided since."""
    decide = MoveStates.decide

    def newest(states, epoch, state, **named):
        row = states.of_target().row
        return decide(states, epoch if row is None else row.epoch, state, **named)

    monkeypatch.setattr(MoveStates, "decide", newest)


def late_log(monkeypatch):
    """The log begins when the copy has ended."""
    note, add = rules._note, rules.add_to_log

    def noted(store, changed):
        move = (
            rules.decode_move(cell.value) if (cell := store.rows.read_values("system", [rules.MOVE_ROW])[0]) else None
        )
        monkeypatch.setattr(rules, "add_to_log", add if move is None or move.state != "copying" else lambda *_: None)
        note(store, changed)
        monkeypatch.setattr(rules, "add_to_log", add)

    monkeypatch.setattr(rules, "_note", noted)


def no_tokens(monkeypatch):
    """Tokens of adds that count once are left behind."""
    apply = Follower._apply
    monkeypatch.setattr(Follower, "_apply", lambda follower, state: apply(follower, state._replace(tokens=[])))


def no_turn(monkeypatch):
    """A follower that was taken over, or that comes when the store was switched, may still write to the target."""
    note, follower = rules._note, rules.FOLLOWER

    def noted(store, changed):
        monkeypatch.setattr(rules, "FOLLOWER", ContextVar("none", default=""))
        try:
            with suppress(StoreMoved) if follower.get() else nullcontext():
                note(store, changed)
        finally:
            monkeypatch.setattr(rules, "FOLLOWER", follower)

    monkeypatch.setattr(rules, "_note", noted)


def no_hold(monkeypatch):
    """Writers do not wait while the store is switched."""
    monkeypatch.setattr(rules, "_StoreHeld", type("Never", (Exception,), {}))
    note = rules._note

    def noted(store, changed):
        with suppress(rules._StoreHeld):
            note(store, changed)

    monkeypatch.setattr(rules, "_note", noted)


BROKEN = {
    no_drain: "give up",
    no_epoch: "give up",
    late_log: "give up",
    no_tokens: "give up",
    no_hold: "give up",
    no_turn: "switch too",
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_rule_that_is_broken_is_found(world, rule, monkeypatch):
    rule(monkeypatch)
    assert any(is_found(lambda at=at: run_two(world(), at, BROKEN[rule])) for at in range(70, 0, -1)), rule


def is_found(history):
    try:
        history()
    except AssertionError:
        return True
    return False
