"""Dumps hold counters, and loading them twice changes nothing."""

import msgspec
import pytest

from oneread import connect
from oneread.counters.dumping import CacheCounterLine, CounterLine, RestoreCacheCounter, RestoreCounter
from oneread.errors import InvalidKey, InvalidValue
from oneread.transfer.dump import End
from oneread.transfer.load import DumpReader, check_dump, parse_head
from tests.unit.counters.handles import SCHEMA, Nothing


def dumped(db, *models):
    lines = []
    db.dump(lines.append, *models)
    check_dump(lines)
    return lines


def counter_lines(lines):
    return [msgspec.json.decode(each, type=CounterLine) for each in lines if each.startswith(b'{"counter"')]


def load(db, lines):
    reader = DumpReader(db.operations.catalog, parse_head(lines[0]))
    for line in lines[1:-1]:
        made = reader.change(line)
        db.run(made.plan(db.operations.parts))


def test_what_is_dumped_is_loaded(new_url, clock):
    with connect(new_url(), SCHEMA, clock=clock) as source, connect(new_url(), SCHEMA, clock=clock) as target:
        for hour in range(5):
            source.counter("views", keep={"day": 2, "hour": 4}).add(hour + 1)
            source.counter("votes", shards=3).add(-(2**62), once=f"{hour}")
            clock.now += 3_600_000
        target.counter("votes", keep={"hour": 3}).add(77)
        lines = dumped(source)
        end = msgspec.json.decode(lines[-1], type=End)
        assert (end.counters, end.tokens, end.end, msgspec.json.decode(lines[0])["oneread"]) == (2, 5, 3, 3)
        for _ in range(2):
            load(target, lines)
            assert target.counters() == source.counters()
            assert target.counter("votes").read() == -5 * 2**62
            for size in ("hour", "day"):
                assert target.counter("views").windows(size) == source.counter("views").windows(size)
            seen = target.counter("views").look()
            assert (seen.value, seen.raised, seen.lowered, seen.rows) == (15, 15, 0, 1)
            assert target.verify().clean
        assert dumped(target) == lines


@pytest.mark.parametrize("cut", [None, "again"])
def test_a_counter_that_was_deleted_is_in_no_dump(new_url, clock, cut):
    with connect(new_url(), SCHEMA, clock=clock, cache="memory://", workers=0) as db:
        for name in ("a", "b", "c"):
            db.counter(name, keep={"hour": 3}).add(5)
            db.cache_counter(name, chance_to_write=1).add(7)
        for name in ("a", "b"):
            db.counter(name).delete()
            db.cache_counter(name).delete()
        if cut == "again":
            db.counter("a").add(1)
        lines = dumped(db)
        counted = {each.counter: each.raised for each in counter_lines(lines)}
        assert counted == ({"c": 5} if cut is None else {"a": 1, "c": 5})
        assert db.verify().clean
    with connect(new_url(), SCHEMA, clock=clock, cache="memory://", workers=0) as target:
        load(target, lines)
        assert {each.name: target.counter(each.name).read() for each in target.counters()} == counted
        assert [each.name for each in target.cache_counters()] == ["c"]


def test_cache_first_counters_are_dumped_as_stored_and_never_lowered_by_a_load(new_url):
    with (
        connect(new_url(), SCHEMA, cache="memory://") as source,
        connect(new_url(), SCHEMA, cache="memory://") as target,
    ):
        for name, chance in (("a", 1), ("b", 0.5)):
            source.cache_counter(name, chance_to_write=chance).add(7)
        target.cache_counter("a").add(5)
        target.cache_counter("b").add(500)
        lines = dumped(source)
        assert msgspec.json.decode(lines[-1], type=End).counters == 2
        assert msgspec.json.decode(lines[1]) == {"cache_counter": "a", "value": 7, "chance": 1.0}
        for _ in range(2):
            load(target, lines)
            assert [target.cache_counter(name).stored() for name in "ab"] == [7, 500]
            assert [each.chance_to_write for each in target.cache_counters()] == [0.1, 0.1]
            assert target.verify().clean
        assert target.cache_counter("a").read() == 7


def test_a_dump_without_counters_is_as_before(url):
    with connect(url, SCHEMA) as db:
        lines = dumped(db)
        assert msgspec.json.decode(lines[0])["oneread"] == 1
        assert "counters" not in msgspec.json.decode(lines[-1])
        db.counter("votes").add()
        assert len(dumped(db)) == 3
        assert len(dumped(db, Nothing)) == 2


WRONG = [
    (CounterLine("", 1, 0, 1), InvalidKey),
    (CounterLine("votes", -1, 0, 1), InvalidValue),
    (CounterLine("votes", 1, -1, 1), InvalidValue),
    (CounterLine("votes", 1, 0, 0), InvalidValue),
    (CounterLine("votes", 1, 0, 257), InvalidValue),
    (CounterLine("votes", 1, 0, 1, {"hour": 0}), InvalidValue),
    (CounterLine("votes", 1, 0, 1, {"hour": 1}, {"hour": [(-3600, 1, 1)]}), InvalidValue),
    (CounterLine("votes", 1, 0, 1, {"hour": 1}, {"hour": [(2**50, 1, 1)]}), InvalidValue),
    (CounterLine("votes", 1, 0, 1, {"hour": 1}, {"hour": [(7, 1, 1)]}), InvalidValue),
    (CounterLine("votes", 1, 0, 1, {"hour": 1}, {"hour": [(0, -1, 1)]}), InvalidValue),
]


def test_lines_that_are_not_of_a_counter_are_refused():
    for line, error in WRONG:
        with pytest.raises(error):
            RestoreCounter(line)
    for name, value, chance, error in (
        ("", 1, 0.5, InvalidKey),
        ("a", -1, 0.5, InvalidValue),
        ("a", 2**63, 0.5, InvalidValue),
        ("a", 1, 0.0, InvalidValue),
    ):
        with pytest.raises(error):
            RestoreCacheCounter(CacheCounterLine(name, value, chance))
