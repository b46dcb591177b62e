"""`oneread shell`: a Python prompt with the store open and the schema's names at hand.

IPython is used where it is installed. See the page of the command line in the reference.
"""

from __future__ import annotations

import code
import contextlib
import readline
import rlcompleter
import sys
import traceback
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer

import oneread
from oneread import errors
from oneread.cli.failures import FOUND
from oneread.cli.options import DbOption, QuietOption, SchemaOption, reading, schema_of, writing
from oneread.errors import OnereadError
from oneread.evolution.schema import Schema

WriteOption = Annotated[bool, typer.Option("--write", help="Open the store for writing, too.")]
RunOption = Annotated[
    str, typer.Option("--run", "-c", metavar="CODE", help="Run this Python instead of asking for it.")
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

    The store is opened for reading; with --write it can be changed as well, and tasks are done meanwhile.

    Example: oneread shell --schema shop.models:shop --db lmdb://shop
    """
    known = schema_of(schema)
    with writing(db, known, evolve=False, workers=1) if write else reading(db, known) as database:
        names = named(known, database)
        if run:
            _run(run, names)
            return
        _ask(names, "" if quiet else banner(known, db, write=write))


def _run(text: str, names: dict[str, Any]) -> None:
    """Runs what was given; errors of the code are told as Python tells them, without the frames of this program.

    Raises:
        OnereadError, OSError: told as every command tells them.
    """
    try:
        exec(compile(text, "<--run>", "exec"), names)  # noqa: S102 - it is what the user asked for
    except (OnereadError, OSError):
        raise
    except Exception as error:
        frames = error.__traceback__
        traceback.print_exception(error.with_traceback(frames.tb_next if frames else None))
        raise typer.Exit(FOUND) from error


def named(schema: Schema, database: Any) -> dict[str, Any]:
    """What the prompt knows: the library's public names, the schema's classes, `errors`, `schema` and `db`."""
    library = {name: getattr(oneread, name) for name in oneread.__all__}
    return {"__name__": "__console__", **library, **schema.named(), "errors": errors, "schema": schema, "db": database}


def banner(schema: Schema, db: str, *, write: bool) -> str:
    """What the prompt says first."""
    models = ", ".join(sorted(each.__name__ for each in schema.models))
    views = ", ".join(sorted(each.__name__ for each in schema.views))
    first, listed = schema.models[0].__name__, (*schema.views, *schema.models)[0].__name__
    return "\n".join(
        [
            f"oneread {'' if write else '(for reading; --write lets you change it) '}{db}",
            f"  models  {models}",
            f"  views   {views or '-'}",
            f"  try     db.get({first}, ...)   db.page({listed}, limit=3).rows   help(db.page)",
        ]
    )


def _ask(names: dict[str, Any], text: str) -> None:
    """Asks for Python until there is no more."""
    if find_spec("IPython") is not None and sys.stdin.isatty():
        ipython: Any = import_module("IPython")
        ipython.embed(user_ns=names, banner1=text, colors="neutral", display_banner=bool(text))
        return
    readline.set_completer(rlcompleter.Completer(names).complete)
    readline.parse_and_bind("tab: complete")
    _Console(names).interact(text, exitmsg="")


class _Console(code.InteractiveConsole):
    """Python's own prompt; errors of the library are told without the frames they passed through."""

    def showtraceback(self) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, OnereadError):
            with contextlib.suppress(OSError):
                self.write(f"{type(error).__name__}: {error}\n")
            return
        super().showtraceback()
