"""Batches of changes in pages, on a store that changes one row at a time, and the rules of pages broken."""

from random import Random

from oneread.testing.schedules import ByChance
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, PatchStep, SaveStep, Step
from oneread.transactions import commit_pages, page_drafts
from oneread.transactions.commit_pages import CommitPages
from tests.simulation import row_groups
from tests.simulation.breaking import edit
from tests.simulation.row_following import ACTS, many
from tests.simulation.row_world import CALM, RecoverStep, is_calm, small_beginning, work_of
from tests.simulation.schema import WORLD
from tests.simulation.world import bought

SIZE = 4
"""Changes of a batch."""


class BatchStep(Step, frozen=True):
    """What a bulk writer does with some changes: those that are refused are left out."""

    given: tuple

    def __str__(self):
        return f"batch of {len(self.given)}"

    def plan(self, operations):
        changes = []
        for each in self.given:
            changes.append((yield from operations.changing(each)))  # noqa: PERF401 - a comprehension cannot yield
        return (yield from operations.committer.commit_batch(changes, stops=False))


def wanted(step):
    """The change of a step as a bulk writer is given it."""
    if isinstance(step, SaveStep):
        return step.mode, step.entity
    if isinstance(step, PatchStep):
        return "patch", step.model, step.key, step.changes
    return "delete", step.model, step.key


def _purchases(chance):
    several = [bought(number, chance.randrange(1, 3), 1, 1, 1) for number in chance.sample(range(1, 9), SIZE)]
    return BatchStep(tuple(("save", each) for each in several))


def _mixed(chance):
    made = [make(chance) for make in chance.choices(list(ACTS), list(ACTS.values()), k=SIZE)]
    return BatchStep(tuple({_entity_of(each): each for each in map(wanted, made)}.values()))


def _entity_of(given):
    """A step changes an entity once: what the simulator looks for is one that is changed twice."""
    return (type(given[1]), (given[1].number,)) if given[0] in ("save", "create") else given[1:3]


BATCHES = {_purchases: 3, _mixed: 2}


def batches(seed, **options):
    """The simulation of one seed: two that write batches, one that changes the same entities, a worker, a recoverer."""
    if is_calm(seed):
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    simulation = Simulation(seed, WORLD, span="row", **options)
    simulation.prepare(*small_beginning(), *many())
    chance = Random(f"batches {seed}")
    for number in range(2):
        made = [make(chance) for make in chance.choices(list(BATCHES), list(BATCHES.values()), k=2)]
        simulation.process(f"bulk writer {number}", made)
    acts = [make(chance) for make in chance.choices(list(ACTS), list(ACTS.values()), k=4)]
    simulation.process("writer", acts)
    simulation.process("worker", [work_of(simulation, "worker", batch=8)] * 6)
    simulation.process("recoverer", [RecoverStep()] * 2)
    return simulation


def _posts(chance):
    tagged = row_groups.Tagged.of(0)
    several = [
        row_groups.post(chance.randrange(1, 3), title=chance.choice((None, None, "a")), tag=tagged) for _ in range(SIZE)
    ]
    return BatchStep(tuple(("create", each) for each in several))


def _users(chance):
    user = row_groups.User(number=chance.randrange(1, 4), name=chance.choice("ab"))
    return BatchStep((("save", user), ("create", row_groups.post(user.number)), ("create", row_groups.post(1))))


def batches_of_children(seed, **options):
    """Batches of children of few entity groups, while their roots are changed."""
    if is_calm(seed):
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    simulation = Simulation(seed, row_groups.GROUPS, span="row", **options)
    simulation.prepare(*(SaveStep(row_groups.User(number=number, name="a")) for number in (1, 2)))
    simulation.prepare(SaveStep(row_groups.Tag(code=0, label="new")))
    chance = Random(f"children {seed}")
    for number in range(2):
        simulation.process(f"bulk writer {number}", [chance.choice((_posts, _users))(chance) for _ in range(2)])
    names = [PatchStep(row_groups.User, (chance.randrange(1, 3),), {"name": chance.choice("abc")}) for _ in range(2)]
    gone = DeleteStep(row_groups.Post, (0, 1, 1))
    simulation.process("writer", [*names, gone])
    simulation.process("worker", [work_of(simulation, "worker")] * 6)
    simulation.process("recoverer", [RecoverStep()] * 2)
    return simulation


# The rules of pages, broken.


def sources_of_a_page_are_read_before_their_back_references(patch):
    put = "    first += [put_pointers(together, now)] if together else []\n"
    edit(patch, CommitPages, "_read_drafts", (put, ""), ("if version == now else ()", "if True else ()"))


def a_page_commits_over_intents(patch):
    edit(patch, page_drafts, "draft_of", ("seen.intents is not None or any(", "any("))


def groups_share_the_sums_that_they_read(patch):
    patch.setattr(
        commit_pages,
        "_with_own_shards",
        lambda done: [
            each._replace(shards={key: row for other in done for key, row in other.shards.items()}) for each in done
        ],
    )


BY_SEED = {
    sources_of_a_page_are_read_before_their_back_references: 0,
    a_page_commits_over_intents: 0,
}
BY_SEED_OF_CHILDREN = {groups_share_the_sums_that_they_read: 106}
"""Each with the first seed that finds it: tried before all others."""
