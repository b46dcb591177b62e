"""Counters against plain Python: adds, tokens, settings, clocks, batches and loads in any order."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from oneread import Key, Model, Schema, connect
from oneread.counters.dumping import RestoreCounter
from oneread.counters.rows import SECONDS
from oneread.transfer.load import DumpReader, parse_head

NAMES = ("a", "a\0", "b")
KEEP = {"minute": 3, "hour": 2}


class Nothing(Model[int]):
    number: Key[int]


SCHEMA = Schema(Nothing)

amounts = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
names = st.sampled_from(NAMES)
steps = st.one_of(
    st.tuples(st.just("add"), names, amounts, st.none() | st.sampled_from(["x", "y", b"x"])),
    st.tuples(st.just("batch"), st.lists(st.tuples(names, amounts), max_size=5)),
    st.tuples(st.just("shards"), names, st.integers(1, 256)),
    st.tuples(st.just("wait"), st.integers(0, 10**7)),
    st.tuples(st.just("read"), names, st.sampled_from([0, 60])),
    st.tuples(st.just("load")),
)


class Plain:
    """The oracle."""

    def __init__(self):
        self.values, self.tokens, self.windows = defaultdict(int), set(), defaultdict(int)

    def add(self, name, amount, now, token=None):
        if token is not None and (name, token) in self.tokens:
            return False
        if token is not None:
            self.tokens.add((name, token))
        self.values[name] += amount
        for size in KEEP:
            self.windows[name, size, now // 1000 // SECONDS[size]] += amount
        return True


def loaded(db):
    """Dumps the store and loads the dump over it."""
    lines = []
    db.dump(lines.append)
    reader = DumpReader(db.operations.catalog, parse_head(lines[0]))
    for made in map(reader.change, lines[1:-1]):
        assert isinstance(made, RestoreCounter)
        db.run(made.plan(db.operations.counters.committer))


class Both:
    """A store and the oracle under one clock; each step is a method."""

    def __init__(self):
        self.now = 1_700_000_000_000
        self.plain = Plain()
        self.db = connect("memory://", SCHEMA, clock=lambda: self.now)

    def add(self, name, amount, token):
        counted = self.db.counter(name, keep=KEEP).add(amount, once=token)
        assert counted == self.plain.add(name, amount, self.now, token)

    def batch(self, adds):
        with self.db.counter_batch(keep=KEEP) as batch:
            for name, amount in adds:
                batch.add(name, amount)
                self.plain.add(name, amount, self.now)

    def shards(self, name, shards):
        self.db.counter(name, keep=KEEP).configure(shards=shards)

    def wait(self, milliseconds):
        self.now += milliseconds

    def read(self, name, max_age):
        seen = self.db.counter(name).read(max_age=max_age)
        assert max_age or seen == self.plain.values[name]

    def load(self):
        loaded(self.db)

    def compare(self):
        for name in NAMES:
            assert self.db.counter(name).read() == self.plain.values[name]

    def compare_windows(self):
        for name in NAMES:
            for size, kept in KEEP.items():
                last = self.now // 1000 // SECONDS[size]
                expected = [self.plain.windows[name, size, start] for start in range(last - kept + 1, last + 1)]
                assert [each.value for each in self.db.counter(name, keep=KEEP).windows(size)] == expected


@given(st.lists(steps, max_size=30))
def test_counters_are_as_plain_python_counts(done):
    both = Both()
    with both.db:
        for verb, *arguments in done:
            getattr(both, verb)(*arguments)
            both.compare()
        both.compare_windows()
        assert both.db.verify().clean
