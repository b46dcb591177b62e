"""The same history of counters on a store that spans rows and on one that changes one row at a time: the same answers.

The two have rows of other forms. Equal are the value of a counter, its windows, its place in lists, its line of a dump,
and what an entity shows of it.
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oneread import Key, Model, Schema, connect, counter, rollup
from oneread.counters import shard_rows
from oneread.errors import InvalidQuery, NotFound
from tests.properties.test_counters import loaded

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
URLS = ("memory://", "memory://?span=row")
NAMES = ("views:1", "views:2", "votes")
SIZES = ("minute", "hour", "day")


class Page(Model[int]):
    number: Key[int]
    views: int = rollup(counter("views:{number}"), every=1)


SCHEMA = Schema(Page)

names = st.sampled_from(NAMES)
numbers = st.sampled_from([1, 2])
keeps = st.dictionaries(st.sampled_from(SIZES), st.integers(1, 3), max_size=3)
amounts = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
moments = st.none() | st.integers(-10, 1).map(lambda hours: hours * 3_600_000) | st.integers(-(10**7), 86_400_000)
verbs = [
    st.tuples(st.just("add"), names, amounts, st.none() | st.sampled_from("xyz"), moments),
    st.tuples(st.just("add"), names, amounts, st.none(), moments),
    st.tuples(st.just("batch"), st.lists(st.tuples(names, amounts), max_size=4)),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("wait"), st.integers(1, 10**7)),
    st.tuples(st.just("save"), numbers),
    st.tuples(st.just("remove"), numbers),
    st.tuples(st.just("drain")),
    st.tuples(st.just("load")),
]
SHARDS = st.tuples(st.just("shards"), names, st.integers(1, 256))
KEEP = st.tuples(st.just("keep"), names, keeps)


class Counted:
    """One store, and all that it says of its counters."""

    def __init__(self, url, declared):
        self.now = 1_700_000_000_000
        self.declared = declared
        self.db = connect(url, SCHEMA, workers=0, clock=lambda: self.now)

    def handle(self, name):
        return self.db.counter(name, **self.declared)

    def add(self, name, amount, token, ahead):
        at = None if ahead is None else EPOCH + timedelta(milliseconds=self.now + ahead)
        return self.handle(name).add(amount, once=token, at=at)

    def batch(self, adds):
        with self.db.counter_batch(**self.declared) as batch:
            for name, amount in adds:
                batch.add(name, amount)

    def shards(self, name, many):
        return self.handle(name).configure(shards=many).shards

    def keep(self, name, kept):
        return self.handle(name).configure(keep=kept).windows

    def delete(self, name):
        self.handle(name).delete()

    def wait(self, milliseconds):
        self.now += milliseconds

    def save(self, number):
        return self.db.save(Page(number=number)).views

    def remove(self, number):
        with suppress(NotFound):
            self.db.delete(Page, number)

    def drain(self):
        self.db.drain()
        return [(row.number, row.views) for row in self.db.get_many(Page, [(1,), (2,)]) if row is not None]

    def load(self):
        loaded(self.db)

    def windows(self, name):
        try:
            for size in SIZES:
                yield self.handle(name).windows(size)
                for ahead in (-(10**8), -(10**7), 1, 10**8):
                    yield self.handle(name).windows(size, until=EPOCH + timedelta(milliseconds=self.now + ahead))
        except InvalidQuery as error:
            yield type(error)

    def all(self):
        lines = []
        self.db.dump(lines.append)
        seen = [self.handle(name).look() for name in NAMES]
        return {
            "values": [(each.value, each.raised, each.lowered) for each in seen],
            "windows": [list(self.windows(name)) for name in NAMES],
            "lists": self.db.counters(),
            "lines": [each for each in lines if each.startswith(b'{"counter"')],
        }


def agree(declared, history):
    both = [Counted(url, declared) for url in URLS]
    for verb, *given_ in history:
        one, other = [getattr(each, verb)(*given_) for each in both]
        assert one == other, (verb, given_)
        one, other = [each.all() for each in both]
        assert one == other, (verb, given_)
    one, other = [each.drain() for each in both]
    assert one == other
    for each in both:
        assert each.db.verify().clean
        each.db.close()


@given(keep=keeps, history=st.lists(st.one_of(*verbs, SHARDS), max_size=15))
def test_counters_of_many_rows_answer_alike(keep, history):
    """Their windows are kept as they were declared: what one row has removed another may still have."""
    agree({"keep": keep}, history)


@example(
    keep={"hour": 1},
    history=[("add", "votes", 1, "x", None), ("keep", "votes", {}), ("add", "votes", 1, "x", None)],
)
@given(keep=keeps, history=st.lists(st.one_of(*verbs, KEEP), max_size=15))
def test_counters_whose_windows_are_configured_answer_alike(keep, history):
    agree({"keep": keep, "shards": 1}, history)


def test_windows_that_one_row_keeps_for_longer_are_found(monkeypatch):
    monkeypatch.setattr(shard_rows, "first_kept", lambda *_given: 0)
    history = [("add", "votes", 1, None, None), ("add", "votes", 1, None, -3_600_000), ("keep", "votes", {"hour": 2})]
    with pytest.raises(AssertionError):
        agree({"keep": {"hour": 1}, "shards": 1}, history)
