"""What a member marks as seen and read, how many entries are newer, and what both cost."""

from datetime import datetime, timedelta

import pytest

from oneread import Feed, Key, Model, Ref, Schema, by, connect, newest, on, shown, to_json
from oneread.database import marking
from oneread.database.marking import MOST_COUNTED, Unread
from oneread.errors import InvalidKey, InvalidQuery, MissingReference, NotReady
from oneread.feeds.marks import FeedPosition, Marks
from oneread.testing.clock import START, Clock
from oneread.testing.meter import Meter
from tests.properties.test_dump_round_trip import dumped, load
from tests.unit.database.faces import FACES
from tests.unit.feeds.marked import (
    DECLARED,
    PLAIN,
    SCHEMA,
    Address,
    Group,
    Home,
    Inbox,
    Lines,
    Member,
    Membership,
    Notice,
    Post,
    fill,
    membership,
    post,
)

MARKS_OF_HOME = next(cls for cls in SCHEMA.models if cls.__name__ == "Home.marks")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def meter():
    return Meter()


@pytest.fixture(params=FACES.values(), ids=FACES)
def db(request, url, clock, meter):
    opened = request.param(url, SCHEMA, workers=0, clock=clock, observers=(meter.observe,))
    fill(opened)
    yield opened
    opened.close()


def publish(db, *names, group=1, hours=0):
    for place, name in enumerate(names):
        db.save(post(name, group=group, hours=hours + place))


def numbers(found):
    return found.unseen, found.unread


def test_without_a_mark_everything_is_new(db):
    assert db.unread(Home, 1) == Unread(unseen=0, unread=0)
    publish(db, "a", "b", "c")

    assert db.marks(Home, 1) == Marks()
    assert db.unread(Home, 1) == Unread(unseen=3, unread=3)
    assert db.unread(Home, 3) == Unread(unseen=0, unread=0)


def test_seen_and_read_are_apart(db):
    publish(db, "a", "b", "c", "d")
    entries = db.page(Home, 1).rows

    found = db.mark(Home, 1, seen=entries[0])
    assert (found.seen.at, found.read) == (START, None)
    assert numbers(db.unread(Home, 1)) == (0, 4)
    db.mark(Home, 1, read=entries[2])
    assert numbers(db.unread(Home, 1)) == (0, 2)
    assert numbers(db.unread(Home, 2)) == (4, 4)
    marks = db.marks(Home, 1)
    assert [marks.has_seen(each) for each in entries] == [True] * 4
    assert [marks.has_read(each) for each in entries] == [False, False, True, True]


def test_true_marks_the_newest_entry(db):
    assert db.mark(Home, 1, seen=True, read=True) == Marks()
    publish(db, "a", "b")

    assert db.mark(Home, 1, seen=True).seen == FeedPosition(START, b"\x03a\x00")
    assert numbers(db.unread(Home, 1)) == (0, 2)
    db.save(post("later", hours=-1))
    assert numbers(db.unread(Home, 1)) == (1, 3)
    db.mark(Home, 1, seen=True, read=db.page(Home, 1)[1])
    assert numbers(db.unread(Home, 1)) == (0, 1)


def test_true_of_a_feed_without_entries_marks_nothing_and_looks_for_no_member(db):
    assert db.mark(Home, 999, seen=True, read=True) == Marks()
    assert db.marks(Home, 999) == Marks()
    assert (len(db.page(Home, 999)), numbers(db.unread(Home, 999))) == (0, (0, 0))


def test_a_mark_only_moves_forwards_unless_asked(db):
    publish(db, "a", "b", "c")
    first, _second, last = db.page(Home, 1)
    db.mark(Home, 1, seen=first, read=first)

    db.mark(Home, 1, seen=last, read=last)
    assert numbers(db.unread(Home, 1)) == (0, 0)
    db.mark(Home, 1, read=last, back=True)
    assert numbers(db.unread(Home, 1)) == (0, 2)
    db.mark(Home, 1, seen=False)
    assert numbers(db.unread(Home, 1)) == (3, 2)


def test_marks_are_deleted_when_both_are_taken_away(db):
    publish(db, "a")
    db.mark(Home, 1, seen=True, read=True)

    assert db.mark(Home, 1, seen=False, read=False) == Marks()
    assert db.find(MARKS_OF_HOME, 1) is None
    assert db.mark(Home, 1, seen=False, read=False) == Marks()
    assert numbers(db.unread(Home, 1)) == (1, 1)


def test_marks_go_with_their_member(db):
    publish(db, "a")
    db.mark(Home, 1, seen=True)

    db.delete(Membership, 1, 1)
    db.delete(Member, 1)
    assert db.marks(Home, 1) == Marks()
    assert db.verify().clean
    with pytest.raises(MissingReference):
        db.mark(Home, 9, seen=Home(source=Ref(("a",)), member=Ref((9,)), at=START, group=Ref((1,))))


def test_what_comes_late_is_not_new(db):
    publish(db, "a", "b", hours=1)
    db.mark(Home, 1, seen=True, read=True)

    db.save(post("earlier", hours=2))
    publish(db, "old", "older", group=2, hours=5)
    db.save(membership(2, 1))
    assert [entry.source.key[0] for entry in db.page(Home, 1)] == ["a", "b", "earlier", "old", "older"]
    assert numbers(db.unread(Home, 1)) == (0, 0)

    db.save(post("new", group=2, hours=0))
    assert numbers(db.unread(Home, 1)) == (1, 1)
    db.delete(Membership, 2, 1)
    assert numbers(db.unread(Home, 1)) == (0, 0)
    db.save(membership(2, 1))  # back: the newer one counts again
    assert numbers(db.unread(Home, 1)) == (1, 1)


def test_the_marked_item_may_be_deleted_or_move(db):
    publish(db, "a", "b", "c")
    db.mark(Home, 1, seen=db.page(Home, 1)[1])

    db.delete(Post, "b")
    assert db.unread(Home, 1).unseen == 1
    db.patch(Post, "a", at=START - timedelta(hours=9))
    assert db.unread(Home, 1).unseen == 0
    db.patch(Post, "c", at=START)
    assert db.unread(Home, 1).unseen == 1


def test_entries_of_one_instant_are_marked_apart(db):
    for name in "abcde":
        db.save(post(name))
    entries = db.page(Home, 1).rows

    for place, entry in reversed(list(enumerate(entries))):
        db.mark(Home, 1, read=entry)
        assert db.unread(Home, 1).unread == place
        assert [db.marks(Home, 1).has_read(each) for each in entries] == [other >= place for other in range(5)]


def test_counts_are_exact_up_to_the_limit(db):
    publish(db, *"abcdef")
    entries = db.page(Home, 1).rows
    db.mark(Home, 1, seen=entries[3], read=entries[5])

    assert db.unread(Home, 1, limit=5) == Unread(3, 5)
    assert db.unread(Home, 1, limit=4) == Unread(3, 4, more_unread=True)
    assert db.unread(Home, 1, limit=3) == Unread(3, 3, more_unread=True)
    found = db.unread(Home, 1, limit=2)
    assert found == Unread(2, 2, more_unseen=True, more_unread=True)
    assert (str(found), found.unseen_text, found.unread_text) == ("2+", "2+", "2+")
    assert str(db.unread(Home, 1)) == "5"
    assert MOST_COUNTED == 99
    assert to_json(found) == b'{"unseen":2,"unread":2,"more_unseen":true,"more_unread":true}'


@pytest.mark.parametrize("limit", [0, -1, 1.0, True, None, 1001, "9"])
def test_a_limit_out_of_bounds_is_refused(db, limit):
    with pytest.raises(InvalidQuery, match="limit of a count"):
        db.unread(Home, 1, limit=limit)


def test_entries_that_have_expired_are_not_counted(db, clock):
    publish(db, "a", "b")
    db.mark(Home, 1, seen=db.page(Home, 1)[1])

    clock.tick(61 * 24 * 3600 - 1800)
    assert numbers(db.unread(Home, 1)) == (1, 1)
    clock.tick(3600)
    assert numbers(db.unread(Home, 1)) == (0, 0)
    assert db.mark(Home, 1, read=True).read is None


def notices(db, numbers, until):
    db.save_all([Notice(number=each, topic="t", at=START + timedelta(minutes=each), until=until) for each in numbers])


def test_items_that_expired_and_were_not_swept_are_not_counted(db, clock, meter, monkeypatch):
    monkeypatch.setattr(marking, "BUDGET", 4)
    db.save(Address(email="e", topic="t"))
    notices(db, range(3), None)
    notices(db, range(3, 7), START + timedelta(hours=1))
    assert numbers(db.unread(Inbox, "e")) == (7, 7)
    clock.tick(3600)

    assert db.unread(Inbox, "e") == Unread(3, 3)
    with meter(requests=4, rows=8):  # the marks, and at most 3 + 4 entries
        assert db.unread(Inbox, "e", limit=2) == Unread(2, 2, more_unseen=True, more_unread=True)
    notices(db, range(7, 15), START + timedelta(hours=2))
    clock.tick(3600)
    assert str(db.unread(Inbox, "e", limit=2)) == "0+"
    db.mark(Inbox, "e", seen=db.page(Inbox, "e", budget=1000)[0])
    assert db.unread(Inbox, "e", limit=4) == Unread(0, 0, more_unseen=True, more_unread=True)
    db.sweep()
    assert db.unread(Inbox, "e", limit=4) == Unread(0, 3)


def test_costs(db, meter):
    publish(db, *"abcdef")
    entries = db.page(Home, 1).rows
    with meter(requests=2, rows=7):  # the marks, which are absent, and the entries
        db.unread(Home, 1)
    with meter(requests=4, rows=5):  # the fence; marks and member; the entity, and its reference
        db.mark(Home, 1, seen=entries[1], read=entries[2])
    with meter(requests=2, rows=3):
        found = db.unread(Home, 1)
    assert (db.cost(found).requests, db.cost(found).rows) == (2, 3)
    with meter(requests=2, rows=3):
        assert db.unread(Home, 1, limit=1) == Unread(1, 1, more_unread=True)
    with meter(requests=1, rows=1):
        assert db.cost(db.marks(Home, 1)).requests == 1
    with meter(requests=3, rows=4):  # the fence, the marks and how they refer; the marks
        db.mark(Home, 1, seen=entries[0])
    with meter(requests=2, rows=3):  # nothing to write
        db.mark(Home, 1, seen=entries[1], read=entries[2])
    with meter(requests=4, rows=5):  # and the newest entry
        assert db.cost(db.mark(Home, 1, read=True)).requests == 4


def test_a_transaction_marks(db):
    publish(db, "a", "b")
    entries = db.page(Home, 1).rows

    (found, _saved) = db.transact(
        [("mark", (Home, 1), {"read": entries[1], "seen": True}), ("save", (post("c", hours=3),), {})]
    )
    assert found.has_seen(entries[0])
    assert numbers(db.unread(Home, 1)) == (0, 1)
    db.transact([("mark", (Home, 1), {"seen": False, "read": False})])
    assert db.marks(Home, 1) == Marks()
    assert db.transact([("mark", (Home, 3), {"seen": True})]) == [Marks()]


def test_other_members_feeds_and_wrong_arguments_are_refused(db):
    publish(db, "a")
    (entry,) = db.page(Home, 1)
    with pytest.raises(InvalidQuery, match="another member"):
        db.mark(Home, 2, seen=entry)
    with pytest.raises(InvalidQuery, match="expected an entry of this feed"):
        db.mark(Lines, 1, seen=entry)
    with pytest.raises(InvalidQuery, match="say what to mark"):
        db.mark(Home, 1)
    with pytest.raises(InvalidQuery, match="not a feed"):
        db.unread(Post, 1)
    with pytest.raises(InvalidQuery, match="back is True or False"):
        db.mark(Home, 1, seen=True, back=1)
    for member in ((), (1, 2), (1, START)):
        with pytest.raises(InvalidKey):
            db.unread(Home, *member)
    for member in (Member.at(1), Member(number=1).ref()):
        assert db.unread(Home, member).unread == 1


def test_a_feed_of_groups_has_marks(db):
    db.save(membership(2, 1))
    entries = db.page(Lines, 1).rows
    assert [entry.members for entry in entries] == [2, 1]

    db.mark(Lines, 1, read=entries[1])
    assert db.unread(Lines, 1) == Unread(2, 1)
    assert db.marks(Lines, 1).has_read(entries[1])
    assert not db.marks(Lines, 1).has_read(entries[0])
    db.save(membership(1, 3))
    assert db.unread(Lines, 1) == Unread(2, 1)


def test_marks_are_in_dumps(db, clock, new_url):
    publish(db, "a", "b", "c")
    db.mark(Home, 1, seen=True, read=db.page(Home, 1)[2])
    db.save(Address(email="e", topic="t"))
    notices(db, range(2), None)
    db.mark(Inbox, "e", seen=True)
    before = [db.marks(Home, 1), db.marks(Inbox, "e")]
    lines = dumped(db)

    class Before(Model[int]):  # so that every model gets another number
        number: Key[int]

    with connect(new_url(), Schema(Before, *reversed(DECLARED)), workers=0, clock=clock) as to:
        load(to, lines)
        assert [to.marks(Home, 1), to.marks(Inbox, "e")] == before
        assert numbers(to.unread(Home, 1)) == (0, 2)
        assert to.verify().clean


def first_feed():
    class Home(Feed[Post]):
        member: Ref[Member] = by(Membership.member)
        at: datetime = newest(Post.at)
        joined = on(Post.group, Membership.group)

    return Home


def renamed_feed():
    class Start(Feed[Post]):
        member: Ref[Member] = by(Membership.member)
        at: datetime = newest(Post.at)
        group: Ref[Group] = shown(Post.group)
        joined = on(Post.group, Membership.group)
        stored_as = "Home"
        marks = True

    return Start


def test_marks_are_added_to_a_feed_and_survive_its_rename_and_rebuild(url):
    first, start = first_feed(), renamed_feed()
    with connect(url, Schema(*PLAIN[:-1], first), workers=0, clock=Clock()) as db:
        fill(db)
        publish(db, "a", "b")
        with pytest.raises(InvalidQuery, match="has no marks"):
            db.mark(first, 1, seen=True)
    with connect(url, Schema(*PLAIN), workers=0, clock=Clock()) as db:  # a field more: the feed is built again
        with pytest.raises(NotReady):
            db.unread(Home, 1)
        with pytest.raises(NotReady):
            db.mark(Home, 1, seen=True)
        assert db.backfill(quiet=0).done
        db.mark(Home, 1, seen=db.page(Home, 1)[1])
    with connect(url, Schema(*PLAIN[:-1], start), workers=0, clock=Clock()) as db:
        assert numbers(db.unread(start, 1)) == (1, 2)
        db.backfill(quiet=0)
        db.repair()
        assert numbers(db.unread(start, 1)) == (1, 2)
        assert db.verify().clean


def test_marks_of_one_moment_never_go_back(url):
    """Two programs mark at once: the commit that comes later looks at what the other one has stored."""
    with connect(url, SCHEMA, workers=0, clock=Clock()) as db:
        fill(db)
        publish(db, "a", "b", "c")
        entries = db.page(Home, 1).rows

        def body(transaction):
            transaction.mark(Home, 1, read=entries[2])
            if not seen:
                seen.append(db.mark(Home, 1, read=entries[0]))

        seen = []
        db.transact(body)
        assert len(seen) == 1
        assert db.unread(Home, 1).unread == 0
