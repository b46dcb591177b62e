"""`oneread verify`: whether everything derived is what the entities say.

See "Verify and repair of aggregates" of the decisions page.
"""

from __future__ import annotations

from time import monotonic
from typing import Annotated

import msgspec
import typer

from oneread.cli import faults
from oneread.cli.failures import FOUND
from oneread.cli.faults import FileOption, PaceOption, ShownOption, ViewsArgument
from oneread.cli.options import DbOption, JsonOption, QuietOption, SchemaOption, declared, reading, schema_of
from oneread.cli.output import Output, counted
from oneread.plans.progress import MAX_AGE, Ahead, Fault, FaultKind
from oneread.verify.verify import Verification

AgeOption = Annotated[
    float, typer.Option("--max-age", metavar="SECONDS", min=0.001, help="The longest that one model may take.")
]
ResumeOption = Annotated[str, typer.Option("--resume", metavar="CURSOR", help="Go on where another run ended.")]


class Verified(msgspec.Struct, frozen=True):
    """What `verify --json` prints.

    Arguments:
        clean: nothing is wrong, and everything was compared.
        total: faults found.
        found: how many, by view and kind.
        faults: the first of them.
        skipped: what was not compared.
        entities, rows: looked at.
        seconds: it took.
        resume: what --resume takes to go on with what was skipped; empty when everything was done.
        ahead: entities whose versions lie ahead of the clock, which is no fault: the first of each model.
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


def command(  # noqa: PLR0913 - an option each of the verb's
    views: ViewsArgument = [],  # noqa: B006 - typer makes a list of its own
    *,
    pace: PaceOption = None,
    max_age: AgeOption = MAX_AGE,
    resume: ResumeOption = "",
    limit: ShownOption = 20,
    faults_to: FileOption = None,
    schema: SchemaOption = "",
    db: DbOption = "",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compares every view, copy and count with what the entities say, while the store is in use.

    Each model is compared at one moment of the whole store, so writers go on and cause no false alarm. Exit code 0
    when everything is right, 1 when something is not; `oneread repair` mends it.

    Example: oneread verify --pace 50000 --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = Output(as_json=as_json, quiet=quiet)
    known = schema_of(schema)
    wanted = declared(known, views)
    before = monotonic()
    with (
        reading(db, known) as database,
        faults.kept_in(faults_to) as watch,
        output.progress() as tell,
        faults.Resuming(tell, "--resume") as progress,
    ):
        found = database.verify(
            *wanted,
            pace=pace,
            max_age=max_age,
            on_fault=watch,
            progress=progress,
            keep=limit,
            resume=resume or None,
        )
    seconds = monotonic() - before
    output.document(
        Verified(
            found.clean,
            found.total,
            found.found,
            found.faults,
            found.skipped,
            found.entities,
            found.rows,
            round(seconds, 3),
            found.cursor,
            found.ahead,
            found.ahead_count,
        )
    )
    if not as_json:
        _show(output, found, seconds)
    if not found.clean:
        raise typer.Exit(FOUND)


def _show(output: Output, found: Verification, seconds: float) -> None:
    faults.show(output, found.faults)
    if found.total > len(found.faults):
        output.text(f"... and {counted(found.total - len(found.faults), 'more fault', 'more faults')}")
    if found.total:
        output.text()
        faults.show_counts(output, found.found)
        output.text()
    looked = f"{counted(found.entities, 'entity', 'entities')} and {counted(found.rows, 'row')} in {seconds:,.1f} s"
    output.text(f"{counted(found.total, 'fault') if found.total else 'everything is right'}: {looked}")
    if found.total:
        output.note("`oneread repair` mends what can be mended")
    if found.ahead_count:
        many = counted(found.ahead_count, "entity was", "entities were")
        named = ", ".join(f"{each.entity} by {_span(each.ahead)}" for each in found.ahead[:3])
        output.text(f"{many} written under a clock that was ahead, which is no fault: {named}")
        output.note("find the machine whose clock is wrong; each write of such an entity takes the next version")
    if found.skipped:
        output.text(f"not compared, it took longer than --max-age: {', '.join(found.skipped)}")
        output.note(f"go on with what was skipped: --resume {found.cursor}")


def _span(milliseconds: int) -> str:
    """A time in words."""
    days = milliseconds // 86_400_000
    return counted(days, "day") if days > 1 else counted(milliseconds // 1000, "second")
