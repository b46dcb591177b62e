"""P15: a site under way on HBase: half writes and half reads, with a worker, verify, a launch and heat beside them.

The bare client sends the same requests, from the same processes, in turns with ours. Requests are those that reach the
store, of all our processes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median, quantiles
from typing import TypeAlias

from benchmarks.benchmark import Benchmark
from benchmarks.context import Context
from benchmarks.measure import Series
from benchmarks.rows import SHOWN, Goal, Row, Subject
from benchmarks.workloads.mixed import COUNTERS, LAG, MIX, SITE, VERIFY, Crowd, Role, Site, Tally, fill
from benchmarks.workloads.remote import HBASE, HbaseTables, hbase
from oneread import connect

Turn: TypeAlias = Sequence[tuple[Role, Tally]]

RATE = Goal(0.7, ">=")
ERRORS = Goal(0, "<=", "figure", " errors")
LATE = Goal(2, "<=", "figure", " s")

LOADED = 3_000
ROUNDS = 10
BARE_SHARE = 4
"""The bare client's turn is a quarter of ours: it does one thing only."""


def mixed(context: Context) -> Sequence[Row]:
    sizes = context.sizes
    lines = [line for line in context.shop.lines if line.customer is not None][: min(LOADED, sizes.lines)]
    seconds = sizes.mixed / ROUNDS
    with hbase() as thrift:
        site = Site(HbaseTables(thrift), HbaseTables(thrift), lines)
        connect(site.written.url, SITE).close()
        with site.open("worker") as db:
            fill(db, context.shop.customers, context.shop.products, lines)
            db.drain()
        with Crowd(site, sizes.writers) as crowd:
            turns = [
                (crowd.turn("ours", seconds), crowd.turn("bare", seconds / BARE_SHARE)) for _round in range(ROUNDS)
            ]
        ours, theirs = [mine for mine, _bare in turns], [bare for _mine, bare in turns]
        with site.open("worker") as db:
            db.drain()
            assert db.verify().clean, "everything that was written is right"
            counted = sum(db.counter(f"visits:{number}").read(max_age=0) for number in range(COUNTERS))
        added = sum(tally.added for turn in ours for _role, tally in turn)
        assert counted == added, f"each add counts once: {counted} of {added}"
    return list(_rows(Subject("P15", context.shop.data, len(lines)), sizes.writers, ours, theirs))


def _rows(subject: Subject, visitors: int, ours: Sequence[Turn], theirs: Sequence[Turn]) -> Iterator[Row]:
    mine, bare = Series(tuple(map(_each, ours))), Series(tuple(map(_each, theirs)))
    yield subject.rate(
        f"requests of {visitors} readers and writers, a worker and verify, {HBASE}",
        mine, bare, peer="the bare client, the same requests", goal=RATE, unit="requests/s",
    )  # fmt: skip
    verbs, errors = defaultdict(list), 0
    for turn in ours:
        for _role, tally in turn:
            errors += len(tally.errors)
            for verb, seconds in tally.verbs.items():
                verbs[verb] += seconds
    for verb in MIX:
        yield subject.alone(f"{verb}: half are answered within", median(verbs[verb]) * 1e3, unit="ms", goal=SHOWN)
        yield subject.alone(f"{verb}: 99 of 100 are answered within", _late(verbs[verb]) * 1e3, unit="ms", goal=SHOWN)
    yield subject.alone("a verify of everything meanwhile", median(verbs[VERIFY]), unit="s", goal=SHOWN)
    yield subject.alone("errors, and findings of verify", errors, unit="errors", goal=ERRORS)
    yield subject.alone("the oldest change that a task still copies", max(verbs[LAG]), unit="s", goal=LATE)


def _each(turn: Turn) -> float:
    """Seconds for one request of all processes."""
    return 1 / sum(tally.requests / tally.seconds for _role, tally in turn if tally.seconds)


def _late(seconds: Sequence[float]) -> float:
    """What 99 of 100 are below."""
    return quantiles(seconds, n=100)[-1] if len(seconds) > 1 else seconds[0]


BENCHMARKS = (
    Benchmark(
        "P15",
        "a mixed load on HBase with a worker, verify, a launch and heat, against the bare client's requests",
        f"{RATE} of the bare client's requests, {ERRORS}, lag {LATE}",
        mixed,
    ),
)
