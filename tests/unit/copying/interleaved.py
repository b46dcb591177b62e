"""Writers and controllers of a move in threads of which one runs at a time, chosen at each request by a seed.

Time is simulated: it passes with each request, and where all of them sleep. A request may be lost, or its answer, or be
done a minute late; an actor may be paused for up to a minute, or end.
"""

import random
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from uuid import uuid4

from oneread import connect
from oneread.copying import move_flow, moves
from oneread.copying.moves import Move
from oneread.database import moving_verbs
from oneread.engines.memory import MemoryEngine
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import Closed, OnereadError, OutcomeUnknown
from oneread.evolution import leased_fence
from oneread.store.requests import CheckAndMutate, Increment, Mutate
from oneread.transactions import journal_recovery
from tests.stores import forget
from tests.unit.transfer import moved
from tests.unit.transfer.moved import EARLY, SCHEMA, Author, Board, Member, Post

LEASES = {
    (leased_fence, "LEASE_SECONDS"): 4.0,
    (journal_recovery, "END_SECONDS"): 4.1,
    (leased_fence, "MOVING_LEASE_SECONDS"): 2.0,
    (journal_recovery, "MOVING_END_SECONDS"): 2.1,
}
WRITERS = 3
MOST = 300
"""Writes of each writer, where no controller ends the move."""
AFTER = 6
"""Writes of each writer once the store has been switched."""


class Ended(BaseException):
    """The process of an actor is killed."""


class Actor:
    def __init__(self, name, faults):
        self.name, self.faults = name, faults
        self.turn = threading.Semaphore(0)
        self.until = 0.0
        self.is_over = False


class Interleaved:
    """Two stores, and who writes to them or moves one into the other."""

    def __init__(self, seed, patch, kinds, *, faults=0.01):
        self.chance, self.faults = random.Random(seed), faults
        random.seed(seed)
        self.now = 1_700_000_000.0
        self.actors, self.late, self.errors = {}, [], []
        self.all_over = threading.Semaphore(0)
        name = uuid4().hex
        self.urls = [
            f"memory://{name}-{place}" + ("?span=row" if kind == "row" else "") for place, kind in enumerate(kinds)
        ]
        for (module, constant), seconds in LEASES.items():
            patch.setattr(module, constant, seconds)
        patch.setattr(time, "clock_gettime", lambda _clock: self.now)
        patch.setattr(time, "sleep", self.sleep)
        for module in (moves, move_flow, moving_verbs):
            patch.setattr(module, "sleep", self.sleep)
        for module in (moves, move_flow):
            patch.setattr(module, "monotonic", lambda: self.now)
        self.is_inside = False
        for engine, name in ((OneRowMemoryEngine, "answer"), (MemoryEngine, "transaction")):
            done = getattr(engine, name)
            patch.setattr(
                engine, name, lambda *given, done=done: self.request(partial(self.do, done, *given), given[1])
            )
        self.possible = {}
        self.tokens, self.sure, self.unsure, self.numbers = [], 0, 0, []

    def clock(self):
        return int(self.now * 1000)

    # Turns.

    def sleep(self, seconds):
        actor = self.actors.get(threading.get_ident())
        if actor is None:
            self.now += seconds
            return
        actor.until = self.now + seconds
        self.give_turn(actor)

    def give_turn(self, actor):
        """Lets one of those run that do not sleep."""
        living = [each for each in self.actors.values() if not each.is_over]
        if not living:
            self.all_over.release()
            return
        self.now = max(self.now, min(each.until for each in living))
        self.do_late()
        chosen = self.chance.choice([each for each in living if each.until <= self.now])
        if chosen is not actor:
            chosen.turn.release()
            if not actor.is_over:
                actor.turn.acquire()

    def do_late(self):
        due = [each for each in self.late if each[0] <= self.now]
        self.late = [each for each in self.late if each[0] > self.now]
        for _when, do in due:
            with suppress(Closed):
                do()

    def do(self, done, *given):
        """Without a turn for what a store of one row asks of the one that it is made of."""
        before, self.is_inside = self.is_inside, True
        try:
            return done(*given)
        finally:
            self.is_inside = before

    def request(self, perform, asked):
        actor = self.actors.get(threading.get_ident())
        if actor is None or self.is_inside:
            return perform()
        self.now += self.chance.expovariate(100)
        self.give_turn(actor)
        fault = self.chance.random()
        if fault > self.faults or not actor.faults:
            return perform()
        is_change = type(asked) in (Mutate, CheckAndMutate, Increment)
        match self.chance.choice(actor.faults):
            case "ended":
                if self.chance.random() < 0.5:
                    perform()
                raise Ended
            case "paused":
                self.sleep(self.chance.choice([0.5, 3, 60]))
            case "late" if is_change:
                self.late.append((self.now + self.chance.choice([0.5, 5, 60]), perform))
                raise OutcomeUnknown("simulated")
            case "unknown":
                if self.chance.random() < 0.5:
                    perform()
                raise OutcomeUnknown("simulated")
        return perform()

    def run(self, *actors):
        """Runs actors until all are over."""

        def work(actor, do):
            actor.turn.acquire()
            try:
                do()
            except Ended:
                pass
            except BaseException as error:  # noqa: BLE001 - raised where it is seen
                self.errors.append(error)
            actor.is_over = True
            self.give_turn(actor)

        threads = []
        for name, faults, do in actors:
            actor = Actor(name, faults)
            threads.append(threading.Thread(target=work, args=(actor, do), daemon=True))
            threads[-1].start()
            self.actors[threads[-1].ident] = actor
        next(iter(self.actors.values())).turn.release()
        if not self.all_over.acquire(timeout=15):
            raise AssertionError("the actors do not end")
        self.actors.clear()
        for each in threads:
            each.join(10)
        if self.errors:
            raise self.errors[0]

    # What is done.

    @contextmanager
    def opened(self):
        with connect(self.urls[0], SCHEMA, workers=0, clock=self.clock, cache="memory://") as db:
            db.save_all([Member(number=number, name=f"M{number}") for number in range(4)])
            db.save(Board(board="a"))
        try:
            yield
        finally:
            for each in self.urls:
                forget(each)

    def writer(self, me):
        def write():
            left, number = AFTER, 0
            try:
                db = connect(self.urls[0], SCHEMA, workers=0, clock=self.clock, cache="memory://", next=self.urls[1])
            except OnereadError:
                return
            while left and number < MOST:
                left -= db.moved
                number += 1
                self.write(db, me, number)
                self.sleep(self.chance.choice([0, 0.01, 1]))

        return write

    def write(self, db, me, number):
        key = 100 + 10 * me + self.chance.randrange(3)
        text, token = f"{me} {number}", f"{me}-{number}"
        possible = self.possible.setdefault(key, [None])
        is_sure = False
        try:
            match self.chance.randrange(6):
                case 0 | 1:
                    possible.append(text)
                    db.save(Member(number=key, name=text))
                    self.possible[key] = [text]
                case 2:
                    possible.append(None)
                    db.delete(Member, key)
                    self.possible[key] = [None]
                case 3:
                    self.unsure += 1
                    is_sure = db.counter("votes").add(1, once=token)
                    self.tokens.append(token)
                case 4:
                    self.unsure += 1
                    is_sure = db.counter("visits").add(1)
                case 5:
                    made = db.create(Post(board="a", to=Board.at("a"), author=Author.of(0), at=EARLY, text=text))
                    self.numbers.append((made.number, text))
        except OnereadError:
            return
        if is_sure:
            self.unsure -= 1
            self.sure += 1

    def control(self):
        """A controller that moves the store, from where others left it."""
        looks = iter(range(self.chance.randrange(20)))
        with Move(*self.urls, (SCHEMA, SCHEMA), self.clock, 10.0) as it:
            it.start()
            it.copy()
            it.follow(stop=lambda: next(looks, None) is None)
            it.switch(force=True)

    def controller(self):
        for _ in range(20):
            with suppress(OnereadError):
                self.control()
                return
            self.sleep(3)

    def check(self):
        """What was acknowledged is in the target, once; the source is what it is."""
        self.now += 120
        self.do_late()
        with Move(*self.urls, (SCHEMA, SCHEMA), self.clock, 10.0) as it:
            it.start()
            it.copy()
            it.follow(until_lag=0.0)
            assert it.switch(force=True).state == "switched"
            it.follow(until_lag=0.0)
        with (
            connect(self.urls[0], SCHEMA, workers=0, clock=self.clock, cache="memory://") as one,
            connect(self.urls[1], SCHEMA, workers=0, clock=self.clock, cache="memory://") as two,
        ):
            for key, values in self.possible.items():
                found = two.find(Member, key)
                assert (None if found is None else found.name) in values
            for number, text in self.numbers:
                assert two.get(Post, "a", number).text == text
            counted = two.counter("votes").read() + two.counter("visits").read()
            assert self.sure <= counted <= self.sure + self.unsure
            for each in (one, two):
                each.run(each.operations.committer.end_older())
                each.drain()
            assert differing(moved.lines(one), moved.lines(two)) == ([], [])
            assert not any(two.counter("votes").add(1, once=each) for each in self.tokens)
            assert two.verify().clean


def differing(one, two):
    """The lines that only one of both has."""
    return [each for each in one if each not in two], [each for each in two if each not in one]
