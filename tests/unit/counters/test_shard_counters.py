"""Counters on a store that changes one row at a time: what each verb asks of it, and the same answers as elsewhere."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from oneread import Schema, connect
from oneread.counters.rows import SETTINGS, CounterSettings, name_key, shard_key
from oneread.counters.settings import PLACING, Epoch, TokenPlaces, read_settings_row
from oneread.counters.shard_counters import LASTING_SECONDS, ShardCounters
from oneread.counters.shard_rows import TOKEN, slot_row
from oneread.counters.shard_sweep import ShardSweeper
from oneread.counters.wanted import Add, CounterRules, check_token
from oneread.errors import Corrupt
from oneread.plans.effects import Now
from oneread.store.requests import CheckAndMutate, Read
from oneread.store.rows import Cell
from tests.unit.counters.handles import SCHEMA, Nothing, handle

NOW = 1_700_000_000_000


@pytest.fixture(params=["hide", "remove"])
def url(request):
    return f"memory://?span=row&deletes={request.param}"


@pytest.fixture
def ask(asked):
    def count(call, *given, **named):
        asked.clear()
        call(*given, **named)
        return [each.split()[0] for each in asked]

    return count


SWAP = "CheckAndMutate"


def test_what_each_verb_asks(face, ask):
    votes = handle(face, "votes", shards=1)
    assert ask(votes.add) == ["Read", SWAP, "Read", SWAP, "Read", SWAP], "settings, and a row that is made"
    assert ask(votes.add) == [SWAP]
    assert ask(votes.add, once="a") == ["Read", SWAP, "Read", SWAP], "the settings say that there are tokens"
    assert ask(votes.add, once="b") == ["Read", SWAP]
    assert ask(votes.add, once="b") == ["Read"]
    assert ask(votes.read) == ["Scan"]
    assert ask(votes.read, max_age=60) == [], "an exact read is remembered"
    assert ask(votes.shards) == ["Scan"]
    assert ask(votes.settings) == ["Read"]
    assert ask(votes.configure, shards=20) == ["Read", SWAP]
    assert ask(face.counters) == ["Scan"]
    by_hour = handle(face, "views", shards=1, keep={"hour": 2, "day": 1})
    by_hour.add()
    assert ask(by_hour.add) == [SWAP]
    assert ask(by_hour.add, at=datetime.fromtimestamp(NOW / 1000, UTC) - timedelta(hours=1)) == [SWAP]
    assert ask(by_hour.windows, "hour") == ["Read", "Scan"]
    assert ask(by_hour.windows, "hour", until=datetime.fromtimestamp(NOW / 1000, UTC)) == ["Read", "Scan", "Scan"]
    assert ask(by_hour.delete) == ["Read", SWAP, "Scan", SWAP]
    assert (votes.read(), by_hour.read()) == (4, 0)


def test_a_token_counts_once_whatever_becomes_of_the_shards(face):
    votes = handle(face, "votes")
    for number, shards in enumerate((1, 256, 3, 20, 1)):
        votes.configure(shards=shards)
        assert votes.add(1, once=f"request {number}") is True
        for before in range(number + 1):
            assert votes.add(1, once=f"request {before}") is False
    assert votes.read() == 5
    votes.delete()
    assert votes.add(1, once="request 2") is False
    assert face.counters() == []
    assert votes.add(1, once="another") is True
    assert votes.read() == 1


@pytest.fixture
def db(url):
    with connect(url, SCHEMA, clock=lambda: NOW) as opened:
        yield opened


def test_other_programs_follow_a_change_of_the_shards_in_time(db):
    clock = [0.0]
    db.operations.counters.committer = ShardCounters(lambda: clock[0])
    votes = db.counter("votes", shards=200)
    for _ in range(5):
        votes.add()
    db.run(ShardCounters().configure(name_key("votes"), CounterSettings(0, 200), 1, None))
    clock[0] += LASTING_SECONDS
    before = {each.number: each.value for each in votes.shards()}
    votes.add()
    assert [each.number for each in votes.shards() if before.get(each.number) != each.value] == [0]
    assert votes.read() == 6


def test_adds_of_one_process_at_the_same_time_have_rows_of_their_own(db):
    """A plan that is under way has its row for itself; afterwards both rows are used again."""
    counters, adds = ShardCounters(), [Add(name_key("votes"), 1, CounterSettings(0, 200))]
    db.run(counters.add(adds))
    under_way = counters.add(adds)
    asked = next(under_way)
    while not isinstance(asked, CheckAndMutate):
        asked = under_way.send(NOW if isinstance(asked, Now) else 0.5)
    db.run(counters.add(adds))
    assert len(db.counter("votes").shards()) == 2
    under_way.close()
    db.run(counters.add(adds))
    assert len(db.counter("votes").shards()) == 2


def row_of(db, key):
    return db.run(Read("counts", [key], "dm").__iter__())[0]


def test_the_sweeper_removes_tokens_and_epochs_after_a_window(db):
    clock = [0.0]
    sweeper, window = ShardSweeper(lambda: clock[0]), db.operations.counters.rules.once_for
    votes, key = db.counter("votes", shards=1), shard_key(name_key("votes"), 0)

    def sweep(seconds):
        clock[0] += seconds
        while db.run(sweeper.step()):
            pass

    def tokens():
        return [each for each in row_of(db, key) if each.startswith(TOKEN)]

    def earlier():
        return read_settings_row(b"", row_of(db, SETTINGS + name_key("votes"))).placing.earlier

    votes.add(once="a")
    votes.configure(shards=2)
    sweep(window)  # the first look
    votes.add(once="b")
    assert (len(tokens()), earlier()) == (2 if slot_row(_digest("b"), 2) == 0 else 1, (Epoch(0, 1),))
    sweep(window / 2)
    sweep(window / 2)
    assert TOKEN + _digest("a") in tokens()
    sweep(window / 2)
    assert TOKEN + _digest("a") not in tokens()
    assert earlier() == ()
    assert votes.add(once="b") is False
    assert votes.add(once="a") is True, "its window has passed"


def _digest(token):
    return check_token(token)


def test_a_counter_without_tokens_is_not_swept(db):
    clock, seen = [0.0], []
    sweeper = ShardSweeper(lambda: clock[0])
    votes = db.counter("votes")
    votes.add()
    votes.configure(shards=3)
    clock[0] += 100
    plan = sweeper.step()
    seen.append(next(plan))
    plan.close()
    assert [type(each).__name__ for each in seen] == ["Scan"]
    placing = read_settings_row(b"", row_of(db, SETTINGS + name_key("votes"))).placing
    assert (placing.epoch, placing.shards, placing.earlier) == (1, 3, ()), "no token is in any row"


def test_a_program_that_keeps_tokens_for_longer_is_heeded(url):
    for seconds in (60, 600, 60):
        with connect(url.replace("//", "//kept"), Schema(Nothing, counters=CounterRules(once_for=seconds))) as db:
            db.counter("votes").add(once=str(seconds))
            found = read_settings_row(b"", row_of(db, SETTINGS + name_key("votes")))
    assert found.placing.once_for == 600


def test_epochs_with_one_number_of_rows_are_one():
    placing = TokenPlaces(0, 1, (), 60.0)
    for shards in (2, 1, 2, 3, 1):
        placing = placing.spread(shards)
    assert placing == TokenPlaces(5, 1, (Epoch(3, 2), Epoch(4, 3)), 60.0)
    assert placing.spread(1) is placing


def test_damaged_rows_are_refused():
    for row in ({b"m:w": Cell(b"\0" * 8, 1), PLACING: Cell(b"\xff", 1)}, {b"d:b": Cell(b"\xff", 1)}):
        with pytest.raises(Corrupt):
            read_settings_row(b"", row)


def test_threads_of_one_process_count_everything(db):
    """They take rows of the process from each other, and try the same tokens."""

    def work(number):
        for each in range(60):
            db.counter("votes").add(1, once=None if each % 3 else f"{number % 4} {each}")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert db.counter("votes").read() == 8 * 40 + 4 * 20
