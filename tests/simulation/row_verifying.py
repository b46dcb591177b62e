"""Verifications on a store that changes one row at a time, beside everything that changes it: what they find is wrong.

Each request of a verification is one row or two, so that as much as possible happens between them.
"""

from random import Random

from oneread.plans.trace import Trace
from oneread.store.keys import view_part
from oneread.store.requests import Scan
from oneread.store.rows import REMOVED, TABLES, VALUE, WRITES, Cell, RowRange
from oneread.testing.processes import Violation
from oneread.testing.schedules import ByChance, Fate
from oneread.testing.steps import Step
from oneread.transactions.deltas import decode_amounts, encode_amounts
from oneread.transactions.tasks import TaskStepResult
from oneread.verify import followed_sums, logical_scanner, looks, sums
from oneread.verify.confirm import Seen
from oneread.verify.digest_pass import BUCKETS, Digests
from oneread.verify.followed_sums import FollowedSums
from oneread.verify.logical_scanner import LogicalScanner
from oneread.verify.looks import Looker, Looks
from oneread.verify.verify import VerifyOptions
from tests.simulation import row_cells, row_groups, row_world
from tests.simulation.breaking import edit
from tests.simulation.row_world import CALM, is_calm

WORLDS = (row_groups.group_world, row_world.row_world, row_cells.cells, row_groups.group_world)
VERIFIER = "verifier"
KEPT_TOKENS = 2
HURT = (Fate.FAIL, Fate.LOSE, Fate.CRASH_BEFORE, Fate.CRASH_AFTER)


class Spared:
    """A verification is delayed and paused like all others, but gets its answers: it has none to write."""

    def __init__(self, fates):
        self._fates = fates

    def outside(self, process):
        fate = self._fates.outside(process)
        return Fate.RUN if process.startswith(VERIFIER) and fate in HURT else fate

    def inside(self, process):
        return self._fates.inside(process)


class VerifyStep(Step, frozen=True):
    """A verification; what it finds is a violation, since nothing was damaged."""

    def __str__(self):
        return "verify"

    def plan(self, operations):
        found = yield from operations.parts.inspector.verify(VerifyOptions())
        if found.found:
            raise Violation("a verification finds what is not wrong: " + "; ".join(each.text for each in found.faults))


def small_requests(patch, rows=2):
    """Lets a verification read few rows at a time, and look again at once."""
    patch.setattr(LogicalScanner, "batch", rows)
    patch.setattr(looks, "OWNERS", rows)
    patch.setattr(looks, "LOOKS", 4)
    patch.setattr(looks, "APART", 0.02)
    patch.setattr(sums, "APART", 0.02)
    patch.setattr(sums, "PASSES", 4)
    patch.setattr(sums, "LOOKS", 16)
    patch.setattr(followed_sums, "KEPT_TOKENS", KEPT_TOKENS)
    patch.setattr(followed_sums, "POLLED", rows)
    patch.setattr(followed_sums, "REMEMBERED", 2 * rows)


def one_look(patch):
    """Lets one look decide: the second ones are for what was not thought of."""

    def confirm(looker, suspects):
        return Seen((yield from looker.look(suspects)).found, set())

    patch.setattr(Looks, "confirm", confirm)
    patch.setattr(sums, "AGREEING", 0)


def follow_all(patch):
    """Follows all groups, also those that do not differ once all rows are read."""
    patch.setattr(Digests, "differing_sums", lambda _digests: {*range(BUCKETS)})


def switched(name, first, lengths):
    """The first of a pair of groups beside a verification, "a": one runs at a time, in turn for so many requests."""
    simulation = row_groups.switched(name, first, lengths, beside=[VerifyStep()])
    simulation._committer.journal.kept_tokens = KEPT_TOKENS
    return simulation


class Verified:
    """One history of a world with two verifications at a time, and one at its end, which must be clean."""

    def __init__(self, seed, world=None, fates=None):
        made = WORLDS[seed % len(WORLDS)] if world is None else world
        chance = ByChance(Random(f"fates {seed}"), CALM) if is_calm(seed) else ByChance(Random(f"fates {seed}"))
        self.simulation = made(seed, fates=Spared(chance if fates is None else fates))
        self.simulation._committer.journal.kept_tokens = KEPT_TOKENS
        for name in (f"{VERIFIER} 0", f"{VERIFIER} 1"):
            self.simulation.process(name, [VerifyStep()] * 3)

    def run(self):
        self.simulation.run()
        found = self.simulation._driver.run(self.simulation.operations.parts.inspector.verify(VerifyOptions()), Trace())
        if not found.clean:
            raise Violation(f"not clean at the end: {found.skipped} " + "; ".join(each.text for each in found.faults))


# Repairs.


class RepairStep(Step, frozen=True):
    """A repair, which may be killed at any request."""

    def __str__(self):
        return "repair"

    def plan(self, operations):
        return operations.parts.inspector.repair(VerifyOptions())


def spoil(simulation, chance):
    """Takes away or changes rows of lists and of groups past the library."""
    engine, views = simulation.engine, simulation.operations.catalog.views.values()
    listed = {each.prefix for each in views}
    stored = {table: dict(engine.answer(Scan(table, RowRange(b"", b""), 1 << 30, families="dm"))) for table in TABLES}
    lists = [key for key, row in stored["views"].items() if view_part(key) in listed and VALUE in row]
    counted = [(key, row) for key, row in stored["counts"].items() if view_part(key) in listed]
    groups = [key for key, row in counted if VALUE in row and WRITES in row]
    for table, keys, change in (
        ("views", chance.sample(lists, min(2, len(lists))), lambda _row: None),
        ("counts", chance.sample(groups, min(2, len(groups))), _with_more),
    ):
        for key in keys:
            row = change(stored[table][key])
            engine._store.transaction(lambda inside, at=(table, key, row): inside.replace(at[0], {at[1]: at[2]}), 30)


def _with_more(row):
    cell = row[VALUE]
    numbers = [] if cell.value == REMOVED else decode_amounts(cell.value)
    return {**row, VALUE: Cell(encode_amounts([3, *numbers[1:]]), cell.stamp)} if numbers else row


def finish_tasks(simulation):
    """What waits for a task is not judged; leases of workers that were killed end by the simulated clock."""
    done = None
    while done is not TaskStepResult.IDLE:
        simulation.now += 20_000
        done = simulation._driver.run(simulation.operations.drain_step(50), Trace())


class Repaired:
    """One history of a world that is spoiled at its beginning; two repairs are killed, a third one ends it."""

    def __init__(self, seed, world=None, spoil=spoil, **options):
        made = WORLDS[seed % len(WORLDS)] if world is None else world
        self.simulation = made(seed, **options)
        self.simulation._committer.journal.kept_tokens = KEPT_TOKENS
        spoil(self.simulation, Random(f"spoil {seed}"))
        for name in ("repairer 0", "repairer 1"):
            self.simulation.process(name, [RepairStep()] * 2)
        self._settle, self.simulation.settle = self.simulation.settle, self._repair_and_settle

    def _repair_and_settle(self):
        simulation = self.simulation
        while simulation._late:
            simulation._land()
        simulation.now += 60_000
        simulation._driver.run(simulation._committer.recovery.recover(patience=0.0), Trace())
        self._before_the_last()
        found = simulation._driver.run(simulation.operations.parts.inspector.repair(VerifyOptions()), Trace())
        if not found.clean:
            raise Violation(f"{found.reasons} {found.verification.skipped} {[each.text for each in found.left]}")
        self._behind_the_last()
        self._settle()

    def _before_the_last(self):
        """What is done before the repair that ends a history."""

    def _behind_the_last(self):
        """What is done behind it."""

    def run(self):
        self.simulation.run()


# The rules of looks, broken.


def a_root_is_not_looked_at_again(patch):
    again = 'after = dict(zip(roots, (yield from self._scanner.read_stored("roots", roots)), strict=True))'
    edit(patch, Looker, "look", (again, "after = before"))


def versions_are_not_compared(patch):
    patch.setattr(logical_scanner, "version_in", lambda _row: None)


def intents_are_not_looked_at(patch):
    patch.setattr(logical_scanner, "is_settled", lambda _row: True)


def tasks_are_not_looked_at(patch):
    patch.setattr(looks, "sources_that_wait", lambda *_given: _nothing(set()))


def a_source_may_be_changed_meanwhile(patch):
    edit(patch, Looker, "_check_copies", ("if any(sources[one] not in settled for one in each)", "if False"))


LOOKED_AT = "        yield from self._look_at_copies(key, found, some, tasks)\n"
TASKS_READ = """    tasks = yield from sources_that_wait(self._scanner, sources)
    found.update({key: [] for key in stale if stale[key] & tasks})
"""


def all_sources_count_as_looked_at(patch):
    edit(patch, Looker, "_look_at_copies", ("if each.source in sources]", "]"))


def holders_are_read_before_the_tasks(patch):
    edit(
        patch,
        Looker,
        "_check_copies",
        ("tasks = yield from sources_that_wait(self._scanner, sources)", "tasks = set()"),
        (LOOKED_AT, LOOKED_AT + TASKS_READ),
    )


def groups_are_not_read_again(patch):
    edit(patch, FollowedSums, "_note_added", ("if _state(before) == _state(now):", "if True:"))


def what_was_added_is_not_read_again(patch):
    edit(patch, FollowedSums, "_note_added", ("if added:", "if added and False:"), ("self.lost.add(group)", "pass"))


def what_is_not_remembered_counts_as_nothing(patch):
    patch.setattr(FollowedSums, "_remembers", lambda _followed, _owners: True)


def the_journal_is_not_looked_at_before(patch):
    edit(patch, FollowedSums, "scan", ("yield from self._look_at_journal()", "pass"))


def the_journal_is_not_looked_at_behind(patch):
    edit(patch, FollowedSums, "catch_up", ("yield from self._look_at_journal()", "self._pending.clear()"))


def the_journal_is_not_looked_at(patch):
    patch.setattr(FollowedSums, "_look_at_journal", lambda _followed: _nothing(None))


def what_is_not_added_yet_counts(patch):
    edit(patch, FollowedSums, "expected", ("if group in self._not_added:", "if False:"))


def the_version_of_what_is_not_added_yet_is_not_compared(patch):
    edit(patch, FollowedSums, "_lacks_last_commit", (" and pending.version == seen.version", ""))


def rows_of_children_that_are_not_put_yet_are_not_known(patch):
    edit(patch, FollowedSums, "_rows_of", ("in seen.intents.children", "in ()"))


def _nothing(value):
    yield from ()
    return value


BY_SEED = {
    a_root_is_not_looked_at_again: 262,
    intents_are_not_looked_at: 1,
    tasks_are_not_looked_at: 0,
    a_source_may_be_changed_meanwhile: 1,
    holders_are_read_before_the_tasks: 54,
    all_sources_count_as_looked_at: 581,
    versions_are_not_compared: 170,
    groups_are_not_read_again: 79,
    what_was_added_is_not_read_again: 79,
    what_is_not_remembered_counts_as_nothing: 29,
    the_journal_is_not_looked_at_behind: 2865,
    the_journal_is_not_looked_at: 8,
    what_is_not_added_yet_counts: 3,
    the_version_of_what_is_not_added_yet_is_not_compared: 1092,
    rows_of_children_that_are_not_put_yet_are_not_known: 3,
}
"""Each with a seed that finds it."""

BY_SWITCHES = {the_journal_is_not_looked_at_before: ("one child", "b", (6, 35, 22))}
"""What seeds seldom find: the pair of which the first one runs, who begins, after how many requests the other is next.

The commit has added to the group and has not put its child: the child is read so, and put before the scan ends.
"""
