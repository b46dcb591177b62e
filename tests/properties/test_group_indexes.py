"""Indexes over groups equal what the naive oracle recomputes, after every one of hundreds of changes.

Keys and numbers of the groups come from a copy, so that they also change in a task; groups tie, become empty and come
back, and their totals are negative.
"""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Schema,
    ascending,
    bucket,
    by,
    connect,
    count,
    descending,
    field,
    greatest,
    least,
    mean,
    newest,
    shown,
    total,
    within,
)
from oneread.testing.oracle import Oracle, look

MAY, JUNE = datetime(2019, 5, 1, tzinfo=UTC), datetime(2019, 6, 1, tzinfo=UTC)


class Cause(Copy["Topic"]):
    month: datetime
    weight: Decimal | None


class Topic(Model[int]):
    number: Key[int]
    month: datetime
    weight: Decimal | None = None


class Gift(Model[int]):
    number: Key[int]
    topic: Cause
    giver: str | None = None
    amount: int = 0


class GiftsOf(Aggregate[Gift]):
    """Keys and numbers come from a copy: they change when the topic does, by a task if there are many gifts."""

    month: datetime = bucket(within(Gift.topic, Cause.month), "month")
    giver: str | None = by(Gift.giver, none="last")
    gifts: int = count()
    amount: int = total(Gift.amount)
    weight: Decimal | None = mean(within(Gift.topic, Cause.weight))
    heaviest: Decimal | None = greatest(within(Gift.topic, Cause.weight))
    smallest: int | None = least(Gift.amount)


class GiversOfMonth(Index[GiftsOf]):
    month: datetime = by(GiftsOf.month)
    amount: int = descending(GiftsOf.amount)
    giver: str | None = shown(GiftsOf.giver)


class ByHeaviest(Index[GiftsOf]):
    heaviest: Decimal | None = descending(GiftsOf.heaviest, none="first")
    weight: Decimal | None = ascending(GiftsOf.weight, none="last")
    amount: int = shown(GiftsOf.amount)


class BySmallest(Index[GiftsOf]):
    where = field(GiftsOf.gifts) > 1

    giver: str | None = by(GiftsOf.giver, none="first")
    smallest: int | None = ascending(GiftsOf.smallest)
    month: datetime = newest(GiftsOf.month)


GIFTS = (Topic, Gift, GiftsOf, GiversOfMonth, ByHeaviest, BySmallest)
STEPS = 450


def step(chance):
    number, topic = chance.randrange(12), chance.randrange(4)
    month = MAY + timedelta(days=chance.randrange(70))
    weight = chance.choice([None, Decimal("1.5"), Decimal(-2), Decimal(0)])
    fields = {"giver": chance.choice([None, "Ada", "Bea"]), "amount": chance.choice([-5, -1, 0, 0, 3])}
    acts = [
        lambda to: to.save(Gift(number=number, topic=Cause.of(topic), **fields)),
        lambda to: to.patch(Gift, (number,), {"topic": Cause.of(topic)}),
        lambda to: to.patch(Gift, (number,), {"amount": fields["amount"]}),
        lambda to: to.patch(Gift, (number,), {"giver": fields["giver"]}),
        lambda to: to.patch(Topic, (topic,), {"month": month}),
        lambda to: to.patch(Topic, (topic,), {"weight": weight}),
        lambda to: to.delete(Gift, number),
        lambda to: [to.delete(Gift, each) for each in range(number)],
    ]
    return chance.choices(acts, [6, 3, 3, 3, 2, 2, 3, 0.3])[0]


class Patching:
    """A database whose `patch` is written as the oracle's."""

    def __init__(self, db):
        self.save, self.delete = db.save, db.delete
        self.patch = lambda model, key, changes: db.find(model, *key) and db.patch(model, *key, **changes)


class PatchingOracle:
    """The same of the oracle."""

    def __init__(self, oracle):
        self.save, self.delete = oracle.save, oracle.delete
        self.patch = lambda model, key, changes: oracle.get(model, *key) and oracle.patch(model, key, changes)


@pytest.mark.parametrize("inline", [0, 1000], ids=["tasks", "inline"])
@pytest.mark.parametrize("engine", ["memory", "lmdb"])
def test_random_changes_come_to_what_is_recomputed(engine, inline, tmp_path):
    chance = random.Random(f"{engine} {inline}")
    url = "memory://" if engine == "memory" else f"lmdb://{tmp_path}/store"
    oracle = Oracle(*GIFTS)
    with connect(url, Schema(*GIFTS, inline=inline), workers=0) as db:
        for topic in [Topic(number=number, month=MAY) for number in range(4)]:
            oracle.save(topic)
            db.save(topic)
        for number in range(STEPS):
            act = step(chance)
            act(Patching(db))
            act(PatchingOracle(oracle))
            db.drain()
            for view in (GiversOfMonth, ByHeaviest, BySmallest):
                rows = [row for page in db.scan(view, batch=4 if number % 10 == 0 else 200) for row in page]
                assert look(rows) == look(oracle.rows(view)), (number, view)
            if number % 50 == 0:
                assert db.verify().clean
        month = MAY + timedelta(days=40)
        assert look(db.page(GiversOfMonth, month).rows) == look(oracle.rows(GiversOfMonth, JUNE))
        assert db.verify().clean
