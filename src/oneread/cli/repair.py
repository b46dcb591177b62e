"""`oneread repair`: repairs derived rows that differ from the entities.

See "Verify and repair of aggregates" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Annotated

import msgspec
import typer

from oneread.cli import faults
from oneread.cli.failures import FOUND
from oneread.cli.faults import AgeOption, FileOption, ShownOption
from oneread.cli.options import (
    Invocation,
    NamesArgument,
    PaceOption,
    TimeoutOption,
    check_can_ask,
    find_declared,
    is_agreed,
    with_shared_options,
    writing,
)
from oneread.cli.output import Output, counted
from oneread.cli.passing import leave_axes
from oneread.plans.progress import KEEP, MAX_AGE, Fault, FaultKind, no_progress
from oneread.verify.repair import Repaired


class Mended(msgspec.Struct, frozen=True):
    """What `repair --json` prints."""

    clean: bool
    mended: int
    dropped: tuple[str, ...]
    left: dict[str, dict[FaultKind, int]]
    faults: tuple[Fault, ...]
    reasons: tuple[str, ...]
    skipped: tuple[str, ...]
    rounds: int
    seconds: float


DeleteOption = Annotated[
    bool, typer.Option("--drop", help="Delete what cannot be repaired, after showing it and asking.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="With --drop: delete without asking.")]


@with_shared_options
def command(  # noqa: PLR0913 - each is an option of the command line
    given: Invocation,
    names: NamesArgument = [],  # noqa: B006 - typer makes a list of its own
    *,
    pace: PaceOption = None,
    max_age: AgeOption = MAX_AGE,
    timeout: TimeoutOption = None,
    limit: ShownOption = 20,
    faults_to: FileOption = None,
    drop: DeleteOption = False,
    yes: YesOption = False,
) -> None:
    """Verifies the store, repairs faults, and verifies again, while programs read and write.

    Derived rows are computed again from the entities, in small transactions. The fields of entities are never changed:
    an entity that cannot be read, or is under another one's key, is left as it is and listed. Exit code 0 when no fault
    remains, 1 when one does. It may be stopped and started again at any time.

    With --drop such entities, and rows of models that the schema does not have, are listed, and deleted when you agree:
    they, what was derived from them, and nothing else. Without a terminal --yes is needed. There is no way back.

    Example: oneread repair --faults-to faults.jsonl --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = given.output
    wanted = find_declared(given.schema, names)
    if drop:
        check_can_ask(output, "--drop", yes=yes)
    before = monotonic()
    with (
        writing(given.db, given.schema, evolve=False) as database,
        faults.fault_file(faults_to) as watch,
        faults.resuming(no_progress),
    ):
        leave_axes(database)

        def repair() -> Repaired:
            with output.progress() as progress:
                keep = max(limit, KEEP) if drop else limit
                return database.repair(
                    *wanted,
                    pace=pace,
                    max_age=max_age,
                    on_fault=watch,
                    progress=progress,
                    keep=keep,
                    timeout=timeout,
                )

        done, dropped = repair(), list[str]()
        left = [fault for fault in done.left if fault.droppable] if drop else []
        if left and _is_agreed(output, left, yes=yes):
            dropped = [fault.text for fault in database.drop(*left)]
            database.drain()
            first, done = done, repair()
            done = msgspec.structs.replace(done, mended=first.mended + done.mended, rounds=first.rounds + done.rounds)
    done = msgspec.structs.replace(done, left=done.left[:limit])
    _report(output, done, tuple(dropped), monotonic() - before)
    if not done.clean:
        raise typer.Exit(FOUND)


def _is_agreed(output: Output, left: Sequence[Fault], *, yes: bool) -> bool:
    """Shows what would be deleted, and asks, unless the user has agreed before."""
    if yes:
        return True
    output.text(f"{counted(len(left), 'row')} cannot be repaired and would be deleted:")
    for fault in left:
        output.text(f"  {fault.text}")
    return is_agreed(yes=yes)


def _report(output: Output, done: Repaired, dropped: tuple[str, ...], seconds: float) -> None:
    last = done.verification
    output.document(
        Mended(
            done.clean,
            done.mended,
            dropped,
            last.found,
            done.left,
            done.reasons,
            last.skipped,
            done.rounds,
            round(seconds, 3),
        )
    )
    if not output.as_json:
        for text in dropped:
            output.text(f"deleted: {text}")
        _show(output, done, seconds)


def _show(output: Output, done: Repaired, seconds: float) -> None:
    last = done.verification
    faults.show_summary(output, done.left, last)
    for reason in done.reasons:
        output.text(f"not repaired: {reason}")
    state = f"{counted(last.total, 'fault')} left" if last.total else "no faults left"
    rounds = counted(done.rounds, "verification")
    output.text(f"{counted(done.mended, 'fault')} repaired, {state}: {rounds} in {seconds:,.1f} s")
    droppable = sum(fault.droppable for fault in done.left)
    if droppable:
        output.note(
            "`oneread repair --drop` deletes what cannot be repaired, after showing it: "
            f"{droppable} of the faults shown; groups wait for these, and are repaired afterwards"
        )
    if last.skipped:
        output.text(f"not compared within --max-age, or changed at every look: {', '.join(last.skipped)}")
