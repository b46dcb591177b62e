"""Migrating by hand: what a plan says, what it leaves alone, what is dropped, and the way back."""

import types
from decimal import Decimal

import pytest

from oneread import Copy, Index, Key, Model, Schema, by, connect, migration, renamed, retyped
from oneread.errors import SchemaMismatch, Unsupported, UsageError
from oneread.evolution.migrate import BATCH, apply_migration
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import Scan
from tests.golden.rows import rows_of
from tests.unit.evolution.stores import only_read


def made(name, base, fields, /, **values):
    space = {"__annotations__": dict(fields), "__module__": __name__} | values
    return types.new_class(name, (base,), {}, lambda into: into.update(space))


def note(fields, /, **values):
    return made("Note", Model, {"number": Key[int]} | fields, **values)


ONE = note({"text": str, "stars": int}, stars=0)
BY_TEXT = made("ByText", Index[ONE], {"text": str}, text=by(ONE.text))
TWO = note({"title": str, "tag": str | None}, evolution=(renamed("text", to="title"),))
BY_TITLE = made("ByText", Index[TWO], {"text": str}, text=by(TWO.title))
BY_TAG = made("ByTag", Index[TWO], {"tag": str}, tag=by(TWO.tag))
OLD, NEW = Schema(ONE, BY_TEXT), Schema(TWO, BY_TITLE, BY_TAG)


@pytest.fixture
def filled(url):
    """The URL of a store of `OLD`."""
    with connect(url, OLD, workers=0) as db:
        db.save_all([ONE(number=number, text=f"t{number}", stars=number) for number in range(5)])
    return url


def rows(url, schema=OLD):
    with connect(url, schema, workers=0) as db:
        return list(rows_of(db))


def change(url, schema):
    return migration(url, schema)


def told(planned):
    return [(each.what, each.name, each.field, each.loses) for each in planned.differences]


def test_a_plan_lists_everything_and_writes_nothing(filled):
    before = rows(filled)
    with change(filled, NEW) as it:
        found = it.plan()
    assert told(found) == [
        ("renamed", "Note", "title", False),
        ("added", "Note", "tag", False),
        ("dropped", "Note", "stars", True),
        ("added", "ByTag", "", False),
    ]
    assert (found.version, found.becomes, found.cuts_off, found.builds) == (1, 2, (1,), ("ByTag",))
    assert found.rows == {"Note": 5}
    assert not found.refused
    assert not found.nothing
    assert rows(filled) == before


def test_nothing_to_do(filled):
    with change(filled, OLD) as it:
        assert it.plan().nothing


def test_a_plan_lists_all_that_is_refused_at_once(filled):
    worse = note({"text": bytes, "stars": str, "more": int})
    with change(filled, Schema(worse)) as it:
        found = it.plan()
        assert found.refused
        assert [each.field or each.name for each in found.differences if each.refused] == [
            "text", "stars", "more", "ByText",
        ]  # fmt: skip
        with pytest.raises(SchemaMismatch):
            it.apply()


def test_applying_then_backfilling_then_going_back(filled):
    with change(filled, NEW) as it:
        assert it.apply().becomes == 2
        status = it.status()
        assert [(each.version, each.may_write, each.declared) for each in status.versions] == [
            (1, False, False), (2, True, True),
        ]  # fmt: skip
        assert [(each.model, each.needs) for each in status.older] == [("Note", ())]
        assert status.unfinished
    with pytest.raises(SchemaMismatch):
        connect(filled, OLD, workers=0)
    with change(filled, OLD) as it:
        assert it.plan().refused
        with pytest.raises(SchemaMismatch):
            it.apply()
    with connect(filled, NEW, workers=0) as db:
        db.patch(TWO, 1, tag="x")
        assert db.backfill(quiet=0).done
    with change(filled, OLD) as it:
        with pytest.raises(SchemaMismatch) as refusal:
            it.rollback()
        assert refusal.value.facts == {"model": "Note", "field": "tag"}
        found = it.rollback(lose=["Note.tag"])
        assert ("renamed", "Note", "text", False) in told(found)
        assert ("dropped", "ByTag", "", False) in told(found)
    with connect(filled, OLD, workers=0) as db:
        assert [(row.number, row.text, row.stars) for row in db.page(ONE)] == [(n, f"t{n}", 0) for n in range(5)]
        assert len(db.page(BY_TEXT, "t1")) == 1
        assert db.backfill(quiet=0).done
        assert db.verify().clean
    with pytest.raises(SchemaMismatch):
        connect(filled, NEW, workers=0)


def test_going_back_before_a_backfill_loses_nothing_that_was_not_written_since(filled):
    with change(filled, NEW) as it:
        it.apply()
    with change(filled, OLD) as it:
        it.rollback(lose=["Note.tag"])
    with connect(filled, OLD, workers=0) as db:
        assert [row.text for row in db.page(ONE)] == [f"t{n}" for n in range(5)]


def test_a_renamed_field_of_a_copy_is_named_as_before_again(url):
    def world(name, **said):
        person = made("Person", Model, {"number": Key[int], name: str}, **said)
        buyer = made("Buyer", Copy[person], {name: str}, **said)
        return person, buyer, made("Sale", Model, {"number": Key[int], "buyer": buyer})

    person, buyer, sale = world("name")
    with connect(url, Schema(person, sale), workers=0) as db:
        db.save(person(number=1, name="Ada"))
        db.save(sale(number=1, buyer=buyer.of(1)))
    later, _buyer, sold = world("title", evolution=(renamed("name", to="title"),))
    with connect(url, Schema(later, sold), workers=0) as db:
        assert db.backfill(quiet=0).done
    with change(url, Schema(person, sale)) as it:
        it.rollback()
    with connect(url, Schema(person, sale), workers=0) as db:
        assert db.get(sale, 1).buyer.name == "Ada"


def test_a_retyped_field_goes_back_by_a_function(url):
    cents = note({"price": int})
    euros = note({"price": Decimal}, evolution=(retyped("price", was=int, by=lambda v: Decimal(v) / 100),))
    with connect(url, Schema(cents), workers=0) as db:
        db.save(cents(number=1, price=250))
    connect(url, Schema(euros), workers=0).close()
    with change(url, Schema(cents)) as it, pytest.raises(SchemaMismatch):
        it.rollback()
    back = (
        retyped("price", was=int, by=lambda v: Decimal(v) / 100),
        retyped("price", was=Decimal, by=lambda v: int(v * 100)),
    )
    again = note({"price": int}, evolution=back)
    with change(url, Schema(again)) as it:
        it.rollback()
    with connect(url, Schema(again), workers=0) as db:
        assert db.get(again, 1).price == 250


class TestDropping:
    def test_a_view(self, filled):
        with change(filled, Schema(ONE)) as it:
            assert it.plan().undeclared == ("ByText",)  # else it is written for older programs
            planned = it.plan(drop=["ByText"])
            assert (planned.refused, planned.undeclared, planned.cuts_off) == (False, (), (1,))
            it.apply(drop=["ByText"])
            assert it.status().retired == ("ByText, 1",)
        with connect(filled, Schema(ONE), workers=0) as db:
            assert db.backfill(quiet=0).done
            assert not [row for row in rows_of(db) if row[0] == "views"]
            assert db.verify().clean

    def test_a_model_once_it_is_empty(self, filled):
        other = made("Other", Model, {"number": Key[int]})
        with connect(filled, Schema(ONE, BY_TEXT, other), workers=0) as db:
            db.save(other(number=1))
        with change(filled, OLD) as it:
            for call in (it.plan, it.apply):
                with pytest.raises(SchemaMismatch) as refusal:
                    call(drop=["Other"])
                assert refusal.value.facts["model"] == "Other"
        with connect(filled, Schema(ONE, BY_TEXT, other), workers=0) as db:
            db.delete(other, 1)
        with change(filled, Schema(ONE, BY_TEXT, made("Third", Model, {"number": Key[int]}))) as it:
            assert ("dropped", "Other", "", True) in told(it.apply(drop=["Other"]))

    def test_again_is_nothing_to_do(self, filled):
        """Whoever was killed after it was done asks once more, before and after the backfill."""
        with change(filled, Schema(ONE)) as it:
            it.apply(drop=["ByText"])
            version = it.status().version
            for planned in (it.plan(drop=["ByText"]), it.apply(drop=["ByText"])):
                assert planned.nothing
        with connect(filled, Schema(ONE), workers=0) as db:
            assert db.backfill(quiet=0).done
        with change(filled, Schema(ONE)) as it:
            assert it.apply(drop=["ByText"]).nothing
            assert it.status().version == version
            with pytest.raises(SchemaMismatch):
                it.apply(drop=["ByText", "Nobody"])

    def test_again_of_a_model_is_nothing_to_do(self, filled):
        other = made("Other", Model, {"number": Key[int]})
        with connect(filled, Schema(ONE, BY_TEXT, other), workers=0) as db:
            db.save(other(number=1))
            db.delete(other, 1)
        with change(filled, OLD) as it:
            assert not it.apply(drop=["Other"]).nothing
            assert it.apply(drop=["Other"]).nothing

    def test_what_is_there_again_is_dropped_again(self, filled):
        third = made("Third", Model, {"number": Key[int]})
        with change(filled, Schema(ONE)) as it:
            it.apply(drop=["ByText"])
        with change(filled, Schema(ONE, BY_TEXT, third)) as it:
            it.apply()
        with change(filled, Schema(ONE, third)) as it:
            assert not it.apply(drop=["ByText"]).nothing
            assert it.apply(drop=["ByText"]).nothing

    @pytest.mark.parametrize("name", ["Note", "ByText", "Nobody"])
    def test_what_is_declared_or_unknown_is_not_dropped(self, filled, name):
        with change(filled, OLD) as it, pytest.raises(SchemaMismatch) as refusal:
            it.apply(drop=[name])
        assert refusal.value.facts["name"] == name


def test_a_missing_function_is_part_of_the_plan(url):
    one, two = note({"a": int}), note({"a": str}, evolution=(retyped("a", was=int, by=str),))
    with connect(url, Schema(one), workers=0) as db:
        db.save(one(number=1, a=5))
    connect(url, Schema(two), workers=0).close()
    with change(url, Schema(two)) as it:
        assert [each.needs for each in it.status().older] == [("a",)]
    with change(url, Schema(note({"a": str}))) as it:
        assert it.plan().missing == (("Note", "a", "int"),)


def test_who_may_only_read_changes_nothing(filled):
    with change(only_read(filled), NEW) as it:
        assert not it.plan().nothing
        for call in (it.apply, it.rollback):
            with pytest.raises(Unsupported):
                call()


def test_a_schema_is_asked_for(filled):
    with pytest.raises(UsageError):
        migration(filled, ONE)


LONG_NOTE = made("LongNote", ONE, {"more": str})
LOOSE = made("Loose", Model, {"number": Key[int], "text": str})
WITH_LOOSE = Schema(ONE, BY_TEXT, LONG_NOTE, LOOSE)


@pytest.fixture
def loose(filled):
    """A store with a model that has one deleted entity, and a variant that has none."""
    with connect(filled, WITH_LOOSE, workers=0) as db:
        db.save(LOOSE(number=1, text="once"))
        db.delete(LOOSE, 1)
    return filled


def test_a_refused_change_leaves_the_deleted_entities_of_what_it_would_drop(loose):
    before = rows(loose, WITH_LOOSE)
    with change(loose, Schema(note({"text": bytes, "stars": int}))) as it, pytest.raises(SchemaMismatch):
        it.apply(drop=["Loose", "LongNote", "ByText"])
    assert rows(loose, WITH_LOOSE) == before


@pytest.mark.parametrize(
    ("dropped", "entity"),
    [("Loose", LOOSE(number=1, text="again")), ("LongNote", LONG_NOTE(number=9, text="t", more=""))],
)
def test_an_entity_that_comes_to_be_while_its_model_is_dropped_is_kept_and_the_drop_refused(loose, dropped, entity):
    declared = Schema(ONE, BY_TEXT, *({LOOSE, LONG_NOTE} - {type(entity)}))
    looks = []
    with connect(loose, WITH_LOOSE, workers=0) as db:

        def watch(request, _answer):
            if isinstance(request, Scan) and request.limit == BATCH:
                looks.append(request)
                if len(looks) == 2:
                    db.save(entity)

        with pytest.raises(SchemaMismatch) as refused:
            SyncDriver(db._driver.engine).run(apply_migration(declared.declared(), [dropped]), Trace((watch,)))
        assert refused.value.facts["model"] == dropped
        assert db.get(type(entity), entity.number) == entity


def test_a_model_without_living_entities_is_dropped_with_what_is_left_of_deleted_ones(loose):
    assert len({row[1][:2] for row in rows(loose, WITH_LOOSE) if row[0] == "roots"}) == 2
    with change(loose, OLD) as it:
        it.apply(drop=["Loose", "LongNote"])
    assert len({row[1][:2] for row in rows(loose) if row[0] == "roots"}) == 1
