"""The program `oneread`: a group of commands that are imported when they are run.

Help is plain text: rich would take longer to import than the rest of `oneread --help` takes. See the page of the
command line in the reference.
"""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module, metadata
from itertools import takewhile
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from oneread.cli.failures import JSON, telling
from oneread.cli.table import COMMANDS, SECTIONS


class Commands(TyperGroup):
    """The commands of the table; each is imported when it is run, or when its own options are asked for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.line, short_help=entry.line))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is run, in place of what stands for it in lists."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, None if found is None else loaded(str(name)), rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the options of the program, and notes --json: a wrong command line is a document, too."""
        ctx.meta[JSON] = "--json" in takewhile(lambda each: each != "--", args)
        with telling(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; what it raises becomes a message and an exit code."""
        with telling(ctx):
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Lists the commands by what they are for."""
        del ctx
        listed: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for name, entry in COMMANDS.items():
            listed[entry.section].append((name, entry.line))
        width = max(map(len, COMMANDS))
        for section in SECTIONS:
            if listed[section]:
                with formatter.section(section):
                    formatter.write_dl([(name.ljust(width), line) for name, line in listed[section]])


def loaded(name: str) -> Any:
    """The command of this name, imported now."""
    module, _, attribute = COMMANDS[name].target.partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        found.info.name = name
        return typer.main.get_command(found)
    single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    single.command(name)(found)
    return typer.main.get_command(single)


def _version(wanted: bool) -> None:  # noqa: FBT001 - an option's callback is given its value
    if wanted:
        typer.echo(f"oneread {metadata.version('oneread')}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Try: oneread page PurchasesOfBuyer 12347 --schema shop.models:shop --db lmdb://shop",
)


@app.callback()
def program(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the release.")
    ] = False,
) -> None:
    """Looks after a oneread store: shows its data, checks it, mends it, moves it.

    Every command takes the schema as --schema package.module:name and the store as --db URL, or from the environment:
    ONEREAD_SCHEMA and ONEREAD_DB. `oneread COMMAND --help` explains one of them, with an example.

    Exit codes: 0 fine; 1 something was found or refused; 2 wrong use; 3 the store failed.
    """
    del version
