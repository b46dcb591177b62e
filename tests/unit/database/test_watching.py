"""What changed in a page's range since a cursor: which rows, how often, and what that costs."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oneread import (
    Aggregate,
    Copy,
    Feed,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    any_of,
    by,
    connect,
    count,
    descending,
    expires,
    newest,
    on,
    shown,
)
from oneread.database import watching
from oneread.database.cursors import Cursor
from oneread.errors import Closed, Expired, InvalidCursor, InvalidKey, InvalidQuery, UsageError
from oneread.plans.effects import Atomically
from oneread.store.requests import Read, Replace, Scan
from oneread.store.rows import RowRange
from oneread.testing.clock import Clock
from oneread.transactions.change_log import KEYS_OF_ENTRY, entries_from
from tests.unit.database.faces import FACES

START = datetime(2026, 1, 1, tzinfo=UTC)


class Author(Model[int]):
    number: Key[int]
    name: str = ""


class By(Copy[Author]):
    name: str


class Post(Model[int]):
    number: Key[int]
    room: str
    author: By
    made_at: datetime = START
    title: str = ""
    note: str = ""
    tags: frozenset[str] = frozenset()
    gone_at: datetime | None = None
    ttl = expires("gone_at")


class PostsOfRoom(Index[Post]):
    watched = timedelta(hours=1)

    room: str = by(Post.room)
    made_at: datetime = newest(Post.made_at)
    title: str = shown(Post.title)
    author: By = shown(Post.author)


class Titles(Index[Post]):
    title: str = by(Post.title)


class Rooms(Aggregate[Post]):
    room: str = by(Post.room)
    posts: int = count()


class LargestRooms(Index[Rooms]):
    watched = timedelta(hours=1)

    posts: int = descending(Rooms.posts)
    room: str = shown(Rooms.room)


class RoomOfTitle(Index[Post]):
    """Hashed, so that the key has no value to show."""

    watched = timedelta(minutes=1)

    title: str = by(Post.title, hashed=True)


SCHEMA = Schema(Author, Post, PostsOfRoom, Titles, Rooms, LargestRooms, RoomOfTitle, inline=2)


def post(number, room="a", **more):
    return Post(number=number, room=room, author=By.of(1), **({"made_at": START + timedelta(hours=number)} | more))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=FACES.values(), ids=FACES)
def db(request, url, clock):
    db = request.param(url, SCHEMA, workers=0, clock=clock)
    db.save(Author(number=1, name="Ada"))
    yield db
    db.close()


@pytest.fixture
def plain(url, clock):
    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        db.save(Author(number=1, name="Ada"))
        yield db


def changes(db, view, *equal, **named):
    """The next batch from a cursor on."""
    follow = getattr(db, "follow", None) or db.changes
    batches = follow(view, *equal, **({"wait": 0, "pace": 0.01} | named))
    try:
        return next(batches)
    finally:
        batches.close()


def read(batch):
    """Of each change, the source's key, and the title of the row if there is one."""
    return [(each.source.key[0], None if each.row is None else each.row.title) for each in batch]


# --- Which rows ------------------------------------------------------------------------------------------------------


def test_what_is_put_changed_and_removed_is_followed(db):
    db.save(post(1, title="one"))
    cursor = db.changes_cursor(PostsOfRoom)
    db.save(post(2, title="two"))
    db.patch(Post, 1, title="ONE")
    batch = changes(db, PostsOfRoom, "a", cursor=cursor)
    assert read(batch) == [(2, "two"), (1, "ONE")]  # in the order of the page
    db.delete(Post, 2)
    batch = changes(db, PostsOfRoom, "a", cursor=batch.cursor)
    assert read(batch) == [(2, None)]
    (change,) = batch
    assert change.is_removed
    assert change.key == ("a", START + timedelta(hours=2))
    assert change.source == Post.at(2)
    assert repr(change.source) == "Post.at(2)"
    batch = changes(db, PostsOfRoom, "a", cursor=batch.cursor)
    assert not batch
    assert not batch.more


def test_the_row_is_as_a_page_shows_it(db):
    cursor = db.changes_cursor(PostsOfRoom)
    db.save(post(1, title="one"))
    (change,) = changes(db, PostsOfRoom, cursor=cursor)
    (row,) = db.page(PostsOfRoom, "a")
    assert change.row == row
    assert change.source == row.source
    assert type(change.source) is type(row.source)


def test_several_changes_of_a_row_are_one_and_it_is_as_it_is_now(db):
    cursor = db.changes_cursor(PostsOfRoom)
    for title in "abc":
        db.save(post(1, title=title))
    db.save(post(2, title="x"))
    db.delete(Post, 2)
    assert read(changes(db, PostsOfRoom, "a", cursor=cursor)) == [(2, None), (1, "c")]


def test_an_entity_that_moves_is_removed_before_it_is_put(db):
    db.save(post(1, title="one"))
    cursor = db.changes_cursor(PostsOfRoom)
    db.patch(Post, 1, made_at=START)
    batch = changes(db, PostsOfRoom, cursor=cursor)
    assert read(batch) == [(1, None), (1, "one")]
    db.patch(Post, 1, room="b")
    assert read(changes(db, PostsOfRoom, "a", cursor=batch.cursor)) == [(1, None)]
    assert read(changes(db, PostsOfRoom, "b", cursor=batch.cursor)) == [(1, "one")]


def test_what_no_row_shows_is_left_out(db):
    db.save(post(1))
    cursor = db.changes_cursor(PostsOfRoom)
    db.patch(Post, 1, note="!")
    db.save(db.get(Post, 1))
    assert not changes(db, PostsOfRoom, cursor=cursor)
    assert stored(db, PostsOfRoom) == 1


def test_ranges_are_those_of_pages(db):
    cursor = db.changes_cursor(PostsOfRoom)
    db.save_all([post(number, room) for number, room in enumerate("aabbc")])

    def found(*equal, **bounds):
        return [each.source.key[0] for each in changes(db, PostsOfRoom, *equal, cursor=cursor, **bounds)]

    assert found() == [1, 0, 3, 2, 4]
    assert found("b") == [3, 2]
    assert found(any_of("a", "c")) == [1, 0, 4]
    assert found("a", since=START + timedelta(hours=1)) == [1]
    assert found("b", until=START + timedelta(hours=3)) == [2]
    assert found("b", through=START + timedelta(hours=3), after=START + timedelta(hours=2)) == [3]
    assert found(starts_with="c") == [4]
    assert found("nowhere") == []


def test_copies_that_follow_in_a_commit_and_in_a_task_are_changes(db):
    db.save_all([post(number) for number in range(5)])  # more than `inline`
    cursor = db.changes_cursor(PostsOfRoom)
    db.patch(Author, 1, name="Eve")
    assert not changes(db, PostsOfRoom, cursor=cursor)
    assert db.drain()
    batch = changes(db, PostsOfRoom, cursor=cursor)
    assert {each.row.author.name for each in batch} == {"Eve"}
    assert len(batch) == 5


def test_an_index_over_groups_is_followed(db):
    cursor = db.changes_cursor(LargestRooms)
    db.save(post(1))
    db.save(post(2))
    batch = changes(db, LargestRooms, cursor=cursor)
    assert [(each.source, each.key, each.row and each.row.posts) for each in batch] == [
        (Ref(("a",)), (1,), None),
        (Ref(("a",)), (2,), 2),
    ]
    assert batch.rows[0].source.refers_to is Rooms


class Member(Model[int]):
    number: Key[int]


class Group(Model[int]):
    number: Key[int]


class Membership(Model[int, int]):
    group: Key[int]
    who: Key[int]
    member: Ref[Member]
    of: Ref[Group]


class Item(Model[int]):
    number: Key[int]
    group: Ref[Group]
    at: datetime
    title: str = ""


class Home(Feed[Item]):
    watched = timedelta(hours=1)

    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Item.at)
    title: str = shown(Item.title)

    joined = on(Item.group, Membership.of)
    expires_after = timedelta(days=1)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_feed_is_followed_and_leaves_out_what_its_page_does(face, url, clock):
    db = face(url, Schema(Member, Group, Membership, Item, Home), workers=0, clock=clock)
    db.save_all([Member(number=1), Member(number=2), Group(number=1)])
    cursor = db.changes_cursor(Home)
    db.save(Membership(group=1, who=1, member=Member.at(1), of=Group.at(1)))
    db.save(Item(number=7, group=Group.at(1), at=clock.now, title="one"))
    batch = changes(db, Home, Member.at(1), cursor=cursor)
    assert read(batch) == [(7, "one")]
    assert [each.row for each in batch] == list(db.page(Home, Member.at(1)))
    assert not changes(db, Home, Member.at(2), cursor=cursor)
    clock.tick(2 * 86_400)  # not swept yet
    assert read(changes(db, Home, Member.at(1), cursor=cursor)) == [(7, None)]
    cursor = db.changes_cursor(Home)
    db.save(Item(number=8, group=Group.at(1), at=clock.now, title="two"))
    db.delete(Membership, 1, 1)
    assert (8, None) in read(changes(db, Home, 1, cursor=cursor))
    with pytest.raises(InvalidQuery, match="say whose"):
        changes(db, Home)
    db.close()


def test_the_key_of_a_hashed_value_is_its_digest(db):
    cursor = db.changes_cursor(RoomOfTitle)
    db.save(post(1, title="one"))
    (change,) = changes(db, RoomOfTitle, "one", cursor=cursor)
    assert len(change.key[0]) == 16
    assert change.source == Post.at(1)


def test_what_has_expired_is_removed_by_its_sweep(db, clock):
    cursor = db.changes_cursor(PostsOfRoom)
    db.save(post(1, gone_at=clock.now + timedelta(seconds=10)))
    clock.tick(11)
    assert read(changes(db, PostsOfRoom, cursor=cursor)) == [(1, None)]  # as a page would leave it out
    behind = db.changes_cursor(PostsOfRoom)
    db.sweep()
    assert read(changes(db, PostsOfRoom, cursor=behind)) == [(1, None)]


def test_a_transaction_is_one_entry_and_a_large_one_several(db):
    before = stored(db, PostsOfRoom)
    db.save_all([post(number) for number in range(10)])
    assert stored(db, PostsOfRoom) == before + 1
    db.save_all([post(number) for number in range(10, 11 + KEYS_OF_ENTRY)])
    assert stored(db, PostsOfRoom) == before + 3


def test_a_repair_is_logged(url):
    with connect(url, SCHEMA, workers=0) as db:
        db.save(Author(number=1, name="Ada"))
        db.save(post(1, title="one"))
        view = db.operations.catalog.views[PostsOfRoom]
        (row,) = db.run(Scan("views", RowRange.under(view.prefix), 10).__iter__())
        db.run(Atomically(lambda store: store.replace("views", {row[0]: None})).__iter__())
        cursor = db.changes_cursor(PostsOfRoom)
        db.repair()
        assert read(changes(db, PostsOfRoom, cursor=cursor)) == [(1, "one")]
        assert not db.verify().faults


# --- Batches and cursors ---------------------------------------------------------------------------------------------


def test_batches_are_bounded_and_end_within_an_entry(db):
    cursor = db.changes_cursor(PostsOfRoom)
    db.save_all([post(number, "ab"[number % 2]) for number in range(10)])
    db.save(post(11))
    found = []
    while True:
        batch = changes(db, PostsOfRoom, "a", cursor=cursor, limit=2)
        assert len(batch) <= 2
        found += read(batch)
        cursor = batch.cursor
        if not batch.more:
            break
    assert sorted(number for number, _title in found) == [0, 2, 4, 6, 8, 11]


def test_without_a_cursor_the_first_batch_is_empty_and_has_the_cursor_of_now(db):
    db.save(post(1))
    first = changes(db, PostsOfRoom, wait=60)
    assert not first
    db.save(post(2))
    assert read(changes(db, PostsOfRoom, cursor=first.cursor)) == [(2, "")]


def test_a_follower_waits_for_changes(plain):
    batches = plain.changes(PostsOfRoom, "a", pace=0.01)
    assert not next(batches)
    writer = threading.Timer(0.05, lambda: plain.save(post(1, title="late")))
    writer.start()
    assert read(next(batches)) == [(1, "late")]
    writer.join()


def test_a_follower_of_a_quiet_range_gets_cursors_that_do_not_grow_old(plain, clock):
    batches = plain.changes(PostsOfRoom, "b", pace=0.01, wait=0)
    first = next(batches).cursor
    plain.save(post(1))
    later = next(batches)
    assert not later
    clock.tick(2 * 3600)
    plain.sweep()
    plain.operations.logs.clear()  # as in another process
    with pytest.raises(Expired):
        changes(plain, PostsOfRoom, "b", cursor=first)
    assert not changes(plain, PostsOfRoom, "b", cursor=later.cursor)


def test_a_cursor_is_good_for_each_range_of_its_view_and_no_other(plain):
    plain.save_all([post(number) for number in range(3)])
    cursor = plain.changes_cursor(PostsOfRoom)
    plain.save(post(1, title="x"))
    assert changes(plain, PostsOfRoom, "a", cursor=cursor)
    assert not changes(plain, PostsOfRoom, "b", cursor=cursor)
    for wrong in (
        plain.changes_cursor(LargestRooms),
        plain.page(PostsOfRoom, limit=1).next,
        cursor[:-4] + "AAAA",
        "",
        "x" * 5000,
        b"bytes",
        7,
    ):
        with pytest.raises(InvalidCursor) as refusal:
            changes(plain, PostsOfRoom, cursor=wrong)
        assert not isinstance(refusal.value, Expired)
        assert "not a cursor of the changes of this view" in str(refusal.value)
        assert "PostsOfRoom" in str(refusal.value)
    with pytest.raises(InvalidCursor):
        plain.page(PostsOfRoom, cursor=cursor)


def test_a_cursor_shows_nothing_of_what_it_holds(plain):
    cursor = plain.changes_cursor(PostsOfRoom)
    assert len(cursor) == len(plain.changes_cursor(LargestRooms))
    plain.save(post(1))
    assert plain.changes_cursor(PostsOfRoom)[:30] != cursor[:30]


def test_a_cursor_that_is_ahead_of_a_restored_store_is_expired(plain):
    cipher = plain._cipher
    known = cipher.decrypt(plain.changes_cursor(PostsOfRoom))
    ahead = known.key[:4] + (10**6).to_bytes(8, "big") + known.key[12:]
    cursor = cipher.encode(Cursor(known.view, known.generation, False, known.equality, ahead))
    with pytest.raises(Expired, match="ahead"):
        changes(plain, PostsOfRoom, cursor=cursor)


def test_a_cursor_that_is_not_kept_any_more_says_so(db, clock):
    cursor = db.changes_cursor(PostsOfRoom)
    db.save(post(1))
    clock.tick(3600)
    assert db.sweep().changes == 3  # an entry of each watched view
    with pytest.raises(Expired, match="read the page again") as refusal:
        changes(db, PostsOfRoom, cursor=cursor)
    assert refusal.value.facts == {"view": PostsOfRoom, "kept": timedelta(hours=1)}
    db.save(post(2))
    with pytest.raises(Expired):
        changes(db, PostsOfRoom, cursor=cursor)


# --- Mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_only_watched_views_are_followed(url, face, clock):
    db = face(url, SCHEMA, workers=0, clock=clock)
    for call in (lambda view: changes(db, view), db.changes_cursor):
        for view, option in ((Titles, "watched"), (Rooms, "watched"), (Post, "logged")):
            with pytest.raises(InvalidQuery, match=f"{option} = timedelta"):
                call(view)
        wrong: Any
        for wrong in (None, 7, "PostsOfRoom", Model, [PostsOfRoom], PostsOfRoom.at("a")):
            with pytest.raises(UsageError):
                call(wrong)
    db.close()


def test_a_follower_of_a_closed_database_ends_with_closed(url):
    db = connect(url, SCHEMA, workers=0)
    batches = db.changes(PostsOfRoom, pace=0.01, wait=0)
    next(batches)
    db.close()
    with pytest.raises(Closed):
        next(batches)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"limit": 0}, InvalidQuery),
        ({"limit": 1001}, InvalidQuery),
        ({"limit": "5"}, InvalidQuery),
        ({"limit": True}, InvalidQuery),
        ({"pace": 0}, InvalidQuery),
        ({"pace": -1}, InvalidQuery),
        ({"pace": float("nan")}, InvalidQuery),
        ({"pace": "1"}, InvalidQuery),
        ({"pace": 1e12}, InvalidQuery),
        ({"wait": -0.1}, InvalidQuery),
        ({"wait": None}, InvalidQuery),
        ({"wait": float("inf")}, InvalidQuery),
        ({"since": "x"}, InvalidKey),
    ],
)
def test_wrong_arguments_are_refused(plain, options, error):
    with pytest.raises(error):
        changes(plain, PostsOfRoom, "a", **options)


def test_more_values_than_the_key_has_are_refused(plain):
    with pytest.raises(InvalidKey):
        changes(plain, PostsOfRoom, "a", START, 1, 2)


def test_a_batch_prints_its_rows(plain):
    cursor = plain.changes_cursor(PostsOfRoom)
    plain.save(post(1, title="one"))
    batch = changes(plain, PostsOfRoom, cursor=cursor)
    assert "title='one'" in repr(batch)
    assert batch.cursor in repr(batch)
    assert len(batch) == 1


# --- Costs -----------------------------------------------------------------------------------------------------------

MEASURES = {
    Read: lambda request, _answer: len(request.keys),
    Scan: lambda _request, answer: len(answer),
    Replace: lambda request, _answer: len(request.rows),
}


class Observed:
    """A store that writes down what is asked of it."""

    def __init__(self, url, *views):
        self.asked = []
        self.db = connect(url, Schema(Author, Post, *views), workers=0, observers=(self.observe,))
        self.db.save(Author(number=1))
        self.asked.clear()

    def observe(self, request, answer):
        self.asked.append(f"{type(request).__name__} {request.table} {MEASURES[type(request)](request, answer)}")

    def do(self, act):
        self.asked.clear()
        act(self.db)
        return ", ".join(self.asked)


class Unwatched(Index[Post]):
    room: str = by(Post.room)


class Watched(Index[Post]):
    watched = timedelta(seconds=1)

    room: str = by(Post.room)


def test_what_a_write_costs_where_no_view_is_watched_and_where_one_is(new_url):
    unwatched = Observed(new_url(), Unwatched)
    create = "Read system 1, Read roots 2, Replace roots 1, Replace views "
    assert unwatched.do(lambda db: db.create(post(1))) == f"{create}2"
    unwatched.db.close()
    watched = Observed(new_url(), Unwatched, Watched)
    assert watched.do(lambda db: db.create(post(1))) == (
        "Read system 1, Read roots 2, Read system 1, Scan system 0, Replace roots 1, Replace views 3, Replace system 2"
    )
    assert watched.do(lambda db: db.create(post(2))) == (  # the log has an entry
        "Read system 1, Read roots 2, Read system 1, Replace roots 1, Replace views 3, Replace system 2"
    )
    unchanged = "Read system 1, Read roots 1, Replace roots 1"
    assert watched.do(lambda db: db.patch(Post, 1, note="!")) == unchanged  # no row of a watched view changes
    watched.db.close()


def test_what_following_costs(url):
    store = Observed(url, Watched)
    assert store.do(lambda db: db.changes_cursor(Watched)) == "Read system 2"
    cursor = store.db.changes_cursor(Watched)
    assert store.do(lambda db: changes(db, Watched, cursor=cursor)) == "Read system 2"
    for number in range(3):
        store.db.save(post(number, "aab"[number]))
    assert store.do(lambda db: changes(db, Watched, "a", cursor=cursor)) == "Read system 2, Scan system 3, Read views 2"
    # The entries are known by now, whoever asks.
    assert store.do(lambda db: changes(db, Watched, "b", cursor=cursor)) == "Read system 2, Read views 1"
    assert store.do(lambda db: changes(db, Watched, "c", cursor=cursor)) == "Read system 2"
    store.db.close()


def test_watchers_of_a_process_share_a_look(url):
    store = Observed(url, Watched)
    log = watching.shared_log(store.db.operations, Watched)
    assert store.do(lambda db: db.run(log.look(60.0))) == "Read system 2"
    assert store.do(lambda db: db.run(log.look(60.0))) == ""
    assert store.do(lambda db: db.run(log.look(0.0))) == "Read system 2"
    store.db.close()


def stored(db, view):
    """The entries of a view's log."""
    database = getattr(db, "db", db)
    log = database.operations.catalog.logs[view]
    scan = Scan("system", entries_from(log, 0), 1000).__iter__()
    return len(db.runner.run(database.run(scan)) if hasattr(db, "runner") else database.run(scan))


# A store that changes one row at a time.

ONE_ROW = Schema(Author, Post, PostsOfRoom, RoomOfTitle)


def test_one_row_at_a_time_a_batch_has_what_changed(clock):
    with connect("memory://?span=row", ONE_ROW, workers=0, clock=clock) as db:
        db.save(Author(number=1, name="Ada"))
        before = db.save(post(1))
        cursor = db.changes_cursor(PostsOfRoom)
        assert db.cost(db.save(post(2, note="1"))).requests == db.cost(before).requests - 4  # the numbers are known
        db.patch(Post, 1, room="b")
        db.patch(Author, 1, name="Bea")
        db.patch(Post, 2, note="of no list")
        (found,) = first(db.changes(PostsOfRoom, "a", cursor=cursor, wait=0))
        assert [(each.source, each.is_removed) for each in found] == [(Post.at(1), True), (Post.at(2), False)]
        assert found.rows[1].row.author.name == "Bea"
        assert [len(each) for each in first(db.changes(PostsOfRoom, "a", cursor=found.cursor, wait=0))] == [0]
        clock.tick(3601)
        assert db.sweep().changes > 0
        db.operations.logs.clear()  # as another program sees it
        with pytest.raises(Expired):
            next(db.changes(PostsOfRoom, "a", cursor=cursor, wait=0))
        db.save(post(3))
        assert db.sweep().changes == 0


def first(batches):
    return [next(batches)]


def test_one_row_at_a_time_a_commit_costs_two_requests_more_for_each_log(clock):
    class Bare(Index[Post]):
        room: str = by(Post.room)

    requests = []
    for views in ((Bare,), (PostsOfRoom,), (PostsOfRoom, RoomOfTitle)):
        with connect("memory://?span=row", Schema(Author, Post, *views), workers=0, clock=clock) as db:
            db.save(Author(number=1))
            db.save(post(1))
            requests.append(db.cost(db.save(post(2))).requests)
    assert [each - requests[0] for each in requests] == [0, 2, 4]
