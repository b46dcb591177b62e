"""A launch tried out: processes read the threads of streams while titles change, and every answer is checked.

    python -m examples.community.launching --db lmdb:///PATH/launching --processes 4 --seconds 60 --plant 37

The old way reads the threads of a stream from their view, and so does the new one, which answers otherwise for some
streams: these differences are planted, and have to be listed, and no others. Towards the end the new way becomes slow,
and has to be taken back by itself. The store is one of its own; exit code 1 says that something was not as it should.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection
from random import Random
from statistics import quantiles
from typing import Any

from examples.commands import Parser, exit_code, whole
from examples.community.schema import COMMUNITY, Thread, ThreadsOfStream
from examples.shop.mistakes import Mistake
from oneread import Database, LaunchGuard, LaunchOptions, Page, connect

LAUNCH = "threads-of-stream"
STREAMS, THREADS = 200, 3
STILL = 150
"""Streams whose titles do not change: what is read of them is known."""

READS = 5.0
SLOW_SECONDS = 0.05
SLOW_SHARE = 0.4
"""Of the time, the end in which the new way is slow."""
GUARD = LaunchGuard(failed=None, differ=None, slower=100.0, fewest=10, within=timedelta(seconds=3))


@dataclass
class Seen:
    """What one process has seen."""

    answers: int = 0
    wrong: int = 0
    sides: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    slowest: float = 0.0
    plain: list[float] = field(default_factory=list)
    launched: list[float] = field(default_factory=list)


class Reader:
    """One process: it asks through the launch and without it, by turns."""

    def __init__(self, db: Database, number: int, planted: frozenset[str], is_slow: Any) -> None:
        self._db, self._planted, self._is_slow = db, planted, is_slow
        self._chance = Random(number)
        self._answered = threading.local()
        self._ask = db.launch(LAUNCH, old=self._old, new=self._new, key=lambda stream: stream)
        self.seen = Seen()

    def read_until(self, end: float) -> Seen:
        """Reads streams by chance until then; of the slow while, only how long an answer took at most."""
        seen = self.seen
        while time.monotonic() < end:
            stream = f"stream {self._chance.randrange(STREAMS)}"
            started = time.perf_counter()
            self._old(stream)
            between = time.perf_counter()
            found = self._ask(stream)
            ended = time.perf_counter()
            side = self._answered.side
            seen.answers += 1
            seen.wrong += not self._is_right(stream, found, side)
            if self._is_slow.is_set():
                seen.slowest = max(seen.slowest, ended - between)
            else:
                seen.sides[stream][side] += 1
                if side == "old":
                    seen.plain.append(between - started)
                    seen.launched.append(ended - between)
        return seen

    def _old(self, stream: str) -> Page[ThreadsOfStream]:
        self._answered.side = "old"
        return self._db.page(ThreadsOfStream, stream, limit=10)

    def _new(self, stream: str) -> Page[ThreadsOfStream]:
        self._answered.side = "new"
        if self._is_slow.is_set():
            time.sleep(SLOW_SECONDS)
        return self._db.page(ThreadsOfStream, stream, limit=THREADS - 1 if stream in self._planted else 10)

    def _is_right(self, stream: str, found: Page[ThreadsOfStream], side: str) -> bool:
        """Whether an answer is exactly that of the side that gave it."""
        place = int(stream.split()[1])
        numbers = range(place * THREADS, (place + 1) * THREADS)
        expected = numbers[: THREADS - 1] if side == "new" and stream in self._planted else numbers
        if [row.source.key[0] for row in found] != list(expected):
            return False
        return place >= STILL or all(row.title == f"thread {row.source.key[0]}" for row in found)


def fill(db: Database) -> None:
    """Makes the streams."""
    with db.bulk() as bulk:
        for number in range(STREAMS * THREADS):
            bulk.save(Thread(thread=number, stream=f"stream {number // THREADS}", title=f"thread {number}"))


def change_titles(db: Database, until: float) -> None:
    """Renames threads of the streams that are not still."""
    chance, turn = Random(0), 0
    while time.monotonic() < until:
        turn += 1
        db.patch(Thread, chance.randrange(STILL * THREADS, STREAMS * THREADS), title=f"title {turn}")
        time.sleep(0.005)


def run_reader(url: str, number: int, planted: frozenset[str], is_slow: Any, parent: Connection) -> None:
    """The life of one process: it says that it is ready, is told until when to read, and says what it has seen."""
    with connect(url, COMMUNITY, workers=0) as db:
        reader = Reader(db, number, planted, is_slow)
        parent.send(None)
        parent.send(reader.read_until(parent.recv()))


def launch(url: str, processes: int, seconds: int, plant: int) -> int:
    """Tries the launch out; returns how many things were not as they should be."""
    planted = frozenset(f"stream {place}" for place in Random(plant).sample(range(STILL), plant))
    context = multiprocessing.get_context("spawn")
    is_slow = context.Event()
    with connect(url, COMMUNITY) as db:
        if db.page(Thread, limit=1).rows:
            raise Mistake("the store is not empty: name a new one with --db")
        fill(db)
        Reader(db, processes, planted, is_slow)  # a launch that this program knows may be set before it is called
        options = LaunchOptions(settle=0.2, deadline=2.0, guard=GUARD)
        db.launches.set(LAUNCH, shadow=20, reads=READS, check=5, options=options, by="launching")
        readers = []
        for number in range(processes):
            here, there = context.Pipe()
            process = context.Process(target=run_reader, args=(url, number, planted, is_slow, there))
            process.start()
            readers.append((process, here))
        for _process, connection in readers:
            connection.recv()
        end = time.monotonic() + seconds
        for _process, connection in readers:
            connection.send(end)
        change_titles(db, end - seconds * SLOW_SHARE)
        is_slow.set()
        taken_back = wait_until_taken_back(db, end)
        change_titles(db, end)
        seen = [connection.recv() for _process, connection in readers]
        for process, _connection in readers:
            process.join()
        return tell(db, planted, seen, taken_back)


def wait_until_taken_back(db: Database, end: float) -> float | None:
    """Seconds until the guard had given all reads back; None where it did not."""
    started = time.monotonic()
    while time.monotonic() < end:
        if db.launches.report(LAUNCH).reads == 0:
            return time.monotonic() - started
        time.sleep(0.05)
    return None


def tell(db: Database, planted: frozenset[str], seen: Sequence[Seen], taken_back: float | None) -> int:
    """Prints what happened; returns how many things were not as they should be."""
    report = db.launches.report(LAUNCH)
    sides: dict[str, Counter[str]] = defaultdict(Counter)
    for each in seen:
        for stream, counted in each.sides.items():
            sides[stream] += counted
    new, counted = sum(each["new"] for each in sides.values()), sum(each.total() for each in sides.values())
    changed = sum(len(each) > 1 for each in sides.values())
    wrong = sum(each.wrong for each in seen)
    print(
        f"answers {sum(each.answers for each in seen):,}: {wrong} of neither side; by the new side {new:,} "
        f"({new / counted:.2%}), keys that changed side {changed}"
    )
    listed = {each.key[0] for each in db.launches.differences(LAUNCH, limit=10_000)}
    print(
        f"planted differences {len(planted)}, listed {len(listed & planted)}, others {len(listed - planted)}; "
        f"races that settled {report.settled}; compared {report.compared:,}"
    )
    slowest = max(each.slowest for each in seen)
    print(
        f"the new side slept {SLOW_SECONDS} s: no answer took more than {slowest:.2f} s; late {report.late:,}, dropped "
        f"{report.dropped:,}; " + ("not taken back" if taken_back is None else f"taken back after {taken_back:.1f} s")
    )
    if report.taken_back:
        print(f"  because {report.taken_back}")
    plain, launched = ([second for each in seen for second in getattr(each, name)] for name in ("plain", "launched"))
    late = quantiles(launched, n=100)[-1] / quantiles(plain, n=100)[-1]
    print(f"p99 of answers by the old side, through the launch and without it: {late:.2f}")
    return wrong + changed + len(listed ^ planted) + (taken_back is None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the trial; exit code 1 where something was not as it should be."""
    parser = Parser(prog="python -m examples.community.launching", description="Tries a launch out.")
    parser.add_argument("--db", metavar="URL", default="lmdb://./launching-store", help="an empty store")
    for name, given, most, what in (
        ("processes", 4, 64, "that read"),
        ("seconds", 60, 3_600, "of reading"),
        ("plant", 37, STILL, "streams that the new way answers otherwise"),
    ):
        parser.add_argument(
            f"--{name}", type=lambda text, most=most: whole(text, most), default=given, help=f"{what} ({given})"
        )
    given = parser.parse_args(arguments)
    return exit_code("launching", lambda: min(1, launch(given.db, given.processes, given.seconds, given.plant)))


if __name__ == "__main__":
    sys.exit(main())
