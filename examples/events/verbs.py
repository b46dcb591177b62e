"""What the commands of the site do, and print; each page says what it cost."""

from __future__ import annotations

import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Event as Flag
from typing import Any

from examples.comparing import print_compared, print_verified
from examples.events import loading, mailing, schema, source, stores
from examples.events.checking import MOST
from examples.events.checking import check as compared
from examples.qa.progress import progress
from examples.shop.mistakes import Mistake
from examples.shop.printing import table
from oneread import Page, connect
from oneread.plans.clock import wall_clock


def load(given: Namespace) -> int:
    """Loads, and prints what was found and what does not fit."""
    data = source.read(given.data)
    print(f"loading {data.label} into {given.db}", flush=True)
    with stores.for_loading(given.db) as db, progress(sys.stdout) as report:
        loaded = loading.load(db, data, report, batch=given.batch)
    misfits = [(reason, count, data.misfits.first[reason]) for reason, count in data.misfits.counts.items()]
    print(table(("what does not fit", "records", "the first of them"), misfits))
    rate = loaded.stored / loaded.seconds if loaded.stored else 0.0
    print(f"  {loaded.stored:,} entities stored in {loaded.seconds:.1f} s, {rate:,.0f}/s; {loaded.before:,} were there")
    print(f"  views of {loaded.views:,} events ahead are counted")
    return 0


def check(given: Namespace) -> int:
    """Compares everything with the records and the history, then verifies the store; 1 where anything differs."""
    return differing(given.db, source.read(given.data), given.mails or mailing.file_of(given.db))


def differing(url: str, data: source.Data, mails: Path) -> int:
    """What `check` does, for a store in which programs are at rest: its clock stands still meanwhile."""
    clock = wall_clock()
    with stores.for_settling(url, lambda: clock) as db:
        print(f"comparing {url} with {data.label}, made again", flush=True)
        lines = mailing.sent(mails)
        found = compared(db, loading.as_loaded(db, data), datetime.fromtimestamp(clock / 1_000, UTC), lines)
        differences = print_compared(found)
        tokens, waiting = len({each.token for each in lines}), db.survey().jobs.waiting
        print(f"  {tokens:,} mails; {len(lines) - tokens:,} lines again by their token; {waiting:,} wait")
        print(f"  {sum(each.numbers for each in found):,} compared: {differences:,} differ")
        clean = print_verified(db)
    return 0 if clean and not differences else 1


def home(given: Namespace) -> int:
    """Prints a page of a member's home: a range read, the unread count, and the events for their numbers."""
    with stores.for_reading(given.db) as db:
        if not db.exists(schema.Member, given.member):
            raise Mistake(f"there is no member {given.member!r}; nashville:2069 is one of the data")
        found = db.page(schema.Home, given.member, limit=given.limit)
        marks = db.marks(schema.Home, given.member)
        events = db.get_many(schema.Event, [row.source for row in found])
        rows = [
            (
                "" if marks.has_seen(row) else "new",
                f"{row.starts_at:%Y-%m-%d %H:%M}",
                row.group.name,
                row.title,
                None if event is None else event.yes,
            )
            for row, event in zip(found, events, strict=True)
        ]
        print(f"{given.member}: {db.unread(schema.Home, given.member, limit=MOST).unseen_text} new")
        print(table(("", "begins (UTC)", "group", "event", "come"), rows))
        _cost(found)
        agenda = db.page(schema.Agenda, given.member, limit=given.limit)
        mine = [(f"{row.starts_at:%Y-%m-%d %H:%M}", row.title, row.answer.value) for row in agenda]
        print(table(("begins (UTC)", "my event", "answer"), mine))
        _cost(agenda)
    return 0


def event(given: Namespace) -> int:
    """Prints an event: one get, with all of its numbers and its line; then its first comments."""
    with stores.for_reading(given.db) as db:
        found = db.find(schema.Event, given.event)
        if found is None:
            raise Mistake(f"there is no event {given.event!r}; `top` lists some")
        print(f"{found.title} ({found.group.name}), {found.starts_at:%Y-%m-%d %H:%M} UTC")
        places = "all who want can come" if found.places is None else f"{found.places:,} places"
        print(f"  {found.yes:,} come with {found.seats:,} seats, {found.waits:,} wait; {places}; {found.views:,} views")
        if found.waiting:
            print(f"  the line: {', '.join(found.waiting[: given.limit])}")
        guests = db.page(schema.GuestList, given.event, limit=given.limit)
        print(table(("first who come", "seats"), [(each.source.key[1], each.seats) for each in guests]))
        comments = db.page(schema.Comment, given.event, limit=given.limit)
        rows = [(f"#{each.number}", each.author.key[0], " ".join(each.text.split())[:70]) for each in comments]
        print(table(("comment", "by", f"of {found.comments:,}"), rows))
        _cost(comments)
    return 0


def top(given: Namespace) -> int:
    """Prints the boards of what is ahead, and the tags of this month: each one range read."""
    with stores.for_reading(given.db) as db:
        ahead = db.page(schema.EventsAhead, limit=given.limit)
        _list(
            ("event", "title", "begins (UTC)", "come"),
            [(row.source.key[0], row.title, f"{row.starts_at:%Y-%m-%d %H:%M}", row.yes) for row in ahead],
            ahead,
        )
        busiest = db.page(schema.BusiestGroups, limit=given.limit)
        _list(
            ("group", "come to what is ahead", "wait"),
            [(row.group.key[0], row.yes, row.waiting) for row in busiest],
            busiest,
        )
        month = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        tags = db.page(schema.TagsOfMonth, month, limit=given.limit)
        _list((f"tag of {month:%B %Y}", "events"), [(row.tag.key[0], row.events) for row in tags], tags)
    return 0


def worker(given: Namespace) -> int:
    """Does what follows from commits, and sends mails, until it is interrupted; a second one shares the work."""
    stores.for_reading(given.db).close()
    stopped, mails = Flag(), given.mails or mailing.file_of(given.db)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: stopped.set())
    with connect(given.db, schema.EVENTS, workers=1) as db:
        db.start_jobs(mailing.mailers(mails, given.pause))
        print(f"working for {given.db}; mails are in {mails}", flush=True)
        stopped.wait()
    return 0


def _list(head: tuple[str, ...], rows: Sequence[tuple[object, ...]], found: Page[Any]) -> None:
    print(table(head, rows))
    _cost(found)


def _cost(found: Page[Any]) -> None:
    print(f"  {found.cost.requests} request, {found.cost.rows} rows, {found.cost.bytes:,} bytes")
