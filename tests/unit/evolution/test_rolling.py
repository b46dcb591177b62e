"""Older programs beside newer ones: what they read, write, keep and refuse while fields are added."""

import asyncio
from datetime import datetime
from typing import Annotated

import pytest
from msgspec import Meta

from oneread import (
    CREATED,
    UPDATED,
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    connect_async,
    count,
    reference,
    retyped,
    rollup,
    shown,
    within,
)
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import InvalidValue, SchemaMismatch
from oneread.evolution.migrate import plan_migration
from oneread.transactions.root import BODY
from tests.golden.rows import rows_of
from tests.unit.evolution.stores import end_lease, only_read
from tests.unit.evolution.test_changed_schemas import Stores, made, note

BIG = 2**70


@pytest.fixture
def store(url):
    return Stores(url)


OLD = note({"a": str, "c": int}, c=0)
NEW = note({"first": int | None, "a": str, "b": list[int], "c": int}, first=None, b=[], c=0)


@pytest.fixture
def both(store):
    """A program under each schema; the newer one wrote a row, and the older one did before it."""
    old = store.open(OLD)
    old.save(OLD(number=1, a="old"))
    new = store.open(NEW)
    new.save(NEW(number=2, a="new", first=7, b=[BIG], c=2))
    with old, new:
        yield old, new


READS = {
    "get": lambda db: db.get(OLD, 2),
    "find": lambda db: db.find(OLD, 2),
    "get_many": lambda db: db.get_many(OLD, [(1,), (2,)])[1],
    "page": lambda db: db.page(OLD).rows[1],
    "scan": lambda db: [row for page in db.scan(OLD) for row in page][1],
    "transact": lambda db: db.transact(lambda t: t.get(OLD, 2)),
}
WRITES = {
    "save": lambda db: db.save(OLD(number=2, a="later", c=3)),
    "patch": lambda db: db.patch(OLD, 2, a="later", c=3),
    "save_all": lambda db: db.save_all([OLD(number=2, a="later", c=3)]),
    "upsert": lambda db: db.upsert(OLD(number=2, a="never"), a="later", c=3),
    "patch in a transaction": lambda db: db.transact(lambda t: t.patch(OLD, 2, a="later", c=3)),
    "save in a transaction": lambda db: db.transact(lambda t: (t.get(OLD, 2), t.save(OLD(number=2, a="later", c=3)))),
}
VERBS = {
    "verify": lambda db: db.verify(),
    "repair": lambda db: db.repair(),
    "dump": lambda db: db.dump(lambda _line: None),
    "dump_csv": lambda db: db.dump_csv(lambda _line: None, OLD),
}


class TestAnOlderProgram:
    @pytest.mark.parametrize("read", READS)
    def test_reads_what_it_knows_of_a_row_of_a_newer_one(self, both, read):
        old, _new = both
        assert READS[read](old) == OLD(number=2, a="new", c=2)
        assert old.exists(OLD, 2)

    def test_reads_the_schema_row_once(self, both):
        old, _new = both
        assert old.cost(old.get(OLD, 2)).requests == 4  # the row, the fence, the schema row, and the row
        assert old.cost(old.get(OLD, 2)).requests == 1
        assert old.cost(old.find(OLD, 1)).requests == 1

    @pytest.mark.parametrize("write", WRITES)
    def test_keeps_what_it_does_not_know(self, both, write):
        old, new = both
        WRITES[write](old)
        assert new.get(NEW, 2) == NEW(number=2, a="later", first=7, b=[BIG], c=3)
        assert old.get(OLD, 2) == OLD(number=2, a="later", c=3)

    def test_keeps_it_in_bulk(self, both):
        old, new = both
        with old.bulk() as bulk:
            bulk.save(OLD(number=2, a="later", c=3))
            bulk.patch(OLD, 1, c=4)
        assert new.get(NEW, 2) == NEW(number=2, a="later", first=7, b=[BIG], c=3)
        assert new.get(NEW, 1) == NEW(number=1, a="old", c=4)

    @pytest.mark.parametrize(("first", "b"), [(BIG, []), (1, [BIG]), (BIG, [BIG]), (1, [2])])
    @pytest.mark.parametrize("c", [5, BIG])
    def test_keeps_ints_beyond_64_bits_and_writes_the_bytes_of_the_newer_one(self, both, first, b, c):
        old, new = both
        new.save(NEW(number=2, a="x", first=first, b=b, c=1))
        old.patch(OLD, 2, c=c)
        assert new.get(NEW, 2) == NEW(number=2, a="x", first=first, b=b, c=c)
        written = body(old, OLD, 2)
        new.save(NEW(number=2, a="x", first=first, b=b, c=c))
        assert body(new, NEW, 2) == written

    def test_leaves_a_row_of_its_own_to_the_defaults_of_the_newer_one(self, both):
        old, new = both
        old.save(OLD(number=3, a="x"))
        assert new.get(NEW, 3) == NEW(number=3, a="x", first=None, b=[])
        new.patch(NEW, 3, first=1)
        old.patch(OLD, 3, a="y")
        assert new.get(NEW, 3) == NEW(number=3, a="y", first=1, b=[])

    def test_forgets_the_rest_when_it_deletes_and_creates(self, both):
        old, new = both
        old.delete(OLD, 2)
        old.create(OLD(number=2, a="again"))
        assert new.get(NEW, 2) == NEW(number=2, a="again")

    def test_is_held_to_its_own_types_and_checks_alone(self, store):
        def check(self):
            if self.a == "odd" or self.b:
                raise ValueError("refused")

        checked = note({"a": Annotated[str, Meta(max_length=3)], "b": int}, b=0, check=check)
        first = note({"a": Annotated[str, Meta(max_length=3)]})
        with store.open(first) as old, store.open(checked) as new:
            new.save(checked(number=1, a="x"))
            with pytest.raises(InvalidValue):
                old.patch(first, 1, a="long")
            old.patch(first, 1, a="odd")
            with pytest.raises(InvalidValue, match="own check"):
                new.patch(checked, 1, b=1)

    def test_may_be_started_again_and_is_not_alone(self, both, store):
        old, new = both
        with store.open(OLD) as again:
            assert again.get(OLD, 2) == old.get(OLD, 2)
            again.save(OLD(number=4, a="k"))
            again.patch(OLD, 2, c=9)
        assert new.get(NEW, 2) == NEW(number=2, a="new", first=7, b=[BIG], c=9)
        assert new.verify().clean

    @pytest.mark.parametrize("verb", VERBS)
    def test_does_not_do_what_needs_to_know_all(self, both, verb):
        old, _new = both
        with pytest.raises(SchemaMismatch, match="whose schema is the newest") as refusal:
            VERBS[verb](old)
        assert refusal.value.facts == {"model": OLD, "unknown": ["first", "b"], "newest": 2}

    def test_does_not_backfill(self, both):
        old, _new = both
        with pytest.raises(SchemaMismatch, match="newest program's backfill"):
            old.backfill()

    def test_writes_until_a_backfill_ends_it_and_reads_on(self, both, store):
        old, new = both
        old.patch(OLD, 2, c=5)
        assert new.backfill(fence=True).done
        before = rows_of(new)
        end_lease(old)
        with pytest.raises(SchemaMismatch, match="newer program has upgraded"):
            old.patch(OLD, 2, c=6)
        assert rows_of(new) == before
        assert old.get(OLD, 1) == OLD(number=1, a="old")
        with pytest.raises(SchemaMismatch, match="whose schema is the newest"):
            old.dump(lambda _line: None)
        with pytest.raises(SchemaMismatch, match="start the newer program"):
            store.open(OLD)

    def test_is_waited_for_by_a_backfill(self, both):
        old, new = both
        old.save(OLD(number=5, a="x"))
        found = new.backfill(quiet=60, wait=0)
        assert (found.done, found.old_code) == (False, "Note(5)")
        old.patch(OLD, 2, c=1)

    def test_continues_when_a_third_version_adds_more(self, both, store):
        old, new = both
        third = note({"first": int | None, "a": str, "b": list[int], "z": str, "c": int}, first=None, b=[], c=0, z="zz")
        with store.open(third) as newest:
            newest.patch(third, 2, z="kept")
            old.patch(OLD, 2, c=8)
            new.patch(NEW, 2, first=8)
            assert newest.get(third, 2) == third(number=2, a="new", first=8, b=[BIG], c=8, z="kept")
            new.save(NEW(number=6, a="x", first=6))
            old.patch(OLD, 6, c=6)
            assert newest.get(third, 6) == third(number=6, a="x", first=6, c=6)
            with store.open(OLD) as again, store.open(NEW) as another:
                assert again.get(OLD, 2).c == another.get(NEW, 2).c == 8
            assert newest.verify().clean

    def test_that_may_only_read_is_let_in(self, url):
        with connect(url, Schema(OLD), workers=0) as db:
            db.save(OLD(number=1, a="x"))
        with connect(url, Schema(NEW), workers=0) as db:
            db.patch(NEW, 1, first=3)
        with connect(only_read(url), Schema(OLD)) as db:
            assert db.get(OLD, 1) == OLD(number=1, a="x")

    def test_learns_in_an_event_loop_too(self, url):
        async def main():
            async with connect_async(url, Schema(OLD), workers=0) as old:
                await old.save(OLD(number=1, a="x"))
                async with connect_async(url, Schema(NEW), workers=0) as new:
                    await new.patch(NEW, 1, first=3)
                    assert await old.get(OLD, 1) == OLD(number=1, a="x")
                    assert (await old.page(OLD)).rows == [OLD(number=1, a="x")]
                    await old.patch(OLD, 1, a="y")
                    assert await new.get(NEW, 1) == NEW(number=1, a="y", first=3)

        asyncio.run(main())


def body(db, model, number):
    """The document of an entity."""
    place = "roots", db.operations.catalog.kinds[model].key((number,)), BODY
    return next(value for *found, _stamp, value in rows_of(db) if tuple(found) == place)


def test_an_older_program_that_never_met_a_newer_row_learns_from_its_own_write(store):
    with store.open(OLD) as old, store.open(NEW) as new:
        old.save(OLD(number=1, a="x"))
        new.patch(NEW, 1, b=[1])
        old.patch(OLD, 1, a="y")  # reads the fence and the schema row before it decodes the row
        assert new.get(NEW, 1).b == [1]


def test_a_model_without_rows_keeps_the_layout_of_programs_that_may_still_write_it(store):
    with store.open(OLD) as old, store.open(NEW) as new:
        old.save(OLD(number=1, a="x"))
        assert new.get(NEW, 1) == NEW(number=1, a="x")
        assert new.backfill(fence=True).done


PERSON = made("Person", Model, {"number": Key[int], "name": str})


def of(name, kind, **values):
    return note({"a": str, name: kind}, **values)


CUTS = {
    "a copy more": lambda: (PERSON, of("p", made("P", Copy[PERSON], {"name": str}) | None, p=None)),
    "a guarded reference": lambda: (PERSON, of("p", Ref[PERSON] | None, p=reference(on_delete="refuse"))),
    "a stamp": lambda: (PERSON, of("at", datetime | None, at=UPDATED)),
    "the instant of the first save": lambda: (PERSON, of("at", datetime | None, at=CREATED)),
    "another type": lambda: (PERSON, note({"a": str | None})),
    "a field less": lambda: (PERSON, made("Note", Model, {"number": Key[int]})),
    "a conversion": lambda: (
        PERSON,
        note({"a": bytes, "b": int}, b=0, evolution=(retyped("a", was=str, by=str.encode),)),
    ),
}
CONTINUES = {
    "a default more": lambda: (PERSON, of("b", int, b=1)),
    "a field that may be None": lambda: (PERSON, of("b", int | None)),
    "a plain reference": lambda: (PERSON, of("p", Ref[PERSON] | None, p=None)),
    "a list of references": lambda: (PERSON, of("p", Annotated[list[Ref[PERSON]], Meta(max_length=3)], p=[])),
    "another model": lambda: (PERSON, note({"a": str}), made("Other", Model, {"number": Key[int]})),
    "another order and a field": lambda: (PERSON, made("Note", Model, {"a": str, "b": int, "number": Key[int]}, b=0)),
}


def planned(store, declarations):
    with store.open(PERSON, note({"a": str})) as db:
        db.save(db.operations.catalog.models[1](number=1, a="x"))
        db.save(PERSON(number=1, name="Ada"))
        return db, db.run(plan_migration(Schema(*declarations).declared()))


@pytest.mark.parametrize("change", CUTS)
def test_what_cuts_older_programs_off_says_so_beforehand_and_does(store, change):
    _db, plan = planned(store, CUTS[change]())
    assert not plan.refused, plan
    assert plan.cuts_off == (1,)
    assert plan.why
    assert plan.continues == ()
    store.open(*CUTS[change]()).close()
    with pytest.raises(SchemaMismatch):
        store.open(PERSON, note({"a": str}))


@pytest.mark.parametrize("change", CONTINUES)
def test_what_lets_older_programs_go_on_says_so_beforehand_and_does(store, change):
    _db, plan = planned(store, CONTINUES[change]())
    assert (plan.cuts_off, plan.why, plan.continues) == ((), (), (1,))
    declarations = CONTINUES[change]()
    newer = declarations[1]
    with store.open(*declarations) as new:
        new.patch(newer, 1, a="new")
        older = note({"a": str})
        with store.open(PERSON, older) as old:
            assert old.get(older, 1).a == "new"
            old.save(older(number=2, a="y"))
        assert new.get(newer, 2).a == "y"
        assert new.verify().clean


def test_a_copy_that_shows_a_new_field_cuts_off(store):
    def world(more):
        person = made("Person", Model, {"number": Key[int], "name": str} | ({"born": int | None} if more else {}))
        shows = made("P", Copy[person], {"name": str} | ({"born": int | None} if more else {}))
        return person, made("Note", Model, {"number": Key[int], "p": shows}), shows

    person, held, shows = world(more=False)
    with store.open(person, held) as db:
        db.save(person(number=1, name="Ada"))
        db.save(held(number=1, p=shows.of(1)))
        plan = db.run(plan_migration(Schema(*world(more=True)[:2]).declared()))
    assert plan.cuts_off == (1,)
    assert [reason.split(":")[0] for reason in plan.why] == ["Person", "Note.p.born"]


def test_a_view_over_a_new_field_is_built_while_the_older_program_writes(store):
    """The field is left alone, and what a view lacks until a backfill is what any new view lacks."""
    view = made("ByFirst", Index[NEW], {"first": int}, first=by(NEW.first))
    with store.open(OLD) as old:
        old.save(OLD(number=1, a="x"))
        with store.open(NEW, view) as new:
            new.patch(NEW, 1, first=5)
            old.patch(OLD, 1, c=1)  # takes the row of the view away without knowing it
            old.save(OLD(number=2, a="y"))
            assert new.backfill(fence=True).done
            assert [row.source.key for row in new.page(view, 5)] == [(1,)]
            assert new.verify().clean
            end_lease(old)
            with pytest.raises(SchemaMismatch):
                old.patch(OLD, 1, c=2)


def test_copies_and_hidden_copies_of_newer_rows_follow_an_older_program(store):
    def world(more):
        extra = {"born": int} if more else {}
        person = made(
            "Person", Model, extra | {"number": Key[int], "name": str, "land": str}, **({"born": 0} if more else {})
        )
        shows = made("P", Copy[person], {"name": str})
        held = made("Note", Model, {"number": Key[int], "p": shows} | extra, **({"born": 0} if more else {}))
        of_land = made(
            "OfLand", Index[held], {"land": str, "p": shows}, land=by(within(held.p, person.land)), p=shown(held.p)
        )
        return person, held, shows, of_land

    one, two = world(more=False), world(more=True)
    with store.open(one[0], one[1], one[3]) as old, store.open(two[0], two[1], two[3]) as new:
        new.save(two[0](number=1, name="Ada", land="x", born=BIG))
        new.save(two[1](number=1, p=two[2].of(1), born=BIG))
        old.save(one[1](number=2, p=one[2].of(1)))
        old.patch(one[0], 1, name="Bea", land="y")
        assert [(row.source.key, row.p.name) for row in new.page(two[3], "y")] == [((1,), "Bea"), ((2,), "Bea")]
        assert (new.get(two[1], 1).born, new.get(two[0], 1).born) == (BIG, BIG)
        assert new.verify().clean


def test_a_program_that_is_started_again_reads_by_its_own_numbers(store):
    """The newest layout would be misread: the same elements in other places."""
    one = note({"a": int, "b": int})
    two = note({"x": int, "a": int, "b": int, "y": int}, x=1, y=2)
    with store.open(one) as db:
        db.save(one(number=1, a=10, b=20))
    with store.open(two) as db:
        db.save(two(number=2, a=10, b=20))
        layouts = db.run(stored_schema()).layouts_of("Note")
        assert len(layouts) == 2
    with store.open(one) as db:
        assert db.operations.catalog.entity_types[one].layout.layout_id == layouts[0].number
        assert [(row.a, row.b) for row in db.page(one)] == [(10, 20), (10, 20)]


def test_a_version_that_is_opened_again_after_its_classes_were_renamed_continues(store):
    def world(copy, *, more=False):
        shows = made(copy, Copy[PERSON], {"name": str})
        return made(
            "Note", Model, {"number": Key[int], "p": shows} | ({"b": int} if more else {}), **({"b": 1} if more else {})
        ), shows

    one, shows = world("P")
    with store.open(PERSON, one) as db:
        db.save(PERSON(number=1, name="Ada"))
        db.save(one(number=1, p=shows.of(1)))
    two, other = world("Q", more=True)
    with store.open(PERSON, two) as db:
        db.save(two(number=2, p=other.of(1), b=5))
    with store.open(PERSON, one) as db:
        db.patch(PERSON, 1, name="Bea")
        assert [row.p.name for row in db.page(one)] == ["Bea", "Bea"]
    with store.open(PERSON, two) as db:
        assert [row.b for row in db.page(two)] == [1, 5]


def test_an_older_program_reads_what_a_newer_one_created_while_it_deleted(store):
    with store.open(OLD) as old, store.open(NEW) as new:
        new.save(NEW(number=1, a="x", b=[1]))
        old.delete(OLD, 1)
        assert new.find(NEW, 1) is None
        new.create(NEW(number=1, a="y", b=[2]))
        assert old.get(OLD, 1).a == "y"


def test_unknown_variants_of_a_newer_program_are_named_and_not_called_damaged(store):
    with store.open(OLD) as db:
        db.save(OLD(number=1, a="x"))
    special = made("Special", OLD, {"z": int}, z=1)
    with store.open(OLD, special) as db:
        db.save(special(number=2, a="y"))
    with store.open(OLD) as db:
        assert db.get(OLD, 1).a == "x"
        with pytest.raises(SchemaMismatch, match="written under a newer schema"):
            db.get(OLD, 2)


def test_nothing_is_learned_from_a_time_when_this_program_may_not_write(store):
    gone = note({"c": int, "a2": int}, c=0, a2=3)
    with store.open(OLD) as old:
        old.save(OLD(number=1, a="x"))
        with store.open(gone) as new:
            new.save(gone(number=2))
            with pytest.raises(SchemaMismatch):
                old.get(OLD, 2)
            with pytest.raises(SchemaMismatch):
                old.page(OLD)
            assert old.get(OLD, 1).a == "x"


def test_variants_of_a_newer_program_are_kept_each_under_its_own_layout(store):
    def world(more):
        extra, default = ({"x": int}, {"x": 0}) if more else ({}, {})
        post = made("Post", Model, extra | {"number": Key[int], "a": str}, **default)
        question = made(
            "Question", post, {"title": str} | ({"y": int} if more else {}), title="", **({"y": 0} if more else {})
        )
        return post, question, made("Answer", post, {"score": int}, score=0)

    older, newer = world(more=False), world(more=True)
    with store.open(*older) as old, store.open(*newer) as new:
        new.save(newer[1](number=1, a="q", x=1, y=2))
        new.save_all([newer[2](number=2, a="a", x=3), newer[0](number=3, a="p", x=4)])
        for number in (1, 2, 3):
            old.patch(older[0], number, a="changed")
        assert old.get(older[1], 1) == older[1](number=1, a="changed")
        assert [(type(row).__name__, row.a, row.x) for row in new.page(newer[0])] == [
            ("Question", "changed", 1), ("Answer", "changed", 3), ("Post", "changed", 4),
        ]  # fmt: skip
        assert new.get(newer[1], 1).y == 2
        with store.open(*older) as again:
            assert [type(row).__name__ for row in again.page(older[0])] == ["Question", "Answer", "Post"]
        assert new.verify().clean


def test_an_older_schema_is_planned_to_continue(store):
    store.open(OLD).close()
    with store.open(NEW) as db:
        plan = db.run(plan_migration(Schema(OLD).declared()))
        assert (plan.nothing, plan.continues) == (True, (1,))
        assert db.run(plan_migration(Schema(NEW).declared())).continues == ()


def test_a_total_more_cuts_off_and_a_total_that_both_know_is_kept(store):
    """Votes count in posts; the older program votes, the newer one added a field to posts and to votes."""

    def world(more, *, total=True):
        extra, default = ({"x": int}, {"x": 0}) if more else ({}, {})
        vote = made("Vote", Model, extra | {"number": Key[int], "post": Ref["Post"], "value": int}, **default)
        votes = made("Votes", Aggregate[vote], {"post": Ref["Post"], "votes": int}, post=by(vote.post), votes=count())
        shows = {"votes": rollup(votes.votes)} if total else {}
        post = made(
            "Post", Model, extra | {"number": Key[int], "a": str} | dict.fromkeys(shows, int), **default, **shows
        )
        return vote, votes, post

    with store.open(*world(more=False, total=False)) as db:
        plan = db.run(plan_migration(Schema(*world(more=False)).declared()))
        assert plan.cuts_off == (1,)
    older, newer = world(more=False), world(more=True)
    with store.open(*older) as old, store.open(*newer) as new:
        new.save(newer[2](number=1, a="p", x=BIG))
        old.save_all([older[0](number=number, post=older[2].at(1), value=1) for number in range(3)])
        old.patch(older[2], 1, a="q")
        new.save(newer[0](number=3, post=newer[2].at(1), value=1, x=5))
        old.delete(older[0], 0)
        old.patch(older[0], 3, value=2)
        row = new.get(newer[2], 1)
        assert (row.a, row.x, row.votes) == ("q", BIG, 3)
        assert old.get(older[2], 1).votes == 3
        assert new.get(newer[0], 3).x == 5
        assert new.verify().clean
        assert new.backfill(fence=True).done
        assert new.verify().clean
