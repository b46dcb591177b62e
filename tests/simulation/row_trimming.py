"""Feeds of few entries on a store that changes one row at a time, and the rules of their trimming broken on purpose."""

from datetime import datetime, timedelta
from random import Random

from oneread import Feed, by, each, newest, on, shown
from oneread.feeds import cell_following
from oneread.feeds.cell_following import RowFeeds
from oneread.testing.schedules import ByChance
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, PatchStep, SaveStep
from tests.simulation.breaking import edit
from tests.simulation.feed_models import BEGINNING, Membership, Post
from tests.simulation.row_feeds import begin_processes, membership, two_processes
from tests.simulation.row_world import CALM, Harmless, Switching
from tests.simulation.schema import compiled


class Few(Feed[Post]):
    expires_after = None
    at_most = 2
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(each(Post.groups), Membership.group)


def post(chance, number=None):
    number = chance.randrange(6) if number is None else number
    groups = chance.choice([["a"], ["a"], ["b"], ["a", "b"]])
    at = BEGINNING + timedelta(seconds=number + chance.choice([0, 0, 0, 9]))
    return Post(number=number, groups=groups, at=at, text=chance.choice("xyz"))


def act(chance):
    return chance.choice(
        [
            lambda: SaveStep(post(chance)),
            lambda: SaveStep(post(chance)),
            lambda: PatchStep(Post, (chance.randrange(6),), {"text": chance.choice("xyz")}),
            lambda: DeleteStep(Post, (chance.randrange(6),)),
            lambda: SaveStep(membership(chance)),
            lambda: DeleteStep(Membership, (chance.randrange(4),)),
        ]
    )()


def world(seed, **options):
    """Writers, two workers and a recoverer; half of the seeds are calm, some follow by tasks alone."""
    chance = Random(f"trimming {seed}")
    if seed % 4 > 1:
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    simulation = Simulation(seed, compiled(Membership, Post, Few, inline=seed % 3), span="row", **options)
    simulation.prepare(
        *[SaveStep(Membership(number=number, member=number % 2, group="a")) for number in range(3)],
        *[SaveStep(post(chance, number)) for number in range(2)],
    )
    begin_processes(simulation, chance, act)
    return simulation


def published(number):
    return SaveStep(Post(number=number, groups=["a"], at=BEGINNING + timedelta(seconds=number)))


JOINED = SaveStep(Membership(number=1, member=1, group="a"))
PAIRS = {
    "two publish": ([JOINED, published(1)], [published(2)], [published(3)]),
    "publish and join": ([published(1), published(2)], [published(3)], [JOINED]),
    "publish and edit": (
        [JOINED, published(1), published(2), published(3)],
        [published(4)],
        [PatchStep(Post, (1,), {"text": "new"})],
    ),
    "publish and come back": (
        [JOINED, published(1), published(2)],
        [published(3)],
        [DeleteStep(Membership, (1,)), JOINED],
    ),
}
"""What was before, and what each of the two does."""


def two(name, inline=100, **options):
    return two_processes(compiled(Membership, Post, Few, inline=inline), PAIRS[name], **options)


def switched(name, first, lengths):
    return two(name, fates=Harmless(), policy=Switching(first, lengths))


# Rules broken on purpose.


def entries_are_counted_before_they_are_put(patch):
    put = "        yield from put_entries(rows)\n"
    trim = (
        "        if feed.view.at_most is not None:\n            yield from _trim(feed, [each.key for each in rows])\n"
    )
    edit(patch, cell_following, "_write", (put, trim + put))
    edit(patch, RowFeeds, "_give", ("keys += yield from _trim(feed, keys)", "pass"))


def a_task_does_not_trim(patch):
    def none(_feed, _rows):
        yield from ()
        return []

    patch.setattr(cell_following, "_trim", none)


def one_is_trimmed_for_each_that_is_put(patch):
    whole = cell_following._beyond

    def beyond(feed, member):
        found = yield from whole(feed, member)
        return found[:1]

    patch.setattr(cell_following, "_beyond", beyond)


def entries_are_trimmed_beyond_the_first_page(patch):
    """The rest of what is behind is left to whoever comes next."""
    patch.setattr(cell_following, "_SCANNED", 2)
    edit(patch, cell_following, "_beyond", ("if len(found) < _SCANNED:", "if True:"))


def the_item_alone_is_marked(patch):
    whole = cell_following.marks_of_trimming

    def marks(row, hidden):
        return {column: cell for column, cell in whole(row, hidden).items() if column.startswith(b"d:t:i:")}

    patch.setattr(cell_following, "marks_of_trimming", marks)
