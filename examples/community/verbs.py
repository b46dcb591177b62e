"""What the commands of the community do, and print; each page is one bounded read, whose cost is its last line."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from examples.community import counting, feeds, loading, schema, source, stores
from examples.community.checking import FEEDS
from examples.community.checking import check as compared
from examples.community.joining import members
from examples.comparing import print_compared, print_verified
from examples.qa.progress import progress
from examples.shop.mistakes import Mistake
from examples.shop.printing import table
from oneread import Database, Page


def load(given: Namespace) -> int:
    """Loads, counts the logs, and prints what was found and what does not fit."""
    data = source.read(given.data)
    print(f"loading {data.label} into {given.db}", flush=True)
    clock = counting.Clock()
    with stores.for_loading(given.db, clock) as db:
        with progress(sys.stdout) as report:
            loaded = loading.load(db, data, report, batch=given.batch)
        counted = []
        for log in data.logs:
            with progress(sys.stdout, "lines") as report:
                counted.append(counting.count(db, clock, log, report))
    misfits = [(reason, count, data.misfits.first[reason]) for reason, count in data.misfits.counts.items()]
    print(table(("what does not fit", "records", "the first of them"), misfits))
    rate = loaded.stored / loaded.seconds if loaded.stored else 0.0
    print(f"  {loaded.stored:,} entities stored in {loaded.seconds:.1f} s, {rate:,.0f}/s; {loaded.before:,} were there")
    for each in counted:
        rate = each.lines / each.seconds if each.lines else 0.0
        print(
            f"  {each.log}: {each.lines:,} lines counted in {each.seconds:.1f} s, {rate:,.0f}/s; {each.before:,} were"
            f" there; {each.rejected:,} are rejected; {each.again:,} adds were made before and not counted again"
        )
    return 0


def check(given: Namespace) -> int:
    """Compares every number with the records, then verifies the store; 1 where anything differs."""
    data = source.read(given.data)
    clock = counting.Clock()
    with stores.for_reading(given.db, clock) as db:
        print(f"comparing {given.db} with {data.label}, counted again", flush=True)
        found = compared(db, clock, data)
        differences = print_compared(found)
        of_feeds = [each for each in found if each.name.startswith(FEEDS)]
        entries, apart = sum(each.numbers for each in of_feeds), sum(len(each.differences) for each in of_feeds)
        print(f"  {len(members(data)):,} members, {entries:,} entries of their feeds: {apart:,} differ")
        print(f"  {sum(each.numbers for each in found):,} compared: {differences:,} differ")
        clean = print_verified(db)
    return 0 if clean and not differences else 1


def thread(given: Namespace) -> int:
    """Prints a page of a thread: its messages by their numbers."""
    with stores.for_reading(given.db, counting.Clock()) as db:
        shown = db.find(schema.Thread, given.topic)
        if shown is None:
            raise Mistake(f"there is no thread {given.topic}; `top` lists some")
        found = db.page(schema.Message, given.topic, limit=given.limit, cursor=given.cursor, backward=given.backward)
        print(f"{shown.title} ({shown.stream}): {shown.messages:,} messages")
        rows = [
            (f"#{each.number}", f"{each.sent_at:%Y-%m-%d %H:%M}", each.sender.key[0], each.length) for each in found
        ]
        print(table(("message", "sent (UTC)", "by", "characters"), rows))
        _ways(found)
    return 0


def feed(given: Namespace) -> int:
    """Prints a page of a member's home: one range read."""
    with stores.for_reading(given.db, counting.Clock()) as db:
        _member(db, given.member)
        found = db.page(schema.Home, given.member, limit=given.limit, cursor=given.cursor, backward=given.backward)
        rows = [(f"{each.posted_at:%Y-%m-%d %H:%M}", each.group.name, _published(each)) for each in found]
        print(table(("at (UTC)", "group", "published"), rows))
        _ways(found)
    return 0


def _published(row: schema.Home) -> str:
    return row.title if row.by is None else f"{row.by.key[0]} {row.title}"


def notifications(given: Namespace) -> int:
    """Prints a page of a member's notifications, and how many of all are unread: a range read each, and a row."""
    with stores.for_reading(given.db, counting.Clock()) as db:
        _member(db, given.member)
        found = db.page(
            schema.Notifications, given.member, limit=given.limit, cursor=given.cursor, backward=given.backward
        )
        rows = [
            (f"{each.active_at:%Y-%m-%d %H:%M}", each.source.key[0], f"{each.title} ({each.stream})") for each in found
        ]
        news = db.unread(schema.Notifications, given.member, limit=feeds.MOST)
        print(f"{given.member}: {news.unseen_text} unread")
        print(table(("last message (UTC)", "thread", "title (stream)"), rows))
        _ways(found)
    return 0


def _member(db: Database, member: str) -> None:
    if not db.exists(schema.Member, member):
        raise Mistake(f"there is no member {member!r}; `top` lists some, and nashville:2069 is one of a group")


def comments(given: Namespace) -> int:
    """Prints a page of comments: of the whole site by their keys alone, or of a post."""
    with stores.for_reading(given.db, counting.Clock()) as db:
        if given.post is None:
            found = db.page(schema.Comment, limit=given.limit, cursor=given.cursor, backward=given.backward)
            rows = [(each.written_at, each.member, each.number, each.text) for each in found]
            _comments(rows)
            _ways(found)
        else:
            of_post = db.page(
                schema.CommentsOfPost, given.post, limit=given.limit, cursor=given.cursor, backward=given.backward
            )
            if not of_post.rows:
                raise Mistake(f"there are no comments on a post {given.post}; `top` lists some")
            _comments([(*each.source.key, each.text) for each in of_post])
            _ways(of_post)
    return 0


def _comments(rows: list[tuple[datetime, str, int, str]]) -> None:
    shown = [
        (f"{written_at:%Y-%m-%d %H:%M}", f"{member} #{number}", " ".join(text.split())[:70])
        for written_at, member, number, text in rows
    ]
    print(table(("written (UTC)", "by, number", "comment"), shown))


def poll(given: Namespace) -> int:
    """Prints what a poll came to: one get."""
    with stores.for_reading(given.db, counting.Clock()) as db:
        shown = db.find(schema.Poll, given.post)
        if shown is None:
            raise Mistake(f"there is no post {given.post}; `top` lists some")
        print(shown.title)
        print(
            f"  score {shown.score:,} of {shown.ballots:,} ballots, {shown.favourites:,} of them favourites;"
            f" {shown.comments:,} comments"
        )
        cost = db.cost(shown)
        print(f"  {cost.requests} request, {cost.rows} row")
    return 0


def counter(given: Namespace) -> int:
    """Prints a counter, and its last windows as of the last line of its log."""
    clock = counting.Clock()
    with stores.for_reading(given.db, clock) as db:
        shown = db.counter(given.name)
        settings = shown.settings()
        seen = shown.look()
        if not seen.rows:
            near = db.counters(f"{given.name.partition(':')[0]}:", limit=3) or db.counters(limit=3)
            names = ", ".join(each.name for each in near) or "no counters yet"
            raise Mistake(f"nothing was counted by {given.name}; there are {names}")
        print(f"{given.name}: {seen.value:,} in {seen.rows} rows")
        _set_to_log(db, clock, given.name)
        for size in settings.windows:
            windows = shown.windows(size, last=min(given.last, settings.windows[size]))
            print(
                table((f"{size} (UTC)", "counted"), [(f"{each.start:%Y-%m-%d %H:%M}", each.value) for each in windows])
            )
    return 0


def _set_to_log(db: Database, clock: counting.Clock, name: str) -> None:
    """Windows end now, and now is when the last line of the log was written."""
    log = db.find(schema.Log, name.partition(":")[0])
    clock.set_to(datetime.now(UTC).timestamp() if log is None else log.newest.timestamp())


def top(given: Namespace) -> int:
    """Prints the top lists: each one range read of an index that is in this order."""
    with stores.for_reading(given.db, counting.Clock()) as db:
        if given.stream is not None:
            of_stream = db.page(schema.ThreadsOfStream, given.stream, limit=given.limit)
            if not of_stream.rows:
                raise Mistake(f"there are no threads in a stream {given.stream!r}; `top` shows some")
            rows = [(each.source.key[0], each.title, each.messages) for each in of_stream]
            _list(("thread", f"title, in {given.stream}", "messages"), rows, of_stream)
            return 0
        threads = db.page(schema.TopThreads, limit=given.limit)
        shown = [(each.source.key[0], f"{each.title} ({each.stream})", each.messages) for each in threads]
        _list(("thread", "title (stream)", "messages"), shown, threads)
        members = db.page(schema.TopMembers, limit=given.limit)
        _list(
            ("member", "messages", "comments"),
            [(each.source.key[0], each.messages, each.comments) for each in members],
            members,
        )
        polls = db.page(schema.TopPolls, limit=given.limit)
        _list(
            ("post", "title", "score", "ballots", "favourites"),
            [(each.source.key[0], each.title, each.score, each.ballots, each.favourites) for each in polls],
            polls,
        )
        paths = db.page(schema.TopPaths, limit=given.limit)
        _list(("path", "views"), [(each.source.key[0], each.views) for each in paths], paths)
    return 0


def _list(head: tuple[str, ...], rows: Sequence[tuple[object, ...]], found: Page[Any]) -> None:
    print(table(head, [(str(key), *shown) for key, *shown in rows]))
    _cost(found)


def _cost(found: Page[Any]) -> None:
    print(f"  {found.cost.requests} request, {found.cost.rows} rows, {found.cost.bytes:,} bytes")


def _ways(found: Page[Any]) -> None:
    """What the page cost, and where the pages before and after it are."""
    _cost(found)
    for way, cursor in (("next", found.next), ("previous", found.previous)):
        if cursor is not None:
            print(f"  {way}: --cursor={cursor}")
