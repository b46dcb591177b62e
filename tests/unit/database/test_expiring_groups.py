"""Groups that lose entities as time passes, and unique values that are free again: what leaves, when, what follows."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import new_class

import pytest

from oneread import (
    Aggregate,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    connect_async,
    count,
    descending,
    expires,
    field,
    greatest,
    newest_values,
    reference,
    rollup,
    shown,
    total,
    within,
)
from oneread.costs.budgets import budget
from oneread.database.expiry_sweep import Swept
from oneread.derivations.emitted_record import decode_record
from oneread.errors import InvalidDeclaration, NotUnique
from oneread.store.requests import Read
from oneread.store.rows import VALUE, Cell
from oneread.testing.clock import Clock
from oneread.transactions.deltas import decode_amounts, encode_amounts
from oneread.transactions.root import EMITTED
from tests.properties.test_dump_round_trip import dumped, load

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Group(Model[int]):
    number: Key[int]
    upcoming: int = rollup(lambda: UpcomingOfGroup.yes)


class Event(Model[int]):
    number: Key[int]
    group: Ref[Group]
    starts_at: datetime | None


class Rsvp(Model[int, int]):
    event: Key[int]
    member: Key[int]
    of: Ref[Event]
    answer: str = "yes"
    guests: int = 0
    seat: str | None = None
    kept_until: datetime | None = None


class UpcomingOfGroup(Aggregate[Rsvp]):
    ttl = expires(within(Rsvp.of, Event.starts_at))

    group: Ref[Group] = by(within(Rsvp.of, Event.group))
    yes: int = count(where=field(Rsvp.answer) == "yes")
    waiting: int = count(where=field(Rsvp.answer) == "waits")
    seats: int = total(Rsvp.guests, where=field(Rsvp.answer) == "yes")
    most: int | None = greatest(Rsvp.guests)
    members: list[int] = newest_values(Rsvp.member, by=within(Rsvp.of, Event.starts_at), most=2)


class BusiestGroups(Index[UpcomingOfGroup]):
    yes: int = descending(UpcomingOfGroup.yes)
    most: int | None = shown(UpcomingOfGroup.most)


class Seats(Index[Rsvp]):
    """A seat is kept for a member until a time; then another one may have it."""

    unique = True
    ttl = expires(Rsvp.kept_until)
    seat: str = by(Rsvp.seat)
    guests: int = shown(Rsvp.guests)


SITE = Schema(Group, Event, Rsvp, UpcomingOfGroup, BusiestGroups, Seats)


class Site:
    """Two groups with an event each, which begin an hour and two hours from now."""

    def __init__(self, url, schema=SITE):
        self.clock = Clock(NOON)
        self.db = connect(url, schema, workers=0, clock=self.clock)
        for number in (1, 2):
            self.db.save(Group(number=number))
            self.db.save(Event(number=number, group=Group.at(number), starts_at=NOON + number * HOUR))

    def save(self, event, member, **fields):
        return self.db.save(Rsvp(event=event, member=member, of=Event.at(event), **fields))

    def groups(self):
        """What the list, the groups and the entities show; all three are the same."""
        self.db.drain()
        listed = {row.source.key[0]: row.yes for row in self.db.page(BusiestGroups)}
        known = {each.number: each.upcoming for each in self.db.page(Group)}
        assert {each.group.key[0]: each.yes for each in self.db.page(UpcomingOfGroup)} == listed
        assert {number: listed.get(number, 0) for number in known} == known
        assert all(self.db.get(UpcomingOfGroup, number).yes == yes for number, yes in known.items())
        return listed

    def is_recorded(self, event, member):
        """Whether the record of an answer says that it counts."""
        catalog = self.db.operations.catalog
        (row,) = self.db.run(Read("roots", [catalog.kinds[Rsvp].key((event, member))], "dm").__iter__())
        return bool(decode_record(row[EMITTED].value)[catalog.views[UpcomingOfGroup].tokens[0]])


@pytest.fixture
def site(url):
    made = Site(url)
    yield made
    made.db.close()


def test_what_has_ended_leaves_its_groups_with_the_sweep(site):
    for member in range(3):
        site.save(1, member, guests=member)
    site.save(2, 7, guests=9)
    assert site.groups() == {1: 3, 2: 1}
    assert site.db.page(BusiestGroups)[0].source == UpcomingOfGroup.at(1)
    site.clock.tick(3600)
    assert site.groups() == {1: 3, 2: 1}  # late
    assert site.db.survey().unswept == {"UpcomingOfGroup": 0.0}
    site.clock.tick(5)
    assert site.db.survey().unswept == {"UpcomingOfGroup": 5.0}
    for late in (UpcomingOfGroup, BusiestGroups):
        page = site.db.page(late, lag=True)
        assert (page.lag, page.cost.requests) == (5.0, site.db.page(late).cost.requests + 1)
        assert site.db.page(late).lag is None
    assert site.db.verify().clean
    assert site.db.sweep() == Swept(removed=3)
    assert site.groups() == {2: 1}
    assert site.db.survey().unswept == {}
    assert site.db.page(BusiestGroups, lag=True).lag == 0.0
    assert site.db.get(Rsvp, 1, 2).guests == 2
    assert site.db.verify().clean
    assert site.db.sweep() == Swept()


def test_an_event_that_is_moved_takes_its_answers_with_it(site):
    site.save(1, 1, guests=4)
    site.save(1, 2, answer="waits", guests=8)
    site.clock.tick(3601)
    site.db.sweep()
    assert site.groups() == {}
    site.db.patch(Event, 1, starts_at=NOON + 5 * HOUR)
    assert site.groups() == {1: 1}
    found = site.db.get(UpcomingOfGroup, 1)
    assert (found.yes, found.waiting, found.seats, found.most, found.members) == (1, 1, 4, 8, [1, 2])
    site.db.patch(Event, 1, starts_at=NOON, group=Group.at(2))  # it has been
    assert site.groups() == {}
    site.db.patch(Event, 1, starts_at=None)
    assert site.groups() == {2: 1}
    site.clock.tick(10 * 365 * 86_400)
    assert site.db.sweep() == Swept()
    assert site.groups() == {2: 1}
    assert site.db.verify().clean


def test_a_commit_of_the_entity_takes_away_what_it_had_added(site):
    """As its record says, whatever it would add now: the clock has moved, and so have its values."""
    site.save(1, 1, guests=4)
    site.save(1, 2, guests=2)
    site.save(2, 3)
    site.clock.tick(3601)
    site.db.patch(Rsvp, 1, 1, guests=100)
    assert site.groups() == {1: 1, 2: 1}
    assert (site.db.get(UpcomingOfGroup, 1).seats, site.db.get(UpcomingOfGroup, 1).most) == (2, 2)
    site.db.patch(Rsvp, 1, 1, guests=1)  # there is nothing to take away any more
    assert site.db.get(UpcomingOfGroup, 1).seats == 2
    site.db.save(Rsvp(event=1, member=2, of=Event.at(2), guests=6))  # another event, which has not begun
    assert site.groups() == {2: 2}
    assert site.db.get(UpcomingOfGroup, 2).seats == 6
    site.db.delete(Rsvp, 1, 1)
    assert site.groups() == {2: 2}
    assert site.db.verify().clean
    site.clock.tick(3600)
    site.db.delete(Rsvp, 1, 2)  # late, and deleted
    assert site.groups() == {2: 1}
    assert site.db.verify().clean


def test_a_group_is_late_or_right_around_the_instant_and_wrong_elsewhere(site):
    """A process whose clock is ahead by up to a minute may have taken away what this one still counts."""
    site.save(1, 1)
    site.clock.set(NOON + HOUR - timedelta(seconds=1))
    site.save(1, 2)
    site.clock.tick(2)
    site.db.patch(Rsvp, 1, 1, guests=1)
    assert (site.is_recorded(1, 1), site.is_recorded(1, 2)) == (False, True)
    assert site.groups() == {1: 1}
    site.clock.tick(-50)
    assert site.db.verify().clean
    site.clock.tick(-20)
    faults = site.db.verify().faults
    assert {each.view for each in faults} >= {"record", "UpcomingOfGroup"}
    assert site.db.repair().left == ()
    assert site.groups() == {1: 2}
    assert site.db.verify().clean


def test_a_group_without_what_the_record_lists_is_wrong_also_when_that_is_late(site):
    site.save(1, 1, guests=3)
    site.save(1, 2, guests=5)
    site.clock.tick(7200)
    catalog = site.db.operations.catalog
    view = catalog.views[UpcomingOfGroup]
    group = view.prefix + view.key.codec.encode((1,))

    def lose(store):
        (row,) = store.read("counts", [group], "dm")
        contributions, yes, *rest = decode_amounts(row[VALUE].value)
        cell = Cell(encode_amounts([contributions - 1, yes - 1, *rest]), row[VALUE].stamp)
        store.replace("counts", {group: {**row, VALUE: cell}})

    site.db.run(site.db.operations.committer.together(lose))
    assert [each.view for each in site.db.verify().faults if each.table == "counts"] == ["UpcomingOfGroup"]
    site.db.repair()
    assert site.groups() == {1: 2}
    site.db.sweep()
    assert site.groups() == {}
    assert site.db.verify().clean


def test_what_is_held_leaves_its_groups_though_it_cannot_be_deleted(url):
    class Slot(Model[int]):
        number: Key[int]
        room: str
        ends_at: datetime
        ttl = expires("ends_at")

    class Lock(Model[int]):
        number: Key[int]
        slot: Ref[Slot] = reference(on_delete="refuse")

    class SlotsOfRoom(Aggregate[Slot]):
        ttl = expires(Slot.ends_at)
        room: str = by(Slot.room)
        slots: int = count()

    class AllSlots(Aggregate[Slot]):
        slots: int = count()

    clock = Clock(NOON)
    with connect(url, Schema(Slot, Lock, SlotsOfRoom, AllSlots), workers=0, clock=clock) as db:
        for number in (1, 2):
            db.save(Slot(number=number, room="a", ends_at=NOON + number * HOUR))
        db.save(Lock(number=1, slot=Slot.at(1)))
        clock.tick(3600)
        assert (db.get(SlotsOfRoom, "a").slots, db.get(AllSlots).slots) == (2, 2)
        swept = db.sweep()
        assert (swept.deleted, swept.removed, swept.held) == (0, 1, 1)
        assert (db.get(SlotsOfRoom, "a").slots, db.get(AllSlots).slots) == (1, 2)
        assert db.survey().unswept == {"Slot": 0.0}
        assert db.verify().clean
        db.delete(Lock, 1)
        assert db.sweep() == Swept(deleted=1)
        assert (db.get(SlotsOfRoom, "a").slots, db.get(AllSlots).slots) == (1, 1)


def test_places_of_an_entity_are_those_that_it_has(site):
    site.save(1, 1)

    def places():
        found = site.db.places(Rsvp, 1, 1, check=True)
        assert found.faults == ()
        return {each.view for each in found.places if each.kind in ("share", "extremum")}

    assert places() == {"UpcomingOfGroup", "UpcomingOfGroup.most", "UpcomingOfGroup.members"}
    site.clock.tick(3600)
    assert places()
    site.db.sweep()
    assert places() == set()


def test_a_loaded_dump_counts_what_has_not_ended(site, new_url):
    site.save(1, 1)
    site.save(2, 1)
    site.clock.tick(3600)
    text = dumped(site.db)
    other = Site(new_url())
    other.clock.set(site.clock.now)
    load(other.db, text)
    assert (site.groups(), other.groups()) == ({1: 1, 2: 1}, {2: 1})
    site.db.sweep()
    assert site.groups() == other.groups()
    assert other.db.verify().clean
    other.db.close()


def test_the_asynchronous_face_does_the_same(url):
    async def run():
        clock = Clock(NOON)
        async with await connect_async(url, SITE, workers=0, clock=clock) as db:
            await db.save(Group(number=1))
            await db.save(Event(number=1, group=Group.at(1), starts_at=NOON + HOUR))
            await db.save(Rsvp(event=1, member=1, of=Event.at(1)))
            before = (await db.get(UpcomingOfGroup, 1)).yes
            clock.tick(3600)
            swept = await db.sweep()
            return before, swept.removed, (await db.get(UpcomingOfGroup, 1)).yes, (await db.verify()).clean

    assert asyncio.run(run()) == (1, 1, 0, True)


def test_a_worker_sweeps_groups(site):
    site.save(1, 1)
    site.clock.tick(3600)
    while site.db.run(site.db.operations.chores.step()):
        pass
    assert site.groups() == {}


# Unique values.


def test_a_unique_value_is_free_when_its_time_is_over(site):
    db, until = site.db, NOON + HOUR
    site.save(1, 1, seat="A1", kept_until=until)
    with pytest.raises(NotUnique):
        site.save(1, 2, seat="A1", kept_until=until + HOUR)
    assert db.get(Seats, "A1").source == Rsvp.at(1, 1)
    site.clock.tick(3600)
    assert db.find(Seats, "A1") is None
    assert db.verify().clean
    site.save(1, 2, seat="A1", kept_until=until + HOUR)
    assert db.get(Seats, "A1").source == Rsvp.at(1, 2)
    assert db.get(Rsvp, 1, 1).seat == "A1"
    db.patch(Rsvp, 1, 1, guests=2)  # its own time is over: nothing of it is wanted
    with pytest.raises(NotUnique):
        db.patch(Rsvp, 1, 1, kept_until=until + 2 * HOUR)
    assert db.verify().clean
    site.clock.tick(3600)
    db.patch(Rsvp, 1, 1, kept_until=NOON + 9 * HOUR)
    assert db.get(Seats, "A1").source == Rsvp.at(1, 1)
    db.sweep()
    assert db.verify().clean
    assert db.get(Seats, "A1").source == Rsvp.at(1, 1)


def test_a_swept_unique_value_is_free_and_its_entity_stays(site):
    site.save(1, 1, seat="A1", kept_until=NOON + HOUR / 2)
    site.save(1, 2, seat="A2")
    site.clock.tick(1800)
    assert site.db.sweep() == Swept(removed=1)
    assert [row.seat for row in site.db.page(Seats)] == ["A2"]
    assert site.db.get(Rsvp, 1, 1).seat == "A1"
    site.save(1, 3, seat="A1")
    assert site.db.verify().clean


# What it costs.


def plain(ttl):
    """The same site, with a ttl or without."""

    class Talk(Model[int]):
        number: Key[int]
        room: str
        guests: int = 0
        ends_at: datetime = NOON + HOUR

    annotations = {"room": str, "talks": int, "most": int | None}
    rules = {"room": by(Talk.room), "talks": count(), "most": greatest(Talk.guests)}
    options = {"ttl": expires(Talk.ends_at)} if ttl else {}
    space = {"__module__": __name__, "__annotations__": annotations, **rules, **options}
    return Talk, new_class("Talks", (Aggregate[Talk],), {}, lambda into: into.update(space))


def spent(url, *, ttl):
    talk, talks = plain(ttl)
    found, clock = [], Clock(NOON)
    with connect(url, Schema(talk, talks), workers=0, clock=clock) as db:
        for call in (
            lambda: db.save(talk(number=1, room="a")),
            lambda: db.save(talk(number=1, room="b", guests=2)),
            lambda: db.get(talks, "b"),
            lambda: db.page(talks),
            lambda: db.delete(talk, 1),
        ):
            with budget() as cost:
                call()
            found.append((cost.cost.requests, cost.cost.rows))
    return found


def test_a_save_costs_one_row_more_and_no_request(new_url):
    with_ttl, without = spent(new_url(), ttl=True), spent(new_url(), ttl=False)
    more = [(one[0] - other[0], one[1] - other[1]) for one, other in zip(with_ttl, without, strict=True)]
    assert more == [(0, 1), (0, 0), (0, 0), (0, 0), (0, 1)]


def test_costs_stay_below_their_bounds(site):
    costs = site.db.explain.costs
    for event in (1, 2):
        for member in range(3):
            with budget() as cost:
                site.save(event, member, guests=member, seat=f"{event}{member}", kept_until=NOON + HOUR)
            assert cost.cost.requests <= costs.save(Rsvp).requests
    site.clock.tick(3601)
    with budget() as cost:
        site.db.patch(Rsvp, 1, 1, answer="no")
    assert cost.cost.rows <= costs.patch(Rsvp, "answer").rows
    with budget() as cost:
        site.save(2, 9, seat="10", guests=1)
    assert cost.cost.requests <= costs.save(Rsvp).requests


# What may be declared.


def test_the_ttl_of_a_total_depends_on_what_it_is_counted_from():
    class Thread(Model[int]):
        number: Key[int]
        last: datetime | None = rollup(lambda: RepliesOf.last)

    class Reply(Model[int]):
        number: Key[int]
        thread: Ref[Thread]
        made_at: datetime

    class RepliesOf(Aggregate[Reply]):
        ttl = expires(within(Reply.thread, Thread.last))
        thread: Ref[Thread] = by(Reply.thread)
        last: datetime | None = greatest(Reply.made_at)

    with pytest.raises(InvalidDeclaration, match="in a circle"):
        Schema(Thread, Reply, RepliesOf)


def test_a_field_of_an_aggregate_with_a_ttl_is_not_called_as_its_index():
    class Ends(Aggregate[Rsvp]):
        ttl = expires(Rsvp.kept_until)
        event: int = by(Rsvp.event)
        expiry: datetime | None = greatest(Rsvp.kept_until)

    with pytest.raises(InvalidDeclaration, match="call this field otherwise"):
        Schema(Group, Event, Rsvp, UpcomingOfGroup, Ends)
