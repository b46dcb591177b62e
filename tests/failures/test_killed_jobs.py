"""Writers and workers of jobs are killed with SIGKILL at random moments: each job of a commit ends, and no others run.

A handler notes in a file when it begins and what has become of it. So of two runs of one job the first was over, or its
process was killed, before the second begins.
"""

import random
import re
import time
from itertools import pairwise
from uuid import uuid4

from oneread import Index, Job, Key, Model, Schema, by, connect
from tests.failures.stores import child, until

KILLS = 6
LEASE = 1.0
"""Seconds; of the library ten, which a test does not wait for."""

DECLARED = f"""
import os, random, sys, time
from oneread import Index, Job, JobHandlers, Key, Model, Schema, by, connect

class Order(Model[int]):
    number: Key[int]
    text: str

class OrdersOf(Index[Order]):
    text: str = by(Order.text)

class Work(Job):
    number: int

handlers = JobHandlers()
chance = random.Random(sys.argv[2])
db = connect(sys.argv[1], Schema(Order, OrdersOf, Work), workers=1, timeout=60)

def start():
    db.start_jobs(handlers, at_once=3)
    db._job_worker.runner.leases.seconds = {LEASE}
"""

WRITER = (
    DECLARED
    + """
while True:
    number = chance.randrange(10**9)
    db.create(Order(number=number, text=chance.choice("ab")), enqueue=[Work(number=number)])
    os.write(1, b"%d\\n" % number)
    time.sleep(0.02)
"""
)

WORKER = (
    DECLARED
    + """
notes = os.open(sys.argv[3], os.O_WRONLY | os.O_APPEND)

def note(what, number):
    os.write(notes, b"%s %d %d %f\\n" % (what, number, os.getpid(), time.monotonic()))

@handlers.handles(Work)
def work(job, run):
    note(b"begin", job.number)
    time.sleep(1.6 if chance.random() < 0.02 else chance.random() / 50)
    if chance.random() < 0.05:
        note(b"fail", job.number)
        raise ValueError
    note(b"end", job.number)

start()
os.write(1, b".")
time.sleep(3600)
"""
)


class Order(Model[int]):
    number: Key[int]
    text: str


class OrdersOf(Index[Order]):
    text: str = by(Order.text)


class Work(Job):
    number: int


SCHEMA = Schema(Order, OrdersOf, Work)


class Story:
    """The processes, the moments at which they were killed, and what writers have acknowledged."""

    def __init__(self, url, notes):
        self.url, self.notes = url, notes
        self.killed = {}
        self.acknowledged = set()

    def start(self, program, seed):
        process = child(program, self.url, seed, self.notes, measured=False)
        said = process.stdout.readline() if program is WRITER else process.stdout.read(1)
        assert said, process.args
        self._take(said)
        return process

    def kill(self, process):
        process.kill()
        process.wait(30)
        self.killed[process.pid] = time.monotonic()
        self._take(process.stdout.read())
        process.stdin.close()
        process.stdout.close()

    def _take(self, said):
        self.acknowledged.update(map(int, re.findall(rb"(\d+)\n", said)))

    def runs(self):
        """Of each job its runs: when each began, what became of it and when, and in which process."""
        runs = {}
        for line in self.notes.read_text().splitlines():
            what, number, process, at = line.split()
            if what == "begin":
                runs.setdefault(int(number), []).append([float(at), "", self.killed.get(int(process)), int(process)])
            else:
                (run,) = [each for each in runs[int(number)] if each[3] == int(process) and not each[1]]
                run[1:3] = what, float(at)
        return runs


def live_through_kills(url, notes):
    chance, story = random.Random(20261130), Story(url, notes)
    notes.touch()
    with connect(url, SCHEMA, workers=0, timeout=60) as db:
        running = [(each, story.start(each, seed)) for seed, each in enumerate([WRITER, WRITER, WORKER, WORKER])]
        try:
            for seed in range(KILLS):
                time.sleep(chance.uniform(0.2, 0.5))
                program, process = running.pop(chance.randrange(len(running)))
                story.kill(process)
                running.append((program, story.start(program, 100 + seed)))
            for program, process in running:
                if program is WRITER:
                    story.kill(process)
            db.drain()
            until(lambda: not db.survey().jobs.waiting, 90)
        finally:
            for _program, process in running:
                if process.pid not in story.killed:
                    story.kill(process)
        stored = {row.number for page in db.scan(Order) for row in page}
        assert story.acknowledged <= stored
        runs = story.runs()
        assert {number for number, several in runs.items() if any(each[1] == "end" for each in several)} == stored
        assert runs.keys() == stored
        check_one_at_a_time(runs)
        assert db.jobs(set_aside=True) == []
        assert not db.verify().faults


def check_one_at_a_time(runs):
    for several in runs.values():
        for first, second in pairwise(several):
            assert first[2] is not None
            assert first[2] <= second[0]


def test_on_lmdb(tmp_path):
    live_through_kills(f"lmdb://{tmp_path}/store?durability=none", tmp_path / "notes")


def test_on_bigtable(emulator, monkeypatch, tmp_path):
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", emulator.host)
    live_through_kills(f"bigtable://test/i{uuid4().hex}?timeout=60", tmp_path / "notes")


def test_on_hbase(hbase, tmp_path):
    live_through_kills(f"hbase://{hbase.place}/default?prefix=k{uuid4().hex[:8]}_&timeout=15", tmp_path / "notes")
