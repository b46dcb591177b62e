"""Feeds that are edited in place: entries of the former generation are written and read until others are built."""

from datetime import UTC, datetime, timedelta
from types import new_class

import pytest

from oneread import Aggregate, Feed, Key, Model, Schema, bucket, by, connect, count, field, migration, newest, on, shown
from oneread.errors import NotReady, SchemaMismatch
from oneread.testing.clock import Clock
from tests.unit.database.faces import FACES
from tests.unit.evolution.stores import drop_formers, end_lease, former_generations

START = datetime(2026, 1, 1, tzinfo=UTC)


class Post(Model[int]):
    number: Key[int]
    group: str
    made_at: datetime
    changed_at: datetime
    score: int = 0
    title: str = ""


class Membership(Model[int]):
    number: Key[int]
    member: int
    group: str


MEMBER = (int, by(Membership.member))
ROWS = {"member": MEMBER, "made_at": (datetime, newest(Post.made_at)), "score": (int, shown(Post.score))}
TITLED = ROWS | {"title": (str, shown(Post.title))}
CHANGED = {
    "member": MEMBER,
    "changed_at": (datetime, newest(Post.changed_at)),
    "made_at": (datetime, shown(Post.made_at)),
}


def feed(rules, **options):
    options = {"joined": on(Post.group, Membership.group), "expires_after": None} | options
    space = {"__module__": __name__, "__annotations__": {name: rule[0] for name, rule in rules.items()}, **options}
    rules = {name: rule[1] for name, rule in rules.items()}
    return new_class("Home", (Feed[Post],), {}, lambda into: into.update(space | rules))


EDITS = {
    "less is shown": (feed(TITLED), feed(ROWS)),
    "a condition": (feed(ROWS), feed(ROWS, where=field(Post.score) > 3)),
    "no condition": (feed(ROWS, where=field(Post.score) > 3), feed(ROWS)),
    "fewer entries": (feed(ROWS, at_most=6), feed(ROWS, at_most=3)),
    "all entries": (feed(ROWS, at_most=3), feed(ROWS)),
    "an age": (feed(ROWS), feed(ROWS, expires_after=timedelta(hours=5))),
    "another age": (feed(ROWS, expires_after=timedelta(hours=900)), feed(ROWS, expires_after=timedelta(hours=5))),
    "no age": (feed(ROWS, expires_after=timedelta(hours=900)), feed(ROWS)),
    "large groups": (feed(ROWS), feed(ROWS, large_group=2)),
    "no large groups": (feed(ROWS, large_group=2), feed(ROWS)),
}


class Site:
    """One store, and the schemas of two releases whose only difference is how a feed is declared."""

    def __init__(self, new_url, *views):
        self.new_url, self.url, self.clock, self.opened = new_url, new_url(), Clock(), []
        self.clock.set(START + timedelta(hours=12))
        self.schemas = [Schema(Post, Membership, *given) for given in views]

    def open(self, release, face=connect):
        db = face(self.url, self.schemas[release], workers=0, clock=self.clock)
        self.opened.append(db)
        return db

    def fill(self):
        before = self.open(0)
        for number in range(6):
            before.save(Membership(number=number, member=number % 3, group="ab"[number // 3]))
        for number in range(12):
            before.save(post(number))
        before.drain()
        return before


@pytest.fixture
def site(new_url):
    made = []

    def make(*views):
        made.append(Site(new_url, *[view if isinstance(view, tuple) else (view,) for view in views]))
        return made[-1]

    yield make
    for db in [db for each_site in made for db in each_site.opened]:
        db.close()


def post(number, group=None, score=None):
    return Post(
        number=number, group="ab"[number % 4 == 0] if group is None else group,
        made_at=START + timedelta(hours=number % 12), changed_at=START, title=f"t{number}",
        score=number * 7 % 10 if score is None else score,
    )  # fmt: skip


def listed(db, view):
    """The feeds of all members: what both releases show."""
    return [
        [(row.source.key[0], row.made_at, row.score) for row in db.page(view, member, limit=100)] for member in range(4)
    ]


def recomputed(of, view):
    with connect(of.new_url(), Schema(Post, Membership, view), workers=0, clock=of.clock) as fresh:
        for model in (Membership, Post):
            for page in of.opened[2].scan(model):
                for entity in page:
                    fresh.save(entity)
        fresh.drain()
        return listed(fresh, view)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
@pytest.mark.parametrize("edit", EDITS)
def test_the_former_entries_answer_until_the_new_ones_are_built(site, edit, face):
    old, new = EDITS[edit]
    of = site(old, new)
    before = of.fill()
    with migration(of.url, of.schemas[1], clock=of.clock) as change:
        planned = change.plan()
    assert (planned.continues, planned.unserved, planned.answered[0]) == ((1,), {}, ("Home", "Home~1"))
    assert planned.twice == {"Membership": 1, "Post": 2 if edit in ("another age", "no age") else 1}
    assert planned.entries == ("Home",)
    after, other, restarted = of.open(1, face), of.open(1), of.open(0)
    for writer in (before, after, other, restarted):
        writer.save(post(4, score=2))
        writer.save(post(20 + len(of.opened), group="a"))
        writer.delete(Post, 5)
        writer.save(post(5, score=9))
        writer.save(Membership(number=1, member=3, group="ab"[writer is after]))
        writer.delete(Membership, 2)
        writer.save(Membership(number=2, member=2, group="a"))
        for db in (before, after, other, restarted):
            db.drain()
        assert listed(after, new) == listed(other, new) == listed(before, old) == listed(restarted, old)
        assert {type(row) for row in after.page(new, 0)} == {new}
        assert after.verify().faults == ()
    other.drain()
    assert other.backfill(fence=True, quiet=0, wait=0).done
    of.clock.tick(2.5)
    assert listed(after, new) == listed(other, new) == recomputed(of, new)
    other.save(post(6, score=1))
    after.save(post(30, group="a"))
    after.drain()
    other.drain()
    assert listed(after, new) == listed(other, new) == recomputed(of, new)
    assert other.verify().clean
    end_lease(before)
    with pytest.raises(SchemaMismatch):
        before.save(post(2))
    drop_formers(of.url, of.schemas[1], former_generations(other), clock=of.clock)
    again = of.open(1)
    again.drain()
    assert again.backfill(fence=True, quiet=0, wait=0).done
    assert listed(again, new) == recomputed(of, new)
    assert again.verify().clean
    assert all("~" not in part.name for part in again.survey(exact=True).parts)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (feed(ROWS), feed(TITLED), "has no title"),
        (feed(ROWS), feed(CHANGED), "has no changed_at"),
    ],
    ids=["more is shown", "another time"],
)
def test_where_the_former_entries_cannot_answer_the_feed_is_not_ready(site, old, new, reason):
    of = site(old, new)
    of.fill()
    with migration(of.url, of.schemas[1], clock=of.clock) as change:
        assert reason in change.plan().unserved["Home"]
    after = of.open(1)
    with pytest.raises(NotReady):
        after.page(new, 1)
    assert former_generations(after) == []


def test_a_page_of_entries_continues_at_the_generation_that_made_its_cursor(site):
    old, new = EDITS["a condition"]
    of = site(old, new)
    of.fill()
    after = of.open(1)
    everything = [row.source for row in after.page(new, 0, limit=100)]
    first = after.page(new, 0, limit=3)
    after.drain()
    assert after.backfill(fence=True, quiet=0, wait=0).done
    second = after.page(new, 0, limit=100, cursor=first.next)
    assert [row.source for row in (*first, *second)] == everything
    assert len(after.page(new, 0, limit=100)) < len(everything)


def feed_of_days(days, **options):
    options = {"joined": on(days.group, Membership.group), "expires_after": None} | options
    rules = {"member": MEMBER, "day": (datetime, newest(days.day)), "posts": (int, shown(days.posts))}
    space = {"__module__": __name__, "__annotations__": {name: rule[0] for name, rule in rules.items()}, **options}
    return new_class("Lines", (Feed[days],), {}, lambda into: into.update(space | {n: r[1] for n, r in rules.items()}))


def days_of(condition):
    space = {"__module__": __name__, "where": condition, "group": by(Post.group), "day": bucket(Post.made_at, "day")}
    space |= {"__annotations__": {"group": str, "day": datetime, "posts": int}, "posts": count()}
    return new_class("Days", (Aggregate[Post],), {}, lambda into: into.update(space))


@pytest.mark.parametrize("edit", ["the feed", "the aggregate"])
def test_a_feed_of_groups_is_answered_by_its_former_entries(site, edit):
    first, second = days_of(None), days_of(field(Post.score) > 3 if edit == "the aggregate" else None)
    old, new = feed_of_days(first), feed_of_days(second, **({"at_most": 1} if edit == "the feed" else {}))
    of = site((first, old), (second, new))
    before = of.fill()
    after = of.open(1)
    for number, writer in enumerate((before, after), 40):
        writer.save(post(number, group="a", score=9))
        writer.delete(Post, number - 39)
        for db in (before, after):
            db.drain()
        expected = [[(row.source.key, row.day, row.posts) for row in before.page(old, member)] for member in range(3)]
        found = [[(row.source.key, row.day, row.posts) for row in after.page(new, member)] for member in range(3)]
        assert found == expected
        assert after.page(new, 0)[0].source == second.at("a", START)
        assert after.verify().faults == ()
    assert after.backfill(fence=True, quiet=0, wait=0).done
    posts = [each for page in after.scan(Post) for each in page if edit == "the feed" or each.score > 3]
    counted = {group: sum(each.group == group for each in posts) for group in "ab"}
    lines = [[(row.source.key[0], row.posts) for row in after.page(new, member)] for member in range(3)]
    assert all(counted[group] == number for each in lines for group, number in each)
    assert {len(each) for each in lines} == {1 if edit == "the feed" else 2}
    assert after.verify().clean
