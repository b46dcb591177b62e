"""Entries of feeds that nothing shows, on a store on which requests take long: they end, and what comes back is shown.

Time passes as in `row_purging`, whose purge runs beside writers and workers. At the end nothing is left that a page
would pass over, and all that was removed comes back.
"""

from contextlib import suppress
from datetime import timedelta
from random import Random

from oneread.errors import Unavailable
from oneread.feeds import cell_following, entry_ending
from oneread.feeds.entries import Entries
from oneread.feeds.entry_cells import ITEM, MEMBERSHIP, NONE_HIDDEN, entry_row
from oneread.feeds.feed_view import FeedView
from oneread.plans.trace import Trace
from oneread.store.requests import CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import REMOVED, Cell, RowMutation, RowRange
from oneread.testing.logical_rows import hidden_of
from oneread.testing.steps import DeleteStep, PatchStep, SaveStep
from oneread.transactions.grace import CLOCK_ERROR, LEAST_GRACE, OPERATION
from tests.simulation.breaking import edit
from tests.simulation.feed_models import BEGINNING, Membership, Post
from tests.simulation.row_feeds import Home
from tests.simulation.row_large_groups import Busy
from tests.simulation.row_purging import (
    Halting,
    PurgeSimulation,
    PurgeStep,
    SleepStep,
    _purged,
    is_of,
    never,
    purge_of,
)
from tests.simulation.row_trimming import Few
from tests.simulation.row_world import Harmless, RecoverStep, work_of
from tests.simulation.schema import compiled

WRITERS, ACTS, POSTS, MEMBERSHIPS = 2, 6, 4, 5
PAUSES = (0, 0, 30, 400, LEAST_GRACE, 2 * LEAST_GRACE)


def post(number, text="0", groups=("a",)):
    return SaveStep(Post(number=number, groups=list(groups), at=BEGINNING + timedelta(seconds=number), text=text))


def joined(number):
    return SaveStep(Membership(number=number, member=number % 2, group="a"))


def act(chance):
    """Changes of few rows, so that what ends comes back."""
    number = chance.randrange(POSTS)
    return chance.choice(
        [
            lambda: post(number, chance.choice("xyz")),
            lambda: PatchStep(Post, (number,), {"groups": chance.choice([["a"], ["b"], []])}),
            lambda: DeleteStep(Post, (number,)),
            lambda: joined(chance.randrange(MEMBERSHIPS)),
            lambda: joined(chance.randrange(MEMBERSHIPS)),
            lambda: DeleteStep(Membership, (chance.randrange(MEMBERSHIPS),)),
        ]
    )()


class EndingSimulation(PurgeSimulation):
    """Looks for what a page would pass over, at the end; then everything comes back."""

    def prepare(self, *steps):
        for step in steps:
            self._driver.run(step.plan(self.operations), Trace())
            self._driver.run(self.operations.outbox.finish_waiting(), Trace())

    def settle(self):
        super().settle()
        for view in self.operations.catalog.views.values():
            if isinstance(view, FeedView):
                self._check_left(Entries(view))
        self.prepare(*[post(number, "again") for number in range(POSTS)], *map(joined, range(MEMBERSHIPS)))
        self._rest()

    def _check_left(self, feed):
        every = RowRange(b"", b"")
        hidden = hidden_of(feed, self.engine.answer(Scan("views", every, 1 << 30, families="dm")))
        for key, row in self.engine.answer(Scan("views", RowRange.under(feed.prefix), 1 << 30)):
            if not entry_row(row, hidden.get(feed.member_in(key), NONE_HIDDEN)):
                self._raise_violation(f"what shows nothing is left in {feed.name}: {key!r} {row}")


def world(seed, **options):
    """Writers that rest for long, two workers, a recoverer and a purge."""
    chance = Random(f"ending {seed}")
    feed = (Home, Few, Busy)[seed % 3]
    simulation = EndingSimulation(seed, compiled(Membership, Post, feed, inline=chance.randrange(3)), **options)
    simulation.prepare(*map(joined, range(3)), *map(post, range(POSTS)))
    for number in range(WRITERS):
        acts = []
        for _ in range(ACTS):
            acts += [act(chance), SleepStep(chance.choice(PAUSES))]
        simulation.process(f"writer {number}", acts)
    for name in ("worker 0", "worker 1"):
        simulation.process(name, [work_of(simulation, name, seconds=100), SleepStep(200)] * 12)
    simulation.process("recoverer", [RecoverStep(), SleepStep(700)] * 4)
    simulation.process("purger", [PurgeStep(), SleepStep(300)] * 12)
    for process in simulation._processes:
        process.skew = 1000 * chance.choice((-CLOCK_ERROR, 0, CLOCK_ERROR))
    return simulation


# Rules broken on purpose.


def entries_are_ended_that_were_put_just_now(patch):
    edit(patch, entry_ending, "_may_end", ("row[TOUCHED].stamp < until", "True"))


def entries_are_ended_without_comparing(patch):
    patch.setattr(entry_ending, "_ending", lambda key, row: _blind(RowMutation(key, entry_ending._removals(row))))


def _blind(mutation):
    class Blind:
        def __iter__(self):
            yield from Mutate("views", [mutation])
            return True

    return Blind()


def cells_that_end_are_deleted(patch):
    def ending(key, row):
        stamps = {column: cell.stamp for column, cell in entry_ending._removals(row).items()}
        return CheckAndMutate(
            "views", entry_ending.TOUCHED, row[entry_ending.TOUCHED].value, RowMutation(key, deletes=stamps)
        )

    patch.setattr(entry_ending, "_ending", ending)


def cells_that_end_are_stamped_by_the_clock(patch):
    whole = entry_ending._removals

    def removals(row):
        return {column: Cell(REMOVED, row[entry_ending.TOUCHED].stamp) for column in whole(row)}

    patch.setattr(entry_ending, "_removals", removals)


def a_put_does_not_say_when_it_was(patch):
    edit(patch, entry_ending, "put_entries", ('Cell(now.to_bytes(8, "big"), now)', 'Cell(bytes(7) + b"1", 1)'))


def one_side_alone_ends(patch, column):
    whole = entry_ending._removals
    patch.setattr(
        entry_ending, "_removals", lambda row: {each: cell for each, cell in whole(row).items() if column in each}
    )


def items_of_a_member_who_left_stay(patch):
    one_side_alone_ends(patch, MEMBERSHIP)


def memberships_of_a_removed_item_stay(patch):
    one_side_alone_ends(patch, ITEM)


def entries_of_merged_groups_stay(patch):
    edit(patch, entry_ending, "end_entries", ("hidden.get(feed.member_in(key), NONE_HIDDEN)", "NONE_HIDDEN"))


def a_page_of_a_feed_never_gives_up(patch):
    patch.setattr(cell_following, "in_time", lambda plan, _clock, _seconds: plan)


BY_SEED = {
    cells_that_end_are_deleted: 1,
    cells_that_end_are_stamped_by_the_clock: 0,
    items_of_a_member_who_left_stay: 1,
    memberships_of_a_removed_item_stay: 0,
    entries_of_merged_groups_stay: 5,
}
"""Each with a seed that finds it."""

BY_SCHEDULE = {
    entries_are_ended_without_comparing: "an_item_comes_back_while_its_entry_ends",
    a_put_does_not_say_when_it_was: "an_item_comes_back_while_its_entry_ends",
    entries_are_ended_that_were_put_just_now: "an_item_comes_back_by_a_clock_that_is_behind",
    a_page_of_a_feed_never_gives_up: "a_page_that_took_too_long_sends_nothing",
}
"""Rules that no short search finds by seeds, and what does: the functions below."""


# Schedules that are written down.


def come_back_while_entries_end(seconds, skew):
    """An item is deleted; so long after that a purge is about to end its entry, and the item comes back before it."""
    simulation = EndingSimulation(1, compiled(Membership, Post, Home, inline=1000), deletes="hide", fates=Harmless())
    simulation.prepare(joined(0), post(0))
    operations = simulation.operations
    simulation._driver.run(DeleteStep(Post, (0,)).plan(operations), Trace())
    simulation.now += 1000 * seconds
    ending = Halting(simulation, _purged(purge_of(operations)))
    ending.until(lambda asked: is_of(CheckAndMutate, "views")(asked) or is_blind_end(asked))
    Halting(simulation, post(0, "again").plan(operations), skew).until(never)
    ending.until(never)
    simulation._rest()


def is_blind_end(asked):
    return is_of(Mutate, "views")(asked) and any(entry_ending.TOUCHED not in row.puts for row in asked.rows)


def an_item_comes_back_while_its_entry_ends():
    come_back_while_entries_end(2 * LEAST_GRACE, 0)


def an_item_comes_back_by_a_clock_that_is_behind():
    """The purge finds the row as it was: what came last has an older moment. So the grace is longer than clocks err."""
    come_back_while_entries_end(0, -CLOCK_ERROR)


def a_page_that_took_too_long_sends_nothing():
    """A task of an item has read its partners, and sleeps (rule P1)."""
    for feed in (Home, Few, Busy):
        simulation = EndingSimulation(
            1, compiled(Membership, Post, feed, inline=1000), deletes="hide", fates=Harmless()
        )
        simulation.prepare(*map(joined, range(4)), post(0))
        operations = simulation.operations
        entries = Entries(operations.catalog.views[feed])
        ((key, _row),) = simulation.engine.answer(Scan("views", RowRange.under(entries.items), 9))
        task = Halting(simulation, operations.committer.views.feeds.give(entries, key, b"", 9))
        task.until(is_of(Read, "views"))
        simulation.now += 1000 * (OPERATION + 1)
        with suppress(Unavailable):
            task.until(is_of(Mutate, "views"))
            simulation._raise_violation(f"a write of a page that began {OPERATION + 1} seconds ago")
