"""Comments are paged by their keys alone - time, user, the user's own number - while eight writers insert.

Each comment that was there throughout is shown once, in order, forwards and backwards; a page is one range read.
"""

import threading
from datetime import UTC, datetime

import pytest

from oneread import GENERATED, Key, Model, Schema, connect

WRITERS = 8
LIMIT = 20
PASSES = 3


class User(Model[str]):
    name: Key[str]


class Comment(Model[str, datetime, str, int]):
    child_of = User
    topic: Key[str]
    at: Key[datetime]
    name: Key[str]
    number: Key[int] = GENERATED
    text: str = ""


SCHEMA = Schema(User, Comment, portable=True)
USERS = [f"user {number}" for number in range(WRITERS)]


def comment(db, name):
    return db.create(Comment(topic="a", at=datetime.now(UTC), name=name))


def walked(db, *, backwards):
    """The keys of all comments made until now, page by page, and what the pages cost."""
    now = datetime.now(UTC)
    page = db.page(Comment, "a", limit=LIMIT, backward=backwards)
    keys, costs = [], []
    while True:
        keys += [row.ref().key for row in (reversed(page.rows) if backwards else page.rows)]
        costs.append((page.cost.requests, page.cost.rows))
        cursor = page.previous if backwards else page.next
        if cursor is None or (not backwards and page.rows[-1].at > now):
            return keys, costs
        page = db.page(Comment, "a", limit=LIMIT, cursor=cursor)


@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
def test_pages_are_stable_while_eight_writers_insert(tmp_path, backwards):
    ends = threading.Event()
    failed = []

    def write(name):
        try:
            while not ends.is_set():
                comment(db, name)
        except BaseException as error:
            failed.append(error)
            raise

    with connect(f"lmdb://{tmp_path / 'store'}?durability=none", SCHEMA) as db:
        db.save_all([User(name=name) for name in USERS])
        for _ in range(10):
            for name in USERS:
                comment(db, name)
        writers = [threading.Thread(target=write, args=(name,)) for name in USERS]
        for writer in writers:
            writer.start()
        try:
            for _ in range(PASSES):
                before, _costs = walked(db, backwards=False)
                keys, costs = walked(db, backwards=backwards)
                assert keys == sorted(keys, reverse=backwards), "out of order"
                assert len(set(keys)) == len(keys), "shown twice"
                assert set(before) <= set(keys), "passed over"
                assert all(requests == 1 and rows <= LIMIT + 1 for requests, rows in costs)
        finally:
            ends.set()
            for writer in writers:
                writer.join()
        assert not failed
        keys, _costs = walked(db, backwards=backwards)
        assert len(keys) > 10 * WRITERS, "the writers wrote nothing meanwhile"
        for name in USERS:
            numbers = sorted(number for _topic, _at, user, number in keys if user == name)
            assert numbers == list(range(1, len(numbers) + 1))
        assert db.verify().clean
