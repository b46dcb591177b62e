"""A log of entities: which of a model were written, made to follow a source, or deleted, since a cursor."""

from datetime import UTC, datetime, timedelta

import pytest

from oneread import (
    GENERATED,
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Schema,
    by,
    count,
    expires,
    rollup,
    shown,
)
from oneread.errors import Expired, InvalidDeclaration, InvalidQuery
from oneread.testing.clock import Clock
from tests.unit.database.faces import FACES

WEEK = timedelta(days=7)
START = datetime(2026, 1, 1, tzinfo=UTC)


class Author(Model[int]):
    number: Key[int]
    name: str = ""
    born_in: str = ""


class By(Copy[Author]):
    name: str


class Origin(Copy[Author]):
    """No list shows it."""

    born_in: str


class Post(Model[int, int]):
    logged = WEEK
    child_of = "Topic"

    topic: Key[int]
    number: Key[int] = GENERATED
    author: By
    origin: Origin
    text: str = ""


class PostsOfTopic(Aggregate[Post]):
    topic: int = by(Post.topic)
    posts: int = count()


class Topic(Model[int]):
    logged = WEEK

    topic: Key[int]
    title: str = ""
    posts: int = rollup(PostsOfTopic.posts)


class PostsOfAuthor(Index[Post]):
    author: By = by(Post.author)
    text: str = shown(Post.text)


class Event(Model[str]):
    logged = timedelta(hours=1)
    ttl = expires("ends_at")
    spread = 3

    name: Key[str]
    ends_at: datetime | None = None
    note: str = ""


class Concert(Event):
    band: str = ""


class Silent(Model[int]):
    number: Key[int]


class Loud(Model[int]):
    """As `Silent`, but logged."""

    logged = timedelta(seconds=1)

    number: Key[int]


SCHEMA = Schema(Author, Topic, Post, PostsOfTopic, PostsOfAuthor, Event, Concert, Silent, Loud, inline=2)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=FACES.values(), ids=FACES)
def db(request, url, clock):
    db = request.param(url, SCHEMA, workers=0, clock=clock)
    yield db
    db.drain()
    assert not db.verify().faults
    db.close()


def taken(db, model, cursor, *equal, limit=100):
    """The entities in the log since a cursor, None for one that is gone; and the cursor behind them."""
    found, more = {}, True
    for batch in db.follow(model, *equal, cursor=cursor, limit=limit, wait=0, pace=0.01):
        assert len(batch) <= limit
        found |= {change.key: change.row for change in batch}
        cursor, more = batch.cursor, batch.more
        if not more:
            return found, cursor
    raise AssertionError


def new_post(topic=1, author=1, **more):
    return Post(topic=topic, author=By.of(author), origin=Origin.of(1), **more)


def begin(db, posts=0):
    db.save(Author(number=1, name="ann", born_in="rome"))
    db.save(Topic(topic=1, title="tea"))
    for _ in range(posts):
        db.create(new_post())
    db.drain()


def test_entities_that_are_written_and_deleted_are_logged(db):
    cursor = db.changes_cursor(Event)
    db.save(Event(name="a", note="x"))
    db.create(Event(name="b"))
    db.save(Concert(name="c", band="four"))
    db.patch(Event, "a", note="y")
    db.delete(Event, "b")
    found, cursor = taken(db, Event, cursor)
    assert found == {
        ("a",): Event(name="a", note="y"),
        ("b",): None,
        ("c",): Concert(name="c", band="four"),
    }
    assert not taken(db, Event, cursor)[0]


def test_a_change_says_which_entity_it_is_of(db):
    cursor = db.changes_cursor(Event)
    db.save(Event(name="a"))
    (change,) = next(iter(db.follow(Event, cursor=cursor, wait=0, pace=0.01)))
    assert (change.source, change.is_removed) == (Event.at("a"), False)


def test_an_entity_that_follows_a_source_is_logged(db):
    begin(db, posts=1)
    cursor = db.changes_cursor(Post)
    db.patch(Author, 1, name="bea")  # an index shows it
    found, cursor = taken(db, Post, cursor)
    assert found[1, 1].author.name == "bea"
    db.patch(Author, 1, born_in="oslo")  # nothing but the copy does
    found, cursor = taken(db, Post, cursor)
    assert found[1, 1].origin.born_in == "oslo"


def test_entities_that_follow_in_a_task_are_logged(db):
    begin(db, posts=7)
    cursor = db.changes_cursor(Post)
    db.patch(Author, 1, name="bea", born_in="oslo")
    db.drain()
    found, cursor = taken(db, Post, cursor, limit=3)
    assert {key: (each.author.name, each.origin.born_in) for key, each in found.items()} == {
        (1, number): ("bea", "oslo") for number in range(1, 8)
    }


def test_an_entity_whose_total_changes_is_logged_and_the_root_of_a_child_that_changes_is_not(db):
    begin(db, posts=1)
    cursor = db.changes_cursor(Topic)
    db.patch(Post, 1, 1, text="hello")
    assert taken(db, Topic, cursor)[0] == {}
    db.create(new_post())
    db.drain()
    assert taken(db, Topic, cursor)[0] == {(1,): Topic(topic=1, title="tea", posts=2)}


def test_children_of_one_root_are_followed_by_its_key(db):
    begin(db)
    db.save(Topic(topic=2))
    cursor = db.changes_cursor(Post)
    db.create(new_post(text="in one"))
    db.create(new_post(2, text="in two"))
    found, _cursor = taken(db, Post, cursor, 2)
    assert {key: each.text for key, each in found.items()} == {(2, 1): "in two"}


def test_variants_are_followed_by_their_class(db):
    cursor = db.changes_cursor(Concert)
    db.save(Event(name="a"))
    db.save(Concert(name="c", band="four"))
    assert taken(db, Concert, cursor)[0] == {("a",): None, ("c",): Concert(name="c", band="four")}


def test_an_entity_that_has_expired_is_gone_and_its_sweep_is_logged(db, clock):
    cursor = db.changes_cursor(Event)
    db.save(Event(name="a", ends_at=clock.now + timedelta(minutes=1)))
    found, swept = taken(db, Event, cursor)
    assert found["a",] is not None
    clock.tick(60)
    assert taken(db, Event, cursor)[0] == {("a",): None}
    db.sweep()
    assert taken(db, Event, swept)[0] == {("a",): None}


def test_what_was_logged_is_kept_for_its_time(db, clock):
    cursor = db.changes_cursor(Loud)
    db.save(Loud(number=1))
    assert db.sweep().changes == 0
    clock.tick(2)
    assert db.sweep().changes == 1
    with pytest.raises(Expired, match="not kept any more"):
        taken(db, Loud, cursor)


def test_a_model_without_a_log_is_not_followed(db):
    for verb in (db.changes_cursor, lambda model: taken(db, model, None)):
        with pytest.raises(InvalidQuery, match="this model is not logged"):
            verb(Silent)


def test_a_save_that_is_refused_logs_nothing(db):
    begin(db)
    cursor = db.changes_cursor(Post)
    with pytest.raises(Exception, match="does not exist"):
        db.create(new_post(author=77))
    assert taken(db, Post, cursor)[0] == {}


@pytest.mark.parametrize("kept", [7, "a week", timedelta(0), timedelta(days=400), timedelta(seconds=-1)])
def test_a_wrong_time_is_refused(kept):
    class Wrong(Model[int]):
        logged = kept
        number: Key[int]

    with pytest.raises(InvalidDeclaration, match=r"logged: expected how long .* logged = timedelta\(days=7\)"):
        Schema(Wrong)


def test_the_word_for_the_other_kind_of_declaration_is_refused():
    class Watched(Model[int]):
        watched = WEEK
        number: Key[int]

    class Logged(Index[Silent]):
        logged = WEEK
        number: int = by(Silent.number)

    with pytest.raises(InvalidDeclaration, match="write logged = timedelta"):
        Schema(Watched)
    with pytest.raises(InvalidDeclaration, match="write watched = timedelta"):
        Schema(Silent, Logged)


def test_a_variant_is_logged_as_its_model_is():
    class Talk(Event):
        logged = WEEK

    with pytest.raises(InvalidDeclaration, match="leave logged to the model"):
        Schema(Event, Talk)
