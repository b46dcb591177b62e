"""A world of entity groups on a store that changes one row at a time: users with posts and pots, tags, votes."""

from random import Random

from oneread import GENERATED, Aggregate, Copy, Index, Key, Model, add, by, count, newest, shown, total, within
from oneread.errors import Conflict, LimitExceeded
from oneread.testing.processes import Violation
from oneread.testing.schedules import ByChance
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, PatchStep, ReadStep, SaveAllStep, SaveStep, Step, TransactStep, UpsertStep
from tests.simulation.row_world import CALM, RecoverStep, is_calm, pair, turns, work_of
from tests.simulation.schema import Compiled

WRITERS, ACTS, STEPS = 3, 3, 6


class User(Model[int]):
    number: Key[int]
    name: str = ""
    karma: int = 0


class Author(Copy[User]):
    name: str


class Tag(Model[int]):
    code: Key[int]
    label: str = ""


class Tagged(Copy[Tag]):
    label: str


class Post(Model[int, int, int]):
    """The key begins with another part than the root's."""

    child_of = User
    day: Key[int]
    number: Key[int]
    post: Key[int] = GENERATED
    author: Author
    tag: Tagged | None = None
    title: str | None = None
    score: int = 0


class Pot(Model[int, int]):
    """Users move amounts between their pots, so that those of one user add up to 0."""

    child_of = User
    number: Key[int]
    pot: Key[int]
    amount: int = 0


class Voted(Copy[Post]):
    on_delete = "refuse"
    score: int


class Vote(Model[int]):
    code: Key[int]
    post: Voted


class PostsOfDay(Index[Post]):
    day: int = by(Post.day)
    post: int = newest(Post.post)
    author: Author = shown(Post.author)


class PostsOfAuthor(Aggregate[Post]):
    author: Author = by(Post.author)
    posts: int = count()
    score: int = total(Post.score)


class PostsOfLabel(Aggregate[Post]):
    label: str = by(within(Post.tag, Tagged.label))
    posts: int = count()


class PostsOfTitle(Index[Post]):
    unique = True
    title: str = by(Post.title)


class VotesOfScore(Index[Vote]):
    score: int = by(within(Vote.post, Voted.score))


GROUPS = Compiled(
    User, Tag, Post, Pot, Vote, PostsOfDay, PostsOfAuthor, PostsOfLabel, PostsOfTitle, VotesOfScore, inline=4
)


def post(user, day=0, **more):
    return Post(day=day, number=user, author=Author.of(user), **more)


def moving(user, source, target, amount=1):
    """A transaction that reads two pots and writes them, and counts itself in the root."""

    def body(work):
        amounts = {}
        for pot in (1, 2, 3):
            found = yield from work.find(Pot, (user, pot))
            amounts[pot] = found.amount if found else 0
        if sum(amounts.values()):
            raise Violation(f"a transaction has read pots of several moments: {amounts}")
        yield from work.save(Pot(number=user, pot=source, amount=amounts[source] - amount), "save", None)
        yield from work.save(Pot(number=user, pot=target, amount=amounts[target] + amount), "save", None)
        yield from work.patch(User, (user,), {"karma": add(1)}, None)

    return TransactStep(f"move {user} {source} {target}", body, lambda _oracle: None)


def posting(user, title=None):
    """A root and two of its children, made in one transaction that reads what it wrote."""

    def body(work):
        yield from work.save(User(number=user, name="posting"), "save", None)
        yield from work.save(post(user, tag=Tagged.of(0)), "create", None)
        made = yield from work.save(post(user, title=title), "create", None)
        yield from work.get(Post, (made.day, made.number, made.post))
        yield from work.delete(Post, (0, user, 1), None)

    return TransactStep(f"posting {user}", body, lambda _oracle: None)


class DeleteGroupStep(Step, frozen=True):
    """A root with its children."""

    user: int

    writes = True

    def __str__(self):
        return f"delete group {self.user}"

    def plan(self, operations):
        try:
            return (yield from operations.delete(User, (self.user,), None, "delete"))
        except LimitExceeded as refusal:
            raise Conflict("too many children; nothing was written") from refusal


def act(chance):
    """One act, drawn from few keys and values, so that the processes meet."""
    user, day, number = chance.randrange(2), chance.randrange(2), chance.randrange(1, 4)
    tag = Tagged.of(chance.randrange(2)) if chance.randrange(2) else None
    title = chance.choice("ab") if not chance.randrange(4) else None
    acts = [
        *[lambda: SaveStep(post(user, day, tag=tag, title=title, score=number), "create")] * 3,
        lambda: SaveStep(post(user, day, tag=tag)),
        lambda: SaveAllStep([post(user, day), post(user, 1 - day, title=title)]),
        lambda: SaveStep(Post(day=day, number=user, post=number, author=Author.of(1 - user), tag=tag, title=title)),
        lambda: UpsertStep(Post(day=day, number=user, post=number, author=Author.of(user)), {"score": add(1)}),
        *[lambda: PatchStep(Post, (day, user, number), {"score": add(1)})] * 2,
        lambda: PatchStep(Post, (day, user, number), {"tag": tag, "title": title}),
        *[lambda: DeleteStep(Post, (day, user, number))] * 2,
        lambda: PatchStep(User, (user,), {"name": chance.choice("xyz")}),
        lambda: SaveStep(User(number=user, name="saved"), "keep"),
        lambda: DeleteStep(User, (user,)),
        lambda: DeleteGroupStep(user),
        *[lambda: moving(user, number, 1 + number % 3)] * 2,
        lambda: posting(user, title),
        lambda: PatchStep(Tag, (chance.randrange(2),), {"label": chance.choice("lm")}),
        lambda: DeleteStep(Tag, (chance.randrange(2),)),
        lambda: SaveStep(Tag(code=chance.randrange(2), label="new")),
        lambda: SaveStep(Vote(code=number, post=Voted.of(day, user, number))),
        lambda: DeleteStep(Vote, (number,)),
    ]
    return chance.choice(acts)()


def beginning():
    return [
        SaveAllStep([User(number=0, name="u"), User(number=1, name="v")]),
        SaveAllStep([Tag(code=0, label="l"), Tag(code=1, label="m")]),
        SaveAllStep([post(0, 0, tag=Tagged.of(0), score=1), post(0, 1, title="a"), post(1, 0, tag=Tagged.of(1))]),
        moving(0, 1, 2),
        SaveStep(Vote(code=1, post=Voted.of(0, 0, 1))),
    ]


class GroupSimulation(Simulation):
    """One history of groups."""

    def _rest(self):
        super()._rest()
        sums = {}
        for entity in self.audit.entities().values():
            if isinstance(entity, Pot):
                sums[entity.number] = sums.get(entity.number, 0) + entity.amount
        if any(sums.values()):
            raise Violation(f"the pots of a user do not add up: {sums}")


def group_world(seed, **options):
    """The simulation of one seed: writers, two workers, a recoverer, a reader; half of the seeds are calm."""
    if is_calm(seed):
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    simulation = GroupSimulation(seed, GROUPS, span="row", **options)
    simulation.prepare(*beginning())
    chance = Random(f"groups {seed}")
    for number in range(WRITERS):
        simulation.process(f"writer {number}", [act(chance) for _ in range(ACTS)])
    for name in ("worker 0", "worker 1"):
        simulation.process(name, [work_of(simulation, name)] * STEPS)
    simulation.process("recoverer", [RecoverStep()] * (STEPS // 2))
    reads = [ReadStep(Post, (chance.randrange(2), chance.randrange(2), chance.randrange(1, 4))) for _ in range(4)]
    simulation.process("reader", reads)
    return simulation


PAIRS = {
    "two numbers": ([SaveStep(post(0))], [SaveStep(post(0, title="b"))]),
    "a number and a refused one": ([SaveStep(post(0))], [SaveStep(post(0, title="a"))]),
    "edit and delete": ([PatchStep(Post, (0, 0, 1), {"score": add(2)})], [DeleteStep(Post, (1, 0, 2))]),
    "one child": ([PatchStep(Post, (0, 0, 1), {"score": add(2)})], [PatchStep(Post, (0, 0, 1), {"score": add(3)})]),
    "number and delete of the group": ([SaveStep(post(1))], [DeleteGroupStep(1)]),
    "number and delete of the root": ([SaveStep(post(1))], [DeleteStep(Post, (0, 1, 3)), DeleteStep(User, (1,))]),
    "group again": (
        [DeleteGroupStep(1), SaveStep(User(number=1)), SaveStep(post(1))],
        [SaveStep(post(1))],
    ),
    "moves": ([moving(0, 1, 2)], [moving(0, 2, 3)]),
    "refer and rename": ([SaveStep(post(0, tag=Tagged.of(1)))], [PatchStep(Tag, (1,), {"label": "z"})]),
    "re-point and rename": (
        [PatchStep(Post, (0, 0, 1), {"tag": Tagged.of(1)})],
        [PatchStep(Tag, (1,), {"label": "z"})],
    ),
    "re-point and delete": ([PatchStep(Post, (1, 0, 2), {"tag": Tagged.of(1)})], [DeleteStep(Tag, (1,))]),
    "rename the root": ([SaveStep(post(0))], [PatchStep(User, (0,), {"name": "new"})]),
    "hold and delete a child": ([SaveStep(Vote(code=2, post=Voted.of(0, 1, 1)))], [DeleteStep(Post, (0, 1, 1))]),
    "hold and edit a child": (
        [SaveStep(Vote(code=2, post=Voted.of(0, 1, 1)))],
        [PatchStep(Post, (0, 1, 1), {"score": add(3)})],
    ),
    "one title": ([SaveStep(post(0, title="c"))], [SaveStep(post(1, title="c"))]),
    "posting": ([posting(0)], [SaveStep(post(0, tag=Tagged.of(1)))]),
    "posting and rename": ([posting(1)], [PatchStep(Tag, (0,), {"label": "z"})]),
}
"""What two processes do at the same time, by name."""


def switched(name, first, lengths, fates=None, seed=1, *, beside=None):
    """Two processes, of which one runs at a time, in turn for so many requests.

    With steps `beside`, these are the first one, and the second one does what the first of the pair does.
    """
    both = PAIRS[name] if beside is None else (beside, PAIRS[name][0])
    return pair(GroupSimulation(seed, GROUPS, **turns(first, lengths, fates)), beginning(), both)
