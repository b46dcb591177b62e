"""Writers on Bigtable are killed with SIGKILL again and again, in the middle of saves, renames and deletes.

The story: a program dies between the commit of an entity and what follows from it, or before, or with a request under
way. What it acknowledged is there once; what it did not is there as a whole or not at all; recovery and drain end, and
everything derived equals the recomputation. Workers run in the writers and are killed with them.
"""

import os
import random
import select
import signal
import time
from collections import defaultdict
from pathlib import Path
from uuid import uuid4

import pytest

from oneread import connect
from tests.failures.shelves import SCHEMA, Author, Book, check_derived, settle
from tests.failures.stores import child
from tests.servers import need
from tools.servers.bigtable import bigtable_emulator

ROOT = Path(__file__).resolve().parents[2]
KILLS = 9
WRITERS = 3
LONGEST_ACT = 0.1  # seconds, about
AUTHORS = 3
BOOKS = 8


PROGRAM = """
import os, random, sys
sys.path.insert(0, sys.argv[4])
from oneread import connect
from oneread.errors import Conflict, NotFound, NotUnique, OutcomeUnknown, Unavailable
from tests.failures.shelves import SCHEMA, Author, Book, Writer

url, me, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
AUTHORS, BOOKS = int(sys.argv[5]), int(sys.argv[6])
draw = random.Random(seed)

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

with connect(url, SCHEMA) as db:
    turn = 0
    while True:
        turn += 1
        number, what = me * BOOKS + draw.randrange(BOOKS), draw.choice(["save", "save", "save", "delete", "rename"])
        if what == "rename":
            name = f"{seed}-{turn}"
            say("try", "rename", me, name)
            try:
                db.patch(Author, me, name=name)
            except (Conflict, OutcomeUnknown, Unavailable):
                pass  # it was tried and not acknowledged
            else:
                say("did", "rename", me, name)
            continue
        pages = draw.randrange(1, 60) * 10 + draw.randrange(2)
        say("try", what, number, pages)
        try:
            if what == "save":
                db.save(Book(number=number, author=Writer.of(draw.randrange(AUTHORS)), pages=pages))
            else:
                db.delete(Book, number)
        except (NotFound, NotUnique):
            say("did", "nothing", number, 0)
        except (Conflict, OutcomeUnknown, Unavailable):
            pass  # it was tried and not acknowledged
        else:
            say("did", what, number, pages)
"""


class Victim:
    """A writer in a process of its own, what it said, and what it was at when it died."""

    def __init__(self, url, me, seed):
        self.me = me
        self._process = child(PROGRAM, url, me, seed, ROOT, AUTHORS, BOOKS, measured=False)
        os.set_blocking(self._process.stdout.fileno(), False)
        self._said = b""

    def wait_for(self, acknowledged):
        """Waits until so many acts are acknowledged."""
        while self._said.count(b"did ") < acknowledged:
            ready, _, _ = select.select([self._process.stdout], [], [], 300)
            assert ready, "a writer stands still"
            piece = os.read(self._process.stdout.fileno(), 1 << 16)
            assert piece, "a writer ended by itself"
            self._said += piece

    def kill(self):
        """Ends it; returns the acts that it began, and whether each was acknowledged."""
        self._process.send_signal(signal.SIGKILL)
        os.set_blocking(self._process.stdout.fileno(), True)
        said = self._said + self._process.communicate()[0]
        acts = []
        for line in said.decode().splitlines():
            word, what, key, value = line.split(" ")
            if word == "try":
                acts.append([what, int(key), value, False])
            else:
                acts[-1][0] = what
                acts[-1][3] = True
        return acts


class Expected:
    """What the rows may be by what the writers said: of each key the values that it may have."""

    def __init__(self):
        self.pages = defaultdict(lambda: {None})
        self.names = {number: {"none"} for number in range(AUTHORS)}
        self.acknowledged = 0

    def note(self, acts):
        for what, key, value, is_sure in acts:
            self.acknowledged += is_sure
            if what == "nothing":
                continue
            known = self.names if what == "rename" else self.pages
            new = {"rename": value, "save": int(value) if what == "save" else None, "delete": None}[what]
            known[key] = {new} if is_sure else known[key] | {new}


def test_what_is_acknowledged_is_there_once_and_all_that_follows_is_right(monkeypatch):
    with need("bigtable", bigtable_emulator) as own:
        monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", own.host)
        url = f"bigtable://test/i{uuid4().hex}?timeout=60"
        with connect(url, SCHEMA, workers=0) as db:
            for number in range(AUTHORS):
                db.save(Author(number=number, name="none"))
            expected, moments = Expected(), random.Random(95)
            victims = [Victim(url, number, number) for number in range(WRITERS)]
            for kill in range(KILLS):
                victim = victims.pop(0)
                victim.wait_for(moments.randrange(3, 12))
                time.sleep(moments.uniform(0, LONGEST_ACT))  # the moment of the kill, not a wait for anything
                expected.note(victim.kill())
                victims.append(Victim(url, victim.me, WRITERS + kill))
            for victim in victims:
                victim.wait_for(1)
                time.sleep(moments.uniform(0, LONGEST_ACT))
                expected.note(victim.kill())
            assert expected.acknowledged >= 3 * KILLS
            settle(db)
            check(db, expected)


def check(db, expected):
    books = {book.number: book for page in db.scan(Book) for book in page}
    authors = {author.number: author.name for page in db.scan(Author) for author in page}
    for number, known in expected.pages.items():
        assert (books[number].pages if number in books else None) in known
    assert books.keys() <= expected.pages.keys()
    for number, known in expected.names.items():
        assert authors[number] in known
    assert len({book.pages for book in books.values()}) == len(books)
    check_derived(db)


@pytest.mark.parametrize("sure", [True, False])
def test_the_expectation_takes_what_was_not_acknowledged_either_way(sure):
    expected = Expected()
    expected.note([["save", 1, "5", True], ["delete", 1, "0", sure], ["rename", 0, "a", sure]])
    assert expected.pages[1] == ({None} if sure else {5, None})
    assert expected.names[0] == ({"a"} if sure else {"none", "a"})
