"""A ttl that is added, changed or removed under stored data, and what is repaired and built of what has expired."""

from datetime import datetime, timedelta

import pytest

from oneread import Aggregate, Index, Key, Model, Schema, by, connect, count, expires, migration, newest, renamed, shown
from oneread.database.expiry_sweep import Swept
from oneread.errors import NotReady, SchemaMismatch
from oneread.plans.effects import Atomically
from oneread.store.requests import Replace, Scan
from oneread.store.rows import RowRange
from oneread.testing.clock import START, Clock


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
def opened(tmp_path, clock):
    return lambda schema: connect(f"lmdb://{tmp_path}/posts?durability=none", schema, workers=0, clock=clock)


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


def test_a_removed_ttl_lets_live_what_was_not_swept(opened, clock, tmp_path):
    with_ttl, without = declared(ttl=expires("made_at", after=timedelta(seconds=10))), declared()
    with opened(with_ttl) as db:
        db.save_all(posts(with_ttl, 1, 2, 3))
        clock.tick(12)
        assert db.sweep(limit=1) == Swept(deleted=1)
    with pytest.raises(SchemaMismatch, match=r"view='Post.expiry'"):
        opened(without)
    with migration(f"lmdb://{tmp_path}/posts?durability=none", without, clock=clock) as change:
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
        with pytest.raises(NotReady):
            db.page(named(after, "PostsOf"), "ada")
        assert db.backfill().done
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

        def remove():
            rows = yield from Scan("views", RowRange.under(prefix), 1)
            yield from Replace("views", {rows[0][0]: None})

        db.run(Atomically(remove).__iter__())
        assert db.verify().found  # it is in the record, so it must be there until it is swept
        db.repair()
        assert db.verify().faults == ()
        clock.tick(10)
        assert db.sweep() == Swept(deleted=2)
        assert db.verify().faults == ()


def test_the_plan_names_what_a_ttl_changes(tmp_path, clock):
    url = f"lmdb://{tmp_path}/posts?durability=none"
    before, after = declared(), declared(ttl=expires("ends_at"))
    with connect(url, before, workers=0, clock=clock) as db:
        db.save_all(posts(before, 1))
    text = str(migration(url, after).plan())
    assert "Post.expiry" in text
    assert "PostsOf" in text
