"""Large groups on a store that changes one row at a time: what joins, publishes, leaves and pages ask for."""

from datetime import datetime, timedelta

import pytest

from oneread import Feed, Schema, by, connect, each, newest, on, shown
from oneread.errors import Corrupt, Expired
from oneread.feeds import cell_crossing
from oneread.feeds.large_group_cells import GroupMode, Places, rows_of_large_groups
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import VALUE, Cell, RowMutation, RowRange
from oneread.testing.clock import START, Clock
from tests.simulation.feed_models import Membership, Post

URL = "memory://?span=row"


class Wide(Feed[Post]):
    expires_after = None
    large_group = 3
    merged_groups = 2
    watched = timedelta(hours=1)
    marks = True
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(each(Post.groups), Membership.group)


class World:
    """A store, and the requests that a call makes."""

    def __init__(self, home=Wide, inline=100):
        self.asked = []
        observer = lambda request, _answer: self.asked.append(request)  # noqa: E731 - of one line
        self.home, self.clock = home, Clock()
        schema = Schema(Membership, Post, home, inline=inline)
        self.db = connect(URL, schema, workers=0, clock=self.clock, observers=(observer,))
        view = self.db.operations.catalog.views[home]
        self.rows = rows_of_large_groups(view)
        self._group = view.group_codec

    def join(self, number, group="a"):
        return self.db.save(Membership(number=number, member=number % 10, group=group))

    def leave(self, *numbers):
        for number in numbers:
            self.db.delete(Membership, number)
        self.db.drain()

    def publish(self, number, *groups):
        at = START + timedelta(seconds=number)
        return self.db.save(Post(number=number, groups=list(groups or "a"), at=at, text=f"{number}"))

    def fill(self, members=4, posts=2):
        for number in range(members):
            self.join(number)
        self.db.drain()
        for number in range(posts):
            self.publish(number)

    def numbers(self, member, **options):
        return [row.source.key[0] for row in self.db.page(self.home, member, **options)]

    def changes(self, cursor):
        return next(self.db.changes(self.home, 0, cursor=cursor, wait=0))

    def requests(self, act):
        """What a call asks of `views`."""
        self.asked.clear()
        act()
        return [type(each).__name__ for each in self.asked if each.table == "views"]

    def mode(self, group="a"):
        (row,) = self.db.run(Read("views", [self.rows.group_key(self._group.encode((group,)))]).__iter__())
        return self.rows.mode_of(row)

    def places(self, member):
        """The groups that a member's pages merge."""
        (row,) = self.db.run(Read("views", [self.rows.places_key(self._member(member))]).__iter__())
        found = self.rows.places_of(row)
        assert not found.filling
        return [self._group.decode(each)[0] for each in found.groups]

    def _member(self, member):
        return self.rows.feed.view.member_codec.encode((member,))

    def written(self, group="a"):
        found = self.db.run(Scan("views", self.rows.written_of(self._group.encode((group,))), 100).__iter__())
        return len(found)

    def entries(self, member):
        within = RowRange.under(self.rows.feed.prefix + self._member(member))
        return len(self.db.run(Scan("views", within, 100).__iter__()))


@pytest.fixture
def world():
    made = World()
    yield made
    made.db.close()


def test_a_group_with_more_members_is_read_and_with_less_than_half_of_that_written_again(world):
    world.fill(members=3)
    assert world.mode() == GroupMode()  # it has no row
    world.join(3)
    assert world.mode().crosses
    assert world.numbers(3) == [1, 0]
    world.db.drain()
    assert world.mode().is_merged
    assert [world.places(member) for member in range(4)] == [["a"]] * 4
    world.leave(3, 2)
    assert world.mode().is_merged  # two are not less than half of three
    assert [world.places(member) for member in range(4)] == [["a"], ["a"], [], []]
    world.leave(1)
    assert (world.mode().reads, world.mode().crosses) == (False, False)
    assert world.places(0) == []
    assert [world.numbers(member) for member in range(4)] == [[1, 0], [], [], []]


def test_a_publish_to_a_large_group_writes_its_own_row_alone(world):
    world.fill(members=3)
    world.fill(members=6, posts=0)
    asked = world.requests(lambda: world.publish(2))
    assert asked == ["Mutate", "Read", "Scan"]
    assert [world.entries(member) for member in (0, 5)] == [2, 0]  # those of before the crossing
    assert [world.numbers(member) for member in (0, 5)] == [[2, 1, 0]] * 2


def test_who_joins_a_large_group_gets_no_entries(world):
    world.fill(members=4)
    asked = world.requests(lambda: world.join(4))
    assert asked == ["Mutate", "Read", "CheckAndMutate"]
    assert (world.entries(4), world.numbers(4)) == (0, [1, 0])
    assert world.requests(lambda: world.join(14)) == ["Mutate", "Read"]  # he has the place already
    world.leave(4)
    assert world.numbers(4) == [1, 0]
    world.leave(14)
    assert (world.numbers(4), world.places(4)) == ([], [])


def test_who_has_no_free_place_is_written_to(world):
    for group, start in (("a", 0), ("b", 10), ("c", 20)):
        for number in range(start, start + 4):
            world.join(number, group)
        world.publish(start, group)
    world.db.drain()
    assert world.places(1) == ["a", "b"]
    assert [world.written(group) for group in "abc"] == [0, 0, 4]
    world.publish(30, "c")
    assert world.numbers(1) == [30, 20, 10, 0]
    world.leave(1)
    assert world.places(1) == ["b"]
    world.db.delete(Membership, 21)  # and the next task of this membership finds the free place
    world.join(21, "c")
    assert world.places(1) == ["b", "c"]
    assert world.written("c") == 3
    assert world.numbers(1) == [30, 20, 10]


def test_a_task_of_an_item_visits_all_who_are_written_to(world):
    for group, start in (("a", 0), ("b", 10), ("c", 20)):
        for number in range(start, start + 4):
            world.join(number, group)
    world.db.drain()
    world.publish(30, "c")
    ((item, _row),) = world.db.run(Scan("views", RowRange.under(world.rows.feed.items), 9).__iter__())
    cursor, pages = b"", 0
    while cursor is not None:
        cursor, pages = world.db.run(world.db.operations.committer.views.feeds.follow(item, cursor, 2)), pages + 1
    assert pages == 3
    cursor = world.rows.feed.members  # of a page that was read while the group was written
    assert world.db.run(world.db.operations.committer.views.feeds.follow(item, cursor, 9)) is None


def test_an_item_that_went_while_its_group_was_read_stays_away(world):
    world.fill(members=3)
    world.fill(members=4, posts=0)
    world.db.delete(Post, 1)
    assert world.entries(0) == 2  # one that nothing shows
    assert world.numbers(0) == [0]
    world.leave(3, 2, 1)
    assert world.places(0) == []
    assert world.numbers(0) == [0]


def test_an_item_in_two_groups_is_shown_once_forward_and_back(world):
    world.fill()
    world.join(10, "b")
    world.publish(5, "a", "b")
    world.publish(6, "b")
    assert world.numbers(0) == [6, 5, 1, 0]
    page = world.db.page(Wide, 0, limit=2)
    assert world.numbers(0, limit=2, cursor=page.next) == [1, 0]
    assert world.numbers(0, limit=3, backward=True) == [5, 1, 0]
    assert world.db.unread(Wide, 0).unread == 4
    world.db.delete(Membership, 10)
    assert world.numbers(0) == [5, 1, 0]


def test_a_page_reads_the_places_the_memberships_and_the_items(world):
    world.fill()
    page = world.db.page(Wide, 0, limit=1)
    assert (page.cost.requests, page.cost.rounds) == (1 + 1 + 2, 3)
    assert world.db.page(Wide, 9, limit=1).cost.requests == 2


def test_changes_have_items_of_large_groups_and_expire_when_a_place_is_taken(world):
    world.fill()
    cursor = world.db.changes_cursor(Wide)
    world.publish(2)
    found = world.changes(cursor)
    assert [(each.source.key[0], each.row.text) for each in found] == [(2, "2")]
    world.db.delete(Post, 1)
    gone = world.changes(found.cursor)
    assert [(each.source.key[0], each.row) for each in gone] == [(1, None)]
    for number in range(10, 14):
        world.join(number, "b")
    world.db.drain()
    with pytest.raises(Expired, match="other large groups"):
        world.changes(gone.cursor)


def test_some_memberships_of_very_large_groups_have_the_others_counted(monkeypatch):
    monkeypatch.setattr(cell_crossing, "_COUNTED", 1)
    world = World()
    scans = []
    for number in range(40):
        asked = world.requests(lambda number=number: world.join(number))
        scans.append(asked.count("Scan"))
        if world.mode().reads:
            break
    assert set(scans) == {1, 2}  # the items of the group alone, or the memberships before
    assert world.mode().reads
    world.db.close()


def test_a_page_of_a_task_counts_no_more_than_it_must(monkeypatch):
    monkeypatch.setattr(cell_crossing, "_PAGE", 2)
    world = World()
    world.fill(members=4)
    assert world.mode().is_merged
    world.leave(0, 1)
    assert world.mode().is_merged
    world.leave(2)
    assert not world.mode().reads
    world.db.close()


def test_a_task_whose_epoch_has_not_come_changes_the_mode(world):
    """The compare-and-set that should have begun it may come at any later time."""
    world.fill()
    feeds, before = world.db.operations.committer.views.feeds, world.mode()
    group = world._group.encode(("a",))
    assert world.db.run(feeds.follow(world.rows.crossing(group, before.epoch + 7), b"", 10)) is None
    assert world.mode() == GroupMode(before.epoch + 7, reads=True)
    late = GroupMode(before.epoch + 7, False, True)
    assert not world.db.run(world.rows.swap_mode(group, before, late))
    assert world.db.run(feeds.follow(world.rows.crossing(group, before.epoch), b"", 10)) is None
    assert world.mode() == GroupMode(before.epoch + 7, reads=True)


def test_a_row_that_cannot_be_read(world):
    world.fill()
    for key in (world.rows.group_key(world._group.encode(("a",))), world.rows.places_key(world._member(0))):
        world.db.run(Mutate("views", [RowMutation(key, {VALUE: Cell(b"\x00", 1 << 50)})]).__iter__())
    with pytest.raises(Corrupt, match="large groups"):
        world.db.page(Wide, 0)
    assert world.rows.places_of(None) == Places()
