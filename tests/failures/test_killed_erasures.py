"""Programs that erase people are killed with SIGKILL again and again, while others write about the same people.

The story: an erasure dies between two of its requests, or before the answer to one. Its receipt is not done then, and
a worker continues it, or `db.erase` of the same key. At the end nothing of the erased people is left in any row, nor in
LMDB's file behind a scrub; those who were not erased have all that was theirs. No holder is given to another person:
on stores of one row its cells, and documents under them, keep what they had (docs/how-to/erase-a-person.md).
"""

import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from oneread import connect
from oneread.database.continued_erasures import ContinuedErasures
from oneread.database.purge import Purge
from oneread.derivations.emitted_record import RecordedPointers
from oneread.store.requests import Scan
from oneread.store.rows import REMOVED, VALUE
from oneread.testing.clock import Clock
from oneread.transactions.grace import LEAST_GRACE
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.system_rows import ERASING
from tests.failures.people import PEOPLE, SCHEMA, Customer, Photo, Purchase, add_person, name_of
from tests.failures.stores import child, until

ROOT = Path(__file__).resolve().parents[2]
KILLS = 8
KEPT = PEOPLE // 3
"""The first people are not erased."""
LEASE = 1.0
"""Seconds; of the library ten, which a test does not wait for."""

BEGINNING = f"""
import os, random, sys
sys.path.insert(0, {str(ROOT)!r})
from oneread import connect
from oneread.errors import Conflict, MissingReference, NotFound, OutcomeUnknown, Unavailable
from tests.failures.people import PEOPLE, SCHEMA, Buyer, Customer, Goes, Login, Photo, Purchase, name_of

chance = random.Random(sys.argv[2])
db = connect(sys.argv[1], SCHEMA, workers=1, timeout=60)
db.operations.outbox.leases.seconds = {LEASE}
"""
ERASER = (
    BEGINNING
    + """
for number in map(int, sys.argv[3:]):
    os.write(1, b"try %d\\n" % number)
    if db.erase(Customer, number).done is not None:
        os.write(1, b"did %d\\n" % number)
os.write(1, b"end\\n")
sys.stdin.read()
"""
)
WRITER = (
    BEGINNING
    + """
os.write(1, b"try\\n")
while True:
    number = chance.randrange(PEOPLE)
    act = chance.randrange(4)
    try:
        if act == 0:
            db.patch(Customer, number, name=f"{name_of(number)} {chance.random()}")
        elif act == 1:
            db.save(Purchase(number=1000 + PEOPLE * chance.randrange(100) + number, buyer=Buyer.of(number), total=1))
        elif act == 2:
            db.save(Login(number=PEOPLE * chance.randrange(10) + number, of=Goes.of(number)))
        else:
            db.save(Photo(number=number, title=name_of(number)))
    except (Conflict, MissingReference, NotFound, OutcomeUnknown, Unavailable):
        pass
"""
)


class Story:
    """The programs that run, whose erasures were begun, and whose were acknowledged."""

    def __init__(self, url):
        self.url = url
        self.begun, self.done = set(), set()
        self.cut_off = 0
        self._chance = random.Random(20261130)
        self._seed = 0
        self._running = []

    def start(self, program, *arguments):
        """Starts a program; returns once it has said something."""
        self._seed += 1
        process = child(program, self.url, self._seed, *arguments, measured=False)
        self._running.append(process)
        self._take(process.stdout.readline())
        return process

    def kill(self, process):
        self._running.remove(process)
        process.kill()
        said = process.communicate()[0]
        before = len(self.done)
        for line in said.splitlines():
            self._take(line)
        self.cut_off += len(self.begun - self.done)
        return len(self.done) - before

    def stop(self):
        for process in list(self._running):
            self.kill(process)

    def _take(self, line):
        assert line, "a program ended by itself"
        what, *number = line.split()
        if number:
            (self.begun if what == b"try" else self.done).add(int(number[0]))

    def live(self, longest):
        """Erases people under kills, until all of them were begun."""
        wanted = list(range(KEPT, PEOPLE))
        writers = [self.start(WRITER) for _ in range(2)]
        for number in range(KILLS):
            left = [each for each in wanted if each not in self.done]
            self._chance.shuffle(left)
            eraser = self.start(ERASER, *left)
            time.sleep(self._chance.uniform(0, longest))  # the moment of the kill, not a wait for anything
            self.kill(eraser)
            if number % 3 == 1:
                self.kill(writers.pop(0))
                writers.append(self.start(WRITER))
        self.stop()


def erase_under_kills(url, longest):
    with connect(url, SCHEMA, workers=0, timeout=60) as db:
        for number in range(PEOPLE):
            add_person(db, number)
        db.drain()
        story = Story(url)
        try:
            story.live(longest)
        finally:
            story.stop()
        assert story.cut_off, "no erasure was cut off"
        assert {int(each.key[0]) for each in db.erasures() if each.done is None} <= story.begun - story.done
        finish(db)
        assert not db.verify().faults
        check_left(db)
    forget_removed_rows(url)
    return story


def finish(db):
    """A worker continues what was cut off, once the leases of the dead are over; the same call erases what is left."""
    leases = LeaseHolder(LEASE)

    def is_over():
        look = ContinuedErasures(db.operations, leases)
        while db.run(look.step()):
            pass
        found = db.run(Scan("system", ERASING, PEOPLE).__iter__())
        return all(row[VALUE].value == REMOVED for _key, row in found)

    until(is_over, 60)
    for number in range(KEPT, PEOPLE):
        assert db.erase(Customer, number).done is not None


def check_left(db):
    """Those who were not erased have what was theirs; of the others nothing is shown."""
    for number in range(KEPT):
        assert db.get(Customer, number).name.startswith(name_of(number))
        assert db.page(Photo, number).rows
    for purchase in [row for page in db.scan(Purchase) for row in page]:
        (number,) = purchase.buyer.ref.key
        assert purchase.buyer.name == ("" if number >= KEPT else db.get(Customer, number).name)
        assert purchase.buyer.deleted == (number >= KEPT)


def forget_removed_rows(url):
    """Sweeps and purges as it is done two days later; then no byte of the erased people is left, in no row and file."""
    clock = Clock(datetime.now(UTC) + timedelta(days=2))
    with connect(url, SCHEMA, workers=0, timeout=60, clock=clock) as db:
        db.sweep()
        if db.operations.spans_rows:
            db.scrub()
        else:
            purge = Purge(db.operations.catalog, RecordedPointers(), LEAST_GRACE)
            while db.run(purge.step()):
                pass
        assert db.left_bytes(*[name_of(number).encode() for number in range(KEPT, PEOPLE)]) == []
        assert db.left_bytes(*[name_of(number).encode() for number in range(KEPT)]) != []


def test_on_lmdb(tmp_path):
    erase_under_kills(f"lmdb://{tmp_path}/store?durability=none", 0.02)


def test_on_bigtable(emulator, monkeypatch):
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", emulator.host)
    erase_under_kills(f"bigtable://test/i{uuid4().hex}?timeout=60", 1.5)


def test_on_hbase(hbase):
    erase_under_kills(f"hbase://{hbase.place}/default?prefix=k{uuid4().hex[:8]}_&timeout=15", 2.5)
