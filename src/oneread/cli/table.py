"""The table of commands: name, where the command stands, and the line that `oneread --help` shows for it.

See the page of the command line in the reference.

To add a command, write `oneread/cli/NAME.py` with a function `command` whose parameters are typer options (those that
every command has stand in `options`) and whose docstring is its help with an example; or, for a command with
subcommands, a `typer.Typer(**options.SUBCOMMANDS)` of that name. Then add its line here.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

Section: TypeAlias = Literal["Look at data", "Keep it right", "Change the schema", "Know the costs", "Move data", "Run"]

SECTIONS: Final[tuple[Section, ...]] = (
    "Look at data",
    "Keep it right",
    "Change the schema",
    "Know the costs",
    "Move data",
    "Run",
)


class Entry(NamedTuple):
    """One command.

    Arguments:
        section: the heading that `oneread --help` lists it under.
        target: `module:attribute` of a function, or of a `typer.Typer` with subcommands.
        line: what it does, in less than sixty characters.
    """

    section: Section
    target: str
    line: str


COMMANDS: Final[dict[str, Entry]] = {
    "get": Entry("Look at data", "oneread.cli.get:command", "show one entity, or one group of an aggregate"),
    "page": Entry("Look at data", "oneread.cli.page:command", "show a page of a view or of entities"),
    "stat": Entry("Look at data", "oneread.cli.stat:command", "show how large the store is, and what it holds"),
    "shell": Entry("Look at data", "oneread.cli.shell:command", "open a Python prompt with the store and the schema"),
    "verify": Entry("Keep it right", "oneread.cli.verify:command", "compare every view and copy with its entities"),
    "repair": Entry("Keep it right", "oneread.cli.repair:command", "mend what verify finds, on the live store"),
    "migrate": Entry("Change the schema", "oneread.cli.migrate:app", "plan, apply or take back a changed schema"),
    "backfill": Entry(
        "Change the schema", "oneread.cli.backfill:command", "build the views that were added or changed"
    ),
    "explain": Entry("Know the costs", "oneread.cli.explain:command", "show what a call would ask of the store"),
    "cost": Entry("Know the costs", "oneread.cli.cost:command", "show what every verb may cost; check the bound file"),
    "numbers": Entry("Know the costs", "oneread.cli.numbers:command", "measure this machine, to predict times"),
    "dump": Entry("Move data", "oneread.cli.dump:command", "write entities to a file, as JSON lines or CSV"),
    "load": Entry("Move data", "oneread.cli.load:command", "load a dump, JSON lines or CSV, in batches"),
    "backup": Entry("Move data", "oneread.cli.backup:command", "copy the store while it is in use"),
    "tasks": Entry("Run", "oneread.cli.tasks:command", "list the outbox, or do its tasks now"),
    "worker": Entry("Run", "oneread.cli.worker:command", "do the tasks of the outbox until stopped"),
}
