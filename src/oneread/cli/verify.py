"""`oneread verify`: compares every derived row with the entities.

See "Verify and repair of aggregates" of the decisions page.
"""

from __future__ import annotations

import os
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
    find_declared,
    with_shared_options,
    writing,
)
from oneread.cli.output import Output, counted
from oneread.cli.passing import reading_all
from oneread.errors import UsageError
from oneread.plans.progress import MAX_AGE, Ahead, Fault, FaultKind
from oneread.verify.noted import note_verified
from oneread.verify.verify import Verification

ResumeFromOption = Annotated[str, typer.Option("--resume", metavar="CURSOR", help="Continue where another run ended.")]
NoteOption = Annotated[
    bool, typer.Option("--note", help="Keep in the store what was found, for the console: one row is written.")
]


class Verified(msgspec.Struct, frozen=True):
    """What `verify --json` prints.

    Arguments:
        clean: everything was compared, and there are no faults.
        total: faults found.
        found: their number by view and kind.
        faults: the first of them.
        skipped: models that were not compared within --max-age or --timeout, or that others changed at every look.
        entities: compared.
        rows: compared.
        seconds: elapsed.
        resume: what --resume takes to compare what was skipped; empty when nothing was.
        ahead: entities with versions ahead of the clock, which is not a fault: the first of each model.
        ahead_count: how many there are.
    """

    clean: bool
    total: int
    found: dict[str, dict[FaultKind, int]]
    faults: tuple[Fault, ...]
    skipped: tuple[str, ...]
    entities: int
    rows: int
    seconds: float
    resume: str
    ahead: tuple[Ahead, ...] = ()
    ahead_count: int = 0
    building: tuple[str, ...] = ()


@with_shared_options
def command(  # noqa: PLR0913 - each option bounds or reports one run
    given: Invocation,
    names: NamesArgument = [],  # noqa: B006 - typer makes a list of its own
    *,
    pace: PaceOption = None,
    max_age: AgeOption = MAX_AGE,
    timeout: TimeoutOption = None,
    resume: ResumeFromOption = "",
    limit: ShownOption = 20,
    faults_to: FileOption = None,
    note: NoteOption = False,
) -> None:
    """Compares every view, copy and count with the entities, while the store is in use.

    Each model is compared in one snapshot of the whole store, or by two looks on HBase and Bigtable, so concurrent
    writes cause no false alarm. Exit code 0 when there are no faults, 1 when there are; `oneread repair` repairs them.

    Example: oneread verify --pace 50000 --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = given.output
    wanted = find_declared(given.schema, names)
    if note and wanted:
        raise UsageError("--note keeps what was found of all: name no models or views with it")
    before = monotonic()
    with (
        reading_all(given, "verify") as database,
        faults.fault_file(faults_to) as watch,
        output.progress() as report,
        faults.resuming(report, "--resume", resume) as progress,
    ):
        found = database.verify(
            *wanted,
            pace=pace,
            max_age=max_age,
            timeout=timeout,
            on_fault=watch,
            progress=progress,
            keep=limit,
            resume=resume or None,
        )
    seconds = monotonic() - before
    if note:
        with writing(given.db, given.schema, evolve=False) as database:
            database.run(note_verified(found, os.environ.get("USER") or f"user {os.getuid()}"))
    same = {name: getattr(found, name) for name in Verified.__struct_fields__ if hasattr(found, name)}
    output.document(Verified(**same, seconds=round(seconds, 3), resume=found.cursor))
    if not output.as_json:
        _show(output, found, seconds)
        if found.building:
            output.note(
                f"not compared, since they are being built: {', '.join(found.building)}; run `oneread backfill`"
            )
    if not found.clean:
        raise typer.Exit(FOUND)


def _show(output: Output, found: Verification, seconds: float) -> None:
    faults.show_summary(output, found.faults, found)
    compared = f"{counted(found.entities, 'entity', 'entities')} and {counted(found.rows, 'row')} in {seconds:,.1f} s"
    output.text(f"{counted(found.total, 'fault') if found.total else 'no faults'}: {compared}")
    if found.total:
        output.note("`oneread repair` repairs what can be repaired")
    if found.ahead_count:
        many = counted(found.ahead_count, "entity was", "entities were")
        named = ", ".join(f"{each.entity} by {_span(each.ahead)}" for each in found.ahead[:3])
        output.text(f"{many} written under a clock that was ahead, which is not a fault: {named}")
        output.note("find the machine whose clock is wrong; each write of such an entity takes the next version")
    if found.skipped:
        output.text(f"not compared within --max-age or --timeout, or changed at every look: {', '.join(found.skipped)}")
        output.note(f"compare what was skipped with --resume {found.cursor}")


def _span(milliseconds: int) -> str:
    """A time in words."""
    days = milliseconds // 86_400_000
    return counted(days, "day") if days > 1 else counted(milliseconds // 1000, "second")
