"""Feeds come to the naive join while writers and workers crash, lose answers, sleep, and lie about the time.

After every commit each pair of an item and a membership that has no task is where it must be, as
`oneread.testing.feed_audit` says, and one worker that stays does everything that the others leave, soon. Every rule of
`following` that is broken on purpose is found.
"""

import os
from datetime import datetime, timedelta
from itertools import chain
from random import Random

import pytest

from oneread import Feed, Schema, by, each, newest, on, shown
from oneread.feeds import following
from oneread.feeds.following import FeedFollower, FeedHandler
from oneread.testing.processes import Violation
from oneread.testing.schedules import Fate
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, DrainStep, PageStep, PatchStep, SaveAllStep, SaveStep, TransactStep
from oneread.transactions import outbox
from oneread.transactions.task_batches import TaskRows
from tests.simulation.feed_models import BEGINNING, Membership, Post
from tests.simulation.test_every_request_crashes import FATES, AtPoint
from tests.simulation.workers import leased, populate

SEEDS = max(1, int(os.environ.get("ONEREAD_SIM_SEEDS", "100")) // 10)
MUTATION_SEEDS = 60
WRITERS = 2


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(following, "_ROWS_OF_A_PART", 1)


class Home(Feed[Post]):
    expires_after = None
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(each(Post.groups), Membership.group)


class Recent(Feed[Post]):
    """What is older than a second leaves it; only where clocks are right, else what a jump meant is gone."""

    expires_after = timedelta(seconds=1)
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    joined = on(each(Post.groups), Membership.group)


MODELS = (Membership, Post)


def post(chance):
    at = BEGINNING + timedelta(milliseconds=chance.choice([0, 0, 700, 2500]))
    groups = chance.choice([["a"], ["a"], ["b"], ["a", "b"], []])
    return Post(number=chance.randrange(4), groups=groups, at=at, text=chance.choice("xyz"))


def membership(chance):
    number = chance.randrange(5)
    usual = chance.random() < 0.7
    return Membership(
        number=number,
        member=number % 3 if usual else chance.randrange(3),
        group="ab"[number // 3] if usual else chance.choice("ab"),
    )


def leaving_and_publishing(number, item):
    """A leave and an item of the same group, in one transaction; or a join, if there is no such membership."""

    def joining():
        return Membership(number=number, member=number % 3, group="a")

    def body(work):
        found = yield from work.find(Membership, (number,))
        if found is None:
            yield from work.save(joining(), "save", None)
        else:
            yield from work.delete(Membership, (number,), None)
        yield from work.save(item, "save", None)

    def expected(oracle):
        if oracle.get(Membership, number) is None:
            oracle.save(joining())
        else:
            oracle.delete(Membership, number)
        oracle.save(item)

    return TransactStep(f"leaving {number} and publishing {item.number}", body, expected)


def written(chance):
    return chance.choice(
        [
            SaveStep(post(chance)),
            SaveStep(post(chance)),
            PatchStep(Post, (chance.randrange(4),), {"text": chance.choice("xyz")}),
            DeleteStep(Post, (chance.randrange(4),)),
            SaveStep(membership(chance)),
            SaveStep(membership(chance)),
            DeleteStep(Membership, (chance.randrange(5),)),
            DeleteStep(Membership, (chance.randrange(5),)),
            SaveAllStep([post(chance), membership(chance)]),
            leaving_and_publishing(chance.randrange(5), post(chance)),
        ]
    )


def beginning():
    return [
        SaveAllStep([Membership(number=each, member=each % 3, group="ab"[each // 3]) for each in range(5)]),
        SaveAllStep([Post(number=each, groups=["a"], text="0") for each in range(3)]),
    ]


def history(seed):
    chance = Random(f"feeds {seed}")
    feeds = (Home, Recent) if seed % 2 == 0 else (Home,)
    simulation = leased(seed, Schema(*MODELS, *feeds, inline=seed % 3), chance)
    simulation.prepare(*beginning())
    writers = [[written(chance) for _ in range(8)] for _ in range(WRITERS)]
    writers[0][::4] = [PageStep(Home, (1,)), PageStep(Home, (2,), {"limit": 2})]
    return populate(simulation, writers)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_feeds_come_to_the_naive_join_and_all_work_ends(seed):
    history(seed).run()


def coming_back(batches):
    """A member leaves, the items of the group go, and the member comes back when so many batches of that are done."""
    simulation = Simulation(0, Schema(*MODELS, Home, inline=0), fates=AtPoint("", -1, Fate.RUN))
    simulation.prepare(*beginning())
    steps = [
        *[DrainStep(9)] * 20,
        DeleteStep(Membership, (1,)),
        *[DeleteStep(Post, (number,)) for number in range(3)],
        *[DrainStep(1)] * batches,
        SaveStep(Membership(number=1, member=1, group="a")),
    ]
    simulation.process("a program", steps)
    simulation.run()


@pytest.mark.parametrize("batches", range(10))
def test_a_member_who_comes_back_keeps_nothing_of_before(batches):
    coming_back(batches)


# A crash at every request.

ACTS = {
    "publish": [SaveStep(Post(number=8, groups=["a", "b"]))],
    "edit": [PatchStep(Post, (1,), {"text": "new"})],
    "move to another group": [PatchStep(Post, (1,), {"groups": ["b"]})],
    "move to another instant": [PatchStep(Post, (1,), {"at": BEGINNING + timedelta(seconds=5)})],
    "delete": [DeleteStep(Post, (1,))],
    "join": [SaveStep(Membership(number=8, member=8, group="a"))],
    "leave": [DeleteStep(Membership, (1,))],
    "leave and come back": [
        DeleteStep(Membership, (1,)),
        SaveStep(Membership(number=1, member=1, group="a")),
    ],
    "move a membership": [SaveStep(Membership(number=1, member=2, group="b"))],
    "both": [leaving_and_publishing(1, Post(number=8, groups=["a"]))],
    "work": [DrainStep(1)] * 4,
}
PENDING = [
    SaveStep(Post(number=0, groups=["b"], text="moved")),
    DeleteStep(Membership, (1,)),
    DeleteStep(Post, (2,)),
    SaveStep(Membership(number=1, member=1, group="a")),
]
"""Leaves tasks of items and memberships that are there, and that are gone."""


def done(steps, fates):
    simulation = Simulation(0, Schema(*MODELS, Home, inline=1), fates=fates)
    simulation.prepare(*beginning(), *PENDING)
    simulation.process("subject", steps)
    simulation.run()
    return simulation


@pytest.mark.parametrize("name", ACTS)
def test_a_crash_at_any_request_leaves_all_or_nothing(name):
    """While tasks wait, of what the act changes among others."""
    steps = ACTS[name]
    counting = AtPoint("subject", -1, Fate.RUN)
    done(steps, counting)
    assert "inside" in counting.points
    for point, place in enumerate(counting.points):
        for fate in FATES[place]:
            fates = AtPoint("subject", point, fate)
            done(steps if name == "work" else [*steps, *steps], fates)
            assert len(fates.points) > point


# Rules broken on purpose.


def a_member_who_comes_back_keeps_what_was_to_be_taken(patch):
    patch.setattr(following, "Task", lambda source, cursor, again: outbox.Task(source, cursor))  # noqa: ARG005


def a_batch_does_not_read_its_row_again(patch):
    rows, read = {}, FeedHandler._row

    def first(self, unit, key):
        row = read(self, unit, key)
        return rows.setdefault(key, row)

    patch.setattr(FeedHandler, "_row", first)


def a_batch_never_takes(patch):
    write = following._Step.write

    def putting(self):
        self._removes.clear()
        return write(self)

    patch.setattr(following._Step, "write", putting)


def who_left_loses_only_what_is_still_in_the_group(patch):
    partners_of = FeedFollower.partners_of

    def alive(self, unit, now, key, row, *, again):
        return partners_of(self, unit, now, key, {} if row is None else row, again=again)

    patch.setattr(FeedFollower, "partners_of", alive)


def an_entry_has_one_membership(patch):
    patch.setattr(following, "shown_by", lambda _row: [])


def a_commit_sees_no_change_of_its_own(patch):
    patch.setattr(
        following._Step, "scan", lambda step, within, limit: step.unit.store.scan("views", within, limit, families="dm")
    )


def what_is_above_the_bound_is_forgotten(patch):
    patch.setattr(outbox, "add_feed_task", lambda _unit, _task, _now: None)


def a_task_ends_with_its_first_batch(patch):
    patch.setattr(following, "TaskRows", lambda found, _more: TaskRows(found, more=False))


def what_a_task_gives_is_always_too_old(patch):
    patch.setattr(following._Step, "_is_expired", lambda _step, _feed, _tail: True)


MUTATIONS = (
    a_member_who_comes_back_keeps_what_was_to_be_taken,
    a_batch_does_not_read_its_row_again,
    a_batch_never_takes,
    who_left_loses_only_what_is_still_in_the_group,
    an_entry_has_one_membership,
    a_commit_sees_no_change_of_its_own,
    what_is_above_the_bound_is_forgotten,
    a_task_ends_with_its_first_batch,
    what_a_task_gives_is_always_too_old,
)


def finding(run, seed):
    try:
        run(seed)
    except Violation as violation:
        return str(violation)
    return ""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[each.__name__ for each in MUTATIONS])
def test_a_broken_rule_is_found(mutation, monkeypatch):
    """Random schedules miss who comes back in 60 histories, so the directed ones are looked at, too."""
    mutation(monkeypatch)
    directed = (finding(coming_back, batches) for batches in range(10))
    by_chance = (finding(lambda seed: history(seed).run(), seed) for seed in range(MUTATION_SEEDS))
    assert next(filter(None, chain(directed, by_chance)), ""), "not found"
