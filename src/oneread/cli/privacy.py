"""`oneread privacy`: where values of personal fields are stored and shown. See docs/reference/command-line.md."""

from __future__ import annotations

import typer

from oneread.cli.options import JsonOption, QuietOption, SchemaOption, schema_of
from oneread.cli.output import Output
from oneread.evolution.privacy import ELSEWHERE, personal_places

HEADERS = ("personal field", "is", "in", "table", "besides")


def command(
    *,
    schema: SchemaOption = "",
    field: str = typer.Option("", "--field", metavar="NAME", help="One personal field, as Customer.name."),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Lists every place where values of personal fields are stored, copied and shown. No store is opened.

    A field is personal that says so: name: Annotated[str, Personal()]. Where the key of an entity is, whatever refers
    to it is listed, too. What the declarations do not say is named below the table.

    Example: oneread privacy --schema shop.models:shop
    """
    output = Output(as_json=as_json, quiet=quiet)
    found = [each for each in personal_places(schema_of(schema)) if field in ("", each.field)]
    output.document(found)
    if not found:
        output.text("no field is personal: name: Annotated[str, Personal()] says that one is")
        return
    output.table(HEADERS, [[each.field, each.kind, each.place, each.table, each.note] for each in found])
    for line in ELSEWHERE:
        output.text(line)
