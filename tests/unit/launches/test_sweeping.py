"""Counts are folded, ended and trimmed; wherever a sweep is interrupted, each count counts once."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from oneread import connect
from oneread.errors import Conflict
from oneread.launches.differences import LaunchDifference
from oneread.launches.options import LaunchOptions
from oneread.launches.rows import all_differences, hours_between, minute_key, minutes_between
from oneread.launches.state import LaunchWanted
from oneread.launches.sweeping import LaunchSweep, trim_differences
from oneread.launches.tallies import LaunchTally
from oneread.plans.scans import scan_up_to
from tests.unit.counters.handles import SCHEMA

NOW = 1_700_000_000_000
MINUTE = NOW // 60_000


class Interrupted(Exception):
    pass


def up_to(plan, effects):
    """A plan that ends with its process after so many effects."""
    answer, failure = None, None
    steps = iter(plan)
    while True:
        try:
            asked = steps.send(answer) if failure is None else steps.throw(failure)
        except StopIteration as stop:
            return stop.value
        if not effects:
            raise Interrupted
        effects -= 1
        answer, failure = None, None
        try:
            answer = yield asked
        except Exception as error:  # noqa: BLE001 - the plan handles it
            failure = error


class Store:
    def __init__(self, url):
        self.now = NOW
        self.db = connect(url, SCHEMA, workers=0, clock=lambda: self.now)
        self.launches = self.db.operations.launches
        self.db.run(self.launches.add("top"))

    def put(self, minute, process="p", name="top", **counts):
        self.db.run(self.launches.put_counts(minute_key(name, minute, process), LaunchTally(**counts)))

    def sweep(self):
        sweep = LaunchSweep(self.launches)
        while self.db.run(sweep.step()):
            pass

    def compared(self, since=None):
        return self.db.run(self.launches.report("top", since)).compared

    def rows(self, within):
        return self.db.run(scan_up_to("system", within, None, 100))

    def minutes(self):
        return len(self.rows(minutes_between("top", 0, 2 * MINUTE)))

    def hours(self):
        return len(self.rows(hours_between("top", 0, 2 * MINUTE)))

    def differ(self, seconds_ago, row=1):
        at = datetime.fromtimestamp(self.now / 1000, UTC) - timedelta(seconds=seconds_ago)
        made = LaunchDifference(launch="top", kind="missing", at=at, process="p", verb="top", row=(row,))
        self.db.run(self.launches.put_difference(None, made))

    def trim(self, **options):
        state = self.db.run(self.launches.set("top", LaunchWanted(options=LaunchOptions(**options)), ""))
        while self.db.run(trim_differences(self.launches, "top", state)):
            pass
        return [row for _key, row in self.rows(all_differences("top"))]


@pytest.fixture
def store(url):
    made = Store(url)
    yield made
    made.db.close()


def test_minutes_of_the_day_before_become_hours(store):
    for ago in range(3 * 24 * 60, 0, -17):
        store.put(MINUTE - ago, f"p{ago % 3}", compared=1)
    total = store.compared()
    assert total == 3 * 24 * 60 // 17 + 1
    store.sweep()
    assert store.compared() == total
    assert store.minutes() <= 24 * 60 // 17 + 1
    assert 48 <= store.hours() <= 49
    recent = datetime.fromtimestamp(NOW / 1000, UTC) - timedelta(hours=2)
    assert 6 <= store.compared(recent) <= 8


@pytest.mark.parametrize("effects", range(60))
def test_each_count_counts_once_wherever_a_sweep_is_interrupted(store, effects):
    for minute in range(5):
        for process in "pq":
            store.put(MINUTE - 3_000 + minute * 30, process, compared=1)
    for _again in range(2):
        with suppress(Interrupted):
            store.db.run(up_to(LaunchSweep(store.launches).step(), effects))
        assert store.compared() == 10
    store.sweep()
    assert (store.compared(), store.minutes()) == (10, 0)


@pytest.mark.parametrize("effects", range(30))
def test_a_sweep_that_waits_while_another_one_ends_counts_once(store, effects):
    store.put(MINUTE - 3_000, compared=7)
    first = LaunchSweep(store.launches).step()

    def both():
        """The first sweep, which waits before one of its effects until the second one has ended."""
        left, answer = effects, None
        while True:
            try:
                asked = first.send(answer)
            except StopIteration:
                return
            if not left:
                yield from LaunchSweep(store.launches).step()
            left -= 1
            try:
                answer = yield asked
            except Conflict as lost:
                with suppress(StopIteration):
                    first.throw(lost)
                return

    store.db.run(both())
    assert store.compared() == 7
    store.sweep()
    assert (store.compared(), store.minutes()) == (7, 0)


def test_counts_end_after_thirty_days(store):
    store.put(MINUTE - 3_000, compared=7)
    store.sweep()
    store.now += 29 * 24 * 3_600_000 - 3_000 * 60_000
    store.sweep()
    assert store.compared() == 7
    store.now += 2 * 24 * 3_600_000
    store.sweep()
    assert (store.compared(), store.hours()) == (0, 0)


def test_differences_end_when_they_are_too_old_or_too_many(store):
    for number in range(30):
        store.differ(number * 60, number)
    assert len(store.trim(keep=25)) == 25
    left = store.trim(keep=1_000, kept=timedelta(minutes=10))
    shown = [msgspec.msgpack.decode(row[b"d:b"].value)["row"][0] for row in left]
    assert shown == list(range(10))
    assert store.trim(keep=0) == []


def test_names_that_begin_alike_are_apart(store):
    store.db.run(store.launches.add("top2"))
    store.put(MINUTE - 3_000, name="top2", compared=5)
    store.put(MINUTE - 3_000, compared=7)
    assert store.compared() == 7
    store.sweep()
    reports = store.db.run(store.launches.reports())
    assert [(each.name, each.compared) for each in reports] == [("top", 7), ("top2", 5)]
