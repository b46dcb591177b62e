"""Feeds by hand, and what one would pick instead: LMDB and Redis. Each writes a post to the list of every member.

A page is then one range of the member's list. Both find a group's members in the store, and keep each group's posts for
those who join later, as ours does. They know no edit, leave, expiry, cursor, or crash in the middle: Redis publishes in
pipelines, which other clients see half done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

import lmdb
import msgspec
from redis import Redis

from benchmarks.peers.floor import FULL, number4, number8
from benchmarks.peers.promises import Durability, redis_options
from benchmarks.workloads.meetups import Entry, Membership, Post
from benchmarks.workloads.times import instant, microseconds
from tools.servers.redis import redis_server

PAGE: Final = 20
AT_ONCE: Final = 1_000
"""Commands of one pipeline."""


class Feeds(Protocol):
    """One side: memberships and posts go in, every member has a feed."""

    def join(self, membership: Membership) -> None: ...

    def join_all(self, memberships: Sequence[Membership]) -> None: ...

    def publish(self, post: Post) -> None:
        """Returns when every member has it."""
        ...

    def publish_all(self, posts: Sequence[Post]) -> None: ...

    def page(self, member: int) -> Sequence[object]:
        """The newest entries, with what they show."""
        ...

    def feed(self, member: int) -> list[Entry]:
        """All entries, newest first, ties by the post's key."""
        ...

    def size(self) -> int:
        """Bytes of the store: on disk, or in the memory of a server."""
        ...

    def close(self) -> None: ...


# --- LMDB ------------------------------------------------------------------------------------------------------------


class StoredPost(msgspec.Struct, array_like=True, frozen=True, gc=False):
    group: int
    title: str
    at: int


class Line(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An entry of a feed, with all that a page says of it."""

    at: datetime
    post: str
    title: str
    group: int


encode = msgspec.msgpack.Encoder().encode
decode_line = msgspec.msgpack.Decoder(Line).decode


class RawFeeds:
    """Feeds in an LMDB of its own: a row for each entry, by member and time, whose value is what a page says of it.

    Arguments:
        path: a folder, made when absent.
        durability: as in the LMDB engine.
    """

    def __init__(self, path: Path, durability: Durability = "none") -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._path = path
        self.env = lmdb.open(
            str(path), map_size=1 << 40, max_dbs=4, max_readers=1024, writemap=False,
            sync=durability == "group", metasync=durability == "group",
        )  # fmt: skip
        self._posts = self.env.open_db(b"posts")
        self._published = self.env.open_db(b"published")
        self._members = self.env.open_db(b"members")
        self._feeds = self.env.open_db(b"feeds")

    def join(self, membership: Membership) -> None:
        self.join_all([membership])

    def join_all(self, memberships: Sequence[Membership]) -> None:
        with self.env.begin(write=True) as transaction:
            for group, member in sorted(memberships):
                own = number4(member)
                transaction.put(number4(group) + own, b"", db=self._members)
                published = transaction.cursor(db=self._published)
                rows = [(own + key[4:], value) for key, value in _below(published, number4(group))]
                transaction.cursor(db=self._feeds).putmulti(rows)

    def publish(self, post: Post) -> None:
        place, value = _place(post), encode(_line(post))
        with self.env.begin(write=True) as transaction:
            transaction.put(post.id.encode(), encode(StoredPost(post.group, post.title, post.at)), db=self._posts)
            transaction.put(number4(post.group) + place, value, db=self._published)
            rows = [(member + place, value) for member in self._members_of(transaction, post.group)]
            transaction.cursor(db=self._feeds).putmulti(rows)

    def publish_all(self, posts: Sequence[Post]) -> None:
        """Puts the posts of a batch in one transaction: rows sorted, and the members of a group read once."""
        stored: list[tuple[bytes, bytes]] = []
        published: list[tuple[bytes, bytes]] = []
        feeds: list[tuple[bytes, bytes]] = []
        members: dict[int, list[bytes]] = {}
        with self.env.begin(write=True) as transaction:
            for post in posts:
                if post.group not in members:
                    members[post.group] = self._members_of(transaction, post.group)
                place, value = _place(post), encode(_line(post))
                stored.append((post.id.encode(), encode(StoredPost(post.group, post.title, post.at))))
                published.append((number4(post.group) + place, value))
                feeds += [(member + place, value) for member in members[post.group]]
            for table, rows in ((self._posts, stored), (self._published, published), (self._feeds, feeds)):
                transaction.cursor(db=table).putmulti(sorted(rows))

    def page(self, member: int) -> Sequence[Line]:
        prefix = number4(member)
        found: list[Line] = []
        with self.env.begin(db=self._feeds) as transaction:
            cursor = transaction.cursor()
            if cursor.set_range(prefix):
                for key, value in islice(cursor.iternext(), PAGE):
                    if not key.startswith(prefix):
                        break
                    found.append(decode_line(value))
        return found

    def feed(self, member: int) -> list[Entry]:
        with self.env.begin(db=self._feeds) as transaction:
            lines = [decode_line(value) for _key, value in _below(transaction.cursor(), number4(member))]
        return [Entry(microseconds(line.at), line.post, line.title, line.group) for line in lines]

    def size(self) -> int:
        return (self._path / "data.mdb").stat().st_size

    def close(self) -> None:
        self.env.close()

    def _members_of(self, transaction: Any, group: int) -> list[bytes]:
        cursor, prefix = transaction.cursor(db=self._members), number4(group)
        found: list[bytes] = []
        if cursor.set_range(prefix):
            for key in cursor.iternext(values=False):
                if not key.startswith(prefix):
                    break
                found.append(key[4:])
        return found


def _below(cursor: Any, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The rows whose keys begin so, in their order."""
    if cursor.set_range(prefix):
        for row in cursor.iternext():
            if not row[0].startswith(prefix):
                return
            yield row


def _place(post: Post) -> bytes:
    """Where a post is among others: newest first, ties by key."""
    return number8(FULL - post.at) + post.id.encode()


def _line(post: Post) -> Line:
    return Line(instant(post.at), post.id, post.title, post.group)


# --- Redis -----------------------------------------------------------------------------------------------------------


@contextmanager
def redis_feeds(durability: Durability = "none") -> Generator[str]:
    """A private server that logs each command; yields its URL."""
    with redis_server(redis_options(durability)) as url:
        yield url


class RedisFeeds:
    """A sorted set for each member's feed, a hash for each post. How durable they are, is the server's setting.

    Arguments:
        url: where the server is.
    """

    def __init__(self, url: str) -> None:
        self._client: Any = Redis.from_url(url)

    def join(self, membership: Membership) -> None:
        group, member = membership
        published = self._client.zrange(f"group:{group}", 0, -1, withscores=True)
        pipeline = self._client.pipeline(transaction=False)
        pipeline.sadd(f"members:{group}", member)
        if published:
            pipeline.zadd(f"feed:{member}", dict(published))
        pipeline.execute()

    def join_all(self, memberships: Sequence[Membership]) -> None:
        members: dict[int, list[int]] = defaultdict(list)
        for group, member in memberships:
            members[group].append(member)
        for group, joined in members.items():
            published = dict(self._client.zrange(f"group:{group}", 0, -1, withscores=True))
            commands: list[tuple[Any, ...]] = [("SADD", f"members:{group}", *joined)]
            if published:
                commands += [_zadd(f"feed:{member}", published) for member in joined]
            self._execute(commands)

    def publish(self, post: Post) -> None:
        commands = self._stored(post)
        members = self._client.smembers(f"members:{post.group}")
        commands += [("ZADD", b"feed:" + member, post.at, post.id) for member in members]
        self._execute(commands)

    def publish_all(self, posts: Sequence[Post]) -> None:
        """The posts of a batch: the members of a group read once, and one command for each member's feed."""
        groups = sorted({post.group for post in posts})
        pipeline = self._client.pipeline(transaction=False)
        for group in groups:
            pipeline.smembers(f"members:{group}")
        members = dict(zip(groups, pipeline.execute(), strict=True))
        feeds: dict[bytes, dict[str, int]] = defaultdict(dict)
        for post in posts:
            for member in members[post.group]:
                feeds[member][post.id] = post.at
        commands = [command for post in posts for command in self._stored(post)]
        self._execute(commands + [_zadd(b"feed:" + member, entries) for member, entries in feeds.items()])

    def page(self, member: int) -> Sequence[Entry]:
        return self._entries(self._client.zrevrange(f"feed:{member}", 0, PAGE - 1, withscores=True))

    def feed(self, member: int) -> list[Entry]:
        """Redis orders what has one time the other way around."""
        found = self._entries(self._client.zrevrange(f"feed:{member}", 0, -1, withscores=True))
        return sorted(found, key=lambda entry: (-entry.at, entry.post))

    def size(self) -> int:
        return int(self._client.info("memory")["used_memory"])

    def close(self) -> None:
        self._client.close()

    def _stored(self, post: Post) -> list[tuple[Any, ...]]:
        return [
            ("HSET", f"post:{post.id}", "title", post.title, "group", post.group),
            ("ZADD", f"group:{post.group}", post.at, post.id),
        ]

    def _entries(self, scored: Sequence[tuple[bytes, float]]) -> list[Entry]:
        pipeline = self._client.pipeline(transaction=False)
        for post, _at in scored:
            pipeline.hmget(b"post:" + post, "title", "group")
        shown = pipeline.execute()
        return [
            Entry(int(at), post.decode(), title.decode(), int(group))
            for (post, at), (title, group) in zip(scored, shown, strict=True)
        ]

    def _execute(self, commands: Sequence[tuple[Any, ...]]) -> None:
        for start in range(0, len(commands), AT_ONCE):
            pipeline = self._client.pipeline(transaction=False)
            for command in commands[start : start + AT_ONCE]:
                pipeline.execute_command(*command)
            pipeline.execute()


def _zadd(key: str | bytes, entries: dict[Any, Any]) -> tuple[Any, ...]:
    return ("ZADD", key, *(part for post, at in entries.items() for part in (at, post)))
