"""Many holders of one source that follow in pages, on a store that changes one row at a time, and its rules broken."""

from random import Random

from oneread.testing.schedules import ByChance
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, PatchStep, SaveAllStep, SaveStep
from oneread.transactions import journal, page_drafts
from oneread.transactions.copy_follower import CopyFollower
from oneread.transactions.intents import root_row
from oneread.transactions.pipeline import Pipeline
from tests.simulation.breaking import edit
from tests.simulation.row_world import (
    CALM,
    RecoverStep,
    is_calm,
    pair,
    small_beginning,
    turns,
    work_of,
)
from tests.simulation.schema import WORLD, Buyer, Customer, Home, Purchase
from tests.simulation.world import bought

HOLDERS = 5
BATCH = 8


def many(buyer=1):
    return [SaveAllStep([bought(number, buyer, 1, number, 1)]) for number in range(2, HOLDERS + 1)]


def _rename(chance):
    return PatchStep(Customer, (chance.choice((1, 1, 2)),), {"name": chance.choice(("ada", "bea", "cyd"))})


def _move(chance):
    return PatchStep(Customer, (1,), {"city": Home.of(chance.randrange(1, 3))})


def _re_point(chance):
    return PatchStep(Purchase, (chance.randrange(1, HOLDERS + 1),), {"buyer": Buyer.of(chance.randrange(1, 3))})


def _change(chance):
    return PatchStep(Purchase, (chance.randrange(1, HOLDERS + 1),), {"quantity": chance.randrange(9)})


def _new(chance):
    return SaveStep(bought(chance.randrange(1, HOLDERS + 3), chance.randrange(1, 3), 1, 1, 1))


def _gone(chance):
    return DeleteStep(Purchase, (chance.randrange(1, HOLDERS + 1),))


ACTS = {_rename: 5, _move: 3, _re_point: 4, _change: 2, _new: 2, _gone: 1}


def following(seed, **options):
    """The simulation of one seed: who renames a source, who changes its holders, two workers, a recoverer."""
    if is_calm(seed):
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    simulation = Simulation(seed, WORLD, span="row", **options)
    simulation.prepare(*small_beginning(), *many())
    chance = Random(f"following {seed}")
    for number in range(3):
        acts = [make(chance) for make in chance.choices(list(ACTS), list(ACTS.values()), k=4)]
        simulation.process(f"writer {number}", acts)
    for name in ("worker 0", "worker 1"):
        simulation.process(name, [work_of(simulation, name, batch=BATCH)] * 6)
    simulation.process("recoverer", [RecoverStep()] * 2)
    return simulation


PAIRS = {
    "two renames": ([PatchStep(Customer, (1,), {"name": "new"})], [PatchStep(Customer, (1,), {"name": "ada"})]),
    "rename and change": (
        [PatchStep(Purchase, (2,), {"quantity": 7})],
        [PatchStep(Customer, (1,), {"name": "new"}), PatchStep(Customer, (1,), {"name": "ada"})],
    ),
    "rename and create": ([SaveStep(bought(9, 2, 1, 1, 1))], [PatchStep(Customer, (2,), {"name": "new"})]),
    "rename and re-point": (
        [PatchStep(Purchase, (2,), {"buyer": Buyer.of(2)}), PatchStep(Purchase, (2,), {"buyer": Buyer.of(1)})],
        [PatchStep(Customer, (1,), {"name": "new"})],
    ),
}
"""What two writers do at the same time that let holders follow, by name."""


def switched(name, first, lengths):
    """Two processes, of which one runs at a time; up to the bound of the schema they let holders follow themselves."""
    before = [*small_beginning(), SaveAllStep([bought(2, 1, 1, 1, 1)])]
    return pair(Simulation(1, WORLD, **turns(first, lengths)), before, PAIRS[name])


# The rules of pages, broken.


def the_source_is_read_before_its_holders(patch):
    """Equal while versions are compared: a holder of a newer one is left alone, and each newer one has its own task."""
    holders = "    holders = yield from self._read_holders(source, page)\n"
    early = f'    (early,) = yield from Read("roots", [source], "dm")\n{holders}'
    needed = "    yield from page_drafts.read_needed(self._pipeline, holders)\n"
    old = "    for draft in holders:\n        draft.rows[source] = root_row(early)\n"
    edit(
        patch,
        CopyFollower,
        "_commit_page",
        (holders, early),
        (needed, needed + old),
        root_row=root_row,
    )


def a_holder_of_equal_values_is_left_out(patch):
    edit(
        patch,
        page_drafts,
        "decide",
        ("    if decision.root is None:", "    if decision.root is None:\n        return None\n    if False:"),
    )


def a_page_does_not_fence(patch):
    edit(
        patch,
        CopyFollower,
        "_read_holders",
        ("not in recorded and seen.version >= page.stamps[place]:", "not in recorded:"),
        ("Cell(REMOVED, seen.version)", "Cell(REMOVED, max(seen.version, page.stamps[place]))"),
    )


REMOVED_BY_CLOCK = """    clock = yield from Now()
    gone = [RowMutation(each.key, {VALUE: Cell(REMOVED, clock)}) for each in gone]
    if gone:
"""


def a_page_removes_back_references_by_the_clock(patch):
    edit(patch, CopyFollower, "_read_holders", ("    if gone:\n", REMOVED_BY_CLOCK))


def a_holder_with_intents_is_committed_over(patch):
    edit(patch, page_drafts, "draft_of", ("seen.intents is not None or any(", "any("))


def a_holder_that_lost_is_taken_as_done(patch):
    edit(patch, Pipeline, "swap_all", ("elif was_first:", "elif True:"))


def a_holder_that_lost_is_left_out(patch):
    edit(patch, CopyFollower, "_commit_page", ("page.leave(*lost)", "pass"))


DONE = "    done: list[Committed | StoreError | None] = []\n"
SUMS_READ_LATE = """    if sums:
        shards = dict(zip(sums, (yield from Read("counts", sums, "dm"))))
"""


def the_sums_of_a_page_are_read_after_its_commits(patch):
    edit(patch, Pipeline, "swap_all", (DONE, DONE + SUMS_READ_LATE))


def the_markers_of_a_page_are_put_after_its_commits(patch):
    put = 'Mutate("system", markers)'
    late = f"    if markers:\n        yield from {put}\n"
    edit(patch, Pipeline, "swap_all", (f"before.append({put})", "pass"), (DONE, DONE + late))


def one_token_stands_for_all_deltas_of_a_page(patch):
    edit(patch, journal, "_sum_with", ("in several)])", "in several[:1])])"))


BY_SEED = {
    a_page_does_not_fence: 99,
    a_holder_with_intents_is_committed_over: 51,
    a_holder_that_lost_is_taken_as_done: 0,
    a_holder_that_lost_is_left_out: 152,
    the_sums_of_a_page_are_read_after_its_commits: 94,
    the_markers_of_a_page_are_put_after_its_commits: 1,
    one_token_stands_for_all_deltas_of_a_page: 0,
}
"""Each with a seed that finds it."""

BY_SWITCHES = {
    a_holder_of_equal_values_is_left_out: ("two renames", "a", (10,)),
    a_page_removes_back_references_by_the_clock: ("rename and re-point", "b", (8, 10, 1)),
}
"""What seeds seldom find: the two processes, who begins, and after how many requests the other one is next."""

EQUAL = [the_source_is_read_before_its_holders]
"""What may be done otherwise, each with the reason."""
