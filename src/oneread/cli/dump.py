"""`oneread dump`: every entity as JSON lines, or one model as CSV.

See docs/formats/dumps.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from oneread.cli.files import STANDARD, new_file
from oneread.cli.options import Invocation, TimeoutOption, complete_names, find_declared, with_shared_options
from oneread.cli.passing import reading_all
from oneread.errors import UsageError


class Format(StrEnum):
    """The format of a dump."""

    jsonl = "jsonl"
    csv = "csv"


ModelsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="MODEL", help="What to dump. [default: everything]", autocompletion=complete_names),
]
OutOption = Annotated[
    str, typer.Option("--out", "-o", metavar="FILE", help="The new file; compressed when it ends in .gz; - for stdout.")
]
WithoutPersonalOption = Annotated[
    bool, typer.Option("--without-personal", help="Placeholders in place of personal values, for test data.")
]
FormatOption = Annotated[Format, typer.Option("--format", help="JSON lines, or CSV for one model.")]


@with_shared_options
def command(
    given: Invocation,
    *,
    models: ModelsArgument = None,
    out: OutOption = STANDARD,
    form: FormatOption = Format.jsonl,
    without_personal: WithoutPersonalOption = False,
    timeout: TimeoutOption = None,
) -> None:
    """Writes entities to a file, from one moment of the store, while it is in use.

    Copies, indexes and aggregates are not written: `oneread load` derives them. JSON lines restore the store exactly,
    with versions and tombstones; CSV holds the entities of one model, without deleted ones. One with
    entities of variants is dumped as each variant. --without-personal writes a placeholder for each value of a field
    that is Personal(), equal ones for equal values, and leaves out counters and the last values of deleted entities.

    Example: oneread dump --out shop.jsonl.gz --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = given.output
    wanted = find_declared(given.schema, models or [])
    if output.as_json and out == STANDARD:
        raise UsageError("--json prints a report to stdout, so the dump needs --out FILE")
    if form is Format.csv and len(wanted) != 1:
        raise UsageError("CSV holds the entities of one model: give exactly one MODEL", given=models or [])
    with reading_all(given, "dump") as database, new_file(out) as file, output.progress() as report:
        options: Any = {"without_personal": without_personal, "progress": report, "timeout": timeout}
        if form is Format.csv:
            found: object = {"entities": database.dump_csv(file.write, wanted[0], **options)}
        else:
            found = database.dump(file.write, *wanted, **options)
    output.document(found)
    output.note(f"dumped to {out}" if out != STANDARD else "dumped")
