"""What the commands `load` and `check` do, and print."""

from __future__ import annotations

import sys
from argparse import Namespace

from examples.comparing import MOST_SHOWN, print_compared, print_verified
from examples.qa import source, stores
from examples.qa.checking import check as compared
from examples.qa.loading import load as loaded_from
from examples.qa.progress import progress
from examples.shop.printing import table


def load(given: Namespace) -> int:
    """Loads, and prints what was found and what does not fit."""
    data = source.read(given.data)
    print(f"loading {data.label} into {given.db}", flush=True)
    with stores.for_loading(given.db) as db, progress(sys.stdout) as report:
        loaded = loaded_from(db, data, report, batch=given.batch)
    found = [
        (name, len(getattr(data, name)))
        for name in ("users", "tags", "wikis", "questions", "answers", "comments", "votes")
    ]
    print(table(("loaded", "entities"), found))
    if data.misfits.counts:
        rows = [(reason, count, data.misfits.first[reason]) for reason, count in data.misfits.counts.items()]
        print(table(("what does not fit", "records", "the first of them"), rows))
    for refusal in loaded.refused[:MOST_SHOWN]:
        print(f"  refused: {refusal.error}")
    there = f", {loaded.before:,} were there" if loaded.before else ""
    rate = loaded.stored / loaded.seconds if loaded.stored else 0.0
    print(
        f"  {loaded.stored:,} entities stored in {loaded.seconds:.1f} s, {rate:,.0f}/s{there};"
        f" {len(loaded.refused):,} refused"
    )
    return 1 if loaded.refused else 0


def check(given: Namespace) -> int:
    """Compares every number with the records, then verifies the store; 1 where anything differs."""
    data = source.read(given.data)
    with stores.for_reading(given.db) as db:
        print(f"comparing {given.db} with {data.label}, counted again", flush=True)
        differences = print_compared(compared(db, data))
        votes = len(data.votes) + len(data.orphans)
        print(
            f"  {len(data.questions):,} questions, {len(data.answers):,} answers, {votes:,} votes of which"
            f" {len(data.orphans):,} are orphaned: {differences:,} numbers differ"
        )
        clean = print_verified(db)
    return 0 if clean and not differences else 1
