"""Feeds on a store that changes one row at a time: the world, two processes that meet, and rules broken on purpose."""

from datetime import datetime, timedelta
from random import Random

from oneread import Feed, by, each, newest, on, shown
from oneread.feeds import cell_following
from oneread.feeds.cell_following import RowFeeds
from oneread.plans.effects import Now
from oneread.store.requests import Read
from oneread.store.rows import REMOVED
from oneread.testing.schedules import ByChance
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, PatchStep, SaveStep
from oneread.transactions.intents import Intents
from oneread.transactions.journal import Journal
from oneread.transactions.versioned_tasks import RowTaskRunner
from tests.simulation.breaking import edit
from tests.simulation.feed_models import BEGINNING, Membership, Post
from tests.simulation.row_world import CALM, Harmless, RecoverStep, Switching, pair, work_of
from tests.simulation.schema import compiled

WRITERS, ACTS, WORKS = 3, 7, 12


class Home(Feed[Post]):
    expires_after = None
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(each(Post.groups), Membership.group)


class Recent(Feed[Post]):
    """What is older than an hour leaves it; clocks that are wrong by days write no less of the rest."""

    expires_after = timedelta(hours=1)
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    joined = on(each(Post.groups), Membership.group)


def post(chance):
    groups = chance.choice([["a"], ["a"], ["b"], ["a", "b"], []])
    at = BEGINNING + timedelta(seconds=chance.choice([0, 0, 5]))
    return Post(number=chance.randrange(3), groups=groups, at=at, text=chance.choice("xyz"))


def membership(chance):
    number = chance.randrange(4)
    return Membership(number=number, member=number % 2, group=chance.choice("aab"))


def act(chance):
    return chance.choice(
        [
            lambda: SaveStep(post(chance)),
            lambda: SaveStep(post(chance)),
            lambda: PatchStep(Post, (chance.randrange(3),), {"text": chance.choice("xyz")}),
            lambda: DeleteStep(Post, (chance.randrange(3),)),
            lambda: SaveStep(membership(chance)),
            lambda: SaveStep(membership(chance)),
            lambda: DeleteStep(Membership, (chance.randrange(4),)),
            lambda: DeleteStep(Membership, (chance.randrange(4),)),
        ]
    )()


def begin_processes(simulation, chance, act):
    """Writers, two workers and a recoverer."""
    for number in range(WRITERS):
        simulation.process(f"writer {number}", [act(chance) for _ in range(ACTS)])
    for name in ("worker 0", "worker 1"):
        simulation.process(name, [work_of(simulation, name)] * WORKS)
    simulation.process("recoverer", [RecoverStep()] * 4)


def world(seed, **options):
    """Writers, two workers and a recoverer; half of the seeds are calm, some follow by tasks alone."""
    chance = Random(f"row feeds {seed}")
    if seed % 4 > 1:
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    feeds = (Home, Recent) if seed % 3 == 0 else (Home,)
    simulation = Simulation(seed, compiled(Membership, Post, *feeds, inline=seed % 3), span="row", **options)
    simulation.prepare(
        *[SaveStep(Membership(number=number, member=number % 2, group="a")) for number in range(3)],
        *[SaveStep(Post(number=number, groups=["a"], text="0")) for number in range(2)],
    )
    begin_processes(simulation, chance, act)
    return simulation


# Two processes.

JOINED = SaveStep(Membership(number=1, member=1, group="a"))
PUBLISHED = SaveStep(Post(number=1, groups=["a"]))
LEFT, UNPUBLISHED = DeleteStep(Membership, (1,)), DeleteStep(Post, (1,))
PAIRS = {
    "publish and join": ([], [PUBLISHED], [JOINED]),
    "publish and leave": ([JOINED], [PUBLISHED], [LEFT]),
    "edit and leave": ([JOINED, PUBLISHED], [PatchStep(Post, (1,), {"text": "new"})], [LEFT]),
    "delete and leave": ([JOINED, PUBLISHED], [UNPUBLISHED], [LEFT]),
    "delete and come back": ([JOINED, PUBLISHED, LEFT], [UNPUBLISHED], [JOINED]),
    "publish, and all go": ([JOINED], [PUBLISHED], [LEFT, UNPUBLISHED]),
    "join, and all go": ([PUBLISHED], [JOINED], [LEFT, UNPUBLISHED]),
    "edit, and leave by another membership": (
        [JOINED, PUBLISHED, SaveStep(Membership(number=2, member=1, group="a"))],
        [PatchStep(Post, (1,), {"text": "new"})],
        [LEFT],
    ),
    "publish and another joins": ([], [PUBLISHED], [UNPUBLISHED, JOINED]),
    "move and come back": (
        [JOINED, PUBLISHED],
        [PatchStep(Post, (1,), {"groups": ["b"]})],
        [PatchStep(Post, (1,), {"groups": ["a"]})],
    ),
}
"""What was before, and what each of the two does."""


def two_processes(schema, steps, **options):
    """What was before, and what each of the two does, under clocks that agree."""
    before, *both = steps
    return pair(Simulation(1, schema, span="row", deletes="hide", **options), before, both)


def two(name, inline=100, **options):
    return two_processes(compiled(Membership, Post, Home, inline=inline), PAIRS[name], **options)


def switched(name, first, lengths):
    return two(name, fates=Harmless(), policy=Switching(first, lengths))


# Rules broken on purpose.

READ = '(row,) = yield from Read("views", [key], "dm")'


def an_own_row_is_read_before_the_page(patch):
    edit(
        patch,
        RowFeeds,
        "_give",
        ("    found = yield from partners", f"    {READ}\n    found = yield from partners"),
        ('(row,) = (yield from Read("views", [key], "dm")) if found else (None,)', "row = row if found else None"),
    )


def living(rows):
    return [each for each in rows if next(iter(each[1].values())).value != REMOVED]


def partners_that_are_removed_are_left_out(patch):
    for name in ("_of_item", "_of_membership"):
        whole = getattr(cell_following, name)
        patch.setattr(
            cell_following, name, lambda feed, key, own, rows, whole=whole: whole(feed, key, own, living(rows))
        )


def a_group_that_was_left_has_no_task(patch):
    whole = Intents.tasks
    patch.setattr(Intents, "tasks", lambda made, root: whole(Intents(made.version, made.puts, fed=made.fed), root))


def an_entry_has_one_column_for_all_memberships(patch):
    patch.setattr(cell_following, "membership_column", lambda group, _member: b"d:m:" + group.ljust(24)[:24])


def an_item_has_one_column_for_all_groups(patch):
    patch.setattr(cell_following, "item_column", lambda _group: b"d:i:" + b"g" * 12)
    whole = cell_following.membership_column
    patch.setattr(
        cell_following,
        "membership_column",
        lambda group, member: b"d:m:" + b"g" * 12 + whole(group, member)[-12:],
    )


def a_task_is_there_before_its_row(patch):
    row = "outbox.task_row(*each, made.version)"
    put = f"    tasks = [{row} for key, made, *_rest in done for each in made.tasks(key).items()]\n"
    groups = "(key, made.version, made.groups) for key, made, *_rest in done"
    put += f"    tasks += outbox.group_task_rows({groups})\n"
    put += "    for _key, intents, *_rest in done:\n        tasks += job_puts(intents.jobs, intents.version)\n"
    put += '    if tasks:\n        yield from Mutate("system", tasks)\n'
    edit(patch, Journal, "apply", (put, ""), ("    if together:", f"{put}    if together:"))


def a_row_puts_its_own_cell_alone(patch):
    whole = cell_following._entry

    def alone(*given):
        made = whole(*given)
        return type(made)(made.key, dict([next(iter(made.puts.items()))]))

    patch.setattr(cell_following, "_entry", alone)


def a_cell_has_the_stamp_of_its_partner(patch):
    edit(
        patch,
        cell_following,
        "_entry",
        ("Cell(member.membership, stamp)", "Cell(member.membership, max(stamp, item.cell.stamp))"),
    )


def a_task_ends_with_its_first_page(patch):
    edit(
        patch,
        RowTaskRunner,
        "_follow",
        (
            "return (yield from self._give(outbox.feed_row(source), cursor, done, batch))",
            "yield from self._committer.views.feeds.follow(outbox.feed_row(source), cursor, 1)\n        return None",
        ),
    )


def a_removed_row_removes_nothing(patch):
    patch.setattr(cell_following, "_of_membership", lambda *_given: [])


def a_worker_remembers_its_own_row(patch):
    """The state of the task, as of when it was first done."""
    known = {}

    def first(table, keys, families):
        (row,) = yield from Read(table, keys, families)
        return [known.setdefault(keys[0], row)]

    edit(patch, RowFeeds, "_give", ('yield from Read("views"', 'yield from first("views"'), first=first)


def what_is_too_old_by_a_worker_is_left_out(patch):
    edit(
        patch,
        RowFeeds,
        "give",
        ("    every = RowRange.under(", "    now = yield from Now()\n    every = RowRange.under("),
        (
            "feed.items) + group)\n",
            "feed.items) + group)\n    if view_part(key) == feed.members:\n        every = feed.items_of(group, now)\n",
        ),
        Now=Now,
    )


def one_sided(patch, name):
    whole = getattr(cell_following, name)
    patch.setattr(cell_following, name, lambda feed, key, own, rows: whole(feed, key, own, living(rows)))


def a_removed_item_leaves_out_removed_memberships(patch):
    one_sided(patch, "_of_item")


def a_removed_membership_leaves_out_removed_items(patch):
    one_sided(patch, "_of_membership")
