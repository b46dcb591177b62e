"""Writers and controllers of a move in threads of which one runs at a time, chosen at each request by a seed.

Time is simulated: it passes with each request, and where all of them sleep. A request may be lost, or its answer, or be
done a minute late; an actor may be paused for up to a minute, or end.
"""

import random
import threading
import time
from contextlib import contextmanager, suppress
from uuid import uuid4

from oneread import connect
from oneread.copying import move_flow, moves
from oneread.copying.moves import Move
from oneread.database import moving_verbs
from oneread.engines.memory import MemoryEngine
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import OnereadError, OutcomeUnknown
from oneread.evolution import leased_fence
from oneread.store.requests import CheckAndMutate, Increment, Mutate
from oneread.transactions import journal_recovery
from oneread.transactions import moves as rules
from tests.stores import forget
from tests.unit.transfer import moved
from tests.unit.transfer.moved import EARLY, SCHEMA, Author, Board, Member, Post

LEASES = {
    (leased_fence, "LEASE_SECONDS"): 20.0,
    (journal_recovery, "END_SECONDS"): 20.5,
    (leased_fence, "MOVING_LEASE_SECONDS"): 2.0,
    (journal_recovery, "MOVING_END_SECONDS"): 2.1,
}
WRITERS = 3
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
        answer, transaction = OneRowMemoryEngine.answer, MemoryEngine.transaction
        patch.setattr(OneRowMemoryEngine, "answer", lambda *given: self.request(answer, *given))
        patch.setattr(MemoryEngine, "transaction", lambda *given: self.request(transaction, *given))
        self.possible = {}
        self.tokens, self.sure, self.unsure, self.numbers = [], 0, 0, []
        self.trace = []
        self.ops = []

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
            do()

    def request(self, perform, engine, *given):
        actor = self.actors.get(threading.get_ident())
        if actor is None:
            return perform(engine, *given)
        self.now += self.chance.expovariate(100)
        self.give_turn(actor)
        fault = self.chance.random()
        if fault > self.faults or not actor.faults:
            return perform(engine, *given)
        is_change = type(given[0]) in (Mutate, CheckAndMutate, Increment)
        match self.chance.choice(actor.faults):
            case "ended":
                if self.chance.random() < 0.5:
                    perform(engine, *given)
                raise Ended
            case "paused":
                self.sleep(self.chance.choice([0.5, 3, 60]))
            case "late" if is_change:
                self.late.append((self.now + self.chance.choice([0.5, 5, 60]), lambda: perform(engine, *given)))
                raise OutcomeUnknown("simulated")
            case "unknown":
                if self.chance.random() < 0.5:
                    perform(engine, *given)
                raise OutcomeUnknown("simulated")
        return perform(engine, *given)

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
        assert self.all_over.acquire(timeout=60), "the actors do not end"
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
            db = connect(self.urls[0], SCHEMA, workers=0, clock=self.clock, cache="memory://", next=self.urls[1])
            while left:
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
                    name = "visits"
                    is_sure = db.counter("visits").add(1)
                case 5:
                    made = db.create(Post(board="a", to=Board.at("a"), author=Author.of(0), at=EARLY, text=text))
                    self.numbers.append((made.number, text))
        except OnereadError as error:
            self.ops.append((round(self.now,3), me, number, key, type(error).__name__, str(error)[:60], db.moved))
            return
        self.ops.append((round(self.now,3), me, number, key, self.possible.get(key), db.moved))
        if is_sure:
            self.trace.append((round(self.now,3), me, number, db.moved))
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

    def check(self):
        """What was acknowledged is in the target, once; the source is what it is."""
        self.now += 120
        self.do_late()
        self.controller()
        with Move(*self.urls, (SCHEMA, SCHEMA), self.clock, 10.0) as it:
            assert it.status().state == "switched"
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
            if not (self.sure <= counted <= self.sure + self.unsure):
                print("votes",one.counter("votes").read(),two.counter("votes").read(),"visits",one.counter("visits").read(),two.counter("visits").read(), len(self.tokens))
                print([e for e in self.tokens if two.counter("votes").add(1, once=e)], self.trace)
                move = one.run(rules.read_move())[0]
                print([(round(a/1000,3),s) for a,s in move.history], move.at/1000, move.state)
            assert self.sure <= counted <= self.sure + self.unsure
            for each in (one, two):
                each.run(each.operations.committer.end_older())
                each.drain()
            self.diff = differing(moved.lines(one), moved.lines(two))
            assert self.diff == ([], [])
            assert not any(two.counter("votes").add(1, once=each) for each in self.tokens)
            assert two.verify().clean


def differing(one, two):
    """The lines that only one of both has."""
    return [each for each in one if each not in two], [each for each in two if each not in one]
