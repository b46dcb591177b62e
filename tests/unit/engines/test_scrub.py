"""Scrubbing: no page of the file keeps a removed byte, beside readers and writers, and behind a kill."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from oneread import Copy, Index, Key, Model, Schema, by, connect, shown
from oneread.engines.lmdb import scrub as scrubbing
from oneread.errors import Unavailable, Unsupported, UsageError

MARK = b"Zwiebelfisch"


class Person(Model[int]):
    number: Key[int]
    name: str
    text: str = ""


class Author(Copy[Person]):
    name: str


class Post(Model[int]):
    number: Key[int]
    author: Author


class ByName(Index[Person]):
    name: str = by(Person.name)
    text: str = shown(Person.text)


class PostsByName(Index[Post]):
    author: Author = shown(Post.author)


SCHEMA = Schema(Person, Post, ByName, PostsByName)


def times(folder):
    return Path(folder, "data.mdb").read_bytes().count(MARK)


def fill(db, first=0, count=120):
    """People whose names are in keys, rows, branches, long values and copies."""
    people = range(first, first + count)
    long = [f"{MARK.decode()} " * (1_000 if number % 50 == 0 else 3) for number in people]
    db.save_all(
        [Person(number=n, name=f"{n % 7} {MARK.decode()} {n}", text=text) for n, text in zip(people, long, strict=True)]
    )
    db.save_all([Post(number=number, author=Author.of(number)) for number in people])


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    made = tmp_path_factory.mktemp("scrubbed") / "store"
    with connect(f"lmdb://{made}?durability=none", SCHEMA, workers=0) as db:
        db.save_all([Person(number=number, name=f"kept {number}", text="kept") for number in range(10_000, 11_000)])
        fill(db)
        for number in range(120):
            db.erase(Person, number)
    return made


@pytest.fixture
def folder(built, tmp_path):
    """A store from whose rows all of it was removed, and from whose file nothing was."""
    return shutil.copytree(built, tmp_path / "store")


def test_nothing_that_was_removed_is_in_the_file(folder):
    assert times(folder) > 50
    with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        assert [each.where for each in db.left_bytes(MARK)] == [str(folder / "data.mdb")]
        done = db.scrub()
        assert done.entries > 2 * 1_000
        assert db.left_bytes(MARK) == []
        assert not db.verify().faults
        assert db.get(Person, 10_500).name == "kept 10500"
        assert db.get(Post, 119).author.name == ""
    assert times(folder) == 0


def test_each_step_is_needed(folder, monkeypatch):
    """Without the pages of zeros, or without entries that are written again, some bytes stay."""
    with monkeypatch.context() as patched, connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        patched.setattr(scrubbing.Scrubbing, "_fill", lambda _self: 0)
        db.scrub()
        assert times(folder) > 0
    with monkeypatch.context() as patched, connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        patched.setattr(scrubbing.Scrubbing, "_rewrite", lambda *_given: None)
        fill(db, 500, 20)
        for number in range(500, 520):
            db.erase(Person, number)
        db.scrub()
        before = times(folder)
    with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        db.scrub()
    assert before > times(folder) == 0


def test_memory_of_pages_that_were_written_does_not_come_back(tmp_path, monkeypatch):
    """LMDB makes new pages of the memory of older ones, as it is: few entries leave some of it between them."""

    def left(folder):
        with connect(f"lmdb://{folder}?durability=none", SCHEMA, workers=0) as db:
            db.save_all([Person(number=number, name=f"kept {number}", text="kept") for number in range(100, 110)])
            fill(db, 0, 10)
            for number in range(10):
                db.erase(Person, number)
            db.scrub()
        return times(folder)

    assert left(tmp_path / "washed") == 0
    monkeypatch.setattr(scrubbing.Scrubbing, "_wash", lambda _self, _transaction: None)
    assert left(tmp_path / "not") > 0


def test_readers_and_writers_continue(folder):
    with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        ended, wrong = threading.Event(), []

        def work(number):
            with connect(f"lmdb://{folder}", SCHEMA, workers=0) as other:
                while not ended.is_set():
                    other.save(Person(number=number, name="written"))
                    if other.get(Person, 10_000 + number).name != f"kept {10_000 + number}":
                        wrong.append(number)
                    if len(other.page(ByName, limit=50).rows) < 50:
                        wrong.append(-number)

        threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
        for thread in threads:
            thread.start()
        try:
            db.scrub()
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        assert wrong == []
        assert not db.verify().faults
    assert times(folder) == 0


READER = """
import sys, lmdb, time
environment = lmdb.open(sys.argv[1], readonly=True, max_dbs=64)
with environment.begin() as reading:
    print("reads", flush=True)
    sys.stdin.readline()
"""


def test_a_reader_of_before_is_waited_for_and_named(folder):
    command = [sys.executable, "-c", READER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout.readline() == "reads\n"
        with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
            with pytest.raises(Unavailable, match="readers of before") as found:
                db.scrub(wait=0.2)
            assert found.value.facts["processes"] == [reader.pid]
            reader.communicate("\n")
            db.scrub()
    assert times(folder) == 0


KILLED = """
import os, signal, sys
from tests.unit.engines.test_scrub import SCHEMA
from oneread import connect
from oneread.engines.lmdb import scrub
step, left = sys.argv[2], int(sys.argv[3])
before = getattr(scrub.Scrubbing, step)
def die(*given):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return before(*given)
setattr(scrub.Scrubbing, step, die)
connect("lmdb://" + sys.argv[1], SCHEMA, workers=0).scrub()
"""


@pytest.mark.parametrize(
    ("step", "after"), [("_renew", 2), ("_renew", 7), ("_put_zeros", 2), ("_remove_some", 4)],
    ids=["at the first entries", "between entries", "among pages of zeros", "while these are removed"],
)  # fmt: skip
def test_a_killed_scrub_harms_nothing_and_is_done_again(folder, step, after):
    root = Path(__file__).resolve().parents[3]
    env = os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(folder), step, str(after)]
    assert subprocess.run(command, env=env, cwd=root, check=False).returncode == -signal.SIGKILL
    with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        assert not db.verify().faults
        assert db.get(Person, 10_500).name == "kept 10500"
        db.scrub()
        assert not db.verify().faults
    assert times(folder) == 0


def test_other_stores_are_not_one_file():
    with connect("memory://", SCHEMA, workers=0) as db:
        with pytest.raises(Unsupported, match="this store is in memory"):
            db.scrub()
        assert db.left_bytes(MARK) == []
        db.save(Person(number=1, name=MARK.decode()))
        found = {(each.where, each.what): each.rows for each in db.left_bytes(MARK)}
        assert found == {("roots", "Person"): 1, ("views", "ByName"): 1}


def test_what_is_refused(folder):
    with connect(f"lmdb://{folder}?read_only=true", SCHEMA, workers=0) as db:
        with pytest.raises(Unsupported, match="read_only"):
            db.scrub()
        with pytest.raises(UsageError, match="at least 3"):
            db.left_bytes(b"ab")
        with pytest.raises(UsageError, match="cannot be read"):
            db.left_bytes(b"abc", files=["/nowhere"])
        with pytest.raises(UsageError, match="wait"):
            db.scrub(wait="long")
