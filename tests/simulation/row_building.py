"""Feeds that are added or changed on a store that changes one row at a time, beside programs that know nothing of them.

The histories are those of `row_fence`: time passes at every request, older programs write as late as they may, and all
are killed now and then. When the backfill ends every entry must be there but for those whose task waits; at the end
the store is compared with the naive join.
"""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Annotated

import msgspec

from oneread import Feed, Index, Key, Model, by, each, newest, on, shown
from oneread.evolution.backfill import Backfill
from oneread.evolution.task_building import TaskBuilding
from oneread.feeds.cell_following import RowFeeds
from oneread.feeds.entries import Entries
from oneread.feeds.entry_cells import entry_row
from oneread.store.requests import Scan
from oneread.store.rows import REMOVED, VALUE, RowRange
from oneread.testing.steps import DeleteStep, DrainStep, PatchStep, SaveStep
from oneread.transactions import outbox
from oneread.transactions.commit_pages import CommitPages
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.other_feeds import OtherFeeds
from tests.simulation.breaking import edit
from tests.simulation.row_fence import RowFence
from tests.simulation.schema import Compiled

BEGINNING = datetime(2023, 11, 14, tzinfo=UTC)


def community(*feeds, texts=False, owners=False, most=None):
    """The declarations of one release, by name; every release has classes of its own."""

    class Membership(Model[int]):
        number: Key[int]
        member: int
        owner: int = 0
        group: str

    class Post(Model[int]):
        number: Key[int]
        groups: Annotated[list[str], msgspec.Meta(max_length=2)]
        at: datetime = BEGINNING
        text: str = ""

    class Note(Model[int]):
        number: Key[int]
        size: int = 0

    class Home(Feed[Post]):
        expires_after = None
        at_most = most
        member: int = by(Membership.owner if owners else Membership.member)
        at: datetime = newest(Post.at)
        joined = on(each(Post.groups), Membership.group)
        if texts:
            text: str = shown(Post.text)

    class Also(Feed[Post]):
        expires_after = None
        member: int = by(Membership.owner)
        at: datetime = newest(Post.at)
        text: str = shown(Post.text)
        joined = on(each(Post.groups), Membership.group)

    class NotesOfSize(Index[Note]):
        size: int = by(Note.size)

    views = (*[made for made in (Home, Also) if made.__name__ in feeds], NotesOfSize)
    names = SimpleNamespace(Membership=Membership, Post=Post, Note=Note, Home=Home, views=views)
    names.schema = Compiled(Membership, Post, Note, *views, inline=2)
    return names


WITHOUT, WITH = community(), community("Home")
NEWER = {"added": community("Home", texts=True), "both": community("Home", "Also", texts=True)}
CHANGED = {
    "shown": community("Home", texts=True),
    "owners": community("Home", owners=True),
    "beside": community("Home", "Also"),
}
TRIMMED = {"few": community("Home", most=2)}
"""Only the feed's own rows are of another generation."""


class RowBuilding(RowFence):
    """One history, of half of the seeds without a feed before."""

    name = "building"

    def __init__(self, seed):
        self.old_shop, self.newer = (WITHOUT, NEWER) if seed % 2 else (WITH, TRIMMED if seed % 10 == 6 else CHANGED)
        super().__init__(seed)

    def begin(self, program):
        shop = self.old_shop
        steps = [self.membership(shop, number) for number in range(3)]
        steps += [SaveStep(shop.Post(number=number, groups=["a"], text="0")) for number in range(3)]
        steps += [SaveStep(shop.Note(number=1, size=1))]
        if self.chance.random() < 0.5:
            steps.append(DeleteStep(shop.Post, (2,)))
        for step in steps:
            self.drive(program, step.plan(program.operations))

    def open_now(self, program, release):
        super().open_now(program, release)
        self.lend(program, program.operations)

    def was_opened(self, program, operations):
        self.lend(program, operations)
        super().was_opened(program, operations)

    def lend(self, program, operations):
        """Leases of tasks count by the clock of the program, too."""
        operations.outbox.leases = LeaseHolder(clock=program.clock, new_owner=lambda: program.name)

    def membership(self, shop, number):
        group = self.chance.choice("aab")
        return SaveStep(shop.Membership(number=number, member=number % 2, owner=number // 2, group=group))

    def post(self, shop):
        at = BEGINNING + timedelta(seconds=self.chance.choice([0, 0, 5]))
        groups = self.chance.choice([["a"], ["a"], ["b"], ["a", "b"], []])
        return SaveStep(
            shop.Post(number=self.chance.randrange(4), groups=groups, at=at, text=self.chance.choice("xyz"))
        )

    def act(self, release):
        chance = self.chance
        made = (
            lambda: self.post(release),
            lambda: self.membership(release, chance.randrange(4)),
            lambda: PatchStep(release.Post, (chance.randrange(4),), {"text": chance.choice("xyz")}),
            lambda: PatchStep(release.Post, (chance.randrange(4),), {"groups": [chance.choice("ab")]}),
            lambda: DeleteStep(release.Post, (chance.randrange(4),)),
            lambda: DeleteStep(release.Membership, (chance.randrange(4),)),
            lambda: DrainStep(2),
        )
        return chance.choices(made, (4, 3, 2, 2, 3, 3, 3))[0]()

    def whole_kinds(self):
        return frozenset()

    def was_built(self):
        super().was_built()
        catalog = self.closer.operations.catalog
        for view in self.new_shop.views:
            if issubclass(view, Feed):
                self.look_at_entries(Entries(catalog.views[view]))

    def look_at_entries(self, feed):
        """What is shown follows from rows that are there, and each pair of these is shown, but for those with tasks."""
        tasks = self.engine.answer(Scan("system", outbox.TASKS, 1 << 30, families="dm"))
        waiting = {outbox.feed_row(outbox.unversioned(outbox.source_of(key))) for key, _row in tasks}
        items, members = (self.cells(prefix) for prefix in (feed.items, feed.members))
        entries = {key: entry_row(row) for key, row in self.scanned(feed.prefix)}
        for item, shown_item in items.items():
            for membership, shown_to in members.items():
                group = feed.group_of(item)
                if group != feed.group_of(membership) or waiting.intersection((item, membership)):
                    continue
                if feed.view.at_most is not None:
                    continue
                place = feed.prefix + feed.member_of(membership, group) + item[len(feed.items) + len(group) :]
                if REMOVED not in (shown_item, shown_to) and not entries.get(place):
                    self.wrong(f"an entry is missing in {feed.name}: {place!r}")

    def end(self):
        super().end()
        aside = self.engine.answer(Scan("system", outbox.SET_ASIDE, 9))
        if any(row[VALUE].value != REMOVED for _key, row in aside):
            self.wrong("something is set aside")

    def scanned(self, prefix):
        return self.engine.answer(Scan("views", RowRange.under(prefix), 1 << 30, families="dm"))

    def cells(self, prefix):
        return {key: row[VALUE].value for key, row in self.scanned(prefix)}


# Rules broken on purpose.


def what_older_code_removed_stays(patch):
    patch.setattr(Backfill, "_follow_removed", lambda *_given: iter(()))


def a_cursor_of_a_former_generation_is_taken(patch):
    edit(patch, RowFeeds, "give", ("if every.start <= cursor < every.stop:", "if cursor:"))


def a_worker_sets_a_newer_feed_aside(patch):
    def none(_self, _key):
        yield from ()
        return False

    patch.setattr(OtherFeeds, "is_newer", none)


def entries_are_swept_before_they_are_built(patch):
    """As on a store that spans rows: what is deleted hides what is put again under the same stamps."""
    patch.setattr(TaskBuilding, "former_entries", lambda _self, prefixes: prefixes)


def nothing_follows_from_the_commits_of_a_backfill(patch):
    """As on a store that spans rows, whose entries are written at the end."""
    whole = CommitPages.commit_batch

    def commit_batch(self, changes, *, stops):
        views = self._pipeline.views
        feeds, views.feeds = views.feeds, type("None", (), {"prefixes": (), "logged": {}})()
        try:
            return (yield from whole(self, changes, stops=stops))
        finally:
            views.feeds = feeds

    patch.setattr(CommitPages, "commit_batch", commit_batch)
