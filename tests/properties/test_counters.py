"""Counters against plain Python: all verbs, tokens and their generations, clocks and loads in any order."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread import CounterRules, Key, Model, Schema, connect
from oneread.counters.cache import CounterCache
from oneread.counters.dumping import RestoreCounter
from oneread.counters.rows import SECONDS
from oneread.counters.shard_counters import ShardCounters
from oneread.counters.shard_sweep import ShardSweeper
from oneread.counters.sweep import TokenSweeper
from oneread.errors import UsageError
from oneread.transfer.load import DumpReader, parse_head

NAMES = ("a", "a\0", "b")
KEEP = {"minute": 3, "hour": 2}


class Nothing(Model[int]):
    number: Key[int]


ONCE_FOR = 600
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = Schema(Nothing, counters=CounterRules(once_for=ONCE_FOR))

amounts = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
names = st.sampled_from(NAMES)
moments = st.integers(-(10**7), 10**7) | st.sampled_from([0, 60_000, -3_600_000])
steps = st.one_of(
    st.tuples(st.just("add"), names, amounts, st.none() | st.sampled_from(["x", "y", b"x"])),
    st.tuples(st.just("add_at"), names, amounts, moments),
    st.tuples(st.just("batch"), st.lists(st.tuples(names, amounts), max_size=5)),
    st.tuples(st.just("shards"), names, st.integers(1, 256)),
    st.tuples(st.just("wait"), st.integers(0, 10**7) | st.sampled_from([1, ONCE_FOR * 500, ONCE_FOR * 1000])),
    st.tuples(st.just("jump"), st.integers(-(10**7), 10**7)),
    st.tuples(st.just("sweep"), st.integers(1, 12)),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("transact"), st.lists(st.tuples(names, amounts), max_size=3), st.booleans()),
    st.tuples(st.just("read"), names, st.sampled_from([0, 1, 60, 3600])),
    st.tuples(st.just("load")),
)


retries = st.one_of(
    st.tuples(st.just("add"), st.just("a"), st.just(1), st.sampled_from("xy")),
    st.tuples(st.just("sweep"), st.integers(1, 12)),
    st.tuples(st.just("shards"), st.just("a"), st.integers(1, 256)),
    st.tuples(st.just("jump"), st.integers(-(10**7), 10**7)),
)
"""Steps that meet tokens again and again, while generations come and go."""


class Plain:
    """The oracle; `elapsed` is a clock that is never set."""

    def __init__(self):
        self.values, self.tokens, self.windows = defaultdict(int), {}, defaultdict(int)
        self.truths = defaultdict(lambda: [(0.0, 0)])

    def must_be_counted(self, name, token, elapsed):
        """Whether a token was counted so recently that it must not count again."""
        return elapsed - self.tokens.get((name, token), -1e9) < ONCE_FOR

    def add(self, name, amount, now, elapsed, at=None):
        self.values[name] += amount
        self.truths[name].append((elapsed, self.values[name]))
        for size in KEEP:
            wanted = (now if at is None else at) // 1000 // SECONDS[size]
            if at is None or wanted >= self.first(name, size, now, wanted):
                self.windows[name, size, wanted] += amount

    def first(self, name, size, now, added=-1):
        """The first window that is kept: so many up to the newest, or up to the clock's."""
        newest = max([added, *(start for each, length, start in self.windows if (each, length) == (name, size))])
        return min(newest, now // 1000 // SECONDS[size]) - KEEP[size] + 1

    def delete(self, name, elapsed):
        self.values[name] = 0
        self.truths[name].append((elapsed, 0))
        self.windows = defaultdict(int, {key: each for key, each in self.windows.items() if key[0] != name})

    def were_true(self, name, since):
        """The values that were right at some moment since then."""
        truths = self.truths[name]
        return {
            value
            for place, (_at, value) in enumerate(truths)
            if place + 1 == len(truths) or truths[place + 1][0] >= since
        }


def loaded(db):
    """Dumps the store and loads the dump over it."""
    lines = []
    db.dump(lines.append)
    reader = DumpReader(db.operations.catalog, parse_head(lines[0]))
    for made in map(reader.change, lines[1:-1]):
        if isinstance(made, RestoreCounter):
            db.run(made.plan(db.operations.parts))


class Both:
    """A store and the oracle under the same clocks; each step is a method."""

    def __init__(self, url):
        self.now, self.elapsed = 1_700_000_000_000, 0.0
        self.plain = Plain()
        self.db = connect(url, SCHEMA, clock=lambda: self.now)
        plans = self.db.operations.counters
        plans.cache = CounterCache(lambda: self.elapsed)
        self.spans_rows = self.db.operations.spans_rows
        if self.spans_rows:
            plans.sweeper = TokenSweeper(self.db.operations.committer, plans.committer, lambda: self.elapsed)
        else:
            plans.committer = ShardCounters(lambda: self.elapsed)
            plans.sweeper = ShardSweeper(lambda: self.elapsed, pause=30.0)

    def add(self, name, amount, token):
        counted = self.db.counter(name, keep=KEEP).add(amount, once=token)
        if token is None:
            assert counted
        else:
            assert not (counted and self.plain.must_be_counted(name, token, self.elapsed)), "counted twice"
            assert counted or (name, token) in self.plain.tokens
        if counted:
            self.plain.add(name, amount, self.now, self.elapsed)
            if token is not None:
                self.plain.tokens[name, token] = self.elapsed

    def add_at(self, name, amount, ahead):
        at = self.now + ahead
        self.db.counter(name, keep=KEEP).add(amount, at=EPOCH + timedelta(milliseconds=at))
        self.plain.add(name, amount, self.now, self.elapsed, at)

    def batch(self, adds):
        sums = defaultdict(int)
        with self.db.counter_batch(keep=KEEP) as batch:
            for name, amount in adds:
                batch.add(name, amount)
                sums[name] += amount
        for name, amount in sums.items():
            if amount:  # else nothing is stored, and no window begins
                self.plain.add(name, amount, self.now, self.elapsed)

    def transact(self, adds, fails):
        if not self.spans_rows:
            return

        def body(tx):
            tx.save(Nothing(number=1))
            for name, amount in adds:
                tx.counter(name, keep=KEEP).add(amount)
            if fails:
                raise UsageError("nothing is to be written")

        try:
            self.db.transact(body)
        except UsageError:
            assert fails
            return
        for name, amount in adds:
            self.plain.add(name, amount, self.now, self.elapsed)

    def delete(self, name):
        self.db.counter(name).delete()
        self.plain.delete(name, self.elapsed)

    def shards(self, name, shards):
        self.db.counter(name, keep=KEEP).configure(shards=shards)

    def wait(self, milliseconds):
        self.now += milliseconds
        self.elapsed += milliseconds / 1000

    def jump(self, milliseconds):
        self.now += milliseconds

    def sweep(self, times):
        for _ in range(times):
            self.wait(31_000)  # a sweeper looks every 30 seconds
            while self.db.run(self.db.operations.counters.sweeper.step(2)):
                pass

    def read(self, name, max_age):
        seen = self.db.counter(name).read(max_age=max_age)
        assert seen in self.plain.were_true(name, self.elapsed - max_age)

    def load(self):
        loaded(self.db)

    def compare(self):
        for name in NAMES:
            assert self.db.counter(name).read() == self.plain.values[name]

    def compare_windows(self, latest):
        """Windows, unless a clock was set back, after which some may have been removed early."""
        for name in NAMES:
            for size, kept in KEEP.items():
                last = self.now // 1000 // SECONDS[size]
                expected = [
                    self.plain.windows.get((name, size, start), 0) for start in range(last - kept + 1, last + 1)
                ]
                found = [each.value for each in self.db.counter(name, keep=KEEP).windows(size)]
                assert found == expected or latest > self.now
                if latest > self.now:
                    continue
                for until in (self.now - 10**7, self.now - 60_000, self.now + 1, self.now + 10**7):
                    end = (until - 1) // 1000 // SECONDS[size]
                    begin = max(end - kept + 1, self.plain.first(name, size, self.now))
                    expected = [self.plain.windows.get((name, size, start), 0) for start in range(begin, end + 1)]
                    moment = EPOCH + timedelta(milliseconds=until)
                    found = self.db.counter(name, keep=KEEP).windows(size, until=moment)
                    assert [each.value for each in found] == expected


@pytest.mark.parametrize("url", ["memory://", "memory://?span=row"])
@given(done=st.lists(steps, max_size=30) | st.lists(retries, min_size=5, max_size=30))
def test_counters_are_as_plain_python_counts(url, done):
    both = Both(url)
    latest = both.now
    with both.db:
        for verb, *arguments in done:
            getattr(both, verb)(*arguments)
            both.compare()
            latest = max(latest, both.now)
        both.compare_windows(latest)
        assert not both.spans_rows or both.db.verify().clean
