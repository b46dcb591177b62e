"""What expires, against the oracle, while the clock moves and sweeps run: entities, views, copies and groups.

Also what a dump makes of it.
"""

import json
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneread import (
    CREATED,
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
    expires,
    field,
    greatest,
    least,
    newest,
    newest_values,
    oldest,
    reference,
    rollup,
    shown,
    total,
    within,
)
from oneread.database import lists
from oneread.derivations.catalog import Catalog
from oneread.models.expiry import ExpiryRule
from oneread.testing.clock import START
from oneread.testing.comparison import Disagreement
from oneread.testing.naive import look
from oneread.testing.proof import Proof, prove
from oneread.testing.steps import PatchStep, SaveStep, TickStep
from oneread.testing.strategies import histories
from tests.properties.test_dump_round_trip import dumped, load


class User(Model[int]):
    number: Key[int]
    name: str = ""
    sessions: int = rollup(lambda: SessionsOfUser.sessions)
    living: int = rollup(lambda: LivingOfUser.sessions)


class Who(Copy[User]):
    name: str


class Session(Model[str]):
    token: Key[str]
    who: Who
    nick: str | None = None
    hits: int = 0
    until: datetime | None = None
    ttl = expires("until")


class WebSession(Session):
    agent: str = ""


class Nick(Index[Session]):
    unique = True
    nick: str = by(Session.nick)


class SessionsOf(Index[Session]):
    who: Who = by(Session.who)
    until: datetime = oldest(Session.until)
    hits: int = shown(Session.hits)


class RecentSessions(Index[Session]):
    """Its rows end with their entity, or before."""

    ttl = expires(Session.until, after=timedelta(seconds=5))
    until: datetime = newest(Session.until)
    who: Who = shown(Session.who)


class SessionsOfUser(Aggregate[Session]):
    who: Who = by(Session.who)
    sessions: int = count()
    hits: int = total(Session.hits)
    most: int | None = greatest(Session.hits)


class LivingOfUser(Aggregate[Session]):
    """Its groups may lose a session that is not deleted with it, because others refer to it."""

    ttl = expires(Session.until, after=timedelta(seconds=5))
    who: Who = by(Session.who)
    sessions: int = count()
    hits: int = total(Session.hits, where=field(Session.hits) > 1)
    most: int | None = greatest(Session.hits)
    last: list[str] = newest_values(Session.token, by=Session.until, most=2)


class LivingUsers(Index[LivingOfUser]):
    sessions: int = descending(LivingOfUser.sessions)
    hits: int = shown(LivingOfUser.hits)
    last: list[str] = shown(LivingOfUser.last)


class NotedSession(Copy[Session]):
    on_delete = "delete"
    hits: int


class Note(Model[int]):
    number: Key[int]
    session: Ref[Session] = reference(on_delete="delete")
    noted: NotedSession | None = None
    made_at: datetime = CREATED
    ttl = expires("made_at", after=timedelta(seconds=50))


class SeenSession(Copy[Session]):
    hits: int
    until: datetime | None


class Seen(Model[int]):
    """What it saw of a session outlives it."""

    number: Key[int]
    session: SeenSession


class RecentlySeen(Index[Seen]):
    """Its rows end with a copied time, and follow it."""

    ttl = expires(within(Seen.session, SeenSession.until), after=timedelta(seconds=20))
    hits: int = by(within(Seen.session, SeenSession.hits))


class SeenOfHits(Aggregate[Seen]):
    """A copied time ends what an entity adds to a group by a copied value, which it moves it to and from as well."""

    ttl = expires(within(Seen.session, SeenSession.until), after=timedelta(seconds=10))
    shards = 2
    hits: int = by(within(Seen.session, SeenSession.hits))
    seen: int = count()
    first: int | None = least(Seen.number)


class SeenHits(Index[SeenOfHits]):
    seen: int = descending(SeenOfHits.seen)
    first: int | None = shown(SeenOfHits.first)


class Lock(Model[int]):
    number: Key[int]
    session: Ref[Session] = reference(on_delete="refuse")
    made_at: datetime = CREATED
    slot: int | None = None


class LocksOfLiving(Index[Lock]):
    """Its rows end with a time of another entity, which no copy shows."""

    ttl = expires(within(Lock.session, Session.until))
    made_at: datetime = oldest(Lock.made_at)


class RecentLocks(Index[Lock]):
    ttl = expires(Lock.made_at, after=timedelta(seconds=20))
    made_at: datetime = newest(Lock.made_at)
    session: Ref[Session] = shown(Lock.session)


class SlotOfLock(Index[Lock]):
    """A value that is free again after a time, though its entity lives on."""

    unique = True
    ttl = expires(Lock.made_at, after=timedelta(seconds=30))
    slot: int = by(Lock.slot)


class LocksOfUser(Aggregate[Lock]):
    """A time and a group that are two entities away, which no copy shows."""

    ttl = expires(within(Lock.session, Session.until))
    user: Ref[User] = by(within(Lock.session, within(Session.who, Who.ref)))
    locks: int = count()
    slots: int = total(Lock.slot)


class LockedUsers(Index[LocksOfUser]):
    locks: int = descending(LocksOfUser.locks)


SCHEMA = Schema(
    User, Session, WebSession, Nick, SessionsOf, RecentSessions, SessionsOfUser, LivingOfUser, LivingUsers, Note, Seen,
    RecentlySeen, SeenOfHits, SeenHits, Lock, RecentLocks, LocksOfLiving, SlotOfLock, LocksOfUser, LockedUsers,
)  # fmt: skip
VIEWS = [view for view in SCHEMA.views if not view.is_added]

SOON = st.integers(-10, 300).map(lambda seconds: START + timedelta(seconds=seconds))
GIVEN = {
    Session.until: st.none() | SOON,
    Session.nick: st.none() | st.sampled_from("ab"),
    Lock.slot: st.none() | st.integers(1, 2),
}


@given(histories(SCHEMA, GIVEN, longest=20))
@settings(deadline=None)
def test_the_oracle_agrees_after_any_history(history):
    prove(SCHEMA, history)


@given(histories(SCHEMA, GIVEN, longest=15))
@settings(deadline=None, max_examples=10)
def test_the_oracle_agrees_on_lmdb(tmp_path_factory, history):
    prove(SCHEMA, history, f"lmdb://{tmp_path_factory.mktemp('store')}/db")


@given(histories(SCHEMA, GIVEN, longest=15), st.sampled_from([101, 1000]), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=max(10, settings().max_examples // 4))
def test_a_dump_holds_what_is_stored_and_a_sweep_does_the_same_to_it(history, later, drained, swept):
    """Also before tasks have run. The clock is ahead of all versions when the dump is loaded, so they stay."""
    with Proof(SCHEMA) as proof:
        for step in history:
            proof.do(step)
        if drained:
            proof.database.drain()
        proof.clock.tick(later)
        text = dumped(proof.database)
        with connect("memory://", SCHEMA, clock=proof.clock, workers=0) as loaded:
            load(loaded, text)
            assert dumped(loaded) == text or not drained
            assert loaded.verify().faults == ()
            for db in (proof.database, loaded):
                db.drain()
                if swept:
                    db.sweep()
                    db.drain()
            assert entities(loaded) == entities(proof.database)
            assert loaded.verify().faults == ()
            for view in [each for each in (*SCHEMA.models, *VIEWS) if swept or not counts(each)]:
                assert rows(loaded, view) == rows(proof.database, view)


def counts(view):
    """Whether this has numbers that a sweep changes, or shows them: a loaded entity is not in groups it has left."""
    having = [each for each in (view, view.type_arguments[0]) if isinstance(each, type) and issubclass(each, Aggregate)]
    return view is User or any(each.ttl is not None for each in having)


@given(
    histories(SCHEMA, GIVEN, longest=15),
    st.lists(st.sampled_from([0.001, 1, 4.999, 7, 60]), min_size=60, max_size=60),
    st.sampled_from(["memory://", "memory://?span=row"]),
)
@settings(deadline=None)
def test_nothing_is_late_after_a_sweep_though_the_clock_moves_between_all_commits(history, ticks, url):
    """What an entity has added is taken away, as it was added; and nothing that never was."""
    with Proof(SCHEMA, url) as proof:
        for step, seconds in zip(history, ticks, strict=False):
            proof.do(step)
            proof.do(TickStep(seconds))
        proof.look_swept()
        assert proof.database.verify().clean
        assert set(proof.database.survey().unswept) <= {"Session", "Note"}  # which others may hold


def rows(db, view):
    return [look(row) for page in db.scan(view) for row in page]


def entities(db):
    """The lines of its dump, without versions: those of deletes are of their moment."""
    return [{**json.loads(line), "version": 0} for line in dumped(db).splitlines()[1:-1]]


def test_a_mask_left_out_is_found(monkeypatch):
    """The oracle sees an expired row of each list, and an expired entity, that a read does not leave out."""
    ada, session = User(number=1), Session(token="a", who=Who.of(1), nick="a", until=START + timedelta(seconds=5))
    history = [SaveStep(ada), SaveStep(session), TickStep(10)]
    prove(SCHEMA, history)
    with monkeypatch.context() as broken:
        broken.setattr(lists, "is_living_row", lambda _row, _now: True)
        with pytest.raises(Disagreement, match="Nick: too many"):
            prove(SCHEMA, history)
    with monkeypatch.context() as broken:
        broken.setattr(ExpiryRule, "is_expired", lambda _rule, _entity, _now: False)
        with pytest.raises(Disagreement, match="Session: too many"):
            prove(SCHEMA, history)


def test_an_expiry_taken_for_alive_by_a_write_is_found(monkeypatch):
    """A patch must not bring back what has expired, and a save over it inserts."""
    history = [
        SaveStep(User(number=1)),
        SaveStep(Session(token="a", who=Who.of(1), until=START)),
        TickStep(10),
        PatchStep(Session, ("a",), {"until": None}),
    ]
    assert prove(SCHEMA, history) == {"NotFound": 1}
    monkeypatch.setattr(Catalog, "is_expired", lambda *_given: False)
    with pytest.raises(Disagreement):
        prove(SCHEMA, history)
