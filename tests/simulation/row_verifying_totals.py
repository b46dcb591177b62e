"""Verifications of totals and of indexes over groups beside everything that changes them, one row at a time.

What shows a group lags behind it: nothing of that is a fault. What was planted beside the writers is one, and nothing
else; repairs mend it while they go on. See docs/decisions/0105-totals-verified-one-row-at-a-time.md.
"""

from functools import partial
from random import Random

import msgspec

from oneread.plans.trace import Trace
from oneread.store.keys import row_part
from oneread.store.requests import Read, Scan
from oneread.store.rows import VALUE, Cell, RowRange
from oneread.testing.processes import Violation
from oneread.testing.schedules import ByChance
from oneread.testing.steps import DrainStep, SaveAllStep, Step
from oneread.transactions import outbox
from oneread.transactions.intents import read_root
from oneread.transactions.outbox import group_root
from oneread.transactions.root import BODY, EMITTED
from oneread.transactions.shown_groups import encode_listed
from oneread.verify import group_numbers, listed_groups, looks
from oneread.verify.expected import StaleTotal
from oneread.verify.mend_groups import GroupMender
from oneread.verify.verify import VerifyOptions
from oneread.verify.waiting import each_intents
from tests.simulation.breaking import edit
from tests.simulation.row_child_totals import threads_world
from tests.simulation.row_counter_fields import shown_world
from tests.simulation.row_totals import (
    Answer,
    AnswersByVotes,
    BestAnswersOf,
    Question,
    QuestionsByBest,
    VotesOf,
    answer,
    totals_world,
    vote,
)
from tests.simulation.row_verifying import Repaired, RepairStep, Spared, finish_tasks
from tests.simulation.row_world import CALM, is_calm

WORLDS = (
    totals_world,
    threads_world,
    shown_world,
    partial(totals_world, spread=True),
    partial(totals_world, later=True),
    partial(threads_world, later=True),
    partial(shown_world, later=True),
)
"""A seed has the world of its remainder."""


def world_of(seed):
    return WORLDS[seed % len(WORLDS)]


# Faults that are planted beside writers, in entities and groups that these leave alone.

MINE = [
    SaveAllStep([Question(number=9), answer(9, 9), answer(8, 9)]),
    SaveAllStep([vote(91, 9, 5), vote(92, 9, 2), vote(93, 8, 1)]),
]


def replace(simulation, table, key, row):
    simulation.engine._store.transaction(lambda inside: inside.replace(table, {key: row}), 30)


def stored(simulation, table, key):
    (row,) = simulation.engine.answer(Read(table, [key], "dm"))
    return row


def group_key(simulation, view, number):
    compiled = simulation.operations.catalog.views[view]
    return compiled.prefix + compiled.key.codec.encode((number,))


def row_of_group(simulation, index, group):
    """The row of an index over groups of one of these."""
    prefix = simulation.operations.catalog.views[index].prefix
    found = simulation.engine.answer(Scan("views", RowRange.under(prefix), 999, families="dm"))
    seen = simulation.engine.answer(Scan("views", RowRange.under(prefix), 999))
    living = {key for key, _row in seen}
    return next((key, row) for key, row in found if key in living and key.endswith(row_part(group)))


def a_total_is_wrong(simulation):
    catalog = simulation.operations.catalog
    key = catalog.kinds[Answer].key((9,))
    row = stored(simulation, "roots", key)
    entity = catalog.state(key, read_root(key, row).root).entity
    wrong = catalog.type_of(entity).layout.encode(msgspec.structs.replace(entity, score=77))
    replace(simulation, "roots", key, {**row, BODY: Cell(wrong, row[BODY].stamp)})
    return ("different", "total", "Answer(9)")


def a_row_of_a_group_is_missing(simulation):
    key, _row = row_of_group(simulation, AnswersByVotes, group_key(simulation, VotesOf, 9))
    replace(simulation, "views", key, None)
    return ("missing", "AnswersByVotes", "AnswersByVotes(2)")


def a_row_of_a_group_is_wrong(simulation):
    key, row = row_of_group(simulation, AnswersByVotes, group_key(simulation, VotesOf, 8))
    replace(simulation, "views", key, {VALUE: Cell(row[VALUE].value + b"\x01", row[VALUE].stamp)})
    return ("different", "AnswersByVotes", "AnswersByVotes(1)")


def a_group_has_a_row_too_many(simulation):
    prefix = simulation.operations.catalog.views[QuestionsByBest].prefix
    group = group_key(simulation, BestAnswersOf, 9)
    key, row = row_of_group(simulation, QuestionsByBest, group)
    other = prefix + simulation.operations.catalog.views[QuestionsByBest].key.codec.encode((50,)) + row_part(group)
    assert other != key
    replace(simulation, "views", other, row)
    return ("dangling", "QuestionsByBest", "QuestionsByBest(50)")


def the_record_of_a_group_is_wrong(simulation):
    key = group_root(group_key(simulation, BestAnswersOf, 9))
    row = stored(simulation, "roots", key)
    replace(simulation, "roots", key, {**row, EMITTED: Cell(encode_listed({}), row[EMITTED].stamp)})
    return ("different", "record", "BestAnswersOf(9)")


PLANTED = (
    a_total_is_wrong,
    a_row_of_a_group_is_missing,
    a_row_of_a_group_is_wrong,
    a_group_has_a_row_too_many,
    the_record_of_a_group_is_wrong,
)


class FindStep(Step, frozen=True):
    """A verification, which finds nothing but what was planted, and all of it in what it has compared."""

    planted: frozenset[tuple[str, str, str]]

    def __str__(self):
        return "verify"

    def plan(self, operations):
        found = yield from operations.parts.inspector.verify(VerifyOptions())
        check_found(found, self.planted)


def check_found(found, planted):
    faults = {(each.kind, each.view, each.row) for each in found.faults}
    if not faults <= planted or (faults != planted and not found.skipped):
        raise Violation(f"planted {sorted(planted)}, and found {[each.text for each in found.faults]}")


class Planted:
    """One history with faults from its beginning; verifications find exactly them, and a repair mends them.

    Half of the histories have repairs in place of the verifications, which may be killed.
    """

    def __init__(self, seed):
        chance = Random(f"planted {seed}")
        fates = ByChance(Random(f"fates {seed}"), CALM) if is_calm(seed) else ByChance(Random(f"fates {seed}"))
        repairs = bool(chance.randrange(2))
        self.simulation = totals_world(seed, fates=fates if repairs else Spared(fates))
        self.simulation.prepare(*MINE, *[DrainStep(50)] * 20)
        self._planted = frozenset(each(self.simulation) for each in chance.sample(PLANTED, chance.randint(1, 3)))
        self._repairs = repairs
        for name in ("0", "1"):
            if repairs:
                self.simulation.process(f"repairer {name}", [RepairStep()] * 2)
            else:
                self.simulation.process(f"verifier {name}", [FindStep(self._planted)] * 2)
        self._settle, self.simulation.settle = self.simulation.settle, self._repair_and_settle

    def _repair_and_settle(self):
        simulation = self.simulation
        while simulation._late:
            simulation._land()
        simulation.now += 60_000
        run = simulation._driver.run
        run(simulation._committer.recovery.recover(patience=0.0), Trace())
        if not self._repairs:
            check_found(run(simulation.operations.parts.inspector.verify(VerifyOptions()), Trace()), self._planted)
        found = run(simulation.operations.parts.inspector.repair(VerifyOptions()), Trace())
        if not found.clean:
            raise Violation(f"{found.reasons} {found.verification.skipped} {[each.text for each in found.left]}")
        self._settle()

    def run(self):
        self.simulation.run()


class RepairedTotals(Repaired):
    """A row of a group for which a task waits is not judged: indexes over groups are repaired again without any."""

    def _behind_the_last(self):
        simulation = self.simulation
        finish_tasks(simulation)
        views = simulation.operations.catalog.views.values()
        of_groups = tuple(view.cls for view in views if view.groups is not None)
        if of_groups:
            simulation._driver.run(simulation.operations.parts.inspector.repair(VerifyOptions(of_groups)), Trace())


# The rules of looks at what shows groups, broken.


def waits(*parts):
    """Looks only at these parts of what waits, in this order."""

    def plan(scanner, groups):
        wanted, waiting = list(groups), set()
        for part in parts:
            if part == "journal":
                yield from each_intents(scanner, lambda intents: waiting.update(intents.groups))
            else:
                rows = yield from scanner.read_stored("system", [outbox.group_task(each) for each in wanted])
                waiting.update(each for each, row in zip(wanted, rows, strict=True) if outbox.waiting_cells(row))
        return waiting

    return plan


def look_at(patch, plan):
    patch.setattr(looks, "groups_that_wait", plan)
    patch.setattr(listed_groups, "groups_that_wait", plan)


def commits_that_change_groups_are_not_looked_at(patch):
    look_at(patch, waits("tasks"))


def tasks_of_groups_are_not_looked_at(patch):
    look_at(patch, waits("journal"))


def a_marked_counter_is_compared(patch):
    edit(patch, group_numbers, "_read_counters", ("if mark is not None:", "if False:"))


# Rules of what is found and mended, broken.


def whatever_may_wait_waits(patch):
    def plan(_scanner, groups):
        yield from ()
        return set(groups)

    look_at(patch, plan)


def records_of_groups_are_not_compared(patch):
    edit(patch, listed_groups.GroupRowPasses, "_forward", ("each.record == each.wanted == each.stored", "True"))


def rows_are_not_looked_at_by_their_keys(patch):
    edit(patch, listed_groups.GroupRowPasses, "_backward", ("or place not in records[group]", ""))


def a_row_that_no_record_has_stays(patch):
    edit(patch, GroupMender, "_list", ("{*shown, *named, *_listed(stored)}", "{*shown, *_listed(stored)}"))


def a_total_waits_for_the_groups_of_others(patch):
    """What is still to follow one group of an entity excuses the totals of all its groups."""
    whole = StaleTotal.without
    patch.setattr(StaleTotal, "without", lambda total, groups: total if whole(total, groups) == total else None)


BY_SEED = {
    commits_that_change_groups_are_not_looked_at: 28,
    tasks_of_groups_are_not_looked_at: 0,
    a_marked_counter_is_compared: 9,
}
"""Each with a seed that finds it."""

BY_PLANTED = {
    whatever_may_wait_waits: 0,
    records_of_groups_are_not_compared: 0,
    rows_are_not_looked_at_by_their_keys: 4,
    a_row_that_no_record_has_stays: 4,
}
"""The same, of faults that are planted."""

BY_REPAIR = {a_total_waits_for_the_groups_of_others: 39}
"""The same, of repairs of spoiled stores."""

ALL = BY_SEED | BY_PLANTED | BY_REPAIR
