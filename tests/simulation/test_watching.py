"""Clients follow pages while processes write, sweep and die: what they have is the page, whenever they have caught up.

A client reads a cursor, then the page, and applies what changes since; when its cursor is too old, it reads the page
again. It is killed anywhere, and then has its rows and its cursor of some moment before.
"""

import os
from datetime import timedelta
from random import Random

import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, count, descending, shown
from oneread.database import watching
from oneread.database.lists import listed
from oneread.database.pages import Query, page
from oneread.database.watching import Watcher, changes_cursor
from oneread.errors import Expired
from oneread.plans.trace import Trace
from oneread.testing.simulator import Simulation
from oneread.testing.steps import CIPHER, DeleteStep, DrainStep, PatchStep, SaveAllStep, SaveStep, Step
from oneread.transactions import change_log
from oneread.transactions.overlay import OverlayRows

SEEDS = max(1, int(os.environ.get("ONEREAD_SIM_SEEDS", "100")) // 4)
SECOND = timedelta(seconds=1)


class User(Model[int]):
    number: Key[int]
    name: str = ""


class Who(Copy[User]):
    name: str


class Post(Model[int]):
    logged = SECOND

    number: Key[int]
    room: str
    rank: int
    who: Who


class PostsOf(Index[Post]):
    watched = SECOND

    room: str = by(Post.room)
    rank: int = descending(Post.rank)
    who: Who = shown(Post.who)


class Rooms(Aggregate[Post]):
    room: str = by(Post.room)
    posts: int = count()


class Largest(Index[Rooms]):
    watched = SECOND

    posts: int = descending(Rooms.posts)


SCHEMA = Schema(User, Post, PostsOf, Rooms, Largest, inline=1)


class Client:
    """What a browser has of one page: by the key of the row, and by what the row is of."""

    def __init__(self, view, equal, limit):
        self.view, self.equal, self.limit = view, equal, limit
        self.rows = {}
        self.sources = {}
        self.cursor = None
        self.read_again = 0

    def read(self, operations):
        """A cursor first, then the page."""
        of = listed(operations, self.view)
        cursor = yield from changes_cursor(operations, of, CIPHER)
        found = yield from page(of, Query(self.equal, limit=1000), CIPHER, Trace())
        self.rows = {self.key_of(row): row for row in found}
        self.sources = {self.key_of(row)[0]: row for row in found}
        self.cursor = cursor
        self.read_again += 1

    def key_of(self, row):
        if self.view is Post:
            return row.ref(), (row.number,)
        return (row.source, (row.room, row.rank) if self.view is PostsOf else (row.posts,))

    def follow(self, operations, *, forget=False):
        """One batch; with `forget`, the client dies between the rows and the cursor."""
        if self.cursor is None:
            yield from self.read(operations)
            return True
        query = Query(self.equal, self.limit, self.cursor)
        try:
            batch = yield from Watcher(operations, listed(operations, self.view), query, CIPHER).step()
        except Expired:
            self.cursor = None
            return True
        assert len(batch) <= self.limit
        for change in batch:
            if change.is_removed:
                self.rows.pop((change.source, change.key), None)
                self.sources.pop(change.source, None)
            else:
                assert self.key_of(change.row) == (change.source, change.key)
                self.rows[change.source, change.key] = change.row
                self.sources[change.source] = change.row
        if not forget:
            self.cursor = batch.cursor
        return batch.more or forget


class FollowStep(Step, frozen=True):
    """A client takes one batch."""

    client: Client
    forget: bool

    def plan(self, operations):
        operations.logs.clear()  # each step is a process of its own
        return self.client.follow(operations, forget=self.forget)


class SweepLogs(Step, frozen=True):
    """One batch of a sweep."""

    def plan(self, operations):
        return operations.begin_sweep(2).step()


def act(chance):
    number = chance.randrange(4)
    new = Post(number=number, room=chance.choice("ab"), rank=chance.randrange(3), who=Who.of(chance.randrange(2)))
    acts = [
        lambda: SaveStep(new),
        lambda: SaveStep(new),
        lambda: PatchStep(Post, (number,), {"rank": chance.randrange(3)}),
        lambda: PatchStep(Post, (number,), {"room": chance.choice("ab")}),
        lambda: PatchStep(User, (chance.randrange(2),), {"name": chance.choice("pqr")}),
        lambda: DeleteStep(Post, (number,)),
    ]
    return chance.choice(acts)()


def simulate(seed):
    """The clients at the end, each with what its page is."""
    chance = Random(f"watching {seed}")
    simulation = Simulation(seed, SCHEMA)
    simulation.prepare(SaveAllStep([User(number=number) for number in range(2)]))
    for number in range(2):
        simulation.process(f"writer {number}", [act(chance) for _ in range(12)])
    simulation.process("worker", [DrainStep(2)] * 8)
    simulation.process("sweeper", [SweepLogs()] * 12)
    pages = ((PostsOf, ("a",)), (PostsOf, ()), (Largest, ()), (Post, ()))
    clients = [Client(view, equal, chance.choice((1, 2, 100))) for view, equal in pages]
    for number, client in enumerate(clients):
        follows = [FollowStep(client, chance.random() < 0.2) for _ in range(10)]
        simulation.process(f"client {number}", follows)
    simulation.run()

    def run(plan):
        return simulation._driver.run(plan, Trace())  # without faults

    for client in clients:
        while run(client.follow(simulation.operations)):
            pass
        found = run(page(listed(simulation.operations, client.view), Query(client.equal, limit=1000), CIPHER, Trace()))
        expected = {client.key_of(row): row for row in found}
        assert client.rows == expected, seed
        assert client.sources == {client.key_of(row)[0]: row for row in found}, seed
    return clients


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_client_that_has_caught_up_has_the_page(seed):
    simulate(seed)


def test_some_clients_read_again_and_some_do_not():
    read = [client.read_again for seed in range(20) for client in simulate(seed)]
    assert 1 in read
    assert max(read) > 1


def broken_by(monkeypatch, *changed):
    monkeypatch.setattr(*changed)
    with pytest.raises(AssertionError):
        simulate_all()


def simulate_all():
    for seed in range(60):
        simulate(seed)


def test_a_log_without_removed_rows_is_found(monkeypatch):
    log = change_log.new_entries
    broken_by(monkeypatch, change_log, "new_entries", lambda key, row, keys, now: log(key, row, list(keys)[:-1], now))


def test_a_log_without_entities_is_found(monkeypatch):
    broken_by(monkeypatch, OverlayRows, "changed_entities", lambda _unit, _kinds: [])


def test_a_cursor_taken_behind_the_page_is_found(monkeypatch):
    def read(client, operations):
        of = listed(operations, client.view)
        found = yield from page(of, Query(client.equal, limit=1000), CIPHER, Trace())
        client.rows = {client.key_of(row): row for row in found}
        client.sources = {client.key_of(row)[0]: row for row in found}
        client.cursor = yield from changes_cursor(operations, of, CIPHER)
        client.read_again += 1

    broken_by(monkeypatch, Client, "read", read)


def test_entries_that_are_not_asked_for_by_number_are_found(monkeypatch):
    """A reader that takes what is left of a log for all of it."""

    def entries(log, first, count):
        rows = yield from watching.Scan("system", watching.entries_from(log.key, first), count)
        return [watching.read_entry(key, row) for key, row in rows] or [[]]

    broken_by(monkeypatch, watching.SharedLog, "entries", entries)


def test_a_position_that_skips_the_rest_of_an_entry_is_found(monkeypatch):
    select = Watcher._select

    def whole_entries(watcher, entries):
        keys, following = select(watcher, entries)
        return keys, following._replace(number=following.number + bool(following.taken), taken=0)

    broken_by(monkeypatch, Watcher, "_select", whole_entries)
