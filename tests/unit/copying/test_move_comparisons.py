"""Comparing the stores of a move: a share of the entities, and what was interrupted is continued where it was."""

import msgspec
import pytest

from oneread import connect
from oneread.copying import move_comparison, pairs
from oneread.copying.move_compared import MoveComparisons
from oneread.copying.pairs import Pairs, Stores
from oneread.errors import InvalidValue, UsageError
from oneread.store.requests import Read
from oneread.testing.clock import Clock
from oneread.transactions import moves as rules
from oneread.transactions.move_gate import MoveGate
from oneread.verify.verify import Verification
from tests.stores import KINDS, forget, make_url
from tests.unit.copying.test_moves import moving, opened
from tests.unit.transfer import moved
from tests.unit.transfer.moved import SCHEMA, Member

MEMBERS = range(100, 160)


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
        db.save_all([Member(number=number, name=f"M{number}") for number in MEMBERS])
    with moving(source, target, clock) as it:
        it.start()
        it.copy()
        it.follow(until_lag=0.0)
        yield it


@pytest.fixture
def spoil(target, clock, monkeypatch):
    """Changes the target behind the follower's back."""

    def change(*numbers):
        with monkeypatch.context() as patched:
            patched.setattr(rules, "_note", lambda *_given: None)
            patched.setattr(MoveGate, "enter", lambda *_given: iter(()))
            with opened(target, clock) as other:
                for number in numbers:
                    other.patch(Member, number, name="spoilt")

    return change


def in_share(stores, share):
    """The numbers of members that are in a share."""
    found = []
    with_share = Pairs(stores, share)
    with_share._is_same = lambda *_given: False
    for _position in with_share.walk(lambda pair: found.append(pair.name)):
        pass
    return {number for number in MEMBERS if f"Member({number})" in found}


def test_a_share_is_of_the_same_entities_each_time(following, spoil):
    states = following._opened().states
    here = in_share(Stores(states.source, states.target, ()), 0.3)
    assert here == in_share(Stores(states.target, states.source, ()), 0.3)
    assert here < in_share(Stores(states.source, states.target, ()), 0.6)
    assert 5 < len(here) < 30
    whole, some = following.compare(), following.compare(sample=0.3)
    assert (whole.share, whole.whole, some.share, some.whole) == (1.0, True, 0.3, False)
    assert len(here) <= some.compared < whole.compared
    within, without = min(here), min({*MEMBERS} - here)
    spoil(within, without)
    assert [each.name for each in following.compare(sample=0.3).differences] == [f"Member({within})"]
    assert following.compare().differ == 2


def test_of_the_target_only_the_share_is_read(following, target, clock):
    states, asked = following._opened().states, []
    observers = (lambda request, _answer: asked.append(request),)
    with connect(target, SCHEMA, workers=0, clock=clock, observers=observers) as other:
        for share, requests in ((0.3, 3), (1.0, 7)):
            some = Pairs(Stores(states.source, other, ()), share)
            asked.clear()
            assert [*some.walk(lambda _pair: None)]
            read = [each for each in asked if isinstance(each, Read) and each.table == "roots"]
            assert sum(len(each.keys) for each in read) == some.count == some.met
            assert len(read) == requests, "one for each model that has some"


def test_a_switch_asks_for_more_than_a_share(following, spoil):
    following.compare(sample=0.5)
    with pytest.raises(UsageError, match="only a sample was compared"):
        following.switch()
    assert following.compare().whole
    assert following.compare(sample=0.5).equal
    assert following.status().compared.share == 0.5
    spoil(*MEMBERS)
    assert not following.compare(sample=0.5).equal
    with pytest.raises(UsageError, match="the stores differed"):
        following.switch()
    assert following.switch(force=True).state == "switched"


@pytest.mark.parametrize("share", [0, -1, 1.1, 0.00001, "1", True])
def test_a_share_out_of_bounds_is_refused(following, share):
    with pytest.raises(InvalidValue, match="sample: expected a share"):
        following.compare(sample=share)


def stop_at(calls):
    """A function that reports progress until it is interrupted."""
    seen = []

    def report(progress):
        seen.append(progress)
        if len(seen) == calls:
            raise KeyboardInterrupt

    return report


def test_what_was_interrupted_is_continued(following, spoil, monkeypatch):
    monkeypatch.setattr(pairs, "ROWS", 10)
    monkeypatch.setattr(move_comparison, "_BATCHES", 2)
    spoil(101, 150)
    reports = []
    wanted = following.compare(progress=reports.append)
    assert wanted.differ == 2
    walked = sum(each.phase == "comparing" for each in reports)
    cursors = set()
    for calls in range(1, len(reports) + 1):
        with pytest.raises(KeyboardInterrupt):
            following.compare(progress=stop_at(calls))
        cursors.add(MoveComparisons(following._opened().states.source).read().begun.cursor)
        again = []
        found = following.compare(resume=True, progress=again.append)
        assert msgspec.structs.replace(found, at=wanted.at) == wanted
        assert sum(each.phase == "comparing" for each in again) <= max(0, walked - calls + 2)
    assert {each.split()[0] for each in cursors} == {"entities", "others", "derived"}


def test_differences_of_what_was_interrupted_count(following, spoil, monkeypatch):
    monkeypatch.setattr(pairs, "ROWS", 10)
    monkeypatch.setattr(move_comparison, "_BATCHES", 1)
    assert following.compare().whole
    spoil(*MEMBERS)
    with pytest.raises(KeyboardInterrupt):
        following.compare(progress=stop_at(8))
    with pytest.raises(UsageError, match="the stores differed"):
        following.switch()


def test_a_sample_is_continued_with_its_share(following, monkeypatch):
    monkeypatch.setattr(pairs, "ROWS", 10)
    wanted = following.compare(sample=0.4)
    with pytest.raises(KeyboardInterrupt):
        following.compare(sample=0.4, progress=stop_at(5))
    with pytest.raises(UsageError, match="with its own share"):
        following.compare(sample=0.5, resume=True)
    assert msgspec.structs.replace(following.compare(resume=True), at=wanted.at) == wanted


def test_what_cannot_be_continued_is_refused(following, clock):
    with pytest.raises(UsageError, match="no comparison was interrupted"):
        following.compare(resume=True)
    with pytest.raises(KeyboardInterrupt):
        following.compare(progress=stop_at(3))
    clock.tick(25 * 3600)
    with pytest.raises(UsageError, match="interrupted a day ago"):
        following.compare(resume=True)
    with pytest.raises(KeyboardInterrupt):
        following.compare(progress=stop_at(3))
    following.switch(force=True)
    with pytest.raises(UsageError, match="before a switch"):
        following.compare(resume=True)
    assert following.compare().whole
    with pytest.raises(UsageError, match="no comparison was interrupted"):
        following.compare(resume=True)


def test_a_target_that_was_not_verified_to_the_end_is_not_compared(following, monkeypatch):
    store, asked = following._opened().states.target, []
    verify = store.verify

    def too_busy(*, resume, **options):
        asked.append(resume)
        if resume is None:
            return Verification((), {}, 0, 0, ("Member",), verify(**options).cursor or "MQ")
        return verify(**options)

    monkeypatch.setattr(store, "verify", too_busy)
    found = following.compare()
    assert (found.equal, found.whole, found.cursor) == (True, False, "derived MQ")
    with pytest.raises(UsageError, match="not compared within a day"):
        following.switch()
    assert following.compare(resume=True).whole
    assert asked == [None, "MQ"]
    assert following.switch().state == "switched"
