"""Marks and fresh pages of feeds, as they are meant, with the types that an editor shows."""

from datetime import datetime
from typing import assert_type

from oneread import (
    AsyncDatabase,
    AsyncTransaction,
    Database,
    Feed,
    Key,
    Marks,
    Model,
    Page,
    Ref,
    Schema,
    Transaction,
    Unread,
    by,
    newest,
    on,
)


class Member(Model[int]):
    number: Key[int]


class Group(Model[int]):
    number: Key[int]


class Membership(Model[int]):
    number: Key[int]
    group: Ref[Group]
    member: Ref[Member]


class Post(Model[int]):
    number: Key[int]
    group: Ref[Group]
    made_at: datetime


class Home(Feed[Post]):
    member: Ref[Member] = by(Membership.member)
    made_at: datetime = newest(Post.made_at)
    joined = on(Post.group, Membership.group)
    marks = True


SITE = Schema(Member, Group, Membership, Post, Home)


def marking(db: Database, post: Post) -> None:
    page = db.page(Home, 1, includes=db.save(post), lag=True)
    assert_type(page, Page[Home])
    assert_type(page.lag, float | None)
    assert_type(db.mark(Home, 1, seen=page[0], read=True), Marks)
    assert_type(db.mark(Home, Member.at(1), seen=False, read=page[1], back=True), Marks)
    assert_type(db.marks(Home, 1).has_read(page[0]), bool)
    found = db.unread(Home, 1, limit=20)
    assert_type(found, Unread)
    assert_type((found.unseen, found.more_unseen, found.unseen_text), tuple[int, bool, str])
    assert_type((found.unread, found.more_unread, found.unread_text), tuple[int, bool, str])

    def body(tx: Transaction) -> Marks:
        return tx.mark(Home, 1, read=True)

    assert_type(db.transact(body), Marks)


async def awaited(db: AsyncDatabase) -> None:
    page = await db.page(Home, 1, lag=True)
    assert_type(await db.mark(Home, 1, seen=page[0]), Marks)
    assert_type((await db.unread(Home, 1)).unread, int)

    async def body(tx: AsyncTransaction) -> Marks:
        return await tx.mark(Home, 1, seen=True)

    assert_type(await db.transact(body), Marks)
