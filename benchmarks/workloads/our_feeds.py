"""oneread's side of feeds: the schema, and the verbs that a program would use."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from benchmarks.peers.feeds import PAGE
from benchmarks.peers.promises import Durability
from benchmarks.workloads import meetups
from benchmarks.workloads.meetups import Entry
from benchmarks.workloads.times import instant, microseconds
from oneread import Database, Feed, Key, Model, Page, Schema, by, connect, newest, on, shown

PATIENCE_SECONDS: Final = 600.0


class Membership(Model[int, int]):
    group: Key[int]
    member: Key[int]


class Post(Model[str]):
    id: Key[str]
    group: int
    title: str
    at: datetime


class Home(Feed[Post]):
    """What the groups of a member have published, newest first; the posts are years old, so none expires."""

    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    title: str = shown(Post.title)
    group: int = shown(Post.group)

    joined = on(Post.group, Membership.group)
    expires_after = None


FEEDS: Final = Schema(Membership, Post, Home)


class OurFeeds:
    """A store of our own.

    Arguments:
        path: a folder, made when absent.
        durability: as in the LMDB engine.
    """

    def __init__(self, path: Path, durability: Durability = "none") -> None:
        self._path = path
        self.inline = FEEDS.inline
        self.db: Database = connect(f"lmdb://{path}?durability={durability}", FEEDS)

    def join(self, membership: meetups.Membership) -> None:
        self.wait(self.db.save(_membership(membership)))

    def join_all(self, memberships: Sequence[meetups.Membership]) -> None:
        with self.db.bulk() as bulk:
            for membership in memberships:
                bulk.save(_membership(membership))
        self.db.drain()

    def publish(self, post: meetups.Post) -> None:
        self.wait(self.accept(post))

    def accept(self, post: meetups.Post) -> Post:
        """Returns when the post is stored: its entries too, or a task that writes them."""
        return self.db.save(_post(post))

    def wait(self, saved: object) -> None:
        """Returns when the worker has done what the commit left to it."""
        if tasks := self.db.tasks(saved):
            tasks.wait(PATIENCE_SECONDS)

    def publish_all(self, posts: Sequence[meetups.Post]) -> None:
        with self.db.bulk() as bulk:
            for post in posts:
                bulk.save(_post(post))
        self.db.drain()

    def page(self, member: int) -> Page[Home]:
        return self.db.page(Home, member, limit=PAGE)

    def feed(self, member: int) -> list[Entry]:
        return [
            Entry(microseconds(row.at), row.source.key[0], row.title, row.group)
            for page in self.db.scan(Home, member)
            for row in page
        ]

    def size(self) -> int:
        return sum(file.stat().st_size for file in self._path.iterdir())

    def close(self) -> None:
        self.db.close()


def _membership(membership: meetups.Membership) -> Membership:
    return Membership(group=membership.group, member=membership.member)


def _post(post: meetups.Post) -> Post:
    return Post(id=post.id, group=post.group, title=post.title, at=instant(post.at))
