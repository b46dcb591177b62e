"""Mistakes about totals that an editor shows before anything runs."""

from datetime import datetime

from oneread import (
    Aggregate,
    Copy,
    Database,
    Index,
    Key,
    Model,
    Ref,
    by,
    count,
    descending,
    greatest,
    newest_values,
    rollup,
    shown,
)


class Reply(Model[int]):
    number: Key[int]
    to: Ref["Topic"]
    text: str
    score: int = 0
    made_at: datetime


class RepliesOf(Aggregate[Reply]):
    topic: Ref["Topic"] = by(Reply.to)
    replies: int = count()
    best: int | None = greatest(Reply.score)
    scores: list[int] = newest_values(Reply.score, by=Reply.made_at, most=3)


class WrongNewest(Aggregate[Reply]):
    topic: Ref["Topic"] = by(Reply.to)
    texts: list[int] = newest_values(Reply.text, by=Reply.made_at, most=3)  # rejected
    one: str = newest_values(Reply.text, by=Reply.made_at, most=3)  # rejected
    ordered: list[str] = newest_values(Reply.text, by=Reply.score, most=3)  # rejected
    some: list[str] = newest_values(Reply.text, by=Reply.made_at)  # rejected
    many: list[str] = newest_values(Reply.text, by=Reply.made_at, most="3")  # rejected


class Topic(Model[int]):
    number: Key[int]
    replies: int = rollup(RepliesOf.replies)
    best: int | None = rollup(RepliesOf.best)


class Wrong(Model[int]):
    number: Key[int]
    replies: str = rollup(RepliesOf.replies)  # rejected
    best: int = rollup(RepliesOf.best)  # rejected
    worst: int = rollup(RepliesOf.worst)  # rejected
    late: str = rollup(lambda: RepliesOf.replies)  # rejected
    lately: int = rollup(lambda: RepliesOf.worst)  # rejected
    named: int = rollup("RepliesOf.replies")  # rejected


class WrongIndex(Index[Topic]):
    best: int = descending(Topic.best, none="last")  # rejected


class WrongGroups(Index[RepliesOf]):
    replies: str = descending(RepliesOf.replies)  # rejected
    topic: Ref[Reply] = by(RepliesOf.topic)  # rejected
    best: int = descending(RepliesOf.best, none="last")  # rejected
    title: str = shown(RepliesOf.title)  # rejected
    scores: list[str] = shown(RepliesOf.scores)  # rejected


class OfIndex(Index[WrongIndex]):  # rejected
    best: int = by(WrongIndex.best)


class OfGroups(Aggregate[RepliesOf]):  # rejected
    groups: int = count()


class TopicsByReplies(Index[RepliesOf]):
    replies: int = descending(RepliesOf.replies)


class Shown(Copy[Topic]):
    replies: int


Topic(number=1, replies=5)  # rejected


def wrong(db: Database) -> None:
    topic = db.get(Topic, 1)
    topic.replies = 7  # rejected
    best: int = topic.best  # rejected
    row = db.page(TopicsByReplies).rows[0]
    db.get(Topic, row.source)  # rejected
    db.get(Reply, row.source)  # rejected
    row.best  # rejected
    print(best)
