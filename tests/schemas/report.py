"""Many random schemas: `python -m tests.schemas.report --schemas 20000 --jobs 3`, which is `make sim SCHEMAS=20000`.

Prints how many schemas and operations there were, how many held each feature, and the pairs of features that none held;
of each kind of difference the first program, made small, which runs by itself.
"""

import argparse
import sys
import time
from collections import Counter
from itertools import combinations
from multiprocessing import get_context
from typing import NamedTuple

from tests.schemas.features import DECLARED, VERBS, features_of, pairs, verbs_of
from tests.schemas.trial import Failure, failure_of, make, smallest, standalone

CHUNK = 25
"""Schemas of one process, which keeps what the library remembers of each."""


class Found(NamedTuple):
    """What some seeds came to."""

    features: Counter
    pairs: Counter
    verbs: Counter
    operations: int
    failures: dict[int, Failure]


def try_seeds(seeds):
    """Runs the programs of some seeds."""
    features, both, verbs, operations, failures = Counter(), Counter(), Counter(), 0, {}
    for seed in seeds:
        program = make(seed)
        operations += len(program.steps)
        held = features_of(program)
        features.update(held)
        both.update(pairs(held))
        verbs.update(verbs_of(program))
        failure = failure_of(program)
        if failure is not None:
            failures[seed] = failure
    return Found(features, both, verbs, operations, failures)


def report(seeds, jobs, show=print):
    """Runs the programs of all seeds; returns how many differ."""
    features, both, verbs, operations, failures = Counter(), Counter(), Counter(), 0, {}
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    began = time.monotonic()
    with get_context("spawn").Pool(jobs, maxtasksperchild=8) as pool:
        for number, found in enumerate(pool.imap(try_seeds, chunks), 1):
            features += found.features
            both += found.pairs
            verbs += found.verbs
            operations += found.operations
            failures |= found.failures
            for seed, failure in found.failures.items():
                show(f"seed {seed}: {failure}")
            if number % 20 == 0:
                show(f"{min(number * CHUNK, len(seeds))} schemas, {time.monotonic() - began:.0f} s")
    show("schemas with each feature:")
    for name in DECLARED:
        show(f"  {features[name]:6} {name}")
    show("schemas with each verb:")
    for name in VERBS:
        show(f"  {verbs[name]:6} {name}")
    never = [pair for pair in combinations(sorted(DECLARED), 2) if not both[pair]]
    show(f"pairs of features: {len(both)} met, {len(never)} never: {never}")
    for seed in dict(reversed([(failure, seed) for seed, failure in failures.items()])).values():
        show(f"\n# seed {seed}, made small; it runs by itself\n{standalone(smallest(make(seed)))}")
    show(f"schemas: {len(seeds)}, operations: {operations}, differences: {len(failures)}")
    return len(failures)


def main():
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--schemas", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=3)
    given = parser.parse_args()
    sys.exit(report(range(given.first, given.first + given.schemas), given.jobs) > 0)


if __name__ == "__main__":
    main()
