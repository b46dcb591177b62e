"""Totals that entities show, with the types that an editor shows."""

from typing import assert_type

from oneread import Aggregate, Database, Index, Key, Model, Ref, by, count, descending, greatest, rollup, shown


class Reply(Model[int]):
    number: Key[int]
    to: Ref["Topic"]
    above: Ref["Reply"] | None = None
    score: int = 0
    replies: int = rollup(lambda: RepliesTo.replies)


class RepliesTo(Aggregate[Reply]):
    above: Ref[Reply] = by(Reply.above)
    replies: int = count()


class RepliesOf(Aggregate[Reply]):
    topic: Ref["Topic"] = by(Reply.to)
    replies: int = count()
    best: int | None = greatest(Reply.score)


class Topic(Model[int]):
    number: Key[int]
    title: str
    replies: int = rollup(RepliesOf.replies)
    best: int | None = rollup(RepliesOf.best)


class TopicsByBest(Index[Topic]):
    best: int | None = descending(Topic.best, none="last")
    replies: int = shown(Topic.replies)


def used(db: Database) -> None:
    topic = db.save(Topic(number=1, title="?"))
    assert_type(topic.replies, int)
    assert_type(topic.best, int | None)
    assert_type(db.get(Reply, 1).replies, int)
    assert_type(db.page(TopicsByBest).rows[0].best, int | None)
