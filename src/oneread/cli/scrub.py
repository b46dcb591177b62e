"""`oneread scrub`: overwrites in a store's file what was removed from it. See docs/reference/command-line.md."""

from __future__ import annotations

from typing import Annotated

import typer

from oneread.cli.options import Invocation, with_shared_options, writing
from oneread.cli.output import counted
from oneread.database.async_files import SCRUB_WAIT

ReadersOption = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=0, help="The longest wait for readers that began before.")
]


@with_shared_options
def command(given: Invocation, *, wait: ReadersOption = SCRUB_WAIT) -> None:
    """Overwrites in the store's file whatever was removed from it, while programs read and write.

    LMDB keeps removed bytes in freed pages and between the entries of others. All entries are written again, some
    thousand in a transaction, and free pages are overwritten. The file may grow, and does not shrink: `oneread backup
    --compact` makes a smaller one. Interrupted, it is done again from the beginning.

    Example: oneread scrub --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = given.output
    with writing(given.db, given.schema, evolve=False) as database, output.progress() as report:
        found = database.scrub(wait=wait, progress=report)
    output.document(found)
    if not output.as_json:
        entries = counted(found.entries, "entry", "entries")
        output.text(f"{entries} written again, {counted(found.pages, 'page', 'pages')} overwritten")
