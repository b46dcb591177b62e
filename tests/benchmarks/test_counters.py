"""The sides of P5 count alike, and a side that lost or doubled an add fails the benchmark."""

from collections import Counter
from contextlib import ExitStack
from itertools import islice, repeat

import pytest

from benchmarks.peers.counters import SHARDS, RawCounters, RedisCounters, postgres_counters, redis_counters
from benchmarks.workloads.counters import HOT, Add, Adds, CachedReader, CounterPlace, OurCounters, kill_a_batch, skewed


@pytest.fixture(scope="module")
def dsn():
    with postgres_counters() as found:
        yield found


@pytest.fixture(scope="module", params=["none", "group"])
def redis(request):
    with redis_counters(request.param) as url:
        yield url


@pytest.fixture(params=["oneread", "raw", "postgres", "postgres shards", "redis"])
def place(request, tmp_path, dsn, redis):
    where = {"oneread": str(tmp_path / "ours"), "raw": str(tmp_path / "raw"), "redis": redis}
    return CounterPlace(request.param, where.get(request.param, dsn))


def test_a_side_counts_what_it_is_asked_to(place, request):
    name, counters = request.node.name, place.counters()
    assert counters.read(name) == 0
    for _ in range(2 * SHARDS):
        counters.add(name)
    assert counters.read(name) == 2 * SHARDS
    if place.kind != "postgres shards":
        for token in ("a", "b", "a"):
            counters.add_once(name, token)
        counters.add_once(f"{name} other", "a")
        assert [counters.read(name), counters.read(f"{name} other")] == [2 * SHARDS + 2, 1]
    counters.close()


def test_many_adds_at_once_are_adds(tmp_path, redis):
    raw = RawCounters(tmp_path / "raw")
    raw.add_all({"a": 2, "b": 1})
    raw.add_all({"a": 1})
    assert [raw.read("a"), raw.read("b")] == [3, 1]
    raw.close()
    client = RedisCounters(redis)
    client.add_each(["several", "several", "one"])
    assert [client.read("several"), client.read("one")] == [2, 1]
    client.close()


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("kind", ["oneread", "raw"])
def test_a_side_that_drifted_is_found(tmp_path, kind, once):
    place, adds = CounterPlace(kind, str(tmp_path / kind)), Adds(repeat(HOT), once=once)
    with ExitStack() as stack:
        add, prepare = place.open(stack)
        for wanted in islice(adds, 3):
            add(prepare(wanted))
    adds.check(place)
    with ExitStack() as stack:
        add, _prepare = place.open(stack)
        add(Add(HOT, None))
    with pytest.raises(AssertionError, match=f"{kind} drifted: it holds .* 4"):
        adds.check(place)


def test_tokens_of_one_side_differ():
    assert list(islice(Adds(repeat("a"), once=True), 2)) == [Add("a", "request 1"), Add("a", "request 2")]


def test_popular_names_come_in_proportion():
    drawn = Counter(islice(skewed(100), 20_000))
    assert len(drawn) == 100
    assert 1.7 < drawn["views:0"] / drawn["views:1"] < 2.3
    assert list(islice(skewed(100), 5)) == list(islice(skewed(100), 5))


def test_a_reader_that_sees_too_much_fails_the_benchmark(tmp_path, monkeypatch):
    ours = OurCounters(tmp_path / "ours")
    reader = CachedReader(ours.db, HOT)
    reader.start()
    ours.add(HOT)
    assert reader.stop().greatest <= 1
    wrong = CachedReader(ours.db, HOT)
    monkeypatch.setattr(wrong._counter, "read", lambda max_age=None: 2 if max_age else 1)
    wrong.start()
    with pytest.raises(AssertionError, match="a remembered value was wrong"):
        wrong.stop()
    ours.close()


def test_a_killed_batch_loses_what_is_young(tmp_path):
    loss = kill_a_batch(tmp_path / "ours", 0.05, 0.2)
    assert loss.adds >= 0
    assert 0 <= loss.seconds < 5
