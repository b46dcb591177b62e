"""`oneread numbers`: measures the basic operations of an engine on this machine, in a store of its own.

See docs/reference/command-line.md.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote, urlencode

import typer

from oneread.cli import interrupts
from oneread.cli.calibration import SCHEMA, measure
from oneread.cli.options import DbOption, JsonOption, QuietOption, default_numbers_file, refuse_nan
from oneread.cli.output import Output
from oneread.connect import SCHEMES, connect
from oneread.costs.numbers import BASICS, FORMAT, MachineNumbers, seconds_text, this_machine, write_numbers
from oneread.database._sync.database import Database
from oneread.errors import InvalidUrl, SchemaMismatch, UsageError
from oneread.plans.progress import Progress
from oneread.store.urls import split_url

SECONDS: Final = 5.0

_KEPT: Final = ("durability", "span", "latency_ms")
"""Options of the URL that change the numbers; the others belong to one store."""


def command(
    *,
    db: DbOption = "",
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, max=600, callback=refuse_nan, help="How long to measure.")
    ] = SECONDS,
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="Where to keep them. [default: your cache folder]")
    ] = "",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measures what reads and writes take here, so that `explain` and `cost` can predict times.

    Makes a small store next to the one that --db names, with the same durability, and removes it. The store itself is
    not opened. On a server the small store is what --db names: give it a prefix= that no store has.

    Example: oneread numbers --db lmdb:///var/lib/shop --out numbers.json
    """
    output = Output(as_json=as_json, quiet=quiet)
    if not db:
        raise UsageError("no store was given to measure: --db lmdb:///var/lib/shop, or memory://")
    interrupts.install()  # which removes the small store
    with _scratch(db) as (url, engine), _opened(url) as database, output.progress() as report:
        span = database.explain.costs.span
        taken = measure(database, seconds, lambda done, of: report(Progress("measured", done, of)))
    found = MachineNumbers(FORMAT, engine, this_machine(), taken, span)
    target = out or default_numbers_file()
    write_numbers(found, target)
    output.document(found)
    output.table(["what", "time"], [[text, seconds_text(taken[name])] for name, text in BASICS.items()])
    output.note(f"wrote {target}")


def _opened(url: str) -> Database:
    try:
        return connect(url, SCHEMA, workers=0)
    except SchemaMismatch as error:
        raise UsageError(
            "there is a store of another schema; to measure a server, give the URL a prefix= that no store has",
            **error.facts,
        ) from error


@contextlib.contextmanager
def _scratch(db: str) -> Generator[tuple[str, str]]:
    """The URL of a temporary store on the same disk, and the name of the engine that is measured."""
    parts = split_url(db, SCHEMES)
    kept = urlencode([(name, value) for name, value in parts.options.items() if name in _KEPT])
    engine = f"{parts.scheme}?{kept}" if kept else parts.scheme
    if parts.scheme != "lmdb":
        yield db, engine
        return
    parent = Path(parts.place).absolute().parent
    if not parent.is_dir():
        raise InvalidUrl("the folder of the store does not exist", folder=str(parent))
    with tempfile.TemporaryDirectory(prefix=".oneread-numbers-", dir=parent) as folder:
        yield f"lmdb://{quote(folder)}/store" + (f"?{kept}" if kept else ""), engine
