"""All worlds whose histories are drawn from a seed: how many `make test` runs, and the broken rules that seeds find."""

import os
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import pytest

from oneread.testing.processes import Violation
from tests.simulation import (
    erasing,
    jobs,
    mutations,
    row_cells,
    row_child_totals_mutations,
    row_counter_fields_mutations,
    row_counter_mutations,
    row_ending,
    row_feeds,
    row_following,
    row_group_mutations,
    row_large_groups,
    row_launches,
    row_mutations,
    row_pages,
    row_purging,
    row_shards,
    row_spread,
    row_totals_mutations,
    row_trimming,
    row_verifying,
    row_verifying_feeds,
    row_verifying_totals,
    row_watching,
    test_row_building,
    test_row_feeds,
    test_row_fence,
    test_row_large_groups,
    test_row_trimming,
    test_row_watching,
)
from tests.simulation.row_building import RowBuilding
from tests.simulation.row_child_totals import threads_world
from tests.simulation.row_counter_fields import shown_world
from tests.simulation.row_counters import counter_world
from tests.simulation.row_fence import RowFence, Wrong
from tests.simulation.row_groups import group_world
from tests.simulation.row_totals import totals_world
from tests.simulation.row_world import row_world
from tests.simulation.stored_seeds import WRONG
from tests.simulation.world import world

GIVEN = os.environ.get("ONEREAD_SIM_SEEDS")
NONE: Mapping[Callable[..., None], int] = {}
WRONG_JOBS = (AssertionError, Violation)


class World(NamedTuple):
    """Histories of one kind.

    `make` makes the history of a seed, with a `run`. `make test` runs so many `seeds` from the `first` on, and a share
    of ONEREAD_SIM_SEEDS instead. `rules` are broken rules, each with a seed that finds it; in place of a stale one so
    many are `searched`. `deletes`: the first of the seeds that are run with both kinds of deletes, and how many.
    `setting` prepares the library by a `patch`.
    """

    make: Callable[..., Any]
    seeds: int
    share: float = 1
    first: int = 0
    rules: Mapping[Callable[..., None], int] = NONE
    searched: int = 200
    deletes: tuple[int, int] = (0, 0)
    wrong: Any = WRONG
    setting: Callable[..., None] = lambda _patch: None

    @property
    def run(self):
        """The seeds that are run."""
        count = self.seeds if GIVEN is None else max(1, int(int(GIVEN) * self.share))
        return range(self.first, self.first + count)

    @contextmanager
    def prepared(self):
        """The library as the histories of this world need it."""
        with pytest.MonkeyPatch.context() as patch:
            self.setting(patch)
            yield patch


def at_one_look(patch):
    row_verifying.small_requests(patch)
    row_verifying.one_look(patch)


def feeds_at_one_look(patch):
    row_verifying_feeds.small_requests(patch)
    row_verifying_feeds.one_look(patch)


def of_totals(make):
    """Verifications or repairs beside what changes totals."""
    return lambda seed: make(seed, row_verifying_totals.world_of(seed))


class Watched:
    """A history with readers, which have caught up at its end."""

    def __init__(self, seed):
        self.simulation, self._readers = row_watching.world(seed)

    def run(self):
        self.simulation.run()
        row_watching.catch_up(self.simulation, self._readers)


verified, repaired = row_verifying.Verified, row_verifying.Repaired
verified_feeds, repaired_feeds = row_verifying_feeds.VerifiedFeeds, row_verifying_feeds.RepairedFeeds
small, small_feeds = row_verifying.small_requests, row_verifying_feeds.small_requests
large_later = partial(row_large_groups.world, later=True)

WORLDS = {
    "entities, of all rows": World(world, 100, rules=mutations.MUTATIONS, searched=300),
    "entities": World(row_world, 75, rules=row_mutations.BY_SEED, deletes=(1000, 8)),
    "entities, applied later": World(partial(row_world, later=True), 15, 0.2, first=2000),
    "holders": World(row_following.following, 60, rules=row_following.BY_SEED),
    "batches": World(row_pages.batches, 60, rules=row_pages.BY_SEED),
    "batches of children": World(row_pages.batches_of_children, 60, rules=row_pages.BY_SEED_OF_CHILDREN),
    "cells": World(row_cells.cells, 45, rules=row_cells.BY_SEED, deletes=(1000, 10)),
    "groups": World(group_world, 15, rules=row_group_mutations.BY_SEED, deletes=(2000, 6)),
    "feeds": World(row_feeds.world, 30, 0.5, rules=test_row_feeds.BY_SEED),
    "feeds of few entries": World(row_trimming.world, 30, 0.5, rules=test_row_trimming.BY_SEED),
    "entries of feeds": World(row_ending.world, 22, 0.5, rules=row_ending.BY_SEED),
    "large groups": World(row_large_groups.world, 15, 0.25, rules=test_row_large_groups.BY_SEED),
    "large groups, applied later": World(large_later, 10, 0.1, first=1000),
    "counters": World(counter_world, 120, rules=row_counter_mutations.BY_SEED, deletes=(1000, 8)),
    "counters shown": World(shown_world, 30, rules=row_counter_fields_mutations.BY_SEED, deletes=(1000, 8)),
    "counters shown, applied later": World(partial(shown_world, later=True), 10, first=2000),
    "totals": World(totals_world, 10, rules=row_totals_mutations.BY_SEED, deletes=(1000, 4)),
    "totals, applied later": World(partial(totals_world, later=True), 10, first=2000),
    "totals of several rows": World(
        partial(totals_world, spread=True), 10, first=3000, rules=row_totals_mutations.BY_SPREAD
    ),
    "totals of groups": World(threads_world, 10, rules=row_child_totals_mutations.BY_SEED, deletes=(1000, 3)),
    "totals of groups, applied later": World(partial(threads_world, later=True), 10, first=2000),
    "shards of groups": World(row_shards.spread_world, 30, 0.5, rules=row_shards.BY_SEED, searched=400),
    "ranges": World(row_spread.spread_world, 15, 0.25, rules=row_spread.BY_SEED),
    "schemas": World(RowFence, 50, rules=test_row_fence.BROKEN, searched=4000, wrong=Wrong),
    "launches": World(row_launches.Launches, 45, rules=row_launches.BY_SEED, searched=400, wrong=Wrong),
    "launches of all rows": World(
        row_launches.LaunchesOfAllRows, 45, rules=row_launches.BY_SEED_OF_ALL_ROWS, searched=400, wrong=Wrong
    ),
    "building of feeds": World(RowBuilding, 50, rules=test_row_building.BROKEN, searched=4000, wrong=Wrong),
    "watched views": World(Watched, 30, 0.5, rules=test_row_watching.BY_SEED, wrong=(AssertionError, Violation)),
    "jobs": World(jobs.Jobs, 30, 0.5, rules=jobs.BY_SEED, searched=400, deletes=(1000, 4), wrong=WRONG_JOBS),
    "jobs, of all rows": World(
        jobs.JobsOfAllRows, 30, 0.5, rules=jobs.BY_SEED_OF_ALL_ROWS, searched=400, wrong=WRONG_JOBS
    ),
    "erasures": World(erasing.world, 45, 0.5, rules=erasing.BY_SEED, searched=400, deletes=(1000, 6)),
    "erasures, of all rows": World(
        partial(erasing.world, span="rows"), 45, 0.5, rules=erasing.BY_SEED_OF_ALL_ROWS, searched=400
    ),
    "purge": World(row_purging.purging, 45, rules=row_purging.BY_SEED),
    "verifications, looked at twice": World(verified, 8, setting=small),
    "verifications": World(verified, 16, rules=row_verifying.BY_SEED, setting=at_one_look),
    "verifications of totals, looked at twice": World(of_totals(verified), 7, setting=small),
    "verifications of totals": World(of_totals(verified), 14, rules=row_verifying_totals.BY_SEED, setting=at_one_look),
    "verifications of planted faults": World(
        row_verifying_totals.Planted, 14, rules=row_verifying_totals.BY_PLANTED, setting=small
    ),
    "verifications of feeds, looked at twice": World(
        verified_feeds, 6, 0.5, rules=row_verifying_feeds.TWICE_BY_SEED, setting=small_feeds
    ),
    "verifications of feeds": World(
        verified_feeds, 12, 0.5, rules=row_verifying_feeds.BY_SEED, setting=feeds_at_one_look
    ),
    "repairs": World(repaired, 16, setting=small),
    "repairs of totals": World(
        of_totals(row_verifying_totals.RepairedTotals), 14, rules=row_verifying_totals.BY_REPAIR, setting=small
    ),
    "repairs of feeds": World(repaired_feeds, 12, 0.5, rules=row_verifying_feeds.REPAIRS_BY_SEED, setting=small_feeds),
}
"""By name; those of stores that change one row at a time, but for those of all rows."""
