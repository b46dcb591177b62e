"""Entries that nothing shows end once the grace is over: a page reads the rows that it shows."""

import pytest

from oneread import Schema, connect
from oneread.database.purge import Purge
from oneread.derivations.emitted_record import RecordedPointers
from oneread.feeds.entry_cells import entry_row, item_column, marks_of_trimming, membership_column
from oneread.store.requests import CheckAndMutate
from oneread.store.rows import REMOVED, Cell
from oneread.testing.clock import Clock
from oneread.transactions.grace import LEAST_GRACE
from tests.simulation.feed_models import Post
from tests.unit.feeds import community, test_cell_crossing
from tests.unit.feeds.community import membership, post


class World:
    """A store of one member in one group with so many posts, and the requests that are made."""

    def __init__(self, deletes="hide", home=community.Home, items=300):
        self.asked, self.home, self.clock = [], home, Clock()
        schema = Schema(community.Member, community.Group, community.Membership, community.Post, home)
        url = f"memory://?span=row&deletes={deletes}"
        observer = lambda request, _answer: self.asked.append(request)  # noqa: E731 - of one line
        self.db = connect(url, schema, workers=0, clock=self.clock, observers=(observer,))
        self.db.save(community.Group(number=1))
        self.db.save(community.Member(number=1))
        self.db.save(membership(1, 1))
        for number in range(items, 0, -1):
            self.db.save(post(number, hours=number))

    def unpublish(self, numbers):
        for number in numbers:
            self.db.delete(community.Post, number)

    def page(self, limit=10):
        """How many are shown, and what that took: requests and rows."""
        page = self.db.page(self.home, 1, limit=limit)
        return len(page), page.cost.requests, page.cost.rows


def purge(world, seconds=LEAST_GRACE + 1):
    """One pass, so much later; how many entries it ends."""
    world.clock.tick(seconds)
    world.asked.clear()
    one = Purge(world.db.operations.catalog, RecordedPointers(), LEAST_GRACE)
    while world.db.run(one.step()):
        pass
    return sum(type(each) is CheckAndMutate for each in world.asked)


@pytest.mark.parametrize("deletes", ["hide", "remove"])
def test_a_page_after_most_items_were_deleted(deletes):
    world = World(deletes)
    world.unpublish(range(1, 251))
    assert world.page() == (0, 11, 111)
    assert purge(world, LEAST_GRACE - 1) == 0
    assert world.page() == (0, 11, 111)
    assert purge(world, 2) == 250
    assert world.page() == (10, 1, 11)
    assert purge(world) == 0
    world.db.save(post(7, hours=7))
    assert [each.source.key[0] for each in world.db.page(world.home, 1, limit=2)] == [7, 251]


@pytest.mark.parametrize("deletes", ["hide", "remove"])
def test_what_a_member_who_left_has_of_the_group_ends(deletes):
    world = World(deletes, items=40)
    world.db.delete(community.Membership, 1, 1)
    assert world.page() == (0, 4, 40)
    assert purge(world) == 40
    assert world.page() == (0, 1, 0)
    world.db.patch(community.Post, 3, title="new")  # nothing follows for one who left
    world.db.delete(community.Post, 4)
    assert world.page() == (0, 1, 0)
    assert purge(world) == 0
    world.db.save(membership(1, 1))
    assert world.page() == (10, 1, 11)


class Few(community.Home):
    at_most = 20


def test_what_was_trimmed_ends_and_stays_away():
    world = World(home=Few, items=120)
    world.unpublish(range(1, 16))
    assert world.page()[0] == 5
    assert world.page()[1] > 9
    assert purge(world) == 115
    assert world.page() == (5, 1, 5)
    world.db.patch(community.Post, 100, title="new")
    assert [each.source.key[0] for each in world.db.page(Few, 1)] == [16, 17, 18, 19, 20, 100]


def test_entries_of_a_group_that_is_read_end_and_come_again_when_it_is_written():
    world = test_cell_crossing.World()
    world.fill(members=3, posts=300)
    world.fill(members=4, posts=0)
    for number in range(50, 300):
        world.db.delete(Post, number)
    page = world.db.page(test_cell_crossing.Wide, 0, limit=10)
    assert (len(page), page.cost.requests) == (0, 14)
    assert purge(world) == 3 * 300
    page = world.db.page(test_cell_crossing.Wide, 0, limit=10)
    assert (len(page), page.cost.requests) == (10, 4)
    world.leave(1, 2, 3)
    assert world.places(0) == []
    assert world.numbers(0, limit=60) == list(range(49, -1, -1))


def test_a_removed_mark_hides_nothing():
    row = {item_column(b"a"): Cell(b"doc", 5), membership_column(b"a", b"a1"): Cell(b"a1", 3)}
    marks = marks_of_trimming(row)
    assert entry_row(row | marks) == {}
    assert entry_row(row | {column: Cell(REMOVED, cell.stamp) for column, cell in marks.items()}) != {}
