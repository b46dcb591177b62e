"""A long simulation of stores of both kinds: `python -m tests.simulation.report --seeds 100000`.

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

from oneread.testing.processes import Violation
from tests.simulation import (
    jobs,
    row_cells,
    row_child_totals_mutations,
    row_counter_fields_mutations,
    row_counter_mutations,
    row_ending,
    row_following,
    row_former_groups,
    row_group_mutations,
    row_mutations,
    row_totals_mutations,
    row_verifying,
    test_row_building,
    test_row_large_groups,
)
from tests.simulation.stored_seeds import first_finding
from tests.simulation.worlds import WORLDS

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
    "jobs": jobs.BY_SCHEDULE,
    "verifications": row_verifying.BY_SWITCHES,
}
"""The rules that no short search finds by seeds, and the schedules that find them."""

AT_A_TIME = 20
FAULT = re.compile(r"(?:^\d+ |: )(run|delay|lose|fail|crash before|crash after|pause|skew|jump|late)(?::|$)")


def histories(name, seeds):
    """Runs the histories of some seeds of a world; returns counts of what was met, and violations by seed."""
    met, wrong, world = Counter(), {}, WORLDS[name]
    for seed in seeds:
        with world.prepared():
            history = world.make(seed)
            try:
                history.run()
            except (Violation, *_several(world.wrong)) as violation:
                wrong[seed] = str(violation)
        simulation = getattr(history, "simulation", history)
        met["histories"] += 1
        met["requests"] += sum(process.requests for process in getattr(simulation, "_processes", ()))
        met.update(f"fault: {found[1]}" for line in simulation.lines if (found := FAULT.search(line)))
        met.update(f"end: {outcome}" for _name, outcome in getattr(simulation, "outcomes", ()))
    return met, wrong


def _several(errors):
    return errors if isinstance(errors, tuple) else (errors,)


def first_seed(place, most):
    """The first seed of a world that finds one of its broken rules; None for none."""
    name, number = place
    world = WORLDS[name]
    with world.prepared() as patch:
        rule = list(world.rules)[number]
        return first_finding(rule, range(most), lambda seed: world.make(seed).run(), patch, world.wrong)


def in_words(mutation):
    """The name of a broken rule as a sentence."""
    return mutation.__name__.replace("_", " ")


def table():
    """The table of the documentation: each broken rule, and what finds it."""
    lines = ["| of | broken rule | found by |", "|---|---|---|"]
    for name in [*WORLDS, *(BY_SCHEDULE.keys() - WORLDS.keys())]:
        found = dict.fromkeys(WORLDS[name].rules if name in WORLDS else (), "a seed")
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
    places = [(name, number) for name, world in WORLDS.items() for number in range(len(world.rules))]
    missing = 0
    for (name, number), seed in zip(places, pool.map(partial(first_seed, most=most), places), strict=True):
        missing += seed is None
        rule = in_words(list(WORLDS[name].rules)[number])
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
