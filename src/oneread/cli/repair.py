"""`oneread repair`: repairs derived rows that differ from the entities.

See "Verify and repair of aggregates" of the decisions page.
"""

from __future__ import annotations

from time import monotonic

import msgspec
import typer

from oneread.cli import faults
from oneread.cli.failures import FOUND
from oneread.cli.faults import AgeOption, FileOption, ShownOption
from oneread.cli.options import Invocation, NamesArgument, PaceOption, find_declared, with_shared_options, writing
from oneread.cli.output import Output, counted
from oneread.plans.progress import MAX_AGE, Fault, FaultKind
from oneread.verify.repair import Repaired


class Mended(msgspec.Struct, frozen=True):
    """What `repair --json` prints."""

    clean: bool
    mended: int
    left: dict[str, dict[FaultKind, int]]
    faults: tuple[Fault, ...]
    reasons: tuple[str, ...]
    skipped: tuple[str, ...]
    rounds: int
    seconds: float


@with_shared_options
def command(
    given: Invocation,
    names: NamesArgument = [],  # noqa: B006 - typer makes a list of its own
    *,
    pace: PaceOption = None,
    max_age: AgeOption = MAX_AGE,
    limit: ShownOption = 20,
    faults_to: FileOption = None,
) -> None:
    """Verifies the store, repairs faults, and verifies again, while programs read and write.

    Derived rows are computed again from the entities, in small transactions. The fields of entities are never changed:
    an entity that cannot be read is left as it is and listed. Exit code 0 when no fault remains, 1 when one does. It
    may be stopped and started again at any time.

    Example: oneread repair --faults-to faults.jsonl --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = given.output
    wanted = find_declared(given.schema, names)
    before = monotonic()
    with (
        writing(given.db, given.schema, evolve=False) as database,
        faults.fault_file(faults_to) as watch,
        output.progress() as report,
        faults.resuming(report) as progress,
    ):
        done = database.repair(*wanted, pace=pace, max_age=max_age, on_fault=watch, progress=progress, keep=limit)
    seconds = monotonic() - before
    last = done.verification
    output.document(
        Mended(
            done.clean, done.mended, last.found, done.left, done.reasons, last.skipped, done.rounds, round(seconds, 3)
        )
    )
    if not output.as_json:
        _show(output, done, seconds)
    if not done.clean:
        raise typer.Exit(FOUND)


def _show(output: Output, done: Repaired, seconds: float) -> None:
    last = done.verification
    faults.show_summary(output, done.left, last)
    for reason in done.reasons:
        output.text(f"not repaired: {reason}")
    state = f"{counted(last.total, 'fault')} left" if last.total else "no faults left"
    rounds = counted(done.rounds, "verification")
    output.text(f"{counted(done.mended, 'fault')} repaired, {state}: {rounds} in {seconds:,.1f} s")
    if last.skipped:
        output.text(f"not compared within --max-age: {', '.join(last.skipped)}")
