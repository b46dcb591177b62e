"""`oneread backup`: a copy of the whole store while it is in use.

See docs/reference/command-line.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import msgspec
import typer

from oneread.cli.failures import FOUND
from oneread.cli.options import DATA, Invocation, reading, with_shared_options
from oneread.cli.output import Output, size
from oneread.errors import Unsupported, UsageError
from oneread.evolution.schema import Schema
from oneread.store import unfinished

TargetArgument = Annotated[str, typer.Argument(metavar="TARGET", help="The new folder, in an existing one.")]
CompactOption = Annotated[bool, typer.Option("--compact", help="Fill the pages, in key order; takes longer.")]
VerifyOption = Annotated[bool, typer.Option("--verify", help="Open the copy and verify it.")]


class BackedUp(msgspec.Struct, frozen=True):
    """What --json prints: the copy's URL and bytes, and whether it is clean; None without --verify."""

    url: str
    bytes: int
    clean: bool | None


@with_shared_options
def command(
    given: Invocation, *, target: TargetArgument, compact: CompactOption = False, verify: VerifyOption = False
) -> None:
    """Copies the store to a new folder while programs read and write it.

    The copy is a snapshot of the whole store, with all its prefixes. The folder appears when the copy is complete and
    on disk, and opens like any store. To restore, stop the programs and replace the store by it; with --compact, to
    make a store smaller that was filled by many small writes.

    Example: oneread backup /backup/shop-2026-11-20 --verify --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = given.output
    if not target or "://" in target:
        raise UsageError("the target of a backup is a folder, not a URL", given=target)
    place = Path(target).absolute()
    removed = unfinished.leftovers(place.parent, place.name, DATA)
    with reading(given.db, given.schema) as database, output.progress() as report:
        try:
            copied = database.backup(target, compact=compact, progress=report)
        except Unsupported as error:
            error.add_note("`oneread dump --out FILE` writes the entities; a server may copy its tables itself")
            raise
    for path in removed:
        output.note(f"removed the unfinished copy of a killed backup: {path}")
    prefix = given.db.partition("?")[2]
    url = f"lmdb://{quote(target)}" + (f"?{prefix}" if prefix else "")
    clean = _verify(output, url, given.schema) if verify else None
    output.document(BackedUp(url, copied, clean))
    output.text(f"{url}: {size(copied)}" + ("" if clean is None else ", clean" if clean else ", with faults"))
    if clean is False:
        output.note(f"`oneread verify --db {url}` lists them")
        raise typer.Exit(FOUND)


def _verify(output: Output, url: str, schema: Schema) -> bool:
    with reading(url, schema) as copy, output.progress() as report:
        return copy.verify(progress=report).clean
