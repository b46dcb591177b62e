"""Counters by hand, and what one would pick instead: LMDB, PostgreSQL, Redis. Each adds, adds once, and reads.

An add once takes a token, and is counted one time however often it comes: each side looks for the token, keeps it, and
adds, all as one. Raw LMDB and PostgreSQL keep tokens for ever; what removes them is not measured.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import lmdb
import psycopg
from redis import Redis

from benchmarks.peers.postgres import SERVER
from benchmarks.peers.promises import Durability, redis_options
from tools.servers.postgres import postgres_server
from tools.servers.redis import redis_server

SHARDS: Final = 20
"""Rows of a hot counter, ours by default, and PostgreSQL's where it has several."""

_NUMBER: Final = struct.Struct(">q")

TABLES: Final = """
CREATE TABLE counter (name text PRIMARY KEY, value bigint NOT NULL) WITH (fillfactor = 10);
CREATE TABLE shard (name text, number int, value bigint NOT NULL, PRIMARY KEY (name, number)) WITH (fillfactor = 10);
CREATE TABLE token (name text, token text, PRIMARY KEY (name, token));
"""
ADD: Final = "INSERT INTO counter VALUES (%s, 1) ON CONFLICT (name) DO UPDATE SET value = counter.value + 1"
ADD_ONCE: Final = """
WITH fresh AS (INSERT INTO token VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING name)
INSERT INTO counter SELECT name, 1 FROM fresh ON CONFLICT (name) DO UPDATE SET value = counter.value + 1
"""
ADD_SHARD: Final = """
INSERT INTO shard VALUES (%s, %s, 1) ON CONFLICT (name, number) DO UPDATE SET value = shard.value + 1
"""
READ: Final = "SELECT value FROM counter WHERE name = %s"
READ_SHARDS: Final = "SELECT coalesce(sum(value), 0)::bigint FROM shard WHERE name = %s"

ONCE: Final = """
if redis.call('SET', KEYS[2], '', 'NX', 'EX', 3600) then
    redis.call('INCRBY', KEYS[1], 1)
    return 1
end
return 0
"""


class Counters(Protocol):
    """One side: counters by name."""

    def add(self, name: str) -> None: ...

    def add_once(self, name: str, token: str) -> None: ...

    def read(self, name: str) -> int: ...

    def close(self) -> None: ...


class RawCounters:
    """A row for each counter in an LMDB of its own: read, add one, put.

    Arguments:
        path: a folder, made when absent.
        durability: as in the LMDB engine.
    """

    def __init__(self, path: Path, durability: Durability = "none") -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.env = lmdb.open(
            str(path), map_size=1 << 40, max_dbs=2, max_readers=1024, writemap=False,
            sync=durability != "none", metasync=durability == "group",
        )  # fmt: skip
        self._counts = self.env.open_db(b"counts")
        self._tokens = self.env.open_db(b"tokens")

    def add(self, name: str) -> None:
        with self.env.begin(write=True) as transaction:
            self._add(transaction, name.encode(), 1)

    def add_once(self, name: str, token: str) -> None:
        key = name.encode()
        with self.env.begin(write=True) as transaction:
            if transaction.put(key + b"\0" + token.encode(), b"", overwrite=False, db=self._tokens):
                self._add(transaction, key, 1)

    def add_all(self, amounts: Mapping[str, int]) -> None:
        with self.env.begin(write=True) as transaction:
            for name, amount in amounts.items():
                self._add(transaction, name.encode(), amount)

    def read(self, name: str) -> int:
        with self.env.begin(db=self._counts) as transaction:
            return _value(transaction.get(name.encode()))

    def close(self) -> None:
        self.env.close()

    def _add(self, transaction: Any, key: bytes, amount: int) -> None:
        value = _value(transaction.get(key, db=self._counts)) + amount
        transaction.put(key, _NUMBER.pack(value), db=self._counts)


def _value(stored: bytes | None) -> int:
    return 0 if stored is None else int(_NUMBER.unpack(stored)[0])


@contextmanager
def postgres_counters() -> Generator[str]:
    """A private server with the empty tables of counters; yields its DSN."""
    with postgres_server(SERVER) as dsn:
        with psycopg.connect(dsn) as connection:
            connection.execute(TABLES)
        yield dsn


class PostgresCounters:
    """One connection, in autocommit: a statement is a transaction, and a round trip.

    Arguments:
        dsn: where the server is.
        durability: `group` waits for the disk at each commit, `none` does not (synchronous_commit).
        shards: rows of a counter, the one to add to drawn by chance.
    """

    def __init__(self, dsn: str, durability: Durability = "none", shards: int = 1) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=0)
        self._connection.execute(f"SET synchronous_commit = {'off' if durability == 'none' else 'on'}")
        self._cursor = self._connection.cursor()
        self._shards = shards

    def add(self, name: str) -> None:
        if self._shards == 1:
            self._cursor.execute(ADD, (name,))
        else:
            self._cursor.execute(ADD_SHARD, (name, random.randrange(self._shards)))

    def add_once(self, name: str, token: str) -> None:
        self._cursor.execute(ADD_ONCE, (name, token))

    def read(self, name: str) -> int:
        found = self._cursor.execute(READ if self._shards == 1 else READ_SHARDS, (name,)).fetchone()
        return int(found[0]) if found else 0

    def close(self) -> None:
        self._connection.close()


@contextmanager
def redis_counters(durability: Durability) -> Generator[str]:
    """A private server that logs each add; yields its URL."""
    with redis_server(redis_options(durability)) as url:
        yield url


class RedisCounters:
    """One connection: a command is a round trip. How durable an add is, is the server's setting.

    Arguments:
        url: where the server is.
    """

    def __init__(self, url: str) -> None:
        self._client = Redis.from_url(url)
        self._once: Callable[..., Any] = self._client.register_script(ONCE)

    def add(self, name: str) -> None:
        self._client.incrby(name)

    def add_once(self, name: str, token: str) -> None:
        self._once(keys=[name, f"{name}:{token}"])

    def add_each(self, names: Sequence[str]) -> None:
        """Several adds in one round trip."""
        pipeline = self._client.pipeline(transaction=False)
        for name in names:
            pipeline.incrby(name)
        pipeline.execute()

    def read(self, name: str) -> int:
        found: Any = self._client.get(name)
        return int(found or 0)

    def close(self) -> None:
        self._client.close()
