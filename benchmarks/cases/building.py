"""P11's other half: how fast a view is built on a store that has data."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from benchmarks.rows import SHOWN, Goal, Row, Subject
from examples.shop.growing import RELEASES
from oneread import connect
from oneread.plans.progress import Progress

BACKFILLED = Goal(15_000, ">=", "figure", " entities/s")


def built(folder: Path, subject: Subject) -> list[Row]:
    """An aggregate with a least and a greatest is added to the loaded store; each entity is committed again.

    Changes the store: measured last.
    """
    moments: list[tuple[str, float]] = []

    def show(progress: Progress) -> None:
        if not moments or moments[-1][0] != progress.phase:
            moments.append((progress.phase, perf_counter()))

    with connect(f"lmdb://{folder}?durability=none", RELEASES["new"], workers=0) as db:
        started = perf_counter()
        result = db.backfill(fence=True, progress=show)
    if not result.done:
        raise AssertionError(f"an undisturbed backfill is not done: {result}")
    (_open, _first), (_closed, fenced), (_ending, ended) = moments[-3:]
    return [
        subject.alone(
            "backfill of an aggregate: entities committed again with all their views",
            result.recommitted / (fenced - started),
            unit="entities/s",
            goal=BACKFILLED,
        ),
        subject.alone(
            "backfill: entities looked at in the pass behind the fence",
            result.looked / (ended - fenced),
            unit="entities/s",
            goal=SHOWN,
        ),
    ]
