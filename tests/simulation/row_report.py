"""A long simulation of stores that change one row at a time: `python -m tests.simulation.row_report --seeds 100000`.

Prints how many histories, requests and faults of each kind there were, and the first seed that finds each rule that is
broken on purpose. Ends with an error when a history that breaks no rule is wrong.
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

from oneread.testing.simulator import Violation
from tests.simulation.row_mutations import BY_LOSS, BY_SEED, BY_SWITCHES
from tests.simulation.row_world import row_world
from tests.simulation.test_one_row import finding

WORLDS = {"entities": row_world, "entities, applied later": partial(row_world, later=True)}
"""Each makes the simulation of a seed."""

MUTATIONS = {row_world: BY_SEED}
"""The rules that a seed of a world finds broken."""

BY_SCHEDULE = {**BY_SWITCHES, **BY_LOSS}

AT_A_TIME = 20
FAULT = re.compile(r"(?:^\d+ |: )(run|delay|lose|fail|crash before|crash after|pause|skew|jump|late)(?::|$)")


def histories(name, seeds):
    """Runs the histories of some seeds of a world; returns counts of what was met, and violations by seed."""
    logging.disable()
    met, wrong = Counter(), {}
    for seed in seeds:
        simulation = WORLDS[name](seed)
        try:
            simulation.run()
        except Violation as violation:
            wrong[seed] = str(violation)
        met["histories"] += 1
        met["requests"] += sum(process.requests for process in simulation._processes)
        met.update(f"fault: {found[1]}" for line in simulation.lines if (found := FAULT.search(line)))
        met.update(f"end: {outcome}" for _name, outcome in simulation.outcomes)
    return met, wrong


def first_seed(world, mutation, most):
    """The first seed of a world that finds a broken rule; None for none."""
    logging.disable()
    found = finding(mutation, ((seed, world(seed)) for seed in range(most)), pytest.MonkeyPatch())
    return None if found is None else found[0]


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
    missing = 0
    for world, mutations in MUTATIONS.items():
        seeds = pool.map(partial(first_seed, world, most=most), mutations)
        for mutation, seed in zip(mutations, seeds, strict=True):
            missing += seed is None
            print(f"  {mutation.__name__:70} {'NOT FOUND' if seed is None else f'seed {seed}'}")
    for mutation, schedule in BY_SCHEDULE.items():
        print(f"  {mutation.__name__:70} schedule {schedule}")
    return missing


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="histories, over all worlds")
    parser.add_argument("--search", type=int, default=20_000, help="seeds that are tried for each broken rule")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        violations = show_histories(pool, options.seeds)
        print("\nrules broken on purpose, and what finds them")
        missing = show_mutations(pool, options.search)
    sys.exit(bool(violations or missing))


if __name__ == "__main__":
    main()
