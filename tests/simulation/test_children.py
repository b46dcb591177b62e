"""Children are numbered while processes die and answers get lost: right after every commit, and at the end."""

import os
from random import Random

import pytest

from oneread import GENERATED, Aggregate, Copy, Index, Key, Model, Schema, by, count, newest, shown
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, DrainStep, PatchStep, SaveAllStep, SaveStep, TransactStep

SEEDS = max(1, int(os.environ.get("ONEREAD_SIM_SEEDS", "200")) // 20)
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


@pytest.mark.parametrize("seed", range(SEEDS))
def test_children_are_numbered_without_holes_after_every_commit(seed):
    chance = Random(f"children {seed}")
    simulation = Simulation(seed, SCHEMA)
    simulation.prepare(SaveAllStep([User(number=number) for number in range(2)]))
    for number in range(WRITERS):
        simulation.process(f"writer {number}", [step(chance) for _ in range(STEPS)])
    simulation.process("worker", [DrainStep(2)] * STEPS)
    simulation.run()
