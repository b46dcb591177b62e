"""A dump that is loaded into an empty store of any kind: everything goes along, and nothing is counted twice."""

import msgspec
import pytest

from oneread import connect
from oneread.errors import InvalidKey, InvalidValue
from oneread.testing.clock import Clock
from oneread.transfer.load import DumpReader, parse_head
from tests.properties.test_dump_round_trip import dumped, load
from tests.unit.transfer import moved


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def filled(url, clock):
    with connect(url, moved.SCHEMA, workers=0, clock=clock, cache="memory://") as db:
        moved.fill(db, clock)
        yield db


def test_every_read_answers_the_same_and_what_was_counted_counts_once(filled, clock, target):
    text = dumped(filled)
    with connect(target, moved.SCHEMA, workers=0, clock=clock, cache="memory://") as db:
        for _ in range(2):
            load(db, text)
            assert moved.lines(db) == moved.lines(filled)
            assert dumped(db) == text or not db.operations.spans_rows
        assert moved.reads(db) == moved.reads(filled)
        assert moved.retry(db) == moved.retry(filled) == ([False] * 6, 0, [4, 4])
        assert db.verify().clean


def test_the_numbers_of_a_deleted_root_go_along(filled, clock, target):
    for page in filled.scan(moved.Post):
        for each in page:
            filled.delete(moved.Post, each.ref())
    for member in (0, 1):
        filled.delete(moved.Membership, member, "a")
    filled.delete(moved.Board, "a")
    filled.drain()
    clock.tick()
    text = dumped(filled)
    with connect(target, moved.SCHEMA, workers=0, clock=clock, cache="memory://") as db:
        load(db, text)
        assert moved.lines(db) == moved.lines(filled)
        db.save(moved.Board(board="a"))
        assert moved.retry(db)[2] == [4, 4]


def test_a_counter_made_again_knows_the_tokens_that_came_before_it(filled, clock, target):
    text = dumped(filled)
    with connect(target, moved.SCHEMA, workers=0, clock=clock, cache="memory://") as db:
        load(db, text)
        gone = db.counter("gone", shards=7)
        assert gone.add(2, once="other")
        gone.configure(shards=3)
        assert [gone.add(5, once="before"), gone.add(5, once="after"), gone.read()] == [False, True, 7]


WRONG = [
    (b'{"tokens":"","seconds":60.0,"kept":"AAAAAAAAAAAAAAAAAAAAAA=="}', InvalidKey),
    (b'{"tokens":"a","seconds":60.0,"kept":""}', InvalidValue),
    (b'{"tokens":"a","seconds":60.0,"kept":"AAAA"}', InvalidValue),
    (b'{"tokens":"a","seconds":60.0,"kept":"not base64"}', InvalidValue),
    (b'{"tokens":"a","seconds":0.0,"kept":"AAAAAAAAAAAAAAAAAAAAAA=="}', InvalidValue),
    (b'{"tokens":"a","seconds":1e300,"kept":"AAAAAAAAAAAAAAAAAAAAAA=="}', InvalidValue),
    (b'{"tokens":"a","seconds":60.0}', InvalidValue),
    (b'{"tokens":"a","seconds":60.0,"kept":"AAAAAAAAAAAAAAAAAA', InvalidValue),
    (b'{"model":"Board","version":1,"entity":{"board":"a"},"numbers":{"Post":0}}', InvalidValue),
    (b'{"model":"Board","version":1,"entity":{"board":"a"},"numbers":{"Post":9223372036854775808}}', InvalidValue),
    (b'{"model":"Board","version":1,"entity":{"board":"a"},"numbers":{"Member":1}}', InvalidValue),
    (b'{"model":"Board","version":1,"entity":{"board":"a"},"numbers":{"Nothing":1}}', InvalidValue),
    (b'{"model":"Member","version":1,"entity":{"number":1,"name":"a"},"numbers":{"Post":1}}', InvalidValue),
    (b'{"model":"Member","version":1,"deleted":[1],"numbers":{"Post":1}}', InvalidValue),
]


@pytest.mark.parametrize(("line", "error"), WRONG)
def test_a_line_that_is_damaged_is_refused(url, line, error):
    with connect(url, moved.SCHEMA, workers=0) as db:
        head = msgspec.json.encode({"oneread": 3, "schema": "", "models": ["Board", "Post", "Member"]})
        with pytest.raises(error):
            DumpReader(db.operations.catalog, parse_head(head)).change(line)
