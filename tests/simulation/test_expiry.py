"""Entities expire while processes write, follow, sweep and die: right after every commit, and at the end."""

import os
from datetime import UTC, datetime, timedelta
from random import Random

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
    count,
    descending,
    expires,
    field,
    greatest,
    newest,
    reference,
    shown,
    total,
    within,
)
from oneread.derivations import emitted_record
from oneread.derivations.changes import Save
from oneread.derivations.emitted_record import SUMS
from oneread.plans.trace import Trace
from oneread.testing.comparison import run_tasks
from oneread.testing.processes import JUMPS, START, Violation
from oneread.testing.schedules import USUAL, ByChance, Fate
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, DrainStep, PatchStep, SaveAllStep, SaveStep, Step, SweepStep, UpsertStep

SEEDS = max(1, int(os.environ.get("ONEREAD_SIM_SEEDS", "100")) // 10)
WRITERS, STEPS = 3, 10


class User(Model[int]):
    number: Key[int]
    name: str = ""


class Who(Copy[User]):
    name: str


class Session(Model[str]):
    token: Key[str]
    who: Who
    nick: str | None = None
    hits: int = 0
    until: datetime | None = None
    ttl = expires("until")


class Nick(Index[Session]):
    unique = True
    nick: str = by(Session.nick)


class SessionsOf(Index[Session]):
    who: Who = by(Session.who)
    until: datetime = newest(Session.until)
    hits: int = shown(Session.hits)


class HitsOf(Aggregate[Session]):
    who: Who = by(Session.who)
    sessions: int = count()
    hits: int = total(Session.hits)


class LivingOf(Aggregate[Session]):
    """Its groups lose a session before a sweep deletes it, or when it is committed; with another `until` it is back."""

    ttl = expires(Session.until)
    who: Who = by(Session.who)
    sessions: int = count()
    many: int = count(where=field(Session.hits) > 2)
    most: int | None = greatest(Session.hits)


class Living(Index[LivingOf]):
    sessions: int = descending(LivingOf.sessions)
    most: int | None = shown(LivingOf.most)


class Note(Model[int]):
    number: Key[int]
    session: Ref[Session] = reference(on_delete="delete")


class NotesOfNick(Aggregate[Note]):
    """By a value and until a time of another entity."""

    ttl = expires(within(Note.session, Session.until), after=timedelta(milliseconds=500))
    nick: str | None = by(within(Note.session, Session.nick), none="last")
    notes: int = count()


class Lock(Model[int]):
    number: Key[int]
    session: Ref[Session] = reference(on_delete="refuse")


SCHEMA = Schema(User, Session, Nick, SessionsOf, HitsOf, LivingOf, Living, Note, NotesOfNick, Lock, inline=1)


class OneClock(Simulation):
    """All processes agree about what has expired, so the oracle can follow."""

    def process(self, name, steps):
        super().process(name, steps)
        self._processes[-1].skew = 0


class Unjudged(Step, frozen=True):
    """A step that the oracle does not do: it cannot know whose clock was right."""

    step: Step

    def plan(self, operations):
        return self.step.plan(operations)


class ManyClocks(Simulation):
    """Clocks are seconds apart and jump by years: only what is stored is looked at."""

    def settle(self):
        self._check(lambda: run_tasks(self.audit, self._driver, self.operations))
        self.now += max(JUMPS)
        self.audit.check()
        sweep = self.operations.begin_sweep(2)
        while self._driver.run(sweep.step(), Trace()):
            self.audit.check()
        self._check(lambda: run_tasks(self.audit, self._driver, self.operations))
        self.left = [each for each in self.audit.entities().values() if getattr(each, "until", None) is not None]


def session(chance):
    soon = datetime.fromtimestamp(START / 1000, UTC) + timedelta(milliseconds=chance.randrange(0, 4000))
    return Session(
        token=chance.choice("abc"),
        who=Who.of(chance.randrange(2)),
        nick=chance.choice((None, "x", "y")),
        hits=chance.randrange(5),
        until=chance.choice((soon, soon, None)),
    )


def step(chance):
    token, number = chance.choice("abc"), chance.randrange(3)
    acts = [
        lambda: SaveStep(session(chance)),
        lambda: SaveStep(session(chance), "create"),
        lambda: SaveStep(session(chance), "keep"),
        lambda: UpsertStep(session(chance), {"hits": 7}),
        lambda: PatchStep(Session, (token,), {"hits": number}),
        lambda: PatchStep(Session, (token,), {"until": None}),
        lambda: PatchStep(User, (chance.randrange(2),), {"name": chance.choice("pqr")}),
        lambda: DeleteStep(Session, (token,)),
        lambda: SaveStep(Note(number=number, session=Session.at(token))),
        lambda: SaveStep(Lock(number=number, session=Session.at(token))),
        lambda: DeleteStep(Lock, (number,)),
    ]
    return chance.choice(acts)()


def weighted(seed, *without):
    return ByChance(Random(seed), {fate: weight for fate, weight in USUAL.items() if fate not in without})


def programs(seed):
    """What each process does, by name."""
    chance = Random(f"expiry {seed}")
    writers = {f"writer {number}": [step(chance) for _ in range(STEPS)] for number in range(WRITERS)}
    sweepers = {f"sweeper {number}": [SweepStep(2)] * STEPS for number in range(2)}
    return writers | sweepers | {"worker": [DrainStep(2)] * STEPS}


def simulate(seed):
    simulation = OneClock(seed, SCHEMA, fates=weighted(seed, Fate.SKEW, Fate.JUMP))
    simulation.prepare(SaveAllStep([User(number=number) for number in range(2)]))
    for name, steps in programs(seed).items():
        simulation.process(name, steps)
    simulation.run()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_expires_is_right_after_every_commit(seed):
    simulate(seed)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_clocks_that_disagree_leave_nothing_behind(seed):
    simulation = ManyClocks(seed, SCHEMA, fates=weighted(seed))
    simulation.prepare(SaveAllStep([User(number=number) for number in range(2)]))
    for name, steps in programs(seed).items():
        simulation.process(name, [Unjudged(each) for each in steps])
    simulation.run()
    held = {
        key.key for each in simulation.audit.entities().values() if isinstance(each, Lock) for key in [each.session]
    }
    assert all((each.token,) in held for each in simulation.left)


def test_a_write_that_takes_what_expired_for_alive_is_found(monkeypatch):
    monkeypatch.setattr(Save, "_attempt_living", lambda change, seen, version, _now: change._attempt(seen, version))
    with pytest.raises(Violation):
        simulate_all()


def test_a_contribution_that_is_not_taken_back_when_its_time_is_over_is_found(monkeypatch):
    diff_sums = emitted_record._DIFFS[SUMS]

    def keep_ended(diff, token, old, new):
        if new:
            diff_sums(diff, token, old, new)

    monkeypatch.setitem(emitted_record._DIFFS, SUMS, keep_ended)
    with pytest.raises(Violation):
        simulate_all()


def test_a_contribution_that_is_taken_back_as_it_would_be_now_is_found(monkeypatch):
    """Of the entity and not of its record: what has ended would be taken away although it never was there."""
    diff_sums = emitted_record._DIFFS[SUMS]

    def forget_old(diff, token, old, new):
        diff_sums(diff, token, old or new, new)

    monkeypatch.setitem(emitted_record._DIFFS, SUMS, forget_old)
    with pytest.raises(Violation):
        simulate_all()


def simulate_all():
    for seed in range(40):
        simulate(seed)
