"""The events: records, places and waitlists, what is ahead at the clock, mails, a check that finds what is wrong."""

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import groupby
from random import Random
from uuid import uuid4

import pytest

from examples.community import generator, meetups
from examples.events import acting, attending, checking, loading, mailing, next_release, recount, schema, source, stores
from examples.events.schema import EVENTS, Answer, Comment, Entry, Event, Group, Home, Member, Membership, Rsvp, Tag
from examples.moving_programs import Answer as Acknowledged
from examples.moving_programs import Answered, Made
from examples.shop.mistakes import Mistake
from oneread import JobHandlers, connect, connect_async
from oneread.errors import AlreadyExists, InvalidValue, MissingReference, NotFound, Outdated
from tests.examples.conftest import EVENTS as DATA
from tests.examples.conftest import ROOT, imported_from_library, kill_load, write_rows

DAY = timedelta(days=1)


def quiet(*_):
    pass


@pytest.fixture(scope="module")
def read():
    return source.read(DATA)


class Shifted:
    """The time of this machine and some days more."""

    def __init__(self):
        self.days = 0

    @property
    def now(self):
        return datetime.now(UTC) + self.days * DAY

    def __call__(self):
        return int(self.now.timestamp() * 1_000)


@pytest.fixture
def clock():
    return Shifted()


@pytest.fixture
def db(events_copy, clock):
    with connect(events_copy, EVENTS, workers=0, clock=clock) as opened:
        yield opened


def compared(db, read, lines=(), now=None):
    db.drain()
    db.sweep()
    return checking.check(db, loading.as_loaded(db, read), now or datetime.now(UTC), lines)


def differences(db, read, lines=(), now=None):
    return {each.name: each.differences for each in compared(db, read, lines, now) if each.differences}


# --- Records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [source, recount, meetups])
def test_what_counts_again_does_not_import_the_library(module):
    assert not imported_from_library(module)


def test_the_same_seed_makes_the_same_records(read):
    again, other = source.read(DATA), source.read("generated:8:20")
    assert again[:-1] == read[:-1]
    assert again.rsvps != other.rsvps


def test_a_folder_of_files_is_read_as_what_was_written(tmp_path, read):
    rows = generator.networks(Random("events 7"), 20)
    for name, (folder, _columns) in meetups.FILES.items():
        (tmp_path / folder).mkdir(exist_ok=True)
        write_rows(tmp_path / folder / f"{name}.csv.gz", rows[name])
    found = source.read(str(tmp_path))
    assert found[1:-1] == read[1:-1]
    assert (found.label, found.misfits.counts) == ("both networks", read.misfits.counts)
    (tmp_path / "meetup-nashville" / "meta-events.csv.gz").unlink()
    with pytest.raises(Mistake, match=r"lacks meetup-nashville/meta-events\.csv\.gz"):
        source.read(str(tmp_path))


def test_members_come_as_often_as_the_data_say(read):
    groups = {each.key: each.group for each in read.events}
    came = Counter((each.member, groups[each.event]) for each in read.rsvps)
    events = Counter(groups.values())
    of_nashville = [each for each in read.memberships if each.since is None]
    assert len(of_nashville) > 50
    for each in of_nashville:
        assert came[each.member, each.group] == min(each.weight, events[each.group])
    assert read.misfits.counts[source.GONE] > 0
    assert read.misfits.counts[source.TWICE] > 0


def test_records_are_moved_by_days_so_that_some_events_are_ahead(read):
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    moved = read.moved(read.days_to(now))
    assert timedelta(0) <= now - moved.today < DAY
    assert (moved.today - read.today) % DAY == timedelta(0)
    assert 0 < sum(each.starts_at > moved.today for each in moved.events) < len(moved.events) / 5
    for each in moved.events:
        assert each.announced_at < min(each.starts_at, moved.today)
    assert all(each.asked_at <= moved.today for each in moved.rsvps)


@pytest.mark.parametrize(("places", "come"), [(None, 3), (0, 0), (1, 1), (2, 1), (3, 2), (9, 3)])
def test_who_asks_first_has_a_place_and_none_is_passed_over(places, come):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    asked = [source.Rsvp("e", "a", at, 1), source.Rsvp("e", "b", at, 2), source.Rsvp("e", "c", at, 1)]
    assert source.admitted(places, asked) == come


# --- Loads -----------------------------------------------------------------------------------------------------------


def test_a_loaded_store_is_right_in_every_number(events_store, read):
    with stores.for_reading(events_store) as db:
        found = checking.check(db, loading.as_loaded(db, read), datetime.now(UTC), [])
    assert {each.name: each.differences for each in found if each.differences} == {}
    counts = {each.name: each.numbers for each in found}
    assert counts["list: guests of events"] > 200
    assert counts["list: busiest groups ahead"] > 2
    assert counts["list: events ahead"] > 3
    assert counts["list: agendas of members"] > 10
    assert counts["home pages"] > 1_000
    assert counts["home pages: unread"] == len(read.members)
    empty = {name for name, numbers in counts.items() if numbers < 3}
    assert empty == {"history: event, number", "mails: jobs by what they are about", "mails: set aside"}


def test_a_load_that_is_killed_ends_as_one_that_is_not(tmp_path, events):
    url, large = f"lmdb://{tmp_path}/events", "generated:7:60"
    command = ["examples.events", "load", "--data", large, "--db", url, "--batch", "50"]
    for behind in (100, 700, 1_500):  # among members, memberships, answers
        kill_load(command, "entities", behind)
    ended = events("load", "--data", large, "--db", url)
    assert (ended.code, " 0 were there" in ended.out) == (0, False), ended.out
    assert " 0 entities stored" in events("load", "--data", large, "--db", url).out
    checked = events("check", "--data", large, "--db", url, "--mails", tmp_path / "none")
    assert (checked.code, "compared: 0 differ" in checked.out) == (0, True), checked.out


def test_other_data_are_not_loaded_into_the_same_store(events_copy, events):
    ran = events("load", "--db", events_copy, "--data", "generated:8:20")
    assert (ran.code, "other data than generated:8:20" in ran.err) == (2, True)
    ran = events("check", "--db", events_copy, "--data", "generated:8:20")
    assert (ran.code, "give the --data that was loaded" in ran.err) == (2, True)


# --- Places and waitlists --------------------------------------------------------------------------------------------

PEOPLE = [f"member {each}" for each in range(12)]


@pytest.fixture(params=["memory://", "memory://?span=row", "lmdb"])
def url(request, tmp_path):
    """A store with a group, its members, and no events."""
    place = (
        f"lmdb://{tmp_path}/small" if request.param == "lmdb" else request.param.replace("://", f"://{tmp_path.name}")
    )
    with connect(place, EVENTS, workers=0) as db:
        db.save_all(
            [Group(group="walks", name="Walks", category="Outdoors"), *[Member(member=each) for each in PEOPLE]]
        )
        yield place


def lived(url, story):
    """Runs a story with an event of three places; returns the event and its guests afterwards."""

    async def live():
        async with connect_async(url, EVENTS, workers=0) as db:
            event = await attending.announce(db, "one", "walks", "A walk", attending.now() + DAY, 3)
            await story(db, event)
            await db.drain()
            rsvps = {each.person: each async for page in db.scan(Rsvp) for each in page}
            return await db.get(Event, event), rsvps

    return asyncio.run(live())


def line_of(event, rsvps):
    """Who comes, in the order in which they asked, and who waits."""
    waiting = {person for person, each in rsvps.items() if each.answer is Answer.WAITING}
    assert waiting == {*event.waiting}
    assert (event.yes, event.waits) == (len(rsvps) - len(waiting), len(waiting))
    assert event.taken == event.seats == sum(each.seats for each in rsvps.values() if each.answer is Answer.YES)
    return sorted(set(rsvps) - waiting), event.waiting


def test_who_has_waited_longest_has_the_place_that_becomes_free(url):
    said = []

    async def story(db, event):
        said.extend([await attending.come(db, event, person) for person in PEOPLE[:6]])
        assert await attending.leave(db, event, PEOPLE[4]) == []  # who waits and leaves makes no place free
        assert await attending.leave(db, event, PEOPLE[0]) == [PEOPLE[3]]
        assert await attending.leave(db, event, PEOPLE[1]) == [PEOPLE[5]]
        assert await attending.leave(db, event, PEOPLE[2]) == []
        assert await attending.come(db, event, PEOPLE[0]) is Answer.YES

    coming, waiting = line_of(*lived(url, story))
    assert said == [Answer.YES] * 3 + [Answer.WAITING] * 3
    assert (coming, waiting) == (sorted([PEOPLE[0], PEOPLE[3], PEOPLE[5]]), [])


def test_who_needs_more_seats_than_are_free_is_not_passed_over(url):
    async def story(db, event):
        for person, seats in zip(PEOPLE, (1, 1, 1, 3, 1), strict=False):
            await attending.come(db, event, person, seats)
        for person in PEOPLE[:2]:
            assert await attending.leave(db, event, person) == []
        assert await attending.come(db, event, PEOPLE[5]) is Answer.WAITING  # behind the others, although it would fit
        assert await attending.leave(db, event, PEOPLE[2]) == [PEOPLE[3]]
        assert await attending.leave(db, event, PEOPLE[3]) == [PEOPLE[4], PEOPLE[5]]

    assert line_of(*lived(url, story)) == (PEOPLE[4:6], [])


def test_all_who_come_at_once_find_no_more_places_than_there_are(url):
    async def story(db, event):
        await asyncio.gather(*(attending.come(db, event, person) for person in PEOPLE))
        leaving = [each.person for each in (await db.page(Rsvp, event)).rows if each.answer is Answer.YES][:2]
        await asyncio.gather(*(attending.leave(db, event, person) for person in leaving))

    event, rsvps = lived(url, story)
    coming, waiting = line_of(event, rsvps)
    assert (len(coming), len(waiting)) == (3, 7)
    with connect(url, EVENTS, workers=0) as db:
        history = db.page(Entry, event.event).rows
    assert [each.number for each in history] == [*range(1, 15)]
    order = [each.person for each in history if each.what is schema.What.CAME]
    assert waiting == order[5:]


@pytest.mark.parametrize("seed", range(4))
def test_answers_by_chance_are_those_of_plain_python(url, seed):
    """Who comes, who waits and in which order, who moves up and which mails follow, after each of thirty calls."""
    chance = Random(seed)

    async def story(db, key):
        await db.patch(Event, key, places=chance.randrange(6))
        event = await db.get(Event, key)
        plain = source.Event(key, "walks", "", event.announced_at, event.starts_at, event.places, (), 0)
        there, history, answered = recount.Lived(plain), 0, set()
        for _ in range(30):
            person, seats = chance.choice(PEOPLE[:8]), chance.randrange(1, 4)
            if chance.random() < 0.55 and person not in answered:
                await attending.come(db, key, person, seats)
                there.come(person, seats, event.announced_at)
                answered.add(person)
            elif person in answered:
                before = len(there.mails)
                moved_up = await attending.leave(db, key, person)
                there.leave(person, history + 1)
                assert moved_up == [each.to for each in there.mails[before:]]
                answered.remove(person)
            else:
                continue
            history += 1
            event = await db.get(Event, key)
            assert (event.taken, event.seats, event.waiting) == (there.taken, there.taken, there.waiting)
            assert (event.yes, event.waits) == (len(there.coming()), len(there.waiting))
        mails = [(each.fields["person"], each.fields["cause"]) for each in await db.jobs()]
        assert sorted(mails) == sorted((each.to, each.cause) for each in there.mails)

    lived(url, story)


def test_what_is_refused_leaves_nothing(url):
    async def story(db, event):
        await attending.come(db, event, PEOPLE[0])
        with pytest.raises(AlreadyExists):
            await attending.come(db, event, PEOPLE[0])
        with pytest.raises(MissingReference):
            await attending.come(db, event, "no member")
        with pytest.raises(InvalidValue):
            await attending.come(db, event, PEOPLE[1], 4)
        for verb in (attending.come, attending.leave):
            with pytest.raises(NotFound):
                await verb(db, "no event", PEOPLE[0])
        with pytest.raises(NotFound):
            await attending.leave(db, event, PEOPLE[1])
        with pytest.raises(InvalidValue, match="begins after it was announced"):
            await attending.reschedule(db, event, attending.now() - DAY)
        assert await db.jobs() == []
        begun = await attending.announce(db, "begun", "walks", "Begun", attending.now() + DAY, 3)
        await db.patch(Event, begun, announced_at=attending.now() - DAY, starts_at=attending.now())
        with pytest.raises(InvalidValue, match="this event has begun"):
            await attending.come(db, begun, PEOPLE[0])

    event, rsvps = lived(url, story)
    assert line_of(event, rsvps) == ([PEOPLE[0]], [])
    with connect(url, EVENTS, workers=0) as db:
        assert [(each.event, each.number) for each in db.page(Entry).rows] == [(event.event, 1)]


# --- What is ahead at the clock, and homes ---------------------------------------------------------------------------


def boards(db):
    """Events ahead and groups with who comes to them."""
    ahead = [each.source.key[0] for page in db.scan(schema.EventsAhead) for each in page]
    return ahead, {each.group.key[0]: each.yes for page in db.scan(schema.BusiestGroups) for each in page}


def test_boards_follow_the_clock_and_events_that_are_moved(db, read, clock, events_copy):
    moved = loading.as_loaded(db, read)
    _ahead, before = boards(db)
    came = Counter(each.event for each in read.rsvps)
    first = min(
        (each for each in moved.events if each.starts_at > clock.now and came[each.key]),
        key=lambda each: each.starts_at,
    )
    clock.days = (first.starts_at - clock.now) // DAY + 1
    now = clock.now
    assert differences(db, read, now=now) == {}
    ahead, groups = boards(db)
    assert first.key not in ahead
    assert groups.get(first.group, 0) < before[first.group]

    async def move():
        async with connect_async(events_copy, EVENTS, workers=0) as opened:
            await attending.reschedule(opened, first.key, now + 2 * DAY)

    asyncio.run(move())
    now = clock.now
    found = differences(db, read, now=now)
    assert found == {}
    ahead, groups = boards(db)
    assert first.key in ahead
    assert groups[first.group] >= db.get(Event, first.key).yes > 0
    clock.days += 400
    assert differences(db, read, now=clock.now) == {}
    assert boards(db) == ([], {})


def test_a_home_has_what_is_announced_for_two_months_and_no_numbers(db, read, clock):
    member = max(
        (each.key[0] for each in {row.member for page in db.scan(Membership) for row in page}),
        key=lambda each: len(db.page(Home, each, limit=100).rows),
    )
    assert "yes" not in Home.__struct_fields__
    all_of_them = len(db.page(Home, member, limit=100).rows)
    seen = db.page(Home, member, limit=3)[2]
    db.mark(Home, member, seen=seen)
    assert db.unread(Home, member).unseen == 2
    assert differences(db, read) == {}
    clock.days = 70
    assert differences(db, read, now=clock.now) == {}
    assert len(db.page(Home, member, limit=100).rows) < all_of_them


def test_an_answer_rewrites_no_home(db, read):
    """The members of the group are not among the rows that an answer writes."""
    sizes = Counter(each.group for each in read.memberships)
    written = []
    for group, size in (sizes.most_common()[0], sizes.most_common()[-1]):
        event = Event(
            event=f"site:{size}", group=schema.GroupName.of(group), title="A walk",
            announced_at=attending.now(), starts_at=attending.now() + DAY,
        )  # fmt: skip
        db.save(event)
        rsvp = Rsvp(
            event=event.event,
            person="nashville:1",
            of=schema.Happening.of(event.event),
            member=Member.at("nashville:1"),
            answer=Answer.YES,
            seats=1,
            asked_at=attending.now(),
        )
        written.append(db.cost(db.create(rsvp)).rows)
    assert sizes.most_common()[0][1] > 5 * sizes.most_common()[-1][1]
    assert written[0] == written[1]


# --- Mails -----------------------------------------------------------------------------------------------------------


def test_a_mail_follows_from_its_commit_and_a_second_line_has_the_same_token(url, tmp_path):
    starts_at = attending.now() + 9 * DAY

    async def story(db, event):
        for person in PEOPLE[:5]:
            await attending.come(db, event, person)
        await attending.leave(db, event, PEOPLE[0])
        await attending.reschedule(db, event, starts_at)

    event, _ = lived(url, story)
    file = tmp_path / "mails"
    with connect(url, EVENTS, workers=0) as db:
        wait = db.jobs()
        assert sorted(each.kind for each in wait) == ["Promoted", "Rescheduled"]
        assert db.run_jobs(mailing.mailers(file)).done == 2
        assert db.run_jobs(mailing.mailers(file)).done == 0
    lines = mailing.sent(file)
    assert {(each.about, each.event, each.to, each.cause) for each in lines} == {
        ("promoted", event.event, PEOPLE[3], 6),
        ("rescheduled", event.event, starts_at.isoformat(), 7),
    }
    assert {each.token for each in lines} == {each.token for each in wait}


def test_the_worker_of_the_command_line_sends_them(events_copy, read, tmp_path):
    key = loading_ahead(events_copy, read)

    async def story():
        async with connect_async(events_copy, EVENTS, workers=0) as db:
            await attending.reschedule(db, key, attending.now() + 3 * DAY)

    asyncio.run(story())
    file = tmp_path / "mails"
    command = [
        "worker",
        "--once",
        "--app",
        "examples.events.mailing:handlers",
        "--schema",
        "examples.events.schema:EVENTS",
    ]
    environment = {**os.environ, mailing.FILE: str(file), "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(
        [sys.executable, "-m", "oneread", *command, "--db", events_copy], cwd=ROOT, env=environment, check=True
    )
    assert [(each.about, each.event) for each in mailing.sent(file)] == [("rescheduled", key)]
    with connect(events_copy, EVENTS, workers=0) as db:
        assert differences(db, read, mailing.sent(file)) == {}


def loading_ahead(url, read):
    with connect(url, EVENTS, workers=0) as db:
        moved = loading.as_loaded(db, read)
    return max(moved.events, key=lambda each: each.starts_at).key


# --- A check that finds what is wrong --------------------------------------------------------------------------------


def _patch_event(db, read, **changes):
    db.patch(Event, max(read.rsvps, key=lambda each: each.event).event, **changes)


def _forget(db, read):
    """The first line of a history goes."""
    key = read.events[0].key
    for _ in range(2):
        db.create(Entry(event=key, what=schema.What.MOVED, happened_at=attending.now(), starts_at=attending.now()))
    db.delete(Entry, key, 1)


def _enqueue(db, read):
    db.enqueue(schema.Promoted(event=read.events[0].key, person="nashville:1", cause=1))


def _leave_all(db, read):
    for each in ahead(read):
        db.delete(Rsvp, each.event, each.member)


DAMAGE = {
    "events: group": lambda db, read: _patch_event(db, read, taken=1_000),
    "answers: answer": lambda db, read: db.delete(Rsvp, *read.rsvps[0][:2]),
    "list: guests of events": lambda db, read: db.patch(Rsvp, *read.rsvps[0][:2], answer=Answer.WAITING),
    "list: busiest groups ahead": _leave_all,
    "list: events ahead": lambda db, read: db.patch(Event, ahead(read)[0].event, starts_at=attending.now() + DAY),
    "list: agendas of members": lambda db, read: db.delete(Rsvp, *ahead(read)[0][:2]),
    "comments: event, number": lambda db, read: db.patch(Comment, read.comments[0].event, 1, text="other"),
    "list: tags of months": lambda db, read: _patch_event(db, read, tags=[]),
    "list: events by tag": lambda db, read: _patch_event(db, read, tags=[]),
    "tags: events": lambda db, _: db.save(Tag(word="another")),
    "groups: name, category": lambda db, read: db.patch(Group, read.groups[0].key, name="Another"),
    "memberships: member, group": lambda db, read: db.delete(Membership, *read.memberships[0][:2]),
    "home pages": lambda db, read: db.delete(Membership, *read.memberships[0][:2]),
    "events: views of the records": lambda db, read: db.counter(f"views:{viewed(read)}").add(-1),
    "history: event, number": _forget,
    "mails: jobs by what they are about": _enqueue,
}


def ahead(read):
    starts = {each.key: each.starts_at for each in read.events}
    return [each for each in read.rsvps if starts[each.event] > read.today + 7 * DAY]


def viewed(read):
    return next(each.key for each in read.events if each.views)


@pytest.mark.parametrize("name", DAMAGE)
def test_check_finds_what_is_wrong(db, read, name):
    DAMAGE[name](db, read)
    assert [each for each in differences(db, read) if each.startswith(name)]


@pytest.mark.parametrize("damage", ["lost", "again under another token", "of a refused commit", "about another cause"])
def test_check_finds_mails_that_are_wrong(events_copy, db, read, damage, tmp_path):
    key = loading_ahead(events_copy, read)

    async def story():
        async with connect_async(events_copy, EVENTS, workers=0) as opened:
            for days in (3, 4):
                await attending.reschedule(opened, key, attending.now() + days * DAY)

    asyncio.run(story())
    db.run_jobs(mailing.mailers(tmp_path / "mails"))
    lines = mailing.sent(tmp_path / "mails")
    assert differences(db, read, [*lines, lines[0]]) == {}
    first = lines[0]
    wrong = {
        "lost": lines[1:],
        "again under another token": [*lines, mailing.Sent("other", *fields(first))],
        "of a refused commit": [*lines, mailing.Sent("other", "promoted", key, "nashville:1", 2)],
        "about another cause": [mailing.Sent(first.token, first.about, first.event, first.to, 7), *lines[1:]],
    }
    assert [*differences(db, read, wrong[damage])] == ["mails: jobs by what they are about"]


def fields(line):
    return line.about, line.event, line.to, line.cause


def test_check_finds_mails_that_are_set_aside(db, read):
    handlers = JobHandlers()

    @handlers.handles(schema.Promoted, tries=1)
    def fail(_job, _run):
        raise ValueError

    _enqueue(db, read)
    db.run_jobs(handlers)
    assert "mails: set aside" in differences(db, read)


# --- Commands --------------------------------------------------------------------------------------------------------


def test_commands_print_pages_and_what_they_cost(events, events_copy, read):
    home = events("home", "nashville:1", "--db", events_copy, "--limit", "5")
    assert (home.code, bool(re.match(r"nashville:1: \d+\+? new\n", home.out))) == (0, True)
    assert "1 request, 6 rows" in home.out
    full = next(key for key, several in groupby(read.rsvps, lambda each: each.event) if _is_full(read, key, [*several]))
    event = events("event", full, "--db", events_copy)
    assert event.code == 0
    assert re.search(r"[1-9]\d* come with \d+ seats, [1-9]\d* wait; \d+ places; \d+ views", event.out)
    assert "the line: " in event.out
    top = events("top", "--db", events_copy)
    assert (top.code, "come to what is ahead" in top.out) == (0, True)


def _is_full(read, key, rsvps):
    (event,) = [each for each in read.events if each.key == key]
    return event.places is not None and sum(each.seats for each in rsvps) > event.places


def test_what_is_not_there_is_said_in_one_line(events, events_copy, tmp_path):
    for arguments, said in (
        (["home", "nobody", "--db", events_copy], "there is no member 'nobody'"),
        (["event", "nothing", "--db", events_copy], "there is no event 'nothing'"),
        (["top", "--db", f"lmdb://{tmp_path}/none"], "none"),
        (["act", "--db", "memory://x"], "on disk or on servers"),
        (["load", "--db", "memory://x", "--data", "generated:x"], "is not generated:SEED"),
    ):
        ran = events(*arguments)
        assert (ran.code, said in ran.err, ran.err.count("\n")) == (2, True, 1), ran.err


def test_check_says_what_differs(events, events_copy, tmp_path, read):
    with connect(events_copy, EVENTS, workers=0) as db:
        db.delete(Rsvp, *read.rsvps[0][:2])
    ran = events("check", "--db", events_copy, "--data", DATA, "--mails", tmp_path / "none")
    assert ran.code == 1
    assert "answers: answer, seats" in ran.out


@pytest.fixture(params=["lmdb", "hbase", "bigtable"])
def shared(request, tmp_path, monkeypatch):
    """A place that several programs write to."""
    name = f"x{uuid4().hex[:12]}"
    if request.param == "lmdb":
        return f"lmdb://{tmp_path}/{name}?durability=none"
    if request.param == "hbase":
        return f"hbase://{request.getfixturevalue('hbase').place}/default?compression=none&prefix={name}_"
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", request.getfixturevalue("emulator").host)
    return f"bigtable://test/{name}"


def test_writers_and_workers_are_killed_and_all_is_right(events, shared, tmp_path):
    """Answers come and go, events are moved and begin, places are passed on, and mails are sent meanwhile."""
    ran = events(
        "act", "--db", shared, "--data", "generated:7:8", "--seconds", "8", "--kills", "4", "--rate", "20",
        "--mails", tmp_path / "mails", "--folder", tmp_path / "logs",
    )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    assert "lost 0, twice 0, refused or not asked for and stored 0" in ran.out
    assert ran.out.count("  killed a ") == 4
    assert re.search(r"acknowledged: .*[1-9]\d* come.*[1-9]\d* were refused", ran.out)
    assert re.search(r"[1-9]\d* mails;.* 0 wait", ran.out)
    assert "compared: 0 differ" in ran.out
    writers = len([*(tmp_path / "logs").glob("calls-*")])
    answered = Answered([tmp_path / "logs" / f"calls-{each}" for each in range(writers)], acting.EventCall)
    asked = [*acting.asked_in(tmp_path / "logs", writers)]
    data = source.read("generated:7:8")
    with connect(shared, EVENTS, workers=0) as db:
        data = loading.as_loaded(db, data)
        assert acting.compare(db, data, answered, asked) == 0
        done = {each.call.verb: each for each in answered.made if each.answer.result}
        for verb in ("come", "remark", "view"):
            without = [each for each in asked if each[1] != done[verb].token]
            assert acting.compare(db, data, answered, without) == 1, verb
        answered.made += [
            Made(done[verb].call, Acknowledged(1), f"never {verb}") for verb in ("leave", "move", "remark")
        ]
        assert acting.compare(db, data, answered, asked) == 3
        answered.made += [
            Made(acting.EventCall(verb, event="no"), Acknowledged(1), "") for verb in ("announce", "join")
        ]
        assert acting.compare(db, data, answered, asked) == 5


def test_the_next_release_is_deployed_while_programs_of_this_one_write(events, shared, tmp_path):
    """Two fields get other names, and a list another `ttl`; programs of both are killed, and its build is."""
    ran = events(
        "act", "--release", "--db", shared, "--data", "generated:7:8", "--seconds", "8", "--kills", "5", "--seed", "9",
        "--rate", "20", "--mails", tmp_path / "mails", "--folder", tmp_path / "logs",
    )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    assert "lost 0, twice 0, refused or not asked for and stored 0" in ran.out
    behind = ran.out.partition("of the next release run as well")[2]
    assert behind.count("  killed a ") == 3
    assert "  the next release has built its views, and is alone" in behind
    assert "compared: 0 differ" in behind
    with pytest.raises(Outdated):
        connect(shared, EVENTS, workers=0)


def test_a_release_changes_lines_that_are_there_once(tmp_path, monkeypatch):
    assert "renamed(" in (next_release.write(tmp_path / "one") / "examples/events/schema.py").read_text()
    monkeypatch.setitem(next_release._EDITS, "pages.py", (("no such line", ""),))
    with pytest.raises(Mistake, match="which is there 0 times"):
        next_release.write(tmp_path / "two")
