"""Processes that write, follow and sweep are killed with SIGKILL at random moments; followers have the page at the end.

The story: a follower keeps its rows and its cursor in a file, as a browser does, or a copy of all entities, and
continues from there when it is started again. When its cursor is too old it reads the page again.
"""

import json
import random
import time
from datetime import timedelta

from oneread import Index, Key, Model, Schema, by, connect, descending
from tests.failures.stores import child, until

KILLS = 4

DECLARED = """
import json, os, random, sys, time
from datetime import timedelta
from oneread import Index, Key, Model, Schema, by, connect, descending

class Post(Model[int]):
    logged = timedelta(seconds=1)
    number: Key[int]
    room: str
    rank: int

class PostsOf(Index[Post]):
    watched = timedelta(seconds=1)
    room: str = by(Post.room)
    rank: int = descending(Post.rank)

db = connect(sys.argv[1], Schema(Post, PostsOf), workers=0, timeout=60, cursor_secret=b"s" * 32)
"""

WRITER = (
    DECLARED
    + """
chance = random.Random(sys.argv[2])
while True:
    number = chance.randrange(30)
    if chance.random() < 0.2:
        db.delete(Post, number)
    elif chance.random() < 0.1:
        db.save_all([Post(number=each, room="a", rank=chance.randrange(9)) for each in range(30)])
    else:
        db.save(Post(number=number, room=chance.choice("ab"), rank=chance.randrange(9)))
    os.write(1, b".")
"""
)

FOLLOWER = (
    DECLARED
    + """
from oneread.errors import Expired

place = sys.argv[2]
followed = (PostsOf, "a") if sys.argv[3] == "page" else (Post,)

def number(row):
    return row.source.key[0] if followed[0] is PostsOf else row.number

def keep(rows, cursor):
    with open(place + ".new", "w") as file:
        json.dump([sorted(rows.items()), cursor], file)
    os.replace(place + ".new", place)

def read_page():
    cursor = db.changes_cursor(followed[0])
    rows = {number(row): row.rank for row in db.page(*followed, limit=1000)}
    keep(rows, cursor)
    return rows, cursor

if os.path.exists(place):
    with open(place) as file:
        kept, cursor = json.load(file)
    rows = dict(kept)
else:
    rows, cursor = read_page()
while True:
    try:
        for changes in db.changes(*followed, cursor=cursor, pace=0.01, wait=0.1, limit=7):
            for change in changes:
                if change.is_removed:
                    rows.pop(change.source.key[0], None)
                else:
                    rows[change.source.key[0]] = change.row.rank
            keep(rows, changes.cursor)
            os.write(1, b".")
    except Expired:
        rows, cursor = read_page()
        os.write(1, b"!")
"""
)

SWEEPER = (
    DECLARED
    + """
while True:
    db.sweep(batch=5)
    os.write(1, b".")
    time.sleep(0.02)
"""
)


class Post(Model[int]):
    logged = timedelta(seconds=1)
    number: Key[int]
    room: str
    rank: int


class PostsOf(Index[Post]):
    watched = timedelta(seconds=1)
    room: str = by(Post.room)
    rank: int = descending(Post.rank)


def kill(process):
    process.kill()
    process.wait(30)
    process.stdin.close()
    process.stdout.close()


def started(program, *arguments):
    """A process that works by now."""
    process = child(program, *arguments, measured=False)
    assert process.stdout.read(1), program
    return process


def test_followers_have_the_page_and_all_entities_after_all_kills(tmp_path):
    chance = random.Random(20260000)
    url, page, copy = f"lmdb://{tmp_path}/store?durability=none", tmp_path / "page.json", tmp_path / "copy.json"
    programs = {"writer": (WRITER, url, "1"), "other": (WRITER, url, "2"), "sweeper": (SWEEPER, url)}
    programs |= {"follower": (FOLLOWER, url, page, "page"), "copier": (FOLLOWER, url, copy, "model")}
    with connect(url, Schema(Post, PostsOf), workers=0, timeout=60) as db:
        running = {name: started(*program) for name, program in programs.items()}
        try:
            for _ in range(KILLS):
                for name in ("follower", "copier", chance.choice(("writer", "other", "sweeper"))):
                    time.sleep(chance.uniform(0.05, 0.2))
                    kill(running.pop(name))
                    running[name] = started(*programs[name])
            for name in ("writer", "other"):
                kill(running.pop(name))
            rows = [[row.source.key[0], row.rank] for row in db.page(PostsOf, "a", limit=1000)]
            until(lambda: json.loads(page.read_text())[0] == sorted(rows))
            entities = [[each.number, each.rank] for each in db.page(Post, limit=1000)]
            until(lambda: json.loads(copy.read_text())[0] == sorted(entities))
        finally:
            for process in running.values():
                kill(process)
        assert not db.verify().faults


def test_a_change_of_another_process_arrives(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    with connect(url, Schema(Post, PostsOf), workers=0, timeout=60) as db:
        batches = db.changes(PostsOf, pace=0.01, wait=30)
        assert not next(batches)
        writer = started(WRITER, url, "3")
        try:
            assert next(batches)
        finally:
            kill(writer)
