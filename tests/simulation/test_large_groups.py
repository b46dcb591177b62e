"""Feeds with large groups, and of few entries, while writers and workers crash, lose answers, sleep and lie about time.

Groups cross the threshold both ways. After every commit each item and each membership without a task is where its group
says, as `oneread.testing.feed_audit` checks; at the end every feed is the naive join and nothing
waits. Every rule that is broken on purpose is found.
"""

import os
from collections import Counter
from datetime import datetime, timedelta
from random import Random

import pytest

from oneread import Feed, Schema, by, each, newest, on, shown
from oneread.feeds import crossing, following
from oneread.feeds.crossing import Crossing
from oneread.feeds.entries import Entries, Kept, kept_row
from oneread.feeds.feed_view import FeedView
from oneread.feeds.large_groups import Delivery, large_groups_of
from oneread.feeds.merging import LargeGroupReader, MergedGroups
from oneread.feeds.placing import Placing
from oneread.store.keys import view_part
from oneread.testing.processes import Violation
from oneread.testing.steps import DeleteStep, PageStep, PatchStep, SaveAllStep, SaveStep, TransactStep
from oneread.transactions.task_batches import TaskRows
from tests.properties.test_large_groups import MUTATIONS as BROKEN_GROUPS
from tests.simulation.feed_models import BEGINNING, Membership, Post
from tests.simulation.workers import leased, populate

SEEDS = max(1, int(os.environ.get("ONEREAD_SIM_SEEDS", "100")) // 10)
MUTATION_SEEDS = 80
WRITERS, STEPS = 2, 12


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(following, "_ROWS_OF_A_PART", 1)


def schema(chance, *, honest):
    """Three feeds: one with large groups, one that is trimmed, one of both; its items expire where clocks are right."""

    class Busy(Feed[Post]):
        expires_after = None
        large_group = chance.choice([1, 3, 4, 5])
        merged_groups = chance.choice([1, 2, 3])
        member: int = by(Membership.member)
        at: datetime = newest(Post.at)
        text: str = shown(Post.text)
        joined = on(each(Post.groups), Membership.group)

    class Full(Feed[Post]):
        expires_after = None
        at_most = chance.choice([1, 2, 3])
        member: int = by(Membership.member)
        at: datetime = newest(Post.at)
        text: str = shown(Post.text)
        joined = on(each(Post.groups), Membership.group)

    class Both(Feed[Post]):
        expires_after = timedelta(seconds=1) if honest else None
        at_most = chance.choice([1, 2, 3])
        large_group = chance.choice([2, 3, 4])
        merged_groups = 1
        member: int = by(Membership.member)
        at: datetime = newest(Post.at)
        joined = on(each(Post.groups), Membership.group)

    return Schema(Membership, Post, Busy, Full, Both, inline=chance.choice([0, 0, 1, 2, 3]))


def post(chance):
    at = BEGINNING + timedelta(milliseconds=chance.choice([0, 0, 700, 2500]))
    groups = chance.choice([["a"], ["a"], ["b"], ["a", "b"], ["c", "a"], []])
    return Post(number=chance.randrange(5), groups=groups, at=at, text=chance.choice("xyz"))


def membership(chance, number=None):
    number = chance.randrange(9) if number is None else number
    member = number % 3 if chance.random() < 0.7 else chance.randrange(3)
    return Membership(number=number, member=member, group=chance.choice("aaaabc"))


def crowd(chance):
    """Nearly all join one group at once."""
    group = chance.choice("aab")
    return SaveAllStep(
        [Membership(number=each, member=each % 3, group=group) for each in range(chance.randrange(4, 9))]
    )


def emptying(chance):
    """All but a few leave, in one transaction."""
    numbers = range(chance.randrange(1, 4), 9)

    def body(work):
        for number in numbers:
            yield from work.delete(Membership, (number,), None)

    def expected(oracle):
        for number in numbers:
            oracle.delete(Membership, number)

    return TransactStep("emptying the groups", body, expected)


def written(chance):
    return chance.choice(CHANGES)(chance)


CHANGES = (
    lambda chance: SaveStep(post(chance)),
    lambda chance: SaveStep(post(chance)),
    lambda chance: PatchStep(Post, (chance.randrange(5),), {"text": chance.choice("xyz")}),
    lambda chance: DeleteStep(Post, (chance.randrange(5),)),
    lambda chance: SaveStep(membership(chance)),
    lambda chance: SaveStep(membership(chance)),
    lambda chance: DeleteStep(Membership, (chance.randrange(9),)),
    lambda chance: SaveAllStep([post(chance), membership(chance)]),
    crowd,
    crowd,
    emptying,
    emptying,
)


def history(seed):
    """The simulation of one seed."""
    chance = Random(f"large groups {seed}")
    simulation = leased(seed, schema(chance, honest=seed % 2 == 0), chance)
    simulation.prepare(
        SaveAllStep([membership(chance, number) for number in range(9)]),
        SaveAllStep([Post(number=number, groups=["a"], text="0") for number in range(3)]),
    )
    writers = [[written(chance) for _ in range(STEPS)] for _ in range(WRITERS)]
    busy, full, _both = simulation.oracle.views
    writers[0][::5] = [PageStep(busy, (1,)), PageStep(busy, (2,), {"limit": 2}), PageStep(full, (0,))]
    return populate(simulation, writers)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_feeds_come_to_the_naive_join_and_all_work_ends(seed):
    history(seed).run()


def deliveries(simulation):
    """How the memberships of the feeds with large groups are served now."""
    found, views = Counter(), simulation.audit.stored["views"]
    for view in simulation.operations.catalog.views.values():
        large = large_groups_of(Entries(view)) if getattr(view, "large", None) else None
        if large is not None:
            for key in [each for each in views if view_part(each) == large.feed.members]:
                places = large.read_key(key, large.feed.group_of(key)), large.written_key(key)
                found[large.delivery_of(*map(views.get, places))] += 1
            found["back"] += sum(
                state.crosses and not state.reads
                for state in [large.state_of(row) for key, row in views.items() if view_part(key) == large.groups]
            )
    return found


def test_memberships_are_served_in_every_way():
    """Otherwise the histories above would show little."""
    seen = Counter()
    for seed in range(MUTATION_SEEDS):
        simulation = history(seed)
        check = simulation.audit.check

        def looking(simulation=simulation, check=check):
            check()
            seen.update(deliveries(simulation))

        simulation.audit.check = looking
        simulation.run()
        if all(seen[each] for each in (*Delivery, "back")):
            return
    raise AssertionError(seen)


# Rules broken on purpose.


def a_crossing_leaves_entries_of_expired_items(patch):
    """A sweep would not remove them later, since members of a group that is read are not visited."""

    def living(self, group):
        feed = self._large.feed
        items = self._entries.scan(feed.items_of(group, self._placing._now), self._inline + 1)
        return items if len(items) <= self._inline else None

    patch.setattr(Crossing, "_items", living)


def a_crossing_ends_with_its_first_batch(patch):
    patch.setattr(crossing, "TaskRows", lambda found, more: TaskRows(found, more=False))  # noqa: ARG005


def a_crossing_visits_nothing(patch):
    patch.setattr(Placing, "visit", lambda *_: None)


def a_task_of_a_membership_is_not_looked_at(patch):
    patch.setattr(Placing, "_has_task", lambda *_: False)


def pages_do_not_merge(patch):
    patch.setattr(LargeGroupReader, "groups", lambda *_: (yield from ()) or MergedGroups({}))


def nothing_is_trimmed(patch):
    patch.setattr(following._Step, "_trim", lambda *_: None)


def the_newest_are_trimmed(patch):
    def newest(step, within, changed, count):
        stored = step.unit.store.scan("views", within, 1_000)
        merged = {**dict(stored), **changed}
        return [key for key in sorted(merged) if merged[key] is not None][:count]

    patch.setattr(following._Step, "_oldest_entries", newest)


def feeds_are_trimmed_before_they_are_full(patch):
    made = FeedView.__init__

    def making(self, cls, compiling):
        made(self, cls, compiling)
        self.at_most = self.at_most and max(1, self.at_most - 1)

    patch.setattr(FeedView, "__init__", making)


def where_a_feed_was_trimmed_is_forgotten(patch):
    patch.setattr(following, "kept_row", lambda kept, now: kept_row(Kept(kept.entries), now))


MUTATIONS = (
    *BROKEN_GROUPS,
    a_crossing_leaves_entries_of_expired_items,
    a_crossing_ends_with_its_first_batch,
    a_crossing_visits_nothing,
    a_task_of_a_membership_is_not_looked_at,
    pages_do_not_merge,
    nothing_is_trimmed,
    the_newest_are_trimmed,
    feeds_are_trimmed_before_they_are_full,
    where_a_feed_was_trimmed_is_forgotten,
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[each.__name__ for each in MUTATIONS])
def test_a_broken_rule_is_found(mutation, monkeypatch):
    mutation(monkeypatch)
    with pytest.raises(Violation):
        run_all()


def run_all():
    for seed in range(MUTATION_SEEDS):
        history(seed).run()
