"""Views that are watched, and models that are logged, under stored data, or not any more.

Nothing is built again, and older programs are refused.
"""

from datetime import timedelta

import msgspec
import pytest

from oneread import Aggregate, Index, Key, Model, Schema, by, connect, count, migration, shown
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import Expired, InvalidDeclaration, InvalidQuery, SchemaMismatch
from oneread.models import versions
from oneread.store.requests import Read, Scan
from oneread.store.rows import VALUE
from oneread.transactions.change_log import LOGS
from oneread.transactions.system_rows import SCHEMA_ROW
from tests.unit.evolution.stores import drop_formers, end_lease, former_generations

HOUR = timedelta(hours=1)
LOGGED = pytest.mark.parametrize("of", ["view", "model"])


def declared(kept=None, *, of="view", extra=False, further=False, shows=True, name="PostsOf"):
    """A schema of posts by author, whose list is watched, or which are logged.

    Its classes are new ones each time, as those of another release.
    """

    class Post(Model[int]):
        number: Key[int]
        author: str = "ada"
        title: str = ""

    if shows:

        class PostsOf(Index[Post]):
            stored_as = "PostsOf"
            author: str = by(Post.author)
            title: str = shown(Post.title)

    else:

        class PostsOf(Index[Post]):
            stored_as = "PostsOf"
            author: str = by(Post.author)

    if of == "model":
        Post.logged = kept
    else:
        PostsOf.watched = kept
    PostsOf.__name__ = PostsOf.__qualname__ = name

    class Titles(Index[Post]):
        title: str = by(Post.title)

    return Schema(Post, PostsOf, *((Titles,) if extra else ()), *((groups(Post),) if further else ()))


@pytest.fixture
def keep(url):
    """Keeps a store of this name in memory while the test opens it several times."""
    with connect(url, declared(), workers=0) as db:
        yield db


def opened(url, schema, **options):
    db = connect(url, schema, workers=0, **options)
    db.post = schema.models[0]
    db.posts = db.post if db.post.logged else schema.views[0]
    return db


def following(db, cursor):
    batches = db.changes(db.posts, cursor=cursor, wait=0, pace=0.01)
    return [(each.source.key[0], each.row and each.row.title) for each in next(batches)]


def logs(db):
    """The keys of the rows of all logs."""
    return [key for key, _row in db.run(Scan("system", LOGS, 1000).__iter__())]


@LOGGED
def test_a_log_builds_nothing_again_and_refuses_older_writers(keep, url, of):
    post = keep.operations.catalog.models[0]
    keep.save(post(number=1))
    with opened(url, declared(HOUR, of=of)) as db:
        assert not db.survey().unfinished
        assert len(db.page(db.posts)) == 1
        cursor = db.changes_cursor(db.posts)
        end_lease(keep)
        with pytest.raises(SchemaMismatch):  # it would not log what it writes
            keep.save(post(number=2))
        db.save(db.post(number=3))
        assert following(db, cursor) == [(3, "")]
        assert not db.verify().faults
    with pytest.raises(SchemaMismatch):
        connect(url, declared(), workers=0)


@LOGGED
@pytest.mark.usefixtures("keep")
def test_a_different_time_to_keep_leaves_the_schema_as_it_is(url, of):
    with opened(url, declared(HOUR, of=of)) as hour, opened(url, declared(2 * HOUR, of=of)) as two:
        cursor = hour.changes_cursor(hour.posts)
        two.save(two.post(number=1))
        hour.save(hour.post(number=2))
        assert following(hour, cursor) == [(1, ""), (2, "")]
        assert hour.run(stored_schema()).version == two.run(stored_schema()).version


@LOGGED
@pytest.mark.usefixtures("keep")
def test_a_program_that_follows_is_refused_once_a_newer_one_does_not_log(url, of):
    with opened(url, declared(HOUR, of=of)) as db:
        cursor = db.changes_cursor(db.posts)
        db.save(db.post(number=1))
        assert len(logs(db)) == 2
        with opened(url, declared(extra=True)) as newer:
            newer.save(newer.post(number=2))
            assert len(logs(newer)) == 2  # no more
            with pytest.raises(SchemaMismatch, match="does not watch or log this any more"):
                following(db, cursor)
            with pytest.raises(SchemaMismatch):
                db.changes_cursor(db.posts)
            assert len(db.page(db.posts)) == 2  # a page is as right as before
            assert newer.sweep().changes == 2
            assert not logs(newer)
            assert not newer.verify().faults


@LOGGED
@pytest.mark.usefixtures("keep")
def test_a_cursor_from_before_a_time_without_a_log_is_expired(url, of):
    secret = {"cursor_secret": b"s" * 32}
    with opened(url, declared(HOUR, of=of), **secret) as db:
        cursor = db.changes_cursor(db.posts)
    with opened(url, declared(extra=True)) as unwatched:
        unwatched.save(unwatched.post(number=1))
    with opened(url, declared(HOUR, of=of, extra=True, further=True), **secret) as db:
        db.save(db.post(number=2))
        with pytest.raises(Expired, match="read the page again"):
            following(db, cursor)
        assert following(db, db.changes_cursor(db.posts)) == []


def groups(post):
    class Authors(Aggregate[post]):
        author: str = by(post.author)
        posts: int = count()

    return Authors


@LOGGED
@pytest.mark.usefixtures("keep")
def test_a_rollback_ends_the_log(url, of):
    with opened(url, declared(HOUR, of=of)) as db:
        db.save(db.post(number=1))
        migration(url, declared()).rollback()
        with pytest.raises(SchemaMismatch):
            db.changes_cursor(db.posts)
        with opened(url, declared()) as older:
            older.save(older.post(number=2))
            stored = older.run(stored_schema())
            assert (stored.views["PostsOf"].watched, stored.logged) == (0, {})


@pytest.mark.usefixtures("keep")
def test_a_new_generation_has_another_log_and_its_cursors_say_so(url):
    secret = {"cursor_secret": b"s" * 32}
    with opened(url, declared(HOUR), **secret) as db:
        db.save(db.post(number=1))
        cursor = db.changes_cursor(db.posts)
    with opened(url, declared(HOUR, shows=False), **secret) as db:
        db.backfill()
        with pytest.raises(Expired, match="rebuilt"):
            following(db, cursor)
        before = len(logs(db))
        db.save(db.post(number=2, author="eve"))
        assert len(logs(db)) == before + 2  # and that of the former generation, which older programs follow
        assert not db.verify().faults
        formers = former_generations(db)
    drop_formers(url, declared(HOUR, shows=False), formers)
    with opened(url, declared(HOUR, shows=False), **secret) as db:
        assert db.sweep().changes == 3  # those of the former generation
        assert not db.verify().faults


@pytest.mark.usefixtures("keep")
def test_a_view_that_is_dropped_loses_its_log(url):
    with opened(url, declared(HOUR, extra=True)) as db:
        db.save(db.post(number=1))
        assert logs(db)
    rest = declared(extra=True)
    migration(url, Schema(rest.models[0], rest.views[1])).apply(drop=["PostsOf"])
    with connect(url, Schema(rest.models[0], rest.views[1]), workers=0) as db:
        assert db.sweep().changes == 2
        assert not logs(db)


@pytest.mark.usefixtures("keep")
def test_a_renamed_class_keeps_its_log(url):
    secret = {"cursor_secret": b"s" * 32}
    with opened(url, declared(HOUR), **secret) as db:
        cursor = db.changes_cursor(db.posts)
        db.save(db.post(number=1, title="one"))
    with opened(url, declared(HOUR, name="PostsOfAuthor"), **secret) as db:
        assert following(db, cursor) == [(1, "one")]


def test_a_view_that_is_being_built_is_not_followed(keep, url):
    keep.save(keep.operations.catalog.models[0](number=1))
    later = declared(extra=True)
    later.views[1].watched = HOUR
    with connect(url, Schema(*later.models, *later.views), workers=0) as db:
        with pytest.raises(Exception, match="not built yet"):
            db.changes_cursor(later.views[1])
        db.backfill(quiet=0)
        cursor = db.changes_cursor(later.views[1])
        db.save(later.models[0](number=2, title="two"))
        batches = db.changes(later.views[1], cursor=cursor, wait=0)
        assert [each.source.key for each in next(batches)] == [(2,)]


@pytest.mark.usefixtures("keep")
def test_a_program_that_only_adds_a_field_follows_and_is_followed(url):
    class Post(Model[int]):
        number: Key[int]
        author: str = "ada"
        title: str = ""
        note: str = ""

    class PostsOf(Index[Post]):
        watched = HOUR
        author: str = by(Post.author)
        title: str = shown(Post.title)

    with opened(url, declared(HOUR)) as older:
        cursor = older.changes_cursor(older.posts)
        with connect(url, Schema(Post, PostsOf), workers=0) as newer:
            newer.save(Post(number=1, note="!"))
            older.save(older.post(number=2))
            assert following(older, cursor) == [(1, ""), (2, "")]


@pytest.mark.usefixtures("keep")
def test_the_plan_of_a_migration_says_what_watching_means(url):
    planned = migration(url, declared(HOUR)).plan()
    assert "watched" in repr(planned)


@pytest.mark.parametrize(
    "wrong", [True, 60, 1.5, "1h", HOUR * 0, timedelta(milliseconds=999), timedelta(days=367), -HOUR]
)
def test_wrong_times_are_refused(wrong):
    with pytest.raises(InvalidDeclaration, match=r"watched = timedelta\(hours=1\)"):
        declared(wrong)


def test_groups_are_watched_through_an_index():
    later = declared()
    view = groups(later.models[0])
    view.watched = HOUR
    with pytest.raises(InvalidDeclaration, match="watch an index over it"):
        Schema(later.models[0], view)


def test_a_field_cannot_be_called_watched():
    (post,) = declared().models
    with pytest.raises(InvalidDeclaration):

        class Posts(Index[post]):
            watched: str = by(post.author)


def test_what_is_not_watched_is_not_followed(url):
    with opened(url, declared()) as db, pytest.raises(InvalidQuery):
        following(db, None)


@pytest.mark.usefixtures("keep")
def test_a_plan_says_that_a_model_is_logged(url):
    plan = migration(url, declared(HOUR, of="model")).plan()
    (difference,) = [each for each in plan.differences if each.field == "logged"]
    assert (difference.name, difference.before, difference.after) == ("Post", "not logged", "logged")


def format_of(db):
    (row,) = db.run(Read("system", [SCHEMA_ROW]).__iter__())
    return msgspec.msgpack.decode(row[VALUE].value)["format"]


def test_a_release_that_knows_no_logs_of_entities_is_refused_while_there_is_one(keep, url):
    assert format_of(keep) == versions.FORMAT  # any release of this format may open it
    with opened(url, declared(HOUR, of="model")) as db:
        assert format_of(db) == versions.FORMAT + 1
    with opened(url, declared(extra=True)) as db:
        assert format_of(db) == versions.FORMAT
