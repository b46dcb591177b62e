"""P7: feeds beside LMDB by hand and Redis: publishing to groups of 10 to 15,000 members, pages, joins, sizes.

All sides hold the same memberships and posts, and every member's feed is compared with the naive join. Durability in
pairs, as in P5: what a killed process cannot lose, unless a row says `durable`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Final, Literal, TypeVar

from benchmarks.benchmark import Benchmark
from benchmarks.context import Context, Sizes
from benchmarks.measure import Meter, Ratio, Series, each, interleaved
from benchmarks.peers.feeds import PAGE, Feeds, RawFeeds, RedisFeeds, redis_feeds
from benchmarks.peers.promises import SETTINGS, Durability, named
from benchmarks.rows import SHOWN, Goal, Row, Subject, with_core
from benchmarks.workloads.meetups import Meetups, Membership, Post, meetups
from benchmarks.workloads.our_feeds import OurFeeds

T = TypeVar("T")
Kind = Literal["oneread", "raw", "redis"]
Turns = Mapping[Kind, Series]

ENTRIES = Goal(60_000, ">=", "figure", " entries/s")
PAGES = with_core(Goal(1), without=Goal(3))
DIFFERENT = Goal(0, "<=", "figure", " feeds")
CHUNKS = 10
"""Into how many rounds the load is cut."""
BATCH = 250
"""Posts of one batch of the load, on every side."""
ITEMS = 200
"""Posts of a group that is joined: the most that a group of the data has."""
DURABLE_MEMBERS = 100
SYNCED_SHARE = 5
"""What waits for the disk is done a fifth as often."""
WATCHED = 1_000
"""Members whose feeds are compared again after all that is published and joined one by one."""
PEERS: Final[Mapping[Durability, Mapping[Kind, str]]] = {
    durability: {"raw": f"raw LMDB, {called['floor']}", "redis": named("redis", durability, "pipelines")}
    for durability, called in SETTINGS.items()
}
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class _Run:
    """The sides, and what they hold."""

    ours: OurFeeds
    raw: RawFeeds
    redis: RedisFeeds
    held: Meetups
    sizes: Sizes
    subject: Subject
    durability: Durability

    @property
    def sides(self) -> Mapping[Kind, Feeds]:
        return {"oneread": self.ours, "raw": self.raw, "redis": self.redis}

    def rates(self, name: str, turns: Turns, unit: str, goal: Goal = SHOWN) -> list[Row]:
        """A row for each peer; the goal stands in the first."""
        rows: list[Row] = []
        for kind, series in turns.items():
            if kind != "oneread":
                peer, judged = PEERS[self.durability][kind], SHOWN if rows else goal
                rows.append(self.subject.rate(name, turns["oneread"], series, peer=peer, goal=judged, unit=unit))
        return rows

    def take_turns(
        self,
        batches: Sequence[T],
        write: Callable[[Feeds, T], object],
        entries: Callable[[T], int],
        *,
        warm_up: int = 1,
    ) -> tuple[Turns, Turns]:
        """Every side writes the same batches, one in a round: seconds of an entry, and those of the processor."""
        meter, rounds = Meter(), len(batches) - warm_up
        turns = interleaved(
            {
                kind: meter.round(kind, partial(write, side), iter(batches).__next__, entries)
                for kind, side in self.sides.items()
            },
            rounds=rounds,
            warm_up=warm_up,
        )
        in_process: Sequence[Kind] = ("oneread", "raw")
        return (
            {kind: turns[kind] for kind in self.sides},
            {kind: meter.processor(kind, rounds) for kind in in_process},
        )


def feeds(context: Context) -> Sequence[Row]:
    held = meetups(context.data, context.sizes.posts)
    with ExitStack() as stack:
        run = _opened(context, held, "none", stack)
        rows = [*_loaded(run), *_sizes(run), _compared(run, held.joined, "after the load")]
        rows += [*_pages(run), *_joined(run)]
        for members in context.sizes.members:
            rows += _published(run, members)
        rows.append(_compared(run, _watched(held), "after publishing and joining one by one", run.redis))
    with ExitStack() as stack:
        rows += _durable(_opened(context, Meetups(held.data, [], held.posts[:1]), "group", stack))
    return rows


def _opened(context: Context, held: Meetups, durability: Durability, stack: ExitStack) -> _Run:
    folder: Path = context.folder("feeds")
    ours, raw = OurFeeds(folder / "ours", durability), RawFeeds(folder / "raw", durability)
    redis = RedisFeeds(stack.enter_context(redis_feeds(durability)))
    for side in (ours, raw, redis):
        stack.callback(side.close)
    return _Run(
        ours, raw, redis, held, context.sizes, Subject("P7", held.data, held.entries_of(held.posts)), durability
    )


# --- All of the data -------------------------------------------------------------------------------------------------


def _loaded(run: _Run) -> list[Row]:
    """All memberships, then all posts in the order of time, in bulk."""
    for side in run.sides.values():
        side.join_all(run.held.memberships)
    clock, processor = run.take_turns(_cut(run.held.posts, CHUNKS), _publish_all, run.held.entries_of, warm_up=0)
    name = f"publish {len(run.held.posts):,} posts in bulk"
    return [
        *run.rates(name, clock, "entries/s", ENTRIES),
        *run.rates(f"{name}, a second of the processor", processor, "entries/s"),
    ]


def _publish_all(side: Feeds, posts: Sequence[Post]) -> None:
    for start in range(0, len(posts), BATCH):
        side.publish_all(posts[start : start + BATCH])


def _cut(posts: Sequence[Post], pieces: int) -> list[Sequence[Post]]:
    bounds = [len(posts) * piece // pieces for piece in range(pieces + 1)]
    return [posts[start:stop] for start, stop in pairwise(bounds)]


def _sizes(run: _Run) -> list[Row]:
    sizes = {kind: side.size() / MEGABYTE for kind, side in run.sides.items()}
    mine = sizes["oneread"]
    peers: Mapping[Kind, str] = {"raw": "raw LMDB", "redis": "Redis, in memory"}
    return [
        run.subject.row(
            "size of the store as loaded", "MB", mine, peer, sizes[kind], _one(mine / sizes[kind]), SHOWN, rounds=1
        )
        for kind, peer in peers.items()
    ]


def _one(ratio: float) -> Ratio:
    return Ratio(ratio, ratio, ratio)


def _compared(run: _Run, members: Iterable[int], when: str, *peers: Feeds) -> Row:
    """How many members have a feed that is not the naive join, entry by entry; LMDB's and these peers' must be it."""
    asked = sorted(members)
    wrong = entries = 0
    for member in asked:
        wanted = run.held.feed(member)
        entries += len(wanted)
        wrong += run.ours.feed(member) != wanted
        for side in (run.raw, *peers):
            assert side.feed(member) == wanted, f"{type(side).__name__}: the feed of member {member} is wrong"
    name = f"feeds other than the naive join {when}, of {len(asked):,} with {entries:,} entries"
    return run.subject.alone(name, wrong, unit="feeds", goal=DIFFERENT)


def _watched(held: Meetups) -> list[int]:
    """Members who joined last and members who were published to last, and others by chance."""
    members = list(held.joined)
    return sorted({*members[-WATCHED:], *random.Random(5).sample(members, min(WATCHED, len(members)))})


# --- One by one ------------------------------------------------------------------------------------------------------


def _pages(run: _Run) -> list[Row]:
    """The newest entries of members who have more than a page of them."""
    held, reads = run.held, run.sizes.reads
    full = [member for member in held.joined if len(held.feed(member)) > PAGE] or list(held.joined)
    asked = [(member,) for member in random.Random(3).choices(full, k=reads)]
    few = asked[: max(1, reads // 10)]
    turns = interleaved(
        {kind: each(side.page, few if kind == "redis" else asked) for kind, side in run.sides.items()},
        rounds=run.sizes.rounds,
    )
    name, mine = f"page of {PAGE}", turns["oneread"]
    return [
        run.subject.slower(name, mine, turns["raw"], peer="raw LMDB", goal=PAGES),
        run.subject.faster(name, mine, turns["redis"], peer="Redis, ZREVRANGE and pipelined HMGET", goal=SHOWN),
    ]


def _joined(run: _Run) -> list[Row]:
    """New members join groups, whose posts are in their feeds at once."""
    count = max(1, run.sizes.entries // ITEMS)
    batches = [run.held.joining(count, ITEMS) for _ in range(run.sizes.rounds + 1)]
    items = len(run.held.published[batches[0][0].group])
    clock, processor = run.take_turns(batches, _join_each, lambda batch: items * len(batch))
    name = f"join of a group with {items} posts"
    return [
        *run.rates(name, clock, "entries/s"),
        *run.rates(f"{name}, whole", _scaled(clock, items), "joins/s"),
        *run.rates(f"{name}, a second of the processor", processor, "entries/s"),
    ]


def _join_each(side: Feeds, memberships: Sequence[Membership]) -> None:
    for membership in memberships:
        side.join(membership)


def _published(run: _Run, members: int) -> list[Row]:
    """Posts of a group of so many members, each until the last member has it."""
    group = _new_group(run, members)
    count = max(1, run.sizes.entries // members)
    batches = [run.held.publishing(group, count) for _ in range(run.sizes.rounds + 1)]
    clock, processor = run.take_turns(batches, _publish_each, run.held.entries_of)
    by_task = members > run.ours.inline
    name = f"publish to {members:,} members{', by a task' if by_task else ''}"
    return [
        *run.rates(name, clock, "entries/s", ENTRIES),
        *run.rates(f"{name}, whole", _scaled(clock, members), "posts/s"),
        *run.rates(f"{name}, a second of the processor", processor, "entries/s"),
        *([_accepted(run, group, members)] if by_task else []),
    ]


def _new_group(run: _Run, members: int) -> int:
    joining = run.held.group_of(members)
    for side in run.sides.values():
        side.join_all(joining)
    return joining[0].group


def _publish_each(side: Feeds, posts: Sequence[Post]) -> None:
    for post in posts:
        side.publish(post)


def _accepted(run: _Run, group: int, members: int) -> Row:
    """What publishing to a large group takes before a task does the rest."""
    taken: list[float] = []
    for post in run.held.publishing(group, run.sizes.rounds):
        started = perf_counter()
        accepted = run.ours.accept(post)
        taken.append(perf_counter() - started)
        run.ours.wait(accepted)
        for side in (run.raw, run.redis):
            side.publish(post)
    name = f"save of a post for {members:,} members, which leaves a task"
    return run.subject.alone(name, Series(tuple(taken)).median * 1e6, unit="us", goal=SHOWN, rounds=len(taken))


def _scaled(turns: Turns, by: int) -> Turns:
    """From an entry to what so many entries belong to, beside LMDB only."""
    beside: Sequence[Kind] = ("oneread", "raw")
    return {kind: Series(tuple(seconds * by for seconds in turns[kind].seconds)) for kind in beside}


def _durable(run: _Run) -> list[Row]:
    """Each post is on disk, with its entries, when `publish` returns."""
    members = min(DURABLE_MEMBERS, run.sizes.members[-1])
    group = _new_group(run, members)
    count = max(1, run.sizes.entries // members // SYNCED_SHARE)
    batches = [run.held.publishing(group, count) for _ in range(run.sizes.rounds + 1)]
    clock, _processor = run.take_turns(batches, _publish_each, run.held.entries_of)
    return run.rates(f"durable publish to {members:,} members, nothing else stored", clock, "entries/s")


BENCHMARKS = (
    Benchmark(
        "P7",
        "feeds: publish to groups of 10 to 15,000 members and in bulk, page of 20, join; against raw LMDB and Redis",
        f"{ENTRIES}; page {PAGES} of raw LMDB; no feed other than the naive join",
        feeds,
        has_core=True,
    ),
)
