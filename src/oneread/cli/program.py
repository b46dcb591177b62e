"""The program `oneread`: the table of its commands, which are imported when they are run.

To add a command, write `oneread/cli/NAME.py` with a function `command` whose parameters are typer options (`options`
adds those that most commands share) and whose docstring is its help with an example; or, for a command with
subcommands, `app = typer.Typer(**options.SUBCOMMANDS)`. Then add its line to `COMMANDS`. Help is plain text: importing
rich takes longer than the rest of `oneread --help`. See docs/reference/command-line.md.
"""

from __future__ import annotations

from importlib import import_module, metadata
from itertools import groupby, takewhile
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from oneread.cli.failures import JSON, reporting


class CommandEntry(NamedTuple):
    """One command."""

    section: str
    """The heading that `oneread --help` lists it under, beside those before and after it."""
    line: str
    """What it does, in less than sixty characters."""


COMMANDS: Final[dict[str, CommandEntry]] = {
    "get": CommandEntry("Look at data", "show one entity, or one group of an aggregate"),
    "page": CommandEntry("Look at data", "show a page of a view or of entities"),
    "places": CommandEntry("Look at data", "show where an entity is shown, and who refers to it"),
    "stat": CommandEntry("Look at data", "show how large the store is, and what it holds"),
    "counter": CommandEntry("Look at data", "show a counter's value, shards and rate; list counters"),
    "console": CommandEntry("Look at data", "see the store in a browser"),
    "shell": CommandEntry("Look at data", "open a Python prompt with the store and the schema"),
    "verify": CommandEntry("Keep it right", "compare every view and copy with its entities"),
    "repair": CommandEntry("Keep it right", "repair what verify finds, on the live store"),
    "sweep": CommandEntry("Keep it right", "delete what has expired"),
    "erase": CommandEntry("Keep it right", "erase an entity with all copies of it"),
    "scrub": CommandEntry("Keep it right", "overwrite in the file what was removed"),
    "migrate": CommandEntry("Change the schema", "plan, apply or roll back a changed schema"),
    "backfill": CommandEntry("Change the schema", "build the views that were added or changed"),
    "explain": CommandEntry("Know the costs", "show what a call would ask of the store"),
    "cost": CommandEntry("Know the costs", "show what every verb may cost; check the bound file"),
    "graph": CommandEntry("Know the costs", "draw the schema: copies, views, and what follows"),
    "privacy": CommandEntry("Know the costs", "list where personal fields are stored and copied"),
    "numbers": CommandEntry("Know the costs", "measure this machine, to predict times"),
    "heat": CommandEntry("Know the costs", "show which keys are read and written, and when"),
    "doctor": CommandEntry("Know the costs", "say what to declare otherwise, by what is hot"),
    "splits": CommandEntry("Know the costs", "propose where to split the tables of a cluster"),
    "dump": CommandEntry("Move data", "write entities to a file, as JSON lines or CSV"),
    "load": CommandEntry("Move data", "load a dump, JSON lines or CSV, in batches"),
    "copy": CommandEntry("Move data", "copy the store into another one, of any kind"),
    "move": CommandEntry("Move data", "move the store to another place while it is in use"),
    "backup": CommandEntry("Move data", "copy the files of the store while it is in use"),
    "tasks": CommandEntry("Run", "list the tasks in the outbox, or run them"),
    "jobs": CommandEntry("Run", "list the jobs; retry or drop those set aside"),
    "launch": CommandEntry("Run", "list, show and change dark launches"),
    "worker": CommandEntry("Run", "run tasks and jobs until stopped"),
}


class Commands(TyperGroup):
    """The commands of the table; each is imported when it is run, or when its own help is shown."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.line, short_help=entry.line))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Replaces the placeholder that lists show by the command itself."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, None if found is None else load_command(str(name)), rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the options of the program; --json is noted first, for a command line that is wrong."""
        ctx.meta[JSON] = "--json" in takewhile(lambda each: each != "--", args)
        with reporting(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; an error becomes a message and an exit code."""
        with reporting(ctx):
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Lists the commands by section."""
        del ctx
        width = max(map(len, COMMANDS))
        for section, listed in groupby(COMMANDS.items(), lambda item: item[1].section):
            with formatter.section(section):
                formatter.write_dl([(name.ljust(width), entry.line) for name, entry in listed])


def load_command(name: str) -> Any:
    """Imports the command of this name."""
    module = import_module(f"oneread.cli.{name}")
    if hasattr(module, "app"):
        module.app.info.name = name
        return typer.main.get_command(module.app)
    single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    single.command(name)(module.command)
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
    """Inspect, verify, repair and migrate a oneread store.

    Every command takes the schema as --schema package.module:name and the store as --db URL, or from the environment:
    ONEREAD_SCHEMA and ONEREAD_DB. `oneread COMMAND --help` explains one of them, with an example.

    Exit codes: 0 success; 1 something was found or refused; 2 wrong use; 3 the store failed.
    """
    del version
