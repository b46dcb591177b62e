"""`oneread scrub`: overwrites what was removed or replaced and is still stored. See docs/reference/command-line.md."""

from __future__ import annotations

from typing import Annotated

import typer

from oneread.cli.failures import FOUND
from oneread.cli.options import Invocation, with_shared_options, writing
from oneread.cli.output import counted
from oneread.database.async_files import SCRUB_WAIT

ReadersOption = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=0, help="The longest wait for readers that began before.")
]


@with_shared_options
def command(given: Invocation, *, wait: ReadersOption = SCRUB_WAIT) -> None:
    """Overwrites what was removed or replaced and is still stored, while programs read and write.

    LMDB keeps removed bytes in freed pages and between the entries of others. All entries are written again, some
    thousand in a transaction, and free pages are overwritten. The file may grow, and does not shrink: `oneread backup
    --compact` makes a smaller one. A store that changes one row at a time keeps copied values in cells beside
    documents: these get what the sources have, and documents under them are committed again. Interrupted, it is done
    again from the beginning.

    Example: oneread scrub --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = given.output
    with writing(given.db, given.schema, evolve=False) as database, output.progress() as report:
        found = database.scrub(wait=wait, progress=report)
    output.document(found)
    if not output.as_json:
        if database.operations.spans_rows:
            entries = counted(found.entries, "entry", "entries")
            output.text(f"{entries} written again, {counted(found.pages, 'page', 'pages')} overwritten")
        else:
            output.text(f"{found.entries} cells and documents written again")
    if found.refused:
        refused = counted(found.refused, "document", "documents")
        output.note(f"{refused} cannot be written again, since a type or check does not allow the values: save others")
        raise typer.Exit(FOUND)
