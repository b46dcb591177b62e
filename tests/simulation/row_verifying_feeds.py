"""Verifications and repairs of feeds on a store that changes one row at a time, beside all that changes them.

Members join, leave and walk, posts are published, edited, moved, trimmed and deleted, groups cross, and entries end.
"""

from random import Random

from oneread.feeds.entries import Entries
from oneread.feeds.entry_cells import ITEM, MEMBERSHIP, TRIMMED, entry_row, was_trimmed
from oneread.feeds.feed_view import FeedView
from oneread.feeds.large_group_cells import rows_of_large_groups
from oneread.plans.trace import Trace
from oneread.store.requests import Scan
from oneread.store.rows import REMOVED, Cell, RowRange
from oneread.testing.processes import Violation
from oneread.testing.schedules import ByChance
from oneread.testing.steps import SweepStep
from oneread.verify import feed_entries, feed_looks, feed_passes, logical_scanner
from oneread.verify.confirm import Seen
from oneread.verify.feed_looks import NO_PLACES, FeedLooker, PartWatch, PlacesReader
from oneread.verify.feed_mend import RowFeedMender
from oneread.verify.verify import VerifyOptions
from tests.simulation import row_ending, row_large_groups, row_trimming, row_verifying
from tests.simulation import row_feeds as feeds
from tests.simulation.breaking import edit
from tests.simulation.row_purging import FATES
from tests.simulation.row_verifying import Repaired, Verified, _nothing, finish_tasks

HOUR = 3_600_000
AGREED = 20_000
"""Milliseconds that clocks are wrong by where something expires: rows that do so within a minute are not judged."""


def expiring(seed, **options):
    """Posts that leave one of two feeds during the history, under clocks that nearly agree."""
    simulation = feeds.world(3 * seed, **options)
    chance = Random(f"expiring {seed}")
    simulation.now += HOUR - 3_000
    simulation._ticks = (1, 10, 100)
    simulation.process("sweeper", [SweepStep(2)] * 6)
    for process in simulation._processes:
        process.skew = chance.randint(-AGREED, AGREED)
    return simulation


WORLDS = (
    feeds.world,
    row_trimming.world,
    row_large_groups.world,
    expiring,
    row_large_groups.world,
    row_ending.world,
)
AGREEING = (expiring, row_ending.world)
"""Worlds whose clocks never jump."""


def world_of(seed):
    """A world, a seed for it, and fates for one whose clocks must agree."""
    made, own = WORLDS[seed % len(WORLDS)], seed
    if made is feeds.world:
        own += seed % 3 == 0  # else posts expire in it
    return made, own, ByChance(Random(f"fates {seed}"), FATES) if made in AGREEING else None


def small_requests(patch, rows=2):
    """Lets a verification read few rows at a time, and look again at once."""
    row_verifying.small_requests(patch, rows)
    patch.setattr(logical_scanner, "READ", rows)
    patch.setattr(feed_passes, "READ", rows)
    patch.setattr(feed_passes, "SUSPECTS", rows)
    patch.setattr(feed_entries, "KEPT", rows)


def one_look(patch):
    """Lets one look decide: the second one is for what was not thought of."""
    row_verifying.one_look(patch)

    def confirm(suspects, look, _pace):
        return Seen((yield from look(suspects)).found, set())

    patch.setattr(feed_passes, "confirm", confirm)


class VerifiedFeeds(Verified):
    """One history of a world of feeds with two verifications at a time, and one at its end, which must be clean."""

    def __init__(self, seed):
        made, own, fates = world_of(seed)
        super().__init__(own, made, fates)
        if fates is not None:
            for process in self.simulation._processes[-2:]:
                process.skew = 0


# Repairs.


class RepairedFeeds(Repaired):
    """One history of a world whose feeds are spoiled; two repairs are killed, a third one ends it.

    No reader walks: it would see what is wrong.
    """

    def __init__(self, seed):
        made, own, fates = world_of(seed)
        super().__init__(own, made, spoil, **({} if fates is None else {"fates": fates}))
        simulation = self.simulation
        simulation._processes = [each for each in simulation._processes if each.name != "reader"]
        for process in simulation._processes[-2:] if fates is not None else ():
            process.skew = 0

    def _before_the_last(self):
        finish_tasks(self.simulation)

    def run(self):
        super().run()
        check_clean(self.simulation)


def check_clean(simulation):
    found = simulation._driver.run(simulation.operations.parts.inspector.verify(VerifyOptions()), Trace())
    if not found.clean:
        raise Violation(f"not clean at the end: {found.skipped} " + "; ".join(each.text for each in found.faults))


def first_of(row, under):
    return next((each for each in sorted(row) if each.startswith(under) and row[each].value != REMOVED), None)


def with_other(row, under, value, later=0):
    place = first_of(row, under)
    return {**row, place: Cell(value, row[place].stamp + later)}


def without(row, under):
    return {column: cell for column, cell in row.items() if column != first_of(row, under)}


DAMAGES = (
    lambda _row: None,
    lambda row: without(row, ITEM),
    lambda row: without(row, MEMBERSHIP),
    lambda row: with_other(row, ITEM, b"\xff"),
    lambda row: with_other(row, ITEM, b"\xff", later=HOUR),
    lambda row: with_other(row, ITEM, REMOVED),
    lambda row: with_other(row, MEMBERSHIP, REMOVED, later=HOUR),
    lambda row: with_other(row, MEMBERSHIP, b"\xff"),
)
"""What is done to entries that are shown."""


def spoil(simulation, chance):
    """Changes entries of feeds past the library, and takes away rows of large groups."""
    stored = dict(simulation.engine.answer(Scan("views", RowRange(b"", b""), 1 << 30, families="dm")))
    for view in simulation.operations.catalog.views.values():
        if isinstance(view, FeedView) and view.expires_after is None:  # what has expired is not judged
            _spoil_entries(simulation, Entries(view), stored, chance)
            large = rows_of_large_groups(view)
            for prefix in () if large is None else (large.places_key(b""), large.written_key(b"", b"")):
                rows = [key for key in stored if key.startswith(prefix)]
                for key in rows if chance.random() < 0.5 else ():
                    replace(simulation, key, None)


def _spoil_entries(simulation, feed, stored, chance):
    entries = [(key, row) for key, row in stored.items() if key.startswith(feed.prefix) and entry_row(row)]
    trimmed = [(key, row) for key, row in stored.items() if key.startswith(feed.prefix) and was_trimmed(row)]
    for key, row in chance.sample(entries, min(3, len(entries))):
        replace(simulation, key, chance.choice(DAMAGES)(row))
    for key, row in entries[:1]:
        stranger = feed.view.member_codec.encode((7,))
        replace(simulation, feed.prefix + stranger + feed.tail_of(key), row)
    for key, row in trimmed[:1]:
        replace(simulation, key, {column: cell for column, cell in row.items() if not column.startswith(TRIMMED)})


def replace(simulation, key, row):
    simulation.engine._store.transaction(lambda inside: inside.replace("views", {key: row}), 30)


# The rules of looks, broken.


def root_rows_are_not_read_again(patch):
    patch.setattr(PartWatch, "end", lambda _watch: _nothing(set()))


def tasks_are_not_looked_at(patch):
    patch.setattr(feed_looks, "sources_that_wait", lambda *_given: _nothing(set()))


BEGIN = "    yield from watch.begin(parts)\n"
TASKS = "    waiting |= {each for _item, each in sides.values()} - asked  # with an item that waits\n"


def tasks_are_read_before_the_root_rows(patch):
    edit(patch, FeedLooker, "entries", (BEGIN, ""), (TASKS, TASKS + BEGIN))


def places_are_not_looked_at(patch):
    none = dict.fromkeys
    patch.setattr(PlacesReader, "places", lambda _reader, members: _nothing(none({*members}, NO_PLACES)))


def what_was_trimmed_is_missing(patch):
    patch.setattr(feed_looks, "was_trimmed_at", lambda _row, _cells: False)


def one_side_that_waits_is_enough(patch):
    either = "(one.can_rest_on(both[:1], parts) or one.can_rest_on(both[1:], parts))"
    edit(patch, FeedLooker, "_judge_pair", ("one.can_rest_on(both, parts)", either))


def what_both_lack_rests_on_the_item(patch):
    of_item = "both[0] if item is None else both[1]"
    edit(patch, FeedLooker, "_judge_pair", ("both[1] if own is None else both[0]", of_item))


def a_full_feed_is_counted_once(patch):
    edit(
        patch,
        FeedLooker,
        "_look_at_member",
        ("if is_same and all(", "if True or all("),
        (" or (yield from watch.waiting(parts))", ""),
    )


# Those of repairs.


def a_newer_cell_stays(patch):
    patch.setattr(RowFeedMender, "_pass", lambda *_given: _nothing(True))


def a_cell_of_nothing_stays(patch):
    patch.setattr(RowFeedMender, "_remove", lambda *_given: _nothing(None))


BY_SEED = {
    root_rows_are_not_read_again: 20,
    tasks_are_not_looked_at: 0,
    tasks_are_read_before_the_root_rows: 129,
    places_are_not_looked_at: 4,
    what_was_trimmed_is_missing: 1,
    one_side_that_waits_is_enough: 4,
    a_full_feed_is_counted_once: 97,
}
"""Each with a seed that finds it."""

TWICE_BY_SEED = {what_both_lack_rests_on_the_item: 1576}
"""The same where suspects are looked at twice."""

REPAIRS_BY_SEED = {
    a_newer_cell_stays: 77,
    a_cell_of_nothing_stays: 5,
}
"""The same of repairs."""
