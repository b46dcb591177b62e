"""What changes for a program between the kinds of store: each row of the page's table, on each kind."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec
import pytest

from oneread import GENERATED, Aggregate, Index, Key, Model, Ref, Schema, by, connect, expires, reference, rollup, total
from oneread.errors import InvalidValue, StillReferenced, Unsupported, UsageError
from tools.docs import stores

PAGE = stores.PAGE.parent.parent / "explanation" / "which-store.md"


class User(Model[int]):
    number: Key[int]
    name: str = ""


class Names(Index[User]):
    name: str = by(User.name)


class Writer(Model[int]):
    number: Key[int]


class Book(Model[int]):
    number: Key[int]
    writer: Ref[Writer] = reference(on_delete="delete")


class Pass(Model[int]):
    ttl = expires("until")
    number: Key[int]
    of: Ref["Pass"] = reference(missing_ok=True, on_delete="refuse")
    until: datetime


class Thread(Model[int]):
    thread: Key[int]


class Answer(Model[int, int]):
    child_of = Thread
    thread: Key[int]
    number: Key[int] = GENERATED


class Item(Model[int]):
    number: Key[int]
    cart: int
    price: int


class Items(Aggregate[Item]):
    cart: int = by(Item.cart)
    price: int = total(Item.price)


class Cart(Model[int]):
    cart: Key[int]
    price: Annotated[int, msgspec.Meta(le=100)] = rollup(Items.price)


SCHEMA = Schema(User, Names)
PAST = datetime(2000, 1, 1, tzinfo=UTC)
WRONG = [User(number=1), User(number=2, name=3)]  # type: ignore[arg-type]


def transact(url, *, spans):
    with connect(url, SCHEMA, workers=0) as db:

        def both(tx):
            tx.save(User(number=1))
            tx.save(User(number=2))

        if spans:
            db.transact(both)
        else:
            with pytest.raises(UsageError) as refused:
                db.transact(both)
            assert refused.value.facts == {"group": "User(1)", "given": "User(2)"}
        assert [row.number for row in db.page(User)] == ([1, 2] if spans else [])


def held_first(url, *, spans):
    with connect(url, Schema(Thread, Answer, portable=True), workers=0) as db:
        db.save(Thread(thread=1))
        db.save(Answer(thread=1))

        def both(tx):
            tx.delete(Thread, 1)
            tx.delete(Answer, 1, 1)

        if spans:
            with pytest.raises(StillReferenced):
                db.transact(both)
        else:
            db.transact(both)
        assert len(db.page(Thread)) == len(db.page(Answer)) == spans
        if spans:
            db.transact(lambda tx: (tx.delete(Answer, 1, 1), tx.delete(Thread, 1)))
            assert len(db.page(Thread)) == 0


def save_all(url, *, spans):
    with connect(url, SCHEMA, workers=0) as db:
        with pytest.raises(InvalidValue) as refused:
            db.save_all(WRONG)
        assert refused.value.facts.get("saved") == (None if spans else 1)
        assert [row.number for row in db.page(User)] == ([] if spans else [1])


def batch(url, *, spans):
    with connect(url, Schema(Writer, Book), workers=0) as db:
        db.save_all([Writer(number=1), Book(number=1, writer=Writer.at(1))])
        with db.bulk() as bulk:
            bulk.delete(Writer, 1)
            bulk.save(Writer(number=1))
        assert len(db.page(Writer)) == 1
        assert len(db.page(Book)) == spans


def page_right_behind(url, *, spans):
    with connect(url, SCHEMA, workers=0) as db:
        db.save(User(number=1, name="a"))
        assert len(db.page(Names, "a")) == 1
    with connect(url, SCHEMA, workers=0, wait="commit") as db:
        saved = db.save(User(number=2, name="b"))
        assert len(db.page(Names, "b")) == spans
        assert len(db.page(Names, "b", includes=saved)) == 1


def held_in_a_circle(url, *, spans):
    with connect(url, Schema(Pass), workers=0) as db:
        db.save_all([Pass(number=number, of=Pass.at(3 - number), until=PAST) for number in (1, 2)])
        swept = db.sweep()
        assert (swept.deleted, swept.held, len(swept.refused)) == ((2, 0, 0) if spans else (0, 2, 2))


def constrained_total(url, *, spans):
    schema = Schema(Item, Items, Cart)
    if not spans:
        with pytest.raises(Unsupported, match="does not keep this yet"):
            connect(url, schema)
        return
    with connect(url, schema, workers=0) as db:
        db.save(Cart(cart=1))
        with pytest.raises(InvalidValue):
            db.save(Item(number=1, cart=1, price=101))


def removed_rows(url, *, spans):
    with connect(url, SCHEMA, workers=0) as db:
        db.save(User(number=1, name="a"))
        db.patch(User, 1, name="b")
        assert len(db.page(Names)) == 1
        rows = {part.name: part.rows for part in db.survey(exact=True).parts}
        assert rows["Names"] == (1 if spans else 2)


SHOWN = {
    "`transact` over two entities that are in no group": transact,
    "a transaction that deletes what others refer to, and then these": held_first,
    "`save_all`": save_all,
    "a batch of `bulk`": batch,
    "a page right behind a save": page_right_behind,
    "a sweep of expired entities that refuse the delete of one another": held_in_a_circle,
    "a total with a constraint": constrained_total,
    "the row of an entry that went": removed_rows,
}
TIMED = "a loop of single saves"


@pytest.mark.parametrize("row", SHOWN)
def test_a_row_of_the_table_is_as_the_store_does_it(url, kind_of_store, row):
    SHOWN[row](url, spans=kind_of_store in ("memory", "lmdb"))


def test_each_row_of_the_table_is_tried():
    table = PAGE.read_text().partition("## What changes for a program")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")]
    assert rows[1:] == [*SHOWN, TIMED]
