"""Feeds with marks that are edited in place: both programs mark and count by the former entries until then."""

from datetime import datetime, timedelta

import pytest

from oneread import field, migration, newest, shown
from oneread.costs.budgets import budget
from oneread.database.marking import Unread
from oneread.errors import NotReady
from tests.unit.database.faces import FACES
from tests.unit.database.test_edited_feeds import MEMBER, ROWS, TITLED, Post, Site, feed, post
from tests.unit.evolution.stores import drop_formers, end_lease, former_generations

HIGH = {"where": field(Post.score) > 3}
EDITS = {
    "less is shown": (feed(TITLED, marks=True), feed(ROWS, marks=True)),
    "a condition": (feed(ROWS, marks=True), feed(ROWS, marks=True, **HIGH)),
    "no condition": (feed(ROWS, marks=True, **HIGH), feed(ROWS, marks=True)),
    "fewer entries": (feed(ROWS, marks=True, at_most=6), feed(ROWS, marks=True, at_most=3)),
    "an age": (feed(ROWS, marks=True), feed(ROWS, marks=True, expires_after=timedelta(hours=5))),
    "large groups": (feed(ROWS, marks=True), feed(ROWS, marks=True, large_group=2)),
    "no large groups": (feed(ROWS, marks=True, large_group=2), feed(ROWS, marks=True)),
}


@pytest.fixture
def site(new_url):
    made = []

    def make(*views):
        made.append(Site(new_url, *[(view,) for view in views]))
        return made[-1]

    yield make
    for db in [db for each in made for db in each.opened]:
        db.close()


class Marked:
    """What members have marked, as plain values: the time and the number of a post, None for nothing."""

    def __init__(self):
        self.marks = {}

    def mark(self, db, view, member, **wanted):
        """Marks up to an entry by its place on the page, or the newest for True."""
        entries = db.page(view, member, limit=100).rows
        for name, place in wanted.items():
            row = entries[0 if place is True else place]
            at = self.marks.get((member, name))
            if at is None or is_newer(row, at):
                self.marks[member, name] = (row.made_at, row.source.key[0])
        db.mark(view, member, **{name: True if place is True else entries[place] for name, place in wanted.items()})

    def expect(self, db, view):
        """The numbers that a program says are those of the entries on its page that are newer than each mark."""
        for member in range(3):
            rows = db.page(view, member, limit=100).rows
            unseen, unread = (
                len([row for row in rows if at is None or is_newer(row, at)])
                for at in (self.marks.get((member, name)) for name in ("seen", "read"))
            )
            assert db.unread(view, member) == Unread(unseen, unread)
            marks = db.marks(view, member)
            assert sum(not marks.has_read(row) for row in rows) == unread


def is_newer(row, at):
    return row.made_at > at[0] or (row.made_at == at[0] and row.source.key[0] < at[1])


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
@pytest.mark.parametrize("edit", EDITS)
def test_both_programs_mark_and_count_by_the_former_entries(site, edit, face):
    old, new = EDITS[edit]
    of, marked = site(old, new), Marked()
    before = of.fill()
    marked.mark(before, old, 0, seen=1, read=2)
    with migration(of.url, of.schemas[1], clock=of.clock) as change:
        planned = change.plan()
    assert (planned.continues, planned.unserved, planned.answered[0]) == ((1,), {}, ("Home", "Home~1"))
    after, restarted = of.open(1, face), of.open(0)
    programs = ((before, old), (after, new), (restarted, old))
    for number, (writer, view) in enumerate(programs):
        writer.save(post(20 + number, group="a"))
        writer.drain()
        marked.mark(writer, view, 1, seen=True)
        marked.mark(writer, view, number, read=1)
        for db, asked in programs:
            marked.expect(db, asked)
    after.drain()
    assert after.backfill(fence=True, quiet=0, wait=0).done
    of.clock.tick(2.5)
    marked.expect(after, new)
    after.save(post(30, group="a"))
    after.drain()
    marked.mark(after, new, 2, seen=True, read=0)
    marked.expect(after, new)
    assert after.verify().clean
    end_lease(before)
    drop_formers(of.url, of.schemas[1], former_generations(after), clock=of.clock)
    marked.expect(of.open(1), new)


def test_marks_are_added_with_an_edit(site):
    old, new = feed(ROWS), feed(ROWS, marks=True, **HIGH)
    of, marked = site(old, new), Marked()
    before = of.fill()
    after = of.open(1)
    before.save(post(20, group="a"))
    before.drain()
    marked.mark(after, new, 0, seen=True, read=2)
    marked.expect(after, new)
    after.drain()
    assert after.backfill(fence=True, quiet=0, wait=0).done
    marked.expect(after, new)
    assert after.verify().clean


def test_where_places_are_in_another_order_the_feed_is_not_ready(site):
    changed = (datetime, shown(Post.changed_at))
    by_change = {"member": MEMBER, "changed_at": (datetime, newest(Post.changed_at))}
    by_change |= {"made_at": (datetime, shown(Post.made_at))}
    for options, reason in (({"marks": True}, "its marks are places in another order"), ({}, "")):
        old, new = feed(ROWS | {"changed_at": changed}, **options), feed(by_change, **options)
        of = site(old, new)
        of.fill()
        with migration(of.url, of.schemas[1], clock=of.clock) as change:
            assert change.plan().unserved.get("Home", "") == reason
        after = of.open(1)
        assert former_generations(after) == ([] if reason else ["Home~1"])
        if reason:
            for ask in (lambda: after.unread(new, 1), lambda: after.mark(new, 1, seen=True)):  # noqa: B023
                with pytest.raises(NotReady):
                    ask()


def test_to_count_costs_one_look_in_two_seconds(site):
    old, new = EDITS["a condition"]
    of = site(old, new)
    of.fill()
    after, costs = of.open(1), []
    after.unread(new, 0)
    for seconds in (0, 1, 2):
        of.clock.tick(seconds)
        with budget() as spent:
            after.unread(new, 0)
        costs.append(spent.cost.requests)
    assert costs == [2, 2, 3]
