"""A long simulation of stores that change one row at a time: `python -m tests.simulation.row_report --seeds 100000`.

Prints how many histories, requests and faults of each kind there were, and the first seed that finds each rule that is
broken on purpose. Ends with an error when a history that breaks no rule is wrong, or a broken rule is not found.
`--table` prints the table of the documentation instead.
"""

import argparse
import logging
import os
import re
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from oneread.testing.processes import Violation
from tests.simulation import (
    row_cells,
    row_child_totals_mutations,
    row_counter_fields_mutations,
    row_counter_mutations,
    row_ending,
    row_feeds,
    row_fence,
    row_following,
    row_former_groups,
    row_group_mutations,
    row_large_groups,
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
    test_row_building,
    test_row_feeds,
    test_row_fence,
    test_row_large_groups,
    test_row_trimming,
    test_row_watching,
)
from tests.simulation.row_child_totals import threads_world
from tests.simulation.row_counter_fields import shown_world
from tests.simulation.row_counters import counter_world
from tests.simulation.row_groups import group_world
from tests.simulation.row_totals import totals_world
from tests.simulation.row_world import row_world
from tests.simulation.stored_seeds import first_finding


class InSmallRequests:
    """A history with verifications or repairs, each request of which is one row or two."""

    def __init__(self, make, seed):
        self._history = make(seed)
        self.simulation = self._history.simulation

    def run(self):
        with pytest.MonkeyPatch.context() as patch:
            row_verifying.small_requests(patch)
            self._history.run()


class OfTwoSchemas:
    """A history of programs with an older and a newer schema, with backfills."""

    outcomes = _processes = ()

    def __init__(self, seed):
        self._history = row_fence.RowFence(seed)
        self.lines = self._history.lines

    def run(self):
        try:
            self._history.run()
        except row_fence.Wrong as wrong:
            raise Violation(str(wrong)) from wrong


def verified_totals(seed):
    """Verifications beside what changes totals."""
    return row_verifying.Verified(seed, row_verifying_totals.world_of(seed))


WORLDS = {
    "entities": row_world,
    "entities, applied later": partial(row_world, later=True),
    "holders": row_following.following,
    "batches": row_pages.batches,
    "batches of children": row_pages.batches_of_children,
    "cells": row_cells.cells,
    "groups": group_world,
    "feeds": row_feeds.world,
    "feeds of few entries": row_trimming.world,
    "entries of feeds": row_ending.world,
    "large groups": row_large_groups.world,
    "large groups, applied later": partial(row_large_groups.world, later=True),
    "counters": counter_world,
    "counters shown": shown_world,
    "counters shown, applied later": partial(shown_world, later=True),
    "totals": totals_world,
    "totals, applied later": partial(totals_world, later=True),
    "totals of several rows": partial(totals_world, spread=True),
    "totals of groups": threads_world,
    "shards of groups": row_shards.spread_world,
    "ranges": row_spread.spread_world,
    "schemas": OfTwoSchemas,
    "purge": row_purging.purging,
    "verifications": partial(InSmallRequests, row_verifying.Verified),
    "verifications of totals": partial(InSmallRequests, verified_totals),
    "repairs": partial(InSmallRequests, row_verifying.Repaired),
}
"""Each makes the simulation of a seed."""

BY_SEED = {
    "entities": row_mutations.BY_SEED,
    "holders": row_following.BY_SEED,
    "batches": row_pages.BY_SEED,
    "batches of children": row_pages.BY_SEED_OF_CHILDREN,
    "cells": row_cells.BY_SEED,
    "groups": row_group_mutations.BY_SEED,
    "feeds": test_row_feeds.BY_SEED,
    "feeds of few entries": test_row_trimming.BY_SEED,
    "entries of feeds": row_ending.BY_SEED,
    "large groups": test_row_large_groups.BY_SEED,
    "counters": row_counter_mutations.BY_SEED,
    "counters shown": row_counter_fields_mutations.BY_SEED,
    "totals": row_totals_mutations.BY_SEED,
    "totals of several rows": row_totals_mutations.BY_SPREAD,
    "totals of groups": row_child_totals_mutations.BY_SEED,
    "shards of groups": row_shards.BY_SEED,
    "ranges": row_spread.BY_SEED,
}
"""The rules that are broken, by the world whose seeds find them."""

BY_OTHER_SEED = {
    "schemas": test_row_fence.BROKEN,
    "former groups": {},
    "building of feeds": test_row_building.BROKEN,
    "watched views": test_row_watching.BY_SEED,
    "purge": row_purging.BY_SEED,
    "verifications": row_verifying.BY_SEED,
    "verifications of totals": row_verifying_totals.ALL,
    "verifications of feeds": row_verifying_feeds.BY_SEED,
    "repairs of feeds": row_verifying_feeds.REPAIRS_BY_SEED,
}
"""The same of simulations that are not run here; their own tests find them, or the schedules below."""

BY_SCHEDULE = {
    "entities": row_mutations.BY_SWITCHES | row_mutations.BY_LOSS,
    "holders": row_following.BY_SWITCHES,
    "cells": row_cells.BY_SWITCHES,
    "groups": row_group_mutations.BY_SWITCHES,
    "entries of feeds": row_ending.BY_SCHEDULE,
    "large groups": test_row_large_groups.NOT_BY_SEED,
    "counters": row_counter_mutations.BY_SCHEDULE,
    "counters shown": row_counter_fields_mutations.BY_SWITCHES,
    "totals": row_totals_mutations.BY_SWITCHES,
    "totals of groups": row_child_totals_mutations.BY_SWITCHES,
    "former groups": row_former_groups.BY_SCHEDULE,
    "building of feeds": test_row_building.BY_SCHEDULE,
    "verifications": row_verifying.BY_SWITCHES,
}
"""The rules that no short search finds by seeds, and the schedules that find them."""

AT_A_TIME = 20
FAULT = re.compile(r"(?:^\d+ |: )(run|delay|lose|fail|crash before|crash after|pause|skew|jump|late)(?::|$)")


def histories(name, seeds):
    """Runs the histories of some seeds of a world; returns counts of what was met, and violations by seed."""
    met, wrong = Counter(), {}
    for seed in seeds:
        world = WORLDS[name](seed)
        simulation = getattr(world, "simulation", world)
        try:
            world.run()
        except Violation as violation:
            wrong[seed] = str(violation)
        met["histories"] += 1
        met["requests"] += sum(process.requests for process in simulation._processes)
        met.update(f"fault: {found[1]}" for line in simulation.lines if (found := FAULT.search(line)))
        met.update(f"end: {outcome}" for _name, outcome in simulation.outcomes)
    return met, wrong


def first_seed(place, most):
    """The first seed of a world that finds one of its broken rules; None for none."""
    name, number = place
    world, mutation = WORLDS[name], list(BY_SEED[name])[number]
    return first_finding(mutation, range(most), lambda seed: world(seed).run(), pytest.MonkeyPatch())


def in_words(mutation):
    """The name of a broken rule as a sentence."""
    return mutation.__name__.replace("_", " ")


def table():
    """The table of the documentation: each broken rule, and what finds it."""
    lines = ["| of | broken rule | found by |", "|---|---|---|"]
    for name in [*BY_SEED, *BY_OTHER_SEED]:
        found = dict.fromkeys(BY_SEED.get(name) or BY_OTHER_SEED[name], "a seed")
        schedules = BY_SCHEDULE.get(name, {}).items()
        found |= {mutation: f"a schedule: {_shown(schedule)}" for mutation, schedule in schedules}
        lines += [f"| {name} | {in_words(mutation)} | {by} |" for mutation, by in found.items()]
    return "\n".join(lines)


def _shown(schedule):
    return schedule[0] if isinstance(schedule, tuple) else str(schedule)


def show_histories(pool, seeds):
    """Runs all histories and prints what was met; returns the number of wrong ones."""
    begun, violations = time.monotonic(), 0
    for place, name in enumerate(WORLDS):
        share = range(place, seeds, len(WORLDS))
        parts = [share[first : first + AT_A_TIME] for first in range(0, len(share), AT_A_TIME)]
        met = Counter()
        for counted, wrong in pool.map(partial(histories, name), parts):
            met += counted
            violations += len(wrong)
            for seed, text in wrong.items():
                print(f"VIOLATION in {name}, seed {seed}:\n{text}")
        print(f"\n{name}")
        for what, number in sorted(met.items()):
            print(f"  {what:30} {number:>13,}")
    taken = time.monotonic() - begun
    print(f"\n{seeds:,} histories in {taken:,.0f} s, {seeds / taken:.1f} a second; {violations} violations")
    return violations


def show_mutations(pool, most):
    """Prints what finds each broken rule; returns the number of rules that nothing finds."""
    places = [(name, number) for name, mutations in BY_SEED.items() for number in range(len(mutations))]
    missing = 0
    for (name, number), seed in zip(places, pool.map(partial(first_seed, most=most), places), strict=True):
        missing += seed is None
        rule = in_words(list(BY_SEED[name])[number])
        print(f"  {name:10} {rule:75} {'NOT FOUND' if seed is None else f'seed {seed}'}")
    for name, mutations in BY_SCHEDULE.items():
        for mutation, schedule in mutations.items():
            print(f"  {name:10} {in_words(mutation):75} schedule: {_shown(schedule)}")
    return missing


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="histories, over all worlds")
    parser.add_argument("--search", type=int, default=20_000, help="seeds that are tried for each broken rule")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--table", action="store_true", help="print the table of the documentation")
    options = parser.parse_args()
    if options.table:
        print(table())
        return
    with ProcessPoolExecutor(options.jobs, initializer=logging.disable) as pool:
        violations = show_histories(pool, options.seeds)
        print("\nrules broken on purpose, and what finds them")
        missing = show_mutations(pool, options.search)
    sys.exit(bool(violations or missing))


if __name__ == "__main__":
    main()
