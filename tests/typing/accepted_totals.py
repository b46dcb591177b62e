"""Totals that entities show, with the types that an editor shows."""

from datetime import datetime
from typing import assert_type

from oneread import (
    CREATED,
    Aggregate,
    Database,
    Index,
    Key,
    Model,
    Ref,
    ascending,
    bucket,
    by,
    count,
    descending,
    field,
    greatest,
    newest,
    newest_values,
    rollup,
    shown,
    total,
    within,
)


class Reply(Model[int]):
    number: Key[int]
    to: Ref["Topic"]
    above: Ref["Reply"] | None = None
    score: int = 0
    made_at: datetime = CREATED
    replies: int = rollup(lambda: RepliesTo.replies)


class RepliesTo(Aggregate[Reply]):
    above: Ref[Reply] = by(Reply.above)
    replies: int = count()


class RepliesOf(Aggregate[Reply]):
    topic: Ref["Topic"] = by(Reply.to)
    replies: int = count()
    best: int | None = greatest(Reply.score)
    newest: list[Ref[Reply]] = newest_values(Reply.above, by=Reply.made_at, most=3)
    scores: list[int] = newest_values(Reply.score, by=Reply.made_at, most=3)


class Topic(Model[int]):
    number: Key[int]
    title: str
    replies: int = rollup(RepliesOf.replies)
    best: int | None = rollup(RepliesOf.best)
    scores: list[int] = rollup(RepliesOf.scores)


class TopicsByBest(Index[Topic]):
    best: int | None = descending(Topic.best, none="last")
    replies: int = shown(Topic.replies)


class TopicsByReplies(Index[RepliesOf]):
    replies: int = descending(RepliesOf.replies)
    best: int | None = ascending(RepliesOf.best, none="last")
    topic: Ref[Topic] = shown(RepliesOf.topic)
    newest: list[Ref[Reply]] = shown(RepliesOf.newest)


class RepliesOfMonth(Aggregate[Reply]):
    month: datetime = bucket(Reply.made_at, "month")
    topic: Ref["Topic"] = by(Reply.to)
    score: int = total(Reply.score)
    titles: list[str] = newest_values(within(Reply.to, Topic.title), by=Reply.made_at, most=3)


class TopicsOfMonth(Index[RepliesOfMonth]):
    where = field(RepliesOfMonth.score) > 0

    month: datetime = newest(RepliesOfMonth.month)
    topic: Ref[Topic] = by(RepliesOfMonth.topic)
    score: int = descending(RepliesOfMonth.score)


def used(db: Database, now: datetime) -> None:
    topic = db.save(Topic(number=1, title="?"))
    assert_type(topic.replies, int)
    assert_type(topic.best, int | None)
    assert_type(db.get(Reply, 1).replies, int)
    assert_type(db.page(TopicsByBest).rows[0].best, int | None)
    row = db.page(TopicsByReplies, limit=10).rows[0]
    assert_type(row, TopicsByReplies)
    assert_type(row.source, Ref[RepliesOf])
    assert_type(row.newest, list[Ref[Reply]])
    assert_type(db.get(RepliesOfMonth, now, 1).titles, list[str])
    assert_type(topic.scores, list[int])
    assert_type(db.get(RepliesOf, row.source), RepliesOf)
    assert_type(db.get_many(RepliesOf, [row.source]), list[RepliesOf | None])
    assert_type(db.get(Topic, row.topic), Topic)
    assert_type(db.page(TopicsOfMonth, now, Topic.at(1)).rows[0].source, Ref[RepliesOfMonth])
