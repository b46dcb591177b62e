"""Hot spots name the declaration that causes a lost compare-and-set, and what to declare otherwise."""

import itertools
import random
from datetime import UTC, datetime, timedelta

import pytest

from oneread import GENERATED, Aggregate, Index, Key, Model, Schema, by, connect, count, newest
from oneread.engines.memory import forget
from oneread.errors import UsageError
from oneread.heat import hot_spots as module
from oneread.heat.hot_spots import HotEnd, HotRow, HotSpots
from oneread.store.requests import Read
from tests.unit.database.faces import FACES

START = datetime(2026, 11, 24, tzinfo=UTC)
NUMBERS = itertools.count()


class Vote(Model[int]):
    number: Key[int]
    town: str
    cast_at: datetime = START


class VotesOfTown(Aggregate[Vote]):
    town: str = by(Vote.town)
    votes: int = count()


class AllVotes(Aggregate[Vote]):
    shards = 64

    votes: int = count()


class NewestVotes(Index[Vote]):
    watched = timedelta(hours=1)

    cast_at: datetime = newest(Vote.cast_at)


class SpreadVotes(Index[Vote]):
    spread = 4

    cast_at: datetime = newest(Vote.cast_at)


class Thread(Model[str]):
    name: Key[str]
    title: str = ""


class Comment(Model[str, int]):
    child_of = Thread
    name: Key[str]
    number: Key[int] = GENERATED


SCHEMA = Schema(Vote, VotesOfTown, AllVotes, NewestVotes, SpreadVotes, Thread, Comment)


class Meeting:
    """A program, after whose read another one changes what was read, so that its compare-and-set is lost."""

    def __init__(self, face="sync"):
        self.name = f"hot spots {next(NUMBERS)}"
        url = f"memory://{self.name}?span=row"
        self.other = connect(url, SCHEMA, workers=0)
        self.meet = None
        self.db = FACES[face](url, SCHEMA, workers=0, observers=(self.observe,))

    def observe(self, request, _answer):
        meet = self.meet
        if meet is not None and isinstance(request, Read) and request.table == meet[0]:
            self.meet = None
            meet[1](self.other)

    def spots(self):
        return getattr(self.db, "db", self.db).hot_spots()

    def close(self):
        self.db.close()
        self.other.close()
        forget(self.name)


@pytest.fixture(params=FACES)
def meeting(request):
    found = Meeting(request.param)
    yield found
    found.close()


def test_an_entity(meeting):
    meeting.db.save(Vote(number=1, town="a"))
    assert meeting.spots() == HotSpots()
    meeting.meet = "roots", lambda other: other.patch(Vote, 1, town="b")
    meeting.db.patch(Vote, 1, town="c")
    (row,) = [each for each in meeting.spots().rows if each.kind == "entity"]
    advice = "count what changes so often with a named counter, or an aggregate with shards, not in a field of Vote"
    assert row == HotRow("Vote(1)", "Vote", "entity", 1, 1, advice)


def test_a_group(meeting):
    meeting.db.save(Vote(number=1, town="a"))
    meeting.meet = "counts", lambda other: other.save(Vote(number=2, town="a"))
    meeting.db.save(Vote(number=3, town="a"))
    (row,) = [each for each in meeting.spots().rows if each.declared == "VotesOfTown"]
    assert row == HotRow("VotesOfTown('a')", "VotesOfTown", "group", row.lost, row.lost, "shards = 4 in VotesOfTown")
    assert row.lost >= 1
    assert meeting.db.get(VotesOfTown, "a").votes == 3


def test_an_entity_group(meeting):
    meeting.db.save(Thread(name="t"))
    meeting.meet = "roots", lambda other: other.create(Comment(name="t"))
    assert meeting.db.create(Comment(name="t")).number == 2
    (row,) = [each for each in meeting.spots().rows if each.kind == "entity group"]
    assert (row.row, row.advice) == (
        "Thread('t')",
        "the commits of one Thread group are one after the other: give Comment a smaller root",
    )


def test_a_counter():
    meeting = Meeting()
    meeting.db.counter("votes", shards=1).add(1)
    meeting.meet = "counts", lambda other: other.counter("votes").configure(shards=3)
    meeting.db.counter("votes").configure(shards=5)
    (row,) = meeting.spots().rows
    assert (row.row, row.declared, row.kind) == ("votes", "counter", "counter")
    assert row.advice == "counter('votes').configure(shards=...): more shards"
    meeting.close()


def test_a_log_and_rows_that_no_declaration_cools(meeting):
    catalog = meeting.other.operations.catalog
    found = module.cause_of(catalog, "system", next(iter(catalog.logs.values())))
    assert (found.declared, found.kind) == ("NewestVotes", "change log")
    assert module.cause_of(catalog, "system", b"lease:expired") is None
    assert module.cause_of(catalog, "system", b"schema") is None


def test_what_this_program_does_not_declare_is_left_out(meeting):
    catalog = meeting.other.operations.catalog
    others = [("roots", b"\x7f\0\x15\1"), ("roots", b"\0"), ("counts", b"\x7f\0\0\1x"), ("views", b"x")]
    assert [module.cause_of(catalog, table, key) for table, key in others] == [None] * 4


def test_an_aggregate_with_all_shards_is_to_be_grouped_otherwise(meeting):
    catalog = meeting.other.operations.catalog
    view = catalog.views[AllVotes]
    found = [module.cause_of(catalog, "counts", view.prefix + shard) for shard in (b"", b"\x01", b"\x3f")]
    assert len(set(found)) == 1  # however many rows it has
    assert found[0].advice == "group AllVotes by more values"


@pytest.mark.parametrize("limit", [0, -1, True, 10_001, "3"])
def test_other_limits_are_refused(meeting, limit):
    with pytest.raises(UsageError, match="limit: expected a whole number of rows"):
        meeting.other.hot_spots(limit)


def test_keys_that_grow_at_one_end_are_named(meeting, monkeypatch):
    monkeypatch.setattr(module, "AT_AN_END", 20)
    for number in range(30):
        meeting.other.save(Vote(number=number, town="a", cast_at=START + timedelta(seconds=number)))
    assert meeting.other.hot_spots().ends == (
        HotEnd("NewestVotes", 30, 29, "spread = 8 in NewestVotes, if one server gets most writes"),
        HotEnd("Vote", 60, 29, "spread = 8 in Vote, if one server gets most writes"),
    )
    for number in random.Random(1).sample(range(100, 400), 200):
        meeting.db.save(Vote(number=number, town="a", cast_at=START + timedelta(seconds=number)))
    assert meeting.spots().ends == ()


def test_where_transactions_span_rows_there_are_none(url):
    with connect(url, SCHEMA, workers=0) as db:
        db.save(Vote(number=1, town="a"))
        assert db.hot_spots() == HotSpots()
