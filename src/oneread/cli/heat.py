"""`oneread heat`: which ranges of keys programs read and write, and when.

See docs/how-to/find-what-is-hot.md.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import nullcontext, suppress
from datetime import timedelta
from time import sleep
from typing import Annotated, Final

import typer

from oneread.cli.options import Invocation, PaceOption, complete_names, reading, with_shared_options, writing
from oneread.cli.output import Output, counted, write
from oneread.errors import UsageError, printable
from oneread.heat.axis import measure_axes
from oneread.heat.drawing import BLOCKS, draw, lines_by_declaration, lines_by_range
from oneread.heat.map import HeatMap, HeatMeasure, HeatOperation
from oneread.heat.rows import DAYS, keep_days

_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_TIME: Final = re.compile(r"([0-9]{1,4})([mhd])").fullmatch
DRAWN_RANGES: Final = 24
CLEAR: Final = "\033[H\033[J"
"""Has a terminal draw from its top again."""

HeatNameArgument = Annotated[
    str,
    typer.Argument(
        metavar="[NAME]",
        help="One model or view, by ranges of its keys; without it, a line for each.",
        autocompletion=complete_names,
        show_default=False,
    ),
]
LastOption = Annotated[str, typer.Option("--last", metavar="TIME", help="How far back, as in 30m, 6h or 14d.")]
ReadsOnlyOption = Annotated[bool, typer.Option("--reads", help="Only what is read.")]
WritesOption = Annotated[bool, typer.Option("--writes", help="Only what is written.")]
LostOption = Annotated[bool, typer.Option("--lost", help="Only compare-and-sets that others' changes came before.")]
MeasureByOption = Annotated[HeatMeasure, typer.Option("--by", help="What is counted of it.")]
RangesOption = Annotated[int, typer.Option("--ranges", min=1, max=1000, help="Ranges of the one that is named.")]
MeasureOption = Annotated[
    bool,
    typer.Option("--measure", help="First count the rows by key, so that ranges have equally many: reads every row."),
]
WatchOption = Annotated[bool, typer.Option("--watch", help="Draw again each 10 seconds, until Ctrl-C.")]
KeptOption = Annotated[
    int | None,
    typer.Option(
        "--kept",
        min=0,
        max=DAYS,
        metavar="DAYS",
        help="From now on all programs of the store keep hours for so many days; 0: the last day only.",
    ),
]
WATCH_SECONDS: Final = 10.0


@with_shared_options
def command(  # noqa: PLR0913 - the options of the command
    given: Invocation,
    name: HeatNameArgument = "",
    *,
    last: LastOption = "6h",
    reads: ReadsOnlyOption = False,
    writes: WritesOption = False,
    lost: LostOption = False,
    by: MeasureByOption = "requests",
    ranges: RangesOption = DRAWN_RANGES,
    measure: MeasureOption = False,
    pace: PaceOption = None,
    watch: WatchOption = False,
    kept: KeptOption = None,
) -> None:
    """Shows which keys programs read and write, and when: those that were opened with heat=1.0, or another share.

    Minutes are kept for 6 hours, 10 minutes for a day, hours for 14 days or for what --kept says. A read of a few
    hundred rows.

    Example: oneread heat --writes --last 6h --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output, declared = given.output, None
    back, operation = time_of(last), _operation(reads=reads, writes=writes, lost=lost)
    if name:
        declared = given.schema.named().get(name)
        if declared is None:
            raise UsageError("the schema has no model or view of this name", name=name)
    if watch and output.as_json:
        raise UsageError("--watch draws for people; leave out --json or --watch")
    if measure:
        with writing(given.db, given.schema) as database, output.progress() as report:
            rows = database.run(measure_axes(pace, report))
        output.note(f"{counted(rows, 'row')} counted by key")
    if kept is not None:
        with writing(given.db, given.schema) as database:
            database.run(keep_days(kept))
        output.note(f"hours are kept for {counted(kept, 'day')}" if kept else "hours are not kept, only the last day")
    with reading(given.db, given.schema) as database, suppress(KeyboardInterrupt) if watch else nullcontext():
        while True:
            heat = database.heat(
                last=back, operation=operation, measure=by, declared=declared, ranges=ranges if name else 1
            )
            if watch and _is_terminal():
                write(sys.stdout, CLEAR)
            output.document(heat)
            if not output.as_json:
                _show(output, heat, by_range=bool(name))
            if not watch:
                break
            sleep(WATCH_SECONDS)


def time_of(text: str) -> timedelta:
    """The time that an option says, as in 30m, 6h or 14d."""
    found = _TIME(text)
    if found is None:
        raise UsageError("expected a time as in 30m, 6h or 14d", given=text)
    return int(found[1]) * _UNITS[found[2]]


def _operation(*, reads: bool, writes: bool, lost: bool) -> HeatOperation:
    wanted: dict[HeatOperation, bool] = {"read": reads, "write": writes, "lost": lost}
    given: list[HeatOperation] = [name for name, is_wanted in wanted.items() if is_wanted]
    if len(given) > 1:
        raise UsageError("give one of --reads, --writes and --lost", given=given)
    return given[0] if given else "all"


def _show(output: Output, heat: HeatMap, *, by_range: bool) -> None:
    if not heat.ranges:
        output.text("nothing was recorded in this time: programs record with connect(url, schema, heat=1.0)")
        return
    lines = lines_by_range(heat) if by_range else lines_by_declaration(heat)
    safe = [line._replace(label=printable(line.label), end=printable(line.end)) for line in lines]
    colours = _is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size().columns
    for line in draw(heat, safe, width, ascii_only=not _writes_blocks(), colours=colours):
        write(sys.stdout, f"{line}\n")
    output.note(f"{counted(heat.processes, 'program')}, {heat.sampled:.2g} of their time recorded; {_scale(heat)}")


def _scale(heat: HeatMap) -> str:
    """Whether ranges have about equally many rows, since when, and what has counted them."""
    if not heat.to_scale or heat.counted is None:
        return "not to scale: --measure counts the rows"
    at = heat.counted.astimezone().strftime("%Y-%m-%d %H:%M")
    return f"ranges have about equally many rows since {at} ({heat.counted_by})"


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _writes_blocks() -> bool:
    try:
        BLOCKS.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
