"""Fields of views that are called otherwise: rows hold no names, so they stay, and are read at once."""

import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, count, field, greatest, least, renamed, shown, total
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import InvalidDeclaration, NotReady, SchemaMismatch
from oneread.evolution.migrate import plan_migration
from tests.unit.evolution.stores import end_lease
from tests.unit.evolution.test_changed_schemas import Stores, made, note


@pytest.fixture
def store(url):
    return Stores(url)


ONE = note({"text": str, "n": int})
TWO = note({"body": str, "n": int}, evolution=(renamed("text", to="body"),))


def index(cls, key, text):
    name = cls.__struct_fields__[1]
    return made("View", Index[cls], {key: int, text: str}, **{key: by(cls.n), text: shown(getattr(cls, name))})


@pytest.mark.parametrize(
    ("cls", "key", "text"),
    [(TWO, "n", "body"), (ONE, "n", "body"), (ONE, "number_of", "text")],
    ids=["with the model", "alone", "a key"],
)
def test_a_renamed_field_keeps_the_rows_and_their_generation(store, cls, key, text):
    before, after = index(ONE, "n", "text"), index(cls, key, text)
    with store.open(ONE, before) as db:
        db.save(ONE(number=1, text="t", n=5))
        plan = db.run(plan_migration(Schema(cls, after).declared()))
        told = [(each.what, each.name, each.before, each.after) for each in plan.differences if each.of == "view"]
        assert told == [("renamed", "View", old, new) for old, new in (("n", key), ("text", text)) if old != new]
        assert plan.builds == ()
    with store.open(cls, after) as db:
        assert [getattr(row, text) for row in db.page(after, 5)] == ["t"]
        assert db.run(stored_schema()).views["View"].generation == 1
        db.backfill(quiet=0)
        assert db.verify().clean


def test_programs_of_both_names_write_beside_each_other(store):
    before, after = index(ONE, "n", "text"), index(ONE, "n", "body")
    with store.open(ONE, before) as old, store.open(ONE, after) as new:
        old.save(ONE(number=1, text="a", n=5))
        new.save(ONE(number=2, text="b", n=5))
        with store.open(ONE, before) as again:
            assert [row.text for row in again.page(before, 5)] == ["a", "b"]
        assert [row.body for row in new.page(after, 5)] == ["a", "b"]
        assert new.run(stored_schema()).version == 1


def test_two_fields_that_change_their_names_keep_their_values(store):
    def view(first, second):
        return made("View", Index[ONE], {"k": int, first: str, second: int},
                    k=by(ONE.n), **{first: shown(ONE.text), second: shown(ONE.n)})  # fmt: skip

    before, after = view("a", "b"), view("b", "a")
    with store.open(ONE, before) as db:
        db.save(ONE(number=1, text="t", n=5))
    with store.open(ONE, after) as db:
        assert [(row.b, row.a) for row in db.page(after, 5)] == [("t", 5)]


def test_other_rules_under_the_old_names_are_a_new_generation(store):
    before = made("View", Index[ONE], {"a": int, "b": str}, a=by(ONE.n), b=shown(ONE.text))
    after = made("View", Index[ONE], {"a": str, "b": int}, a=by(ONE.text), b=shown(ONE.n))
    with store.open(ONE, before) as db:
        db.save(ONE(number=1, text="t", n=5))
        assert db.run(plan_migration(Schema(ONE, after).declared())).why == (
            "View has other rules or values now, and they write it as it was",
        )
    with store.open(ONE, after) as db, pytest.raises(NotReady):
        db.page(after, "t")


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (field(ONE.text) == "a", "(text == 'a')"),
        (~((field(ONE.n) > 2) & (field(ONE.n) <= 1.5)), "~((n > 2) & (n <= 1.5))"),
        (
            field(ONE.text).starts_with("a") | field(ONE.text).contains("b"),
            "(text.starts_with('a') | text.contains('b'))",
        ),
        (field(ONE.n).one_of(1, 2), "n.one_of(1, 2)"),
    ],
    ids=["equal", "joined", "tested", "one of"],
)
def test_a_changed_condition_is_shown_as_it_is_declared(store, where, text):
    def view(condition):
        return made("View", Index[ONE], {"n": int}, n=by(ONE.n), where=condition)

    with store.open(ONE, view(where)) as db:
        db.save(ONE(number=1, text="t", n=5))
        plan = db.run(plan_migration(Schema(ONE, view(field(ONE.n) == 7)).declared()))
    (changed,) = [each for each in plan.differences if each.what == "new generation"]
    assert (changed.before, changed.after) == (f"where: {text}", "where: (n == 7)")


def test_a_changed_condition_of_a_number_is_shown_as_it_is_declared(store):
    def view(condition):
        rule = total(ONE.n, where=condition)
        return made("View", Aggregate[ONE], {"key": str, "sum": int}, key=by(ONE.text), sum=rule)

    with store.open(ONE, view(field(ONE.n) > 2)) as db:
        db.save(ONE(number=1, text="t", n=5))
        plan = db.run(plan_migration(Schema(ONE, view((field(ONE.n) == 7) & (field(ONE.text) != "a"))).declared()))
    (changed,) = [each for each in plan.differences if each.what == "new generation"]
    assert (changed.before, changed.after) == (
        "sum: fold total n int where (n > 2)",
        "sum: fold total n int where ((n == 7) & (text != 'a'))",
    )


def test_a_condition_of_a_number_keeps_its_rows_when_its_field_is_renamed(store):
    def view(cls, n):
        return made("View", Aggregate[cls], {"key": str, "lines": int}, key=by(cls.text), lines=count(where=n > 2))

    renaming = note({"text": str, "size": int}, evolution=(renamed("n", to="size"),))
    with store.open(ONE, view(ONE, field(ONE.n))) as db:
        db.save_all([ONE(number=number, text="t", n=number) for number in (1, 3, 5)])
    after = view(renaming, field(renaming.size))
    with store.open(renaming, after) as db:
        assert db.get(after, "t").lines == 2
        assert {each.generation for each in db.run(stored_schema()).views.values()} == {1}
        db.delete(renaming, 5)
        assert db.get(after, "t").lines == 1
        assert db.verify().clean


def test_numbers_of_a_group_keep_theirs_least_and_greatest_too(store):
    def view(names):
        lines, summed, low, high = names
        kinds = {lines: int, summed: int, low: int | None, high: int | None}
        rules = {lines: count(), summed: total(ONE.n), low: least(ONE.n), high: greatest(ONE.n)}
        return made("Sums", Aggregate[ONE], {"key": str} | kinds, key=by(ONE.text), **rules)

    before, after = view(["a", "b", "c", "d"]), view(["lines", "summed", "d", "c"])
    with store.open(ONE, before) as old:
        old.save_all([ONE(number=number, text="t", n=number) for number in (1, 2, 3)])
        with store.open(ONE, after) as db:
            row = db.get(after, "t")
            assert (row.lines, row.summed, row.d, row.c) == (3, 6, 1, 3)
            assert {view.generation for view in db.run(stored_schema()).views.values()} == {1}
            db.delete(ONE, 3)
            assert db.get(after, "t").c == 2
            assert db.verify().clean
            end_lease(old)
            with pytest.raises(SchemaMismatch):  # it looks for the keyspace of `c` under the wrong name when restarted
                old.save(ONE(number=4, text="t", n=4))


@pytest.mark.parametrize(
    "given", [(renamed("text", to="body"),), renamed("text", to="body"), ()], ids=["steps", "a step", "nothing"]
)
@pytest.mark.parametrize("base", [Index, Aggregate])
def test_evolution_in_a_view_is_refused(given, base):
    view = made("View", base[ONE], {"n": int}, n=by(ONE.n), evolution=given)
    with pytest.raises(InvalidDeclaration, match="a view has no `evolution`"):
        Schema(ONE, view)


def test_a_view_may_have_a_field_of_that_name(store):
    cls = made("Kind", Model, {"number": Key[int], "stage": str})
    view = made("ByStage", Index[cls], {"evolution": str}, evolution=by(cls.stage))
    with store.open(cls, view) as db:
        db.save(cls(number=1, stage="larva"))
        assert [row.evolution for row in db.page(view, "larva")] == ["larva"]


def test_a_shown_copy_under_another_name_is_kept(store):
    maker = made("Maker", Model, {"number": Key[int], "name": str})
    made_by = made("MadeBy", Copy[maker], {"name": str})
    thing = made("Thing", Model, {"number": Key[int], "maker": made_by})

    def view(name):
        return made("Things", Index[thing], {"n": int, name: made_by}, n=by(thing.number), **{name: shown(thing.maker)})

    with store.open(maker, thing, view("maker")) as db:
        db.save(maker(number=1, name="Ada"))
        db.save(thing(number=1, maker=made_by.of(1)))
    after = view("by_whom")
    with store.open(maker, thing, after) as db:
        assert db.page(after, 1)[0].by_whom.name == "Ada"
        assert db.verify().clean
