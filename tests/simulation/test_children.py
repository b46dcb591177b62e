"""Children are numbered while processes die and answers get lost: right after every commit, and at the end."""

import os
from collections import Counter
from random import Random

import pytest

from oneread import GENERATED, Aggregate, Copy, Index, Key, Model, Schema, by, count, newest, shown
from oneread.database.operations import Operations
from oneread.errors import Conflict, LimitExceeded
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, DrainStep, PatchStep, SaveAllStep, SaveStep, Step, TransactStep
from tests.simulation.workers import leased, populate

SEEDS = max(1, int(os.environ.get("ONEREAD_SIM_SEEDS", "100")) // 20)
WRITERS, STEPS = 3, 9


class User(Model[int]):
    number: Key[int]
    name: str = ""


class Author(Copy[User]):
    name: str


class Post(Model[int, int, int]):
    """The key begins with another part than the root's."""

    child_of = User
    day: Key[int]
    number: Key[int]
    post: Key[int] = GENERATED
    author: Author
    text: str = ""


class PostsOfDay(Index[Post]):
    day: int = by(Post.day)
    post: int = newest(Post.post)
    author: Author = shown(Post.author)


class PostsOfAuthor(Aggregate[Post]):
    author: Author = by(Post.author)
    posts: int = count()


SCHEMA = Schema(User, Post, PostsOfDay, PostsOfAuthor, inline=1)


def post(chance, user, **more):
    return Post(day=chance.randrange(2), number=user, author=Author.of(user), **more)


def step(chance):
    """One act, drawn from few keys and values, so that the processes meet."""
    user = chance.randrange(2)
    acts = [
        lambda: SaveStep(post(chance, user), "create"),
        lambda: SaveStep(post(chance, user)),
        lambda: SaveAllStep([post(chance, each) for each in (user, 1 - user, user)]),
        lambda: PatchStep(User, (user,), {"name": chance.choice("xyz")}),
        lambda: SaveStep(User(number=user, name="saved")),
        lambda: DeleteStep(User, (user,)),
        lambda: DeleteStep(Post, (chance.randrange(2), user, chance.randrange(1, 4))),
        lambda: PatchStep(Post, (chance.randrange(2), user, 1), {"text": "edited"}),
        lambda: posting(chance, user),
    ]
    return chance.choice(acts)()


def posting(chance, user):
    """Two posts and their root, in one transaction that reads what it wrote."""
    first, second = post(chance, user), post(chance, user)

    def body(work):
        yield from work.find(User, (user,))
        yield from work.save(User(number=user, name="posting"), "save", None)
        yield from work.save(first, "create", None)
        made = yield from work.save(second, "create", None)
        yield from work.get(Post, (made.day, made.number, made.post))

    def expected(oracle):
        oracle.save(User(number=user, name="posting"))
        oracle.create(first)
        oracle.create(second)

    return TransactStep(f"posting {user}", body, expected)


class Listing(Operations):
    """The operations of a simulation, with what a delete of a group has listed."""

    def __init__(self, operations, listed):
        self.__dict__ = operations.__dict__ | {"listed": listed}

    def _children(self, root):
        self.listed[:] = yield from super()._children(root)
        return list(self.listed)


class DeleteGroupStep(Step, frozen=True):
    """A root with its children. The oracle deletes the children that were listed: with others left it refuses too."""

    user: int
    listed: list

    writes = True

    def __str__(self):
        return f"delete group {self.user}"

    def plan(self, operations):
        try:
            return (yield from Listing(operations, self.listed).delete(User, (self.user,), None, "delete"))
        except LimitExceeded as refusal:
            raise Conflict("too many children; nothing was written") from refusal

    def expect(self, oracle, versions=()):  # noqa: ARG002 - dated by the oracle
        parts_of = LEASED.unstored().kinds[Post].parts_of
        for key in self.listed:
            oracle.delete(Post, *parts_of(key))
        oracle.delete(User, self.user)
        return []


LEASED = Schema(User, Post, PostsOfDay, PostsOfAuthor, inline=3)
"""A group of up to three posts goes with its user; a user of more posts is renamed by a task."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_groups_are_right_while_workers_share_the_tasks_and_die(seed):
    """Histories of groups, sequences and tasks: all work ends, and each after its commit is what the oracle says."""
    group_history(seed).run()


def group_history(seed):
    chance = Random(f"groups {seed}")
    simulation = leased(seed, LEASED, chance)
    simulation.prepare(
        SaveAllStep([User(number=number) for number in range(2)]),
        SaveAllStep([post(chance, 0) for _ in range(5)]),
        PatchStep(User, (0,), {"name": "renamed"}),
    )
    acts = [lambda: step(chance)] * 4 + [lambda: DeleteGroupStep(chance.randrange(2), [])]
    return populate(simulation, [[chance.choice(acts)() for _ in range(6)] for _ in range(WRITERS)])


def test_groups_are_deleted_and_tasks_are_done_in_these_histories():
    outcomes = Counter()
    for seed in range(20):
        simulation = group_history(seed)
        simulation.run()
        outcomes.update((what.rpartition(" ")[0], how) for what, how in simulation.outcomes)
    assert outcomes["delete group", "done"] >= 3, outcomes
    assert outcomes["work of worker", "crashed"] >= 3, outcomes


@pytest.mark.parametrize("seed", range(SEEDS))
def test_children_are_numbered_without_holes_after_every_commit(seed):
    chance = Random(f"children {seed}")
    simulation = Simulation(seed, SCHEMA)
    simulation.prepare(SaveAllStep([User(number=number) for number in range(2)]))
    for number in range(WRITERS):
        simulation.process(f"writer {number}", [step(chance) for _ in range(STEPS)])
    simulation.process("worker", [DrainStep(2)] * STEPS)
    simulation.run()
