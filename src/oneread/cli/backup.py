"""`oneread backup`: a copy of the whole store while it is in use.

See the page of the command line in the reference.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlsplit

import msgspec
import typer

from oneread.cli.failures import FOUND
from oneread.cli.options import DATA, DbOption, JsonOption, QuietOption, SchemaOption, reading, schema_of
from oneread.cli.output import Output, size
from oneread.errors import UsageError
from oneread.evolution.schema import Schema
from oneread.store import unfinished

TargetArgument = Annotated[str, typer.Argument(metavar="TARGET", help="The new folder, in one that is there.")]
VerifyOption = Annotated[bool, typer.Option("--verify", help="Open the copy and compare every view with its entities.")]


class BackedUp(msgspec.Struct, frozen=True):
    """What --json prints: the copy's URL and bytes, and whether it was found clean; None when nobody looked."""

    url: str
    bytes: int
    clean: bool | None


def command(
    *,
    target: TargetArgument,
    verify: VerifyOption = False,
    schema: SchemaOption = "",
    db: DbOption = "",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Copies the store to a new folder while programs read and write it.

    The copy is one moment of the whole store, compact, with every prefix of it. It is there when it is whole and on
    disk, or not at all, and opens like any store. To restore, stop the programs and put it in the store's place.

    Example: oneread backup /backup/shop-2026-11-20 --verify --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = Output(as_json=as_json, quiet=quiet)
    if not target or "://" in target:
        raise UsageError("a backup is a folder, not a URL", given=target)
    known = schema_of(schema)
    place = Path(target).absolute()
    left = unfinished.leftovers(place.parent, place.name, DATA)
    with reading(db, known) as database, output.progress() as tell:
        copied = database.backup(target, progress=tell)
    for path in left:
        output.note(f"removed what a killed backup had left: {path}")
    prefix = urlsplit(db).query
    url = f"lmdb://{quote(target)}" + (f"?{prefix}" if prefix else "")
    clean = _is_clean(output, url, known) if verify else None
    output.document(BackedUp(url, copied, clean))
    output.text(f"{url}: {size(copied)}" + ("" if clean is None else ", clean" if clean else ", with faults"))
    if clean is False:
        output.note(f"`oneread verify --db {url}` lists them")
        raise typer.Exit(FOUND)


def _is_clean(output: Output, url: str, schema: Schema) -> bool:
    with reading(url, schema) as copy, output.progress() as tell:
        return copy.verify(progress=tell).clean
