"""HBase and its Thrift2 servers are killed and paused while programs write: nothing acknowledged is lost or made twice.

What is derived must equal the recomputation once recovery and drain have ended.
"""

from contextlib import ExitStack
from itertools import count
from threading import Lock
from uuid import uuid4

import pytest

from oneread import add, connect
from oneread.engines.hbase import HbaseEngine, engine, options_from_url
from oneread.store.requests import Mutate, Read
from oneread.store.rows import Cell, RowMutation
from tests.failures.load import SCHEMA, Author, Likes, Load, Note, Writer, check
from tests.failures.proxy import proxy
from tests.servers import need
from tools.servers.hbase import hbase_server, thrift_server

CHANGES = 20
"""Acknowledged changes between two faults."""


@pytest.fixture
def loads():
    """Starts loads, which are stopped also when the test fails."""
    with ExitStack() as stack:

        def start(db):
            load = Load(db)
            stack.callback(load.stop)
            return load

        yield start


def url_of(*servers, options=""):
    return f"hbase://{','.join(each.place for each in servers)}/default?prefix=k{uuid4().hex[:8]}_&timeout=15{options}"


def test_thrift_servers_are_killed_and_paused_under_a_load(hbase, loads):
    with (
        thrift_server(hbase.zookeeper) as first,
        thrift_server(hbase.zookeeper) as second,
        connect(url_of(first, second), SCHEMA, workers=0) as db,
    ):
        load = loads(db)
        load.wait(CHANGES)
        first.kill()
        load.wait(CHANGES)
        first.start()
        second.pause()
        load.wait(CHANGES)
        second.resume()
        load.wait(CHANGES)
        load.stop()
        check(load, db)


def test_an_add_whose_commit_is_not_answered_is_made_once(hbase):
    """The commit point is one check of a root row: it is not repeated, and found in the row's history."""
    armed, losing = [], []

    def note(data):
        if armed and b"checkAndMutate" in data and b"_roots" in data:
            losing.append(armed.pop())
        return data

    def lose(data):
        return None if losing and losing.pop() else data

    with proxy(hbase.place) as before, connect(url_of(before), SCHEMA, workers=0) as db:
        db.save(Author(number=1, name="Ada"))
        db.save(Note(number=1, author=Writer.of(1), text="text"))
        before.on_request, before.on_answer = note, lose
        for _ in range(3):
            armed.append(True)
            db.patch(Note, 1, likes=add(1))
            assert not armed
        assert db.get(Note, 1).likes == 3
        assert db.get(Likes, 1).likes == 3


def test_many_answers_are_lost_under_a_load(hbase, loads):
    """Every seventh answer is lost with its connection, now and then behind half of it."""
    answers = count(1)
    lock = Lock()

    def lose(data):
        with lock:
            number = next(answers)
        return data if number % 7 else None if number % 2 else data[: len(data) // 2]

    with proxy(hbase.place) as before, connect(url_of(before), SCHEMA, workers=0) as db:
        load = loads(db)
        before.on_answer = lose
        load.wait(CHANGES)
        load.stop()
        before.on_answer = lambda data: data
        check(load, db)


MANY = {b"%d" % number: {b"d:b": Cell(b"small", 1), b"m:e": Cell(b"too", 1)} for number in range(2_000)}
"""More rows than a region server reads from files for one answer: it counts a block for each family of each row."""


def test_hbase_is_killed_and_restarted_under_a_load(loads, monkeypatch):
    """Afterwards the rows are in files."""
    monkeypatch.setattr(engine, "READ_KEYS", len(MANY))
    with (
        ExitStack() as stack,
        need("hbase", hbase_server) as server,
        thrift_server(server.zookeeper, framed=True) as thrift,
        connect(url_of(thrift, options="&transport=framed"), SCHEMA, workers=0) as db,
    ):
        others = HbaseEngine(options_from_url(f"{thrift.place}/default", {"prefix": "many_", "transport": "framed"}))
        stack.callback(others.close)
        others.answer(Mutate("views", [RowMutation(key, row) for key, row in MANY.items()]))
        load = loads(db)
        load.wait(CHANGES)
        server.restart()
        load.wait(CHANGES)
        load.stop()
        check(load, db)
        assert others.answer(Read("views", list(MANY), "dm")) == list(MANY.values())
