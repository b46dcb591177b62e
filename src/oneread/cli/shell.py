"""`oneread shell`: a Python prompt with the open store and the names of the schema.

IPython is used where it is installed. See docs/reference/command-line.md.
"""

from __future__ import annotations

import code
import contextlib
import readline
import rlcompleter
import sys
import traceback
from collections.abc import Generator
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer

import oneread
from oneread import errors
from oneread.cli.failures import FOUND
from oneread.cli.options import DbOption, QuietOption, SchemaOption, reading, schema_of, writing
from oneread.database._sync.database import Database
from oneread.errors import OnereadError, Unsupported
from oneread.evolution.schema import Schema

_OPENED_READ_ONLY = "the store was opened with read_only"
"""What the engine says of a write."""

WriteOption = Annotated[bool, typer.Option("--write", help="Open the store for writing.")]
RunOption = Annotated[
    str, typer.Option("--run", "-c", metavar="CODE", help="Run this Python code instead of a prompt.")
]


def command(
    *,
    write: WriteOption = False,
    run: RunOption = "",
    schema: SchemaOption = "",
    db: DbOption = "",
    quiet: QuietOption = False,
) -> None:
    """Opens a Python prompt: `db` is the store, and every model, view and rule has its name.

    The store is opened for reading; with --write for writing as well, and a worker runs tasks.

    Example: oneread shell --schema shop.models:shop --db lmdb://shop
    """
    known = schema_of(schema)
    with writing(db, known, evolve=False, workers=1) if write else reading(db, known) as database:
        names = names_of(known, database)
        if run:
            with _hinting_at_write(write=write):
                _run(run, names)
            return
        _prompt(names, "" if quiet else banner(known, db, write=write))


@contextlib.contextmanager
def _hinting_at_write(*, write: bool) -> Generator[None]:
    """Notes on the error of a write that the store was opened for reading."""
    try:
        yield
    except Unsupported as error:
        if not write and error.message == _OPENED_READ_ONLY:
            error.add_note("open the store with --write")
        raise


def _run(text: str, names: dict[str, object]) -> None:
    """Runs the code of --run; errors in it are printed as Python does, without the frames of this program.

    Raises:
        OnereadError, OSError: reported as for every command.
    """
    try:
        exec(compile(text, "<--run>", "exec"), names)  # noqa: S102 - the user's own code
    except (OnereadError, OSError):
        raise
    except Exception as error:
        frames = error.__traceback__
        traceback.print_exception(error.with_traceback(frames.tb_next if frames else None))
        raise typer.Exit(FOUND) from error


def names_of(schema: Schema, database: Database) -> dict[str, object]:
    """The names in the prompt: the library's public names, the schema's classes, `errors`, `schema` and `db`."""
    library = {name: getattr(oneread, name) for name in oneread.__all__}
    return {"__name__": "__console__", **library, **schema.named(), "errors": errors, "schema": schema, "db": database}


def banner(schema: Schema, db: str, *, write: bool) -> str:
    """The first lines of the prompt."""
    models = ", ".join(sorted(each.__name__ for each in schema.models))
    views = ", ".join(sorted(each.__name__ for each in schema.views))
    first, listed = schema.models[0].__name__, (*schema.views, *schema.models)[0].__name__
    return "\n".join(
        [
            f"oneread {'' if write else '(read-only; open it with --write to change it) '}{db}",
            f"  models  {models}",
            f"  views   {views or '-'}",
            f"  try     db.get({first}, ...)   db.page({listed}, limit=3).rows   help(db.page)",
        ]
    )


def _prompt(names: dict[str, object], text: str) -> None:
    """Runs the prompt until the end of input."""
    if find_spec("IPython") is not None and sys.stdin.isatty():
        ipython: Any = import_module("IPython")
        ipython.embed(user_ns=names, banner1=text, colors="neutral", display_banner=bool(text))
        return
    readline.set_completer(rlcompleter.Completer(names).complete)
    readline.parse_and_bind("tab: complete")
    _Console(names).interact(text, exitmsg="")


class _Console(code.InteractiveConsole):
    """Python's own prompt; errors of the library are printed without a traceback."""

    def showtraceback(self) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, OnereadError):
            hint = " (hint: open the store with --write)" if error.message == _OPENED_READ_ONLY else ""
            with contextlib.suppress(OSError):
                self.write(f"{type(error).__name__}: {error}{hint}\n")
            return
        super().showtraceback()
