"""A ttl that is added, changed or removed under stored data, and what is repaired and built of what has expired."""

from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from itertools import product
from types import new_class

import pytest

from oneread import (
    Aggregate,
    Index,
    Key,
    Model,
    Schema,
    by,
    connect,
    count,
    expires,
    least,
    migration,
    newest,
    renamed,
    shown,
)
from oneread.database.expiry_sweep import Swept
from oneread.database.survey import PrefixNames
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import NotReady, SchemaMismatch
from oneread.plans.effects import Atomically
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.testing.clock import START, Clock
from oneread.transactions.prefixes import prefix_of
from tests.unit.evolution.stores import drop_formers, end_lease, former_generations


def declared(*, ttl=None, own=None, topic=False):
    """A schema of posts by author; its classes are new ones each time, as those of another release."""

    class Post(Model[int]):
        number: Key[int]
        author: str = "ada"
        topic: str = "news"
        made_at: datetime
        ends_at: datetime | None = None

    if ttl is not None:
        Post.ttl = ttl

    class PostsOf(Index[Post]):
        author: str = by(Post.author)
        made_at: datetime = newest(Post.made_at)

    if own is not None:
        PostsOf.ttl = expires(Post.made_at, after=own)

    class OnTopic(Index[Post]):
        topic: str = by(Post.topic)
        author: str = shown(Post.author)

    class Topics(Aggregate[Post]):
        topic: str = by(Post.topic)
        posts: int = count()

    return Schema(Post, PostsOf, *((OnTopic, Topics) if topic else ()))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def opened(url, clock):
    return lambda schema: connect(url, schema, workers=0, clock=clock)


def named(schema, name):
    return schema.named()[name]


def posts(schema, *seconds, **more):
    post = named(schema, "Post")
    return [post(number=each, made_at=START + timedelta(seconds=each), **more) for each in seconds]


def numbers(db, schema, view="PostsOf", value="ada"):
    return sorted(row.source.key[0] for row in db.page(named(schema, view), value))


def test_an_added_ttl_masks_at_once_and_is_swept_after_its_backfill(opened, clock):
    before = declared()
    with opened(before) as db:
        db.save_all(posts(before, 1, 2, 3))
        older, after = db, declared(ttl=expires("made_at", after=timedelta(seconds=10)))
        clock.tick(12)
        with opened(after) as newer:
            post = named(after, "Post")
            assert [each.number for each in newer.page(post)] == [3]
            assert newer.find(post, 1) is None
            with pytest.raises(NotReady):
                newer.page(named(after, "PostsOf"), "ada")
            with pytest.raises(NotReady):
                newer.sweep()
            end_lease(older)
            with pytest.raises(SchemaMismatch):
                older.save(posts(before, 4)[0])
            assert newer.verify().faults == ()
            assert newer.backfill().done
            assert numbers(newer, after) == [3]
            assert newer.verify().faults == ()
            assert newer.sweep() == Swept(deleted=2)
            assert newer.verify().faults == ()


def test_a_changed_life_builds_the_rows_again(opened, clock):
    short, long = (declared(ttl=expires("made_at", after=timedelta(seconds=each))) for each in (10, 20))
    with opened(short) as db:
        db.save_all(posts(short, 1, 2, 3))
        clock.tick(12)
        assert numbers(db, short) == [3]
    with opened(long) as db:
        assert len(db.page(named(long, "Post"))) == 3
        with pytest.raises(NotReady):
            db.sweep()
        assert db.backfill().done
        assert numbers(db, long) == [1, 2, 3]
        assert db.sweep() == Swept()
        clock.tick(10)
        assert db.sweep() == Swept(deleted=2)
        assert db.verify().faults == ()


def test_a_removed_ttl_lets_live_what_was_not_swept(opened, clock, url):
    with_ttl, without = declared(ttl=expires("made_at", after=timedelta(seconds=10))), declared()
    with opened(with_ttl) as db:
        db.save_all(posts(with_ttl, 1, 2, 3))
        clock.tick(12)
        assert db.sweep(limit=1) == Swept(deleted=1)
    with pytest.raises(SchemaMismatch, match=r"view='Post.expiry'"):
        opened(without)
    with migration(url, without, clock=clock) as change:
        change.apply(drop=["Post.expiry"])
    with opened(without) as db:
        assert [each.number for each in db.page(named(without, "Post"))] == [2, 3]
        assert db.backfill().done
        assert numbers(db, without) == [2, 3]
        assert db.sweep() == Swept()
        assert db.survey().unswept == {}
        assert db.verify().faults == ()
        assert all("expiry" not in part.name for part in db.survey(exact=True).parts)


def test_the_field_of_a_ttl_may_be_renamed(opened, clock):
    class Post(Model[int]):
        number: Key[int]
        author: str = "ada"
        topic: str = "news"
        made_at: datetime
        lapses_at: datetime | None = None
        evolution = (renamed("ends_at", to="lapses_at"),)
        ttl = expires("lapses_at")

    class PostsOf(Index[Post]):
        author: str = by(Post.author)
        made_at: datetime = newest(Post.made_at)

    before, after = declared(ttl=expires("ends_at")), Schema(Post, PostsOf)
    with opened(before) as db:
        db.save_all(posts(before, 1, 2, ends_at=START + timedelta(seconds=5)))
    with opened(after) as db:
        db.patch(Post, 2, lapses_at=None)
        clock.tick(10)
        assert [each.number for each in db.page(Post)] == [2]
        assert db.backfill().done
        assert numbers(db, after) == [2]
        assert db.sweep() == Swept(deleted=1)
        assert db.verify().faults == ()


def test_a_ttl_of_an_index_changes_that_index_alone(opened, clock):
    before, after = declared(topic=True), declared(topic=True, own=timedelta(seconds=10))
    with opened(before) as db:
        db.save_all(posts(before, 1, 2, 3))
        clock.tick(12)
    with opened(after) as db:
        assert numbers(db, after, "OnTopic", "news") == [1, 2, 3]
        assert numbers(db, after) == [1, 2, 3]  # by the former generation
        assert db.backfill(fence=True).done
        assert numbers(db, after) == [3]
        assert {part.name: part.rows for part in db.survey(exact=True).parts}["PostsOf.expiry"] == 1
        assert db.sweep() == Swept()
        assert len(db.page(named(after, "Post"))) == 3
        assert db.verify().faults == ()


def test_a_backfill_builds_no_index_rows_of_what_has_expired(opened, clock):
    life = expires("ends_at")
    before, after = declared(ttl=life), declared(ttl=life, topic=True)
    with opened(before) as db:
        db.save_all(posts(before, 1, ends_at=START + timedelta(seconds=5)))
        db.save_all(posts(before, 2, ends_at=START + timedelta(seconds=50)))
        clock.tick(10)
    with opened(after) as db:
        assert db.backfill().done
        rows = {part.name: part.rows for part in db.survey(exact=True).parts if part.table == "views"}
        assert rows["OnTopic"] == 1
        assert db.get(named(after, "Topics"), "news").posts == 2  # until the sweep
        assert db.verify().faults == ()
        assert db.sweep() == Swept(deleted=1)
        assert db.get(named(after, "Topics"), "news").posts == 1
        assert db.verify().faults == ()


@pytest.mark.parametrize("expired", [False, True])
def test_verify_and_repair_see_damaged_rows_of_what_expires(opened, clock, expired):
    schema = declared(ttl=expires("ends_at"))
    with opened(schema) as db:
        db.save_all(posts(schema, 1, 2, ends_at=START + timedelta(seconds=5)))
        if expired:
            clock.tick(10)
        view = db.operations.catalog.views[named(schema, "PostsOf")]
        prefix = view.prefix

        def remove(store):
            rows = store.scan("views", RowRange.under(prefix), 1)
            store.replace("views", {rows[0][0]: None})

        db.run(Atomically(remove).__iter__())
        assert db.verify().found  # it is in the record, so it must be there until it is swept
        db.repair()
        assert db.verify().faults == ()
        clock.tick(10)
        assert db.sweep() == Swept(deleted=2)
        assert db.verify().faults == ()


def test_the_plan_names_what_a_ttl_changes(url, clock):
    before, after = declared(), declared(ttl=expires("ends_at"))
    with connect(url, before, workers=0, clock=clock) as db:
        db.save_all(posts(before, 1))
    text = str(migration(url, after).plan())
    assert "Post.expiry" in text
    assert "PostsOf" in text


# Every transition: the ttl of a model and that of an index of it, before and after. Seconds since START throughout.

LIVES = {"none": None, "30 s": ("made", 30), "40 s": ("made", 40), "end": ("end", None)}
OWN = ("none", "30 s", "40 s")
TTLS = [*product(LIVES, OWN)]
ENDS = {1: (0, None), 2: (0, 36), 3: (10, 25), 4: (20, 60), 5: (5, None), 6: (-1, 34)}
"""When each root was made, and when it ends."""
CHANGED_AT, SWEPT_AT = 34, 300


def life(of, fields):
    if LIVES[of] is None:
        return None
    field, seconds = LIVES[of]
    return expires(fields(field), after=None if seconds is None else timedelta(seconds=seconds))


@cache
def transition(ttls, *, fields=("made", "end"), index="Recent", stored_as=None):
    """A schema with these two ttls; `fields` are what the two fields of the root are called."""
    of_model, of_index = ttls
    called = dict(zip(("made", "end"), fields, strict=True))
    moved = tuple(renamed(before, to=after) for before, after in called.items() if before != after)
    types = {"r": Key[int], called["made"]: datetime, called["end"]: datetime | None}
    options = {called["end"]: None, "evolution": moved, "ttl": life(of_model, called.get)}
    root = declare("Root", Model[int], types, options)
    own = life(of_index, lambda field: getattr(root, called[field]))
    options = {"made": newest(getattr(root, called["made"])), "ttl": own}
    options |= {} if stored_as is None else {"stored_as": stored_as}
    recent = declare(index, Index[root], {"made": datetime}, options)
    return Schema(root, declare("Named", Index[root], {"r": int}, {"r": by(root.r), "unique": True}), recent)


def declare(name, base, types, options):
    space = {"__module__": __name__, "__annotations__": types, **options}
    return new_class(name, (base,), {}, lambda namespace: namespace.update(space))


def end_of(of, root):
    """When something expires by a ttl; None for never."""
    made, end = ENDS[root]
    if LIVES[of] is None:
        return None
    return end if LIVES[of][1] is None else made + LIVES[of][1]


def living(of, now, roots=tuple(ENDS)):
    return [root for root in roots if (end := end_of(of, root)) is None or end > now]


def roots_of(schema, fields=("made", "end")):
    def at(seconds):
        return None if seconds is None else START + timedelta(seconds=seconds)

    root = named(schema, "Root")
    return [
        root(**{"r": number, fields[0]: at(made), fields[1]: at(end)}) for number, (made, end) in sorted(ENDS.items())
    ]


class Stopped(Exception):
    """A backfill that is stopped."""


def stopped_at_each_step(db):
    """A backfill that is stopped behind each of its steps, and continued each time, until it is done."""
    seen = []

    def stop(progress):
        if progress not in seen:  # a step that wrote nothing is made again
            seen.append(progress)
            raise Stopped

    for _times in range(50):
        with suppress(Stopped):
            return db.backfill(fence=True, wait=0, progress=stop)
    raise AssertionError("a backfill never ends")


def change(url, schema, before, after, clock, index="Recent"):
    """Applies a schema, with the drops that the documentation asks for."""
    drops = ["Root.expiry"] if before[0] != "none" and after[0] == "none" else []
    with migration(url, schema, clock=clock) as asked:
        text = str(asked.plan(drop=drops))
        asked.apply(drop=drops)
    if before != after:
        for of, name in zip(range(2), ("Root", index), strict=True):
            assert before[of] == after[of] or name in text


def check_transition(url, ttls, clock, run=lambda db: db.backfill(fence=True, wait=0), **named_after):
    """One transition, against what each ttl says by itself."""
    before, after = ttls
    old, new = transition(before), transition(after, **named_after)
    index, fields = named_after.get("index", "Recent"), named_after.get("fields", ("made", "end"))
    with connect(url, old, workers=0, clock=clock) as db:
        db.save_all(roots_of(old))
        clock.set(START + timedelta(seconds=CHANGED_AT))
    change(url, new, before, after, clock, named_after.get("stored_as") or index)
    of_model, of_index = after
    with connect(url, new, workers=0, clock=clock) as db:
        root, recent, unique = (named(new, name) for name in ("Root", index, "Named"))
        there = living(of_model, CHANGED_AT)
        assert [each.r for each in db.page(root)] == there
        assert run(db).done
        assert db.verify().found == {}
        listed = living(of_index, CHANGED_AT, there)
        assert sorted(row.source.key[0] for row in db.page(recent)) == listed
        assert [each for each in ENDS if db.find(unique, each) is not None] == there
        assert db.sweep().deleted == len(ENDS) - len(there)
        assert db.verify().found == {}
        assert rows_in(db) == expected_rows(recent, after, there, listed)
        db.save_all([each for each in roots_of(new, fields) if each.r in there])
        clock.set(START + timedelta(seconds=SWEPT_AT))
        left = living(of_model, SWEPT_AT)
        shown = living(of_index, SWEPT_AT, left)
        assert [each.r for each in db.page(root)] == left
        gone = [each for each in listed if each in left and each not in shown]
        swept, formers = db.sweep(), former_generations(db)
        assert swept.deleted == len(there) - len(left)
        assert swept.removed >= len(gone)  # rows of the former generation expire too
        assert swept.removed == len(gone) or formers
        assert db.verify().found == {}
        assert rows_in(db) == expected_rows(recent, after, left, shown)
        assert db.sweep() == Swept()
        db.save_all(roots_of(new, fields))  # again, and by the other ttl
        assert db.verify().found == {}
        rows = rows_in(db)
    if formers:
        drop_formers(url, new, formers, clock=clock)
        with connect(url, new, workers=0, clock=clock) as db:
            assert run(db).done
            assert db.verify().found == {}
            assert all_rows_in(db) == rows


def rows_in(db):
    """How many rows each view has, as `all_rows_in`, but for former generations."""
    return {name: rows for name, rows in all_rows_in(db).items() if "~" not in name}


def all_rows_in(db):
    """How many rows each view has, but for those that were removed and are not purged."""
    names = PrefixNames(db.run(stored_schema()))
    rows = db.run(Scan("views", RowRange(b"", b""), 1000, families="d").__iter__())
    found = Counter(names.of("views", prefix_of("views", key)) for key, _row in rows)
    assert not [name for name, standing in found if standing in ("retired", "unknown")]
    return {name: rows for (name, _standing), rows in found.items() if name[0].isupper()}


def expected_rows(recent, ttls, entities, listed):
    """The rows of each view; `entities` live, `listed` of them are in the index."""
    name = getattr(recent, "stored_as", None) or recent.__name__
    expected = {"Named": len(entities), name: len(listed)}
    for of, owner, there in zip(ttls, ("Root", name), (entities, listed), strict=True):
        expected[f"{owner}.expiry"] = sum(end_of(of, root) is not None for root in there)
    return {name: rows for name, rows in expected.items() if rows}


@pytest.mark.parametrize("before", TTLS, ids=" ".join)
def test_every_change_of_two_ttls_is_built_and_swept(kind_of_store, new_url, before):
    """On stores other than memory a third of them, which takes as long."""
    for after in TTLS if kind_of_store == "memory" else TTLS[TTLS.index(before) % 3 :: 3]:
        check_transition(new_url(), (before, after), Clock())


@pytest.mark.parametrize("before", [("none", "30 s"), ("30 s", "30 s"), ("end", "40 s")], ids=" ".join)
@pytest.mark.parametrize("after", [("end", "30 s"), ("40 s", "40 s"), ("none", "none"), ("end", "none")], ids=" ".join)
def test_a_backfill_of_changed_ttls_resumes(new_url, before, after):
    check_transition(new_url(), (before, after), Clock(), stopped_at_each_step)


@pytest.mark.parametrize("before", [("none", "30 s"), ("end", "40 s")], ids=" ".join)
def test_fields_of_ttls_may_be_renamed_with_any_change(new_url, before):
    for after in TTLS:
        check_transition(new_url(), (before, after), Clock(), fields=("born", "lapses"))


@pytest.mark.parametrize("before", [("none", "30 s"), ("end", "40 s")], ids=" ".join)
def test_an_index_with_a_ttl_may_be_renamed_with_any_change(new_url, before):
    for after in TTLS:
        check_transition(new_url(), (before, after), Clock(), index="Newest", stored_as="Recent")


@pytest.mark.parametrize("ttls", [ttls for ttls in TTLS if ttls[1] != "none"], ids=" ".join)
def test_a_change_of_something_else_keeps_an_index_with_a_ttl(url, ttls, clock):
    before = transition(ttls)
    with connect(url, before, workers=0, clock=clock) as db:
        db.save_all(roots_of(before))

    class Other(Model[int]):
        number: Key[int]

    with connect(url, Schema(*before.models, *before.views, Other), workers=0, clock=clock) as db:
        assert "building" not in db.survey().views.values()
        assert len(db.page(named(before, "Recent"))) == len(ENDS)
        clock.tick(SWEPT_AT)
        assert db.sweep().removed == len(living(ttls[0], SWEPT_AT))
        assert db.verify().found == {}


def test_two_changes_of_a_ttl_need_one_backfill(url, clock):
    steps = [("none", "30 s"), ("none", "40 s"), ("end", "30 s"), ("end", "40 s")]
    schema = transition(steps[0])
    with connect(url, schema, workers=0, clock=clock) as db:
        db.save_all(roots_of(schema))
    for ttls in steps[1:]:
        schema = transition(ttls)
        with connect(url, schema, workers=0, clock=clock) as db:
            if ttls[0] == "none":  # the former generation answers
                assert len(db.page(named(schema, "Recent"))) == len(ENDS)
            else:  # its rows depend on the ttl of the model
                with pytest.raises(NotReady):
                    db.page(named(schema, "Recent"))
    with connect(url, schema, workers=0, clock=clock) as db:
        assert db.backfill(fence=True).done
        assert db.verify().found == {}
        assert rows_in(db)["Recent.expiry"] == len(ENDS)


def test_an_index_with_a_ttl_goes_by_its_name_alone(url, clock):
    schema = transition(("end", "30 s"))
    with connect(url, schema, workers=0, clock=clock) as db:
        db.save_all(roots_of(schema))
    without = Schema(*schema.models, named(schema, "Named"))
    with migration(url, without, clock=clock) as asked:
        asked.apply(drop=["Recent"])
    with connect(url, without, workers=0, clock=clock) as db:
        assert db.backfill(fence=True).done
        assert set(rows_in(db)) == {"Named", "Root.expiry"}
        assert db.verify().found == {}


def test_a_model_with_a_ttl_goes_by_its_name_alone(url, clock):
    class Other(Model[int]):
        number: Key[int]
        at: datetime | None = None
        ttl = expires("at")

    schema = transition(("end", "30 s"))
    with connect(url, Schema(*schema.models, *schema.views, Other), workers=0, clock=clock) as db:
        db.save_all(roots_of(schema))
    with migration(url, schema, clock=clock) as asked:
        asked.apply(drop=["Other"])
    with connect(url, schema, workers=0, clock=clock) as db:
        assert "Other.expiry" not in db.survey().views
        assert db.verify().found == {}


@pytest.mark.parametrize("has_ttl", [False, True], ids=["a field called as its index", "a ttl"])
def test_an_index_with_a_ttl_may_become_an_aggregate(url, clock, has_ttl):
    schema = transition(("none", "30 s"))
    root = named(schema, "Root")
    name, option = ("first", {"ttl": expires(root.made, after=timedelta(seconds=30))}) if has_ttl else ("expiry", {})
    options = {"r": by(root.r), name: least(root.made)} | option
    types = {"r": int, name: datetime | None}
    other = Schema(root, named(schema, "Named"), declare("Recent", Aggregate[root], types, options))
    with connect(url, schema, workers=0, clock=clock) as db:
        db.save_all(roots_of(schema))
    for each in (other, schema):
        with migration(url, each, clock=clock) as asked:
            asked.apply() if each is other else asked.rollback()
        with connect(url, each, workers=0, clock=clock) as db:
            assert db.backfill(fence=True).done
            assert db.verify().found == {}
            assert rows_in(db)["Recent.expiry"] == len(ENDS)
    clock.tick(SWEPT_AT)
    with connect(url, schema, workers=0, clock=clock) as db:
        assert db.sweep().removed == len(ENDS)
        assert db.verify().found == {}


@pytest.mark.parametrize(
    ("before", "after"), [(("none", "30 s"), ("end", "40 s")), (("none", "none"), ("end", "30 s"))]
)
def test_changed_ttls_are_rolled_back(url, before, after, clock):
    old, new = transition(before), transition(after)
    with connect(url, old, workers=0, clock=clock) as db:
        db.save_all(roots_of(old))
    with connect(url, new, workers=0, clock=clock) as db:
        assert db.backfill(fence=True).done
    with migration(url, old, clock=clock) as asked:
        asked.rollback()
    with connect(url, old, workers=0, clock=clock) as db:
        assert db.backfill(fence=True).done
        assert db.verify().found == {}
        clock.tick(SWEPT_AT)
        assert db.sweep() == Swept(removed=0 if before[1] == "none" else len(ENDS))
        assert db.verify().found == {}


@pytest.mark.parametrize("after", [None, timedelta(seconds=60)])
def test_what_lives_again_may_have_lost_its_unique_value(url, after, clock):
    def of(life):
        class Session(Model[int]):
            number: Key[int]
            name: str
            made: datetime
            ttl = None if life is None else expires("made", after=life)

        class SessionOfName(Index[Session]):
            unique = True
            name: str = by(Session.name)

        return Schema(Session, SessionOfName)

    before, schema = of(timedelta(seconds=30)), of(after)
    with connect(url, before, workers=0, clock=clock) as db:
        session = named(before, "Session")
        db.save(session(number=1, name="ada", made=clock.now))
        clock.tick(33)
        db.save(session(number=2, name="ada", made=clock.now))
    with migration(url, schema, clock=clock) as asked:
        asked.apply(drop=[] if after else ["Session.expiry"])
    with connect(url, schema, workers=0, clock=clock) as db:
        found = db.backfill(fence=True)
        assert not found.done
        assert [each.entity for each in found.refusals] == ["Session(2)"]
        assert "owner='Session(1)'" in found.refusals[0].reason
        db.delete(named(schema, "Session"), 1)
        assert db.backfill(fence=True).done
        assert db.find(named(schema, "SessionOfName"), "ada").source.key == (2,)
        assert db.verify().found == {}
