"""A world of totals in entity groups on a store that changes one row at a time: children show them, too.

Likes are children of the thread that their comment is in, and comments too. So a like is a commit of the thread, which
then follows with its comment and with itself. A poll, which is no thread, counts comments.
"""

from random import Random

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    add,
    by,
    count,
    descending,
    newest,
    reference,
    rollup,
    total,
)
from oneread.testing.schedules import ByChance
from oneread.testing.steps import DeleteStep, DrainStep, PatchStep, SaveAllStep, SaveStep, TransactStep
from tests.simulation.row_totals import TotalsWorld
from tests.simulation.row_world import (
    CALM,
    RecoverStep,
    apply_later,
    is_calm,
    pair,
    turns,
    work_of,
)
from tests.simulation.schema import Compiled


class Like(Model[int, int]):
    child_of = "Thread"
    number: Key[int]
    like: Key[int]
    comment: Ref["Comment"] = reference(missing_ok=True)
    weight: int = 1


class LikesOf(Aggregate[Like]):
    comment: Ref["Comment"] = by(Like.comment)
    likes: int = count()
    weight: int = total(Like.weight)


class Topic(Copy["Poll"]):
    missing_ok = True

    title: str
    comments: int


class Comment(Model[int, int]):
    child_of = "Thread"
    number: Key[int]
    comment: Key[int]
    poll: Ref["Poll"] = reference(missing_ok=True)
    likes: int = rollup(LikesOf.likes)
    weight: int = rollup(LikesOf.weight)


class CommentsByLikes(Index[Comment]):
    likes: int = descending(Comment.likes)
    comment: int = newest(Comment.comment)


class CommentsOf(Aggregate[Comment]):
    number: int = by(Comment.number)
    comments: int = count()
    likes: int = total(Comment.likes)


class CommentsOfPoll(Aggregate[Comment]):
    poll: Ref["Poll"] = by(Comment.poll)
    comments: int = count()


class Poll(Model[int]):
    code: Key[int]
    title: str = ""
    comments: int = rollup(CommentsOfPoll.comments)


class Thread(Model[int]):
    number: Key[int]
    seen: int = 0
    comments: int = rollup(CommentsOf.comments)
    likes: int = rollup(CommentsOf.likes)


class Digest(Model[int]):
    """Holds a copy of a total that children change."""

    code: Key[int]
    topic: Topic


class DigestsByComments(Index[Digest]):
    topic: Topic = by(Digest.topic)


class ThreadsByComments(Index[CommentsOf]):
    comments: int = descending(CommentsOf.comments)


THREADS = Compiled(
    Like, LikesOf, Comment, CommentsByLikes, CommentsOf, CommentsOfPoll, Poll, Thread, Digest, DigestsByComments,
    ThreadsByComments, inline=3,
)  # fmt: skip

LISTED = (CommentsByLikes, ThreadsByComments)


def like(number, which, comment, weight=1):
    return Like(number=number, like=which, comment=Comment.at(1, comment), weight=weight)


def comment(number, which, poll=1):
    return Comment(number=number, comment=which, poll=Poll.at(poll))


def both(which, weight):
    """One transaction that likes, and changes the thread's own fields."""

    def body(work):
        yield from work.save(like(1, which, 1, weight), "save", None)
        yield from work.patch(Thread, (1,), {"seen": add(1)}, None)

    return TransactStep(f"like {which} and see", body, lambda _oracle: None)


def beginning():
    return [
        SaveAllStep([Poll(code=1, title="a"), Thread(number=1), Thread(number=2)]),
        SaveAllStep([comment(1, 1), comment(1, 2)]),
        SaveAllStep([like(1, 1, 1), like(1, 2, 2)]),
        SaveAllStep([Digest(code=1, topic=Topic.of(1))]),
    ]


def step(chance):
    """One act, drawn from few keys and values, so that the processes meet."""
    which, one, value = chance.randrange(1, 4), chance.randrange(1, 3), chance.randrange(1, 4)
    acts = [
        lambda: SaveStep(like(1, which, one, value)),
        lambda: SaveStep(like(2, which, one, value)),  # of another thread than the comment's
        lambda: PatchStep(Like, (1, which), {"weight": value}),
        lambda: DeleteStep(Like, (1, which)),
        lambda: SaveStep(comment(1, one, chance.randrange(1, 3))),
        lambda: DeleteStep(Comment, (1, one)),
        lambda: PatchStep(Thread, (1,), {"seen": value}),
        lambda: SaveStep(Thread(number=1)),
        lambda: SaveStep(Poll(code=one)),
        lambda: DeleteStep(Poll, (one,)),
        lambda: SaveStep(Digest(code=one, topic=Topic.of(chance.randrange(1, 3)))),
        lambda: both(which, value),
    ]
    return chance.choice(acts)()


class ThreadsSimulation(TotalsWorld):
    schema = THREADS
    listed = LISTED


def threads_world(seed, *, later=False, **options):
    """The simulation of one seed: writers, two workers, a recovery; half of the seeds are calm."""
    chance = Random(f"threads {seed}")
    if is_calm(seed):
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    simulation = ThreadsSimulation(seed, THREADS, span="row", **options)
    simulation.prepare(*beginning()[: 1 + seed % 4], *[DrainStep(50)] * 20)
    for number in range(chance.randrange(2, 4)):
        simulation.process(f"writer {number}", [step(chance) for _ in range(3)])
    for name in ("worker 0", "worker 1"):
        simulation.process(name, [work_of(simulation, name)] * 6)
    simulation.process("recoverer", [RecoverStep()] * 2)
    if later:
        apply_later(simulation)
    return simulation


PAIRS = {
    "like and create": ([SaveStep(like(1, 5, 3))], [SaveStep(comment(1, 3))]),
    "like elsewhere and create": ([SaveStep(like(2, 5, 3))], [SaveStep(comment(1, 3))]),
    "like and create again": ([SaveStep(like(2, 5, 4))], [SaveStep(comment(1, 4))]),
    "two likes of one thread": ([SaveStep(like(1, 5, 1))], [SaveStep(like(1, 6, 1))]),
    "two likes of two threads": ([SaveStep(like(1, 5, 1))], [SaveStep(like(2, 6, 1))]),
    "like there and back": ([PatchStep(Like, (1, 1), {"weight": 3})], [PatchStep(Like, (1, 1), {"weight": 1})]),
    "like and see": ([SaveStep(like(2, 5, 1))], [PatchStep(Thread, (1,), {"seen": 1})]),
    "like and delete": ([SaveStep(like(2, 5, 1))], [DeleteStep(Comment, (1, 1))]),
}
"""What two processes do at the same time, by name."""


def switched(name, first, lengths, fates=None, seed=1):
    """Two processes, of which one runs at a time, in turn for so many requests."""
    before = [*beginning(), SaveStep(comment(1, 4)), DeleteStep(Comment, (1, 4)), *[DrainStep(50)] * 20]
    return pair(ThreadsSimulation(seed, THREADS, **turns(first, lengths, fates)), before, PAIRS[name])
