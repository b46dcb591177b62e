"""Processes that move a store are killed with SIGKILL at random, while others write; nothing is lost, or twice."""

import random
import time
from pathlib import Path

from oneread import connect
from oneread.copying.moves import Move
from oneread.plans.clock import wall_clock
from tests.failures.moved_rooms import SCHEMA, Note, Post, Room
from tests.failures.stores import child
from tests.failures.test_killed_watchers import kill

ROOT = Path(__file__).resolve().parents[2]
KILLS = 6
LEASE = 0.3
"""Seconds after which another process continues what a killed one has begun."""

DECLARED = """
import os, random, sys, time
sys.path.insert(0, sys.argv.pop())
from oneread import connect
from oneread.copying.moves import Move
from oneread.errors import StoreMoved
from oneread.plans.clock import wall_clock
from tests.failures.moved_rooms import SCHEMA, Note, Post, Room, Title
"""

WRITER = (
    DECLARED
    + """
me = int(sys.argv[2])
chance = random.Random(me)
db = connect(sys.argv[1], SCHEMA, workers=1, timeout=60)
number = 0
try:
    while True:
        number += 1
        match number % 5:
            case 0:
                room = chance.choice("ab")
                made = db.create(Post(room=room, of=Title.of(room), text=f"{me} {number}"))
                line = f"post {room} {made.number} {me} {number}"
            case 1:
                db.counter("votes").add(1, once=f"{me} {number}")
                line = f"vote {me} {number}"
            case 2:
                db.save(Note(number=me * 1_000_000 + number % 500, text=f"{number}"))
                line = f"note {me * 1_000_000 + number % 500} {number}"
            case 3:
                db.delete(Note, me * 1_000_000 + (number - 250) % 500)
                line = f"gone {me * 1_000_000 + (number - 250) % 500}"
            case 4:
                db.patch(Room, chance.choice("ab"), title=f"{me} {number}")
                line = f"title {me} {number}"
        os.write(1, (line + "\\n").encode())
        time.sleep(0.001)
except StoreMoved:
    os.write(1, f"moved {me} {number}\\n".encode())
"""
)

MOVER = (
    DECLARED
    + """
with Move(sys.argv[1], sys.argv[2], (SCHEMA, SCHEMA), wall_clock, float(sys.argv[3])) as it:
    os.write(1, b".")
    while True:
        try:
            it.start()
            it.copy(pace=2000)
            it.follow()
        except Exception as error:
            os.write(2, f"{error!r}\\n".encode())
            time.sleep(0.05)
"""
)


def test_nothing_is_lost_or_twice_after_all_kills(tmp_path):
    chance = random.Random(20261129)
    here, there = f"lmdb://{tmp_path}/here?durability=none", f"lmdb://{tmp_path}/there?durability=none"
    with connect(here, SCHEMA, workers=0) as db:
        db.save_all([Room(room=each) for each in "ab"])
        db.save_all([Note(number=-each, text="old") for each in range(1, 3000)])
    writers = [child(WRITER, here, each, ROOT, measured=False) for each in range(2)]
    lines = [[] for _ in writers]
    movers = [child(MOVER, here, there, LEASE, ROOT, measured=False)]
    assert movers[0].stdout.read(1)
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.05, 0.6))
        movers.append(child(MOVER, here, there, LEASE, ROOT, measured=False))
        kill(movers.pop(0))
        assert movers[0].stdout.read(1)
    kill(movers.pop())
    time.sleep(LEASE)
    with Move(here, there, (SCHEMA, SCHEMA), wall_clock, LEASE) as it:
        it.start()
        it.copy()
        it.follow(until_lag=0.5)
        found = it.switch(force=True)
        assert (found.state, found.held < 10) == ("switched", True)
    for number, writer in enumerate(writers):
        lines[number] = writer.stdout.read().decode().splitlines()
        assert writer.wait(60) == 0
        assert lines[number][-1].startswith("moved ")
        writer.stdin.close()
        writer.stdout.close()
    check(here, there, lines)


def check(here, there, lines):
    """What was acknowledged is in the target once; and it is what the source is."""
    with connect(f"{here}&read_only=true", SCHEMA, workers=0) as one, connect(there, SCHEMA, workers=0) as two:
        votes = [each for several in lines for each in several if each.startswith("vote")]
        assert two.counter("votes").read() == one.counter("votes").read()
        assert two.counter("votes").read() - len(votes) in range(3), "two adds were not acknowledged at most"
        assert not any(two.counter("votes").add(1, once=" ".join(each.split()[1:])) for each in votes)
        for each in (each.split() for several in lines for each in several if each.startswith("post")):
            assert two.get(Post, each[1], int(each[2])).text == f"{each[3]} {each[4]}"
        for several in lines:
            last = {}
            for each in (each.split() for each in several if each[:4] in ("note", "gone")):
                last[int(each[1])] = each[2] if each[0] == "note" else None
            for number, text in last.items():
                found = two.find(Note, number)
                assert (None if found is None else found.text) == text or number == unsure(several)
        assert two.verify().clean
        dumps = [], []
        for database, kept in zip((one, two), dumps, strict=True):
            database.drain() if database is two else None
            database.dump(kept.append)
        assert [each for each in dumps[1] if b'"deleted"' not in each][1:-1] == [
            each for each in dumps[0] if b'"deleted"' not in each
        ][1:-1]


def unsure(several):
    """The note of the write that was refused, or not acknowledged."""
    _moved, me, number = several[-1].split()
    return int(me) * 1_000_000 + int(number) % 500
