"""Older programs beside one that calls a field otherwise: what they read, write and keep, and what cuts them off."""

from datetime import UTC, datetime

import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    count,
    field,
    greatest,
    newest_values,
    renamed,
    shown,
    total,
    within,
)
from oneread.errors import Outdated, SchemaMismatch
from oneread.evolution.migrate import plan_migration
from tests.unit.evolution.stores import end_lease
from tests.unit.evolution.test_changed_schemas import Stores, made


@pytest.fixture
def store(url):
    return Stores(url)


class Release:
    """A model whose first two fields are called so, with every kind of view of both; `steps` are the names before."""

    def __init__(self, text, amount, steps=(), more=None):
        fields = {"number": Key[int], "at": datetime, text: str, amount: int} | ({} if more is None else {more: str})
        values = {} if more is None else {more: "-"}
        moved = tuple(renamed(before, to=after) for before, after in steps)
        self.names = text, amount
        self.model = model = made("Sale", Model, fields, evolution=moved, **values)
        words, number = getattr(model, text), getattr(model, amount)
        self.by_text = made("ByText", Index[model], {"text": str, "amount": int}, text=by(words), amount=shown(number))
        self.large = made("Large", Index[model], {"amount": int}, amount=by(number), where=field(number) > 10)
        self.sums = made(
            "Sums", Aggregate[model], {"text": str, "n": int, "sum": int, "most": int | None, "last": list[int]},
            text=by(words), n=count(), sum=total(number), most=greatest(number),
            last=newest_values(number, by=model.at, most=3),
        )  # fmt: skip
        self.only = made("Only", Index[model], {"text": str, "number": int}, unique=True,
                         text=by(words), number=by(model.number))  # fmt: skip
        self.declared = model, self.by_text, self.large, self.sums, self.only

    def sale(self, number, text, amount, **more):
        at = datetime(2026, 1, number + 1, tzinfo=UTC)
        return self.model(number=number, at=at, **dict(zip(self.names, (text, amount), strict=True)), **more)

    def values(self, entity):
        return tuple(getattr(entity, name) for name in self.names)

    def change(self, db, number, text, amount):
        return db.patch(self.model, number, **dict(zip(self.names, (text, amount), strict=True)))

    def seen(self, db):
        """What pages and groups of both fields show."""
        return (
            [(row.text, row.amount, row.source.key[0]) for row in db.page(self.by_text)],
            [row.amount for row in db.page(self.large)],
            [(each.text, each.n, each.sum, each.most, each.last) for each in db.page(self.sums)],
            [self.values(each) for each in db.page(self.model)],
        )


FIRST = Release("text", "amount")
SECOND = Release("title", "total_", [("text", "title"), ("amount", "total_")])
THIRD = Release("name", "total_", [("text", "title"), ("amount", "total_"), ("title", "name")], more="note")


def test_programs_of_each_release_read_and_write_each_others_rows(store):
    with store.open(*FIRST.declared) as first:
        first.save_all([FIRST.sale(1, "a", 5), FIRST.sale(2, "b", 50)])
        with store.open(*SECOND.declared) as second:
            SECOND.change(second, 1, "c", 70)
            second.save(SECOND.sale(3, "d", 8))
            assert FIRST.values(first.get(FIRST.model, 1)) == ("c", 70)
            FIRST.change(first, 3, "e", 80)
            assert FIRST.seen(first) == SECOND.seen(second)
            with store.open(*THIRD.declared) as third:
                third.patch(THIRD.model, 1, note="kept", name="f")
                FIRST.change(first, 1, "g", 71)
                SECOND.change(second, 2, "h", 51)
                first.save(FIRST.sale(4, "i", 9))
                assert third.get(THIRD.model, 1) == THIRD.sale(1, "g", 71, note="kept")
                assert FIRST.seen(first) == SECOND.seen(second) == THIRD.seen(third)
                assert third.verify().clean


def test_programs_of_before_may_be_started_again(store):
    releases = FIRST, SECOND, THIRD
    for number, release in enumerate(releases):
        with store.open(*release.declared) as db:
            db.save(release.sale(number, f"n{number}", number * 10))
    for release in releases:  # rows of each layout, by a program that has not met the newest
        with store.open(*release.declared) as db:
            assert [release.values(each) for each in db.page(release.model)] == [("n0", 0), ("n1", 10), ("n2", 20)]
            for number in range(3):
                release.change(db, number, f"n{number}", number * 10 + 1)
                release.change(db, number, f"n{number}", number * 10)
    with store.open(*THIRD.declared) as db:
        seen = THIRD.seen(db)
        assert db.verify().clean
        assert db.backfill(fence=True, quiet=0).done
        assert (THIRD.seen(db), db.verify().clean) == (seen, True)
        for release in (FIRST, SECOND):
            with pytest.raises(Outdated):
                store.open(*release.declared)


def test_one_is_planned_as_what_lets_programs_continue(store):
    with store.open(*FIRST.declared) as db:
        db.save(FIRST.sale(1, "a", 5))
        plan = db.run(plan_migration(Schema(*SECOND.declared).declared()))
    assert (plan.cuts_off, plan.why, plan.continues) == ((), (), (1,))


def test_a_name_that_another_field_had_cuts_off_those_that_know_it(store):
    """An older program's `text` is the newer one's `title`: a `text` of the newer one would be another field."""
    again = Release("title", "amount", [("text", "title")], more="text")
    with store.open(*FIRST.declared) as db:
        db.save(FIRST.sale(1, "a", 5))
        plan = db.run(plan_migration(Schema(*again.declared).declared()))
        assert (plan.cuts_off, plan.continues) == ((1,), ())
        assert [why.partition(":")[0] for why in plan.why] == ["Sale.text"]
    between = Release("title", "amount", [("text", "title")])
    with store.open(*between.declared) as db:
        plan = db.run(plan_migration(Schema(*again.declared).declared()))
        assert plan.continues == ()


def test_what_other_entities_take_by_its_name_cuts_off(store):
    def shop(name, *, hidden):
        moved = () if name == "name" else (renamed("name", to=name),)
        product = made("Product", Model, {"number": Key[int], name: str}, evolution=moved)
        shows = made("Shows", Copy[product], {"label": str}, label=shown(getattr(product, name)))
        bought = made("Bought", Model, {"number": Key[int], "of": Ref[product] if hidden else shows})
        if not hidden:
            return product, bought
        return product, bought, made("ByName", Index[bought], {"name": str},
                                     name=by(within(bought.of, getattr(product, name))))  # fmt: skip

    for hidden in (False, True):
        declared = shop("name", hidden=hidden)
        with store.open(*declared) as db:
            db.save(declared[0](number=1, name="x"))
            plan = db.run(plan_migration(Schema(*shop("title", hidden=hidden)).declared()))
        assert "Product.title" in plan.why[0]
        assert plan.continues == ()


def test_one_that_is_started_again_does_not_write_a_view_by_a_name_that_it_does_not_know(store):
    """It writes each readable view, declared or not: of one by a field that it knows otherwise it is refused."""
    with store.open(*FIRST.declared) as db:
        db.save(FIRST.sale(1, "a", 5))
    fewer = FIRST.model, *FIRST.declared[2:]
    with store.open(*fewer) as older:
        with store.open(*FIRST.declared):
            pass
        with store.open(*SECOND.declared) as db:
            end_lease(older)
            FIRST.change(older, 1, "b", 6)  # it was started before, and writes the view all the same
            assert [row.text for row in db.page(SECOND.by_text)] == ["b"]
            assert db.verify().clean
        with pytest.raises(SchemaMismatch):
            store.open(*fewer)


def test_another_name_of_a_part_of_the_key_cuts_off(store):
    one = made("Sale", Model, {"number": Key[int], "text": str})
    two = made("Sale", Model, {"no": Key[int], "text": str}, evolution=(renamed("number", to="no"),))
    with store.open(one) as db:
        db.save(one(number=1, text="x"))
        plan = db.run(plan_migration(Schema(two).declared()))
    assert (plan.cuts_off, plan.continues) == ((1,), ())
