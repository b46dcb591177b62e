"""`oneread migrate`: shows what a changed schema does to a store, applies it, and rolls it back.

See docs/explanation/schema-evolution.md.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from oneread.cli.failures import FOUND
from oneread.cli.options import SUBCOMMANDS, Invocation, comparing, evolving, with_shared_options, writing
from oneread.cli.output import Output, counted
from oneread.evolution.backfill import Backfilled
from oneread.evolution.migrate import Planned, StandingView, Status
from oneread.evolution.plan_words import DIFFERENCE_COLUMNS, difference_rows, planned_lines

DropOption = Annotated[
    list[str], typer.Option("--drop", metavar="NAME", help="A view or model to remove; repeat it for each.")
]
LoseOption = Annotated[
    list[str],
    typer.Option("--lose", metavar="MODEL.FIELD", help="A field whose values may be lost; repeat it for each."),
]
BackfillOption = Annotated[
    bool, typer.Option("--backfill", help="Rewrite rows and build views now, and wait for the end.")
]

app = typer.Typer(**SUBCOMMANDS)


class ChangedStore(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `migrate apply --json` and `migrate rollback --json` print."""

    planned: Planned
    backfilled: Backfilled | None = None


@app.callback()
def migrate() -> None:
    """Changes the schema that a store has: plan, apply, status, rollback.

    Example: oneread migrate plan --schema shop.models:shop --db lmdb:///var/lib/shop
    """


@app.command(short_help="show what this schema changes in the store")
@with_shared_options
def plan(
    given: Invocation,
    *,
    drop: DropOption = [],  # noqa: B006 - typer makes a list of its own
) -> None:
    """Shows what this schema changes in the store, what it costs, and what is refused; writes nothing.

    Exit code 0 when nothing changes, 1 when something changes or is refused.

    Example: oneread migrate plan --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    with comparing(given.db, given.schema) as change:
        found = change.plan(drop=drop)
    given.output.document(found)
    if not given.output.as_json:
        _show(given.output, found)
    for costly in given.schema.costly:
        given.output.text(f"warning: {costly}")
    if not found.nothing:
        raise typer.Exit(FOUND)


@app.command(short_help="make this schema the store's newest version")
@with_shared_options
def apply(
    given: Invocation,
    *,
    drop: DropOption = [],  # noqa: B006 - typer makes a list of its own
    backfill: BackfillOption = False,
) -> None:
    """Makes this schema the store's newest version. A program that opens the store does the same, but drops nothing.

    Exit code 1 when something is refused, or the backfill did not finish.

    Example: oneread migrate apply --drop OldView --backfill --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    with evolving(given.db, given.schema) as change:
        found = change.apply(drop=drop)
    _finish(given, found, backfill=backfill)


@app.command(short_help="make an older schema the newest version again")
@with_shared_options
def rollback(
    given: Invocation,
    *,
    lose: LoseOption = [],  # noqa: B006 - typer makes a list of its own
    backfill: BackfillOption = False,
) -> None:
    """Makes this schema, that of an older program, the store's newest version again.

    Only values that --lose names are lost. Exit code 1 when others would be, or something is refused.

    Example: oneread migrate rollback --lose Purchase.note --schema shop.old:shop --db lmdb:///var/lib/shop
    """
    with evolving(given.db, given.schema) as change:
        found = change.rollback(lose=lose)
    _finish(given, found, backfill=backfill)


@app.command(short_help="show the versions and views of the store")
@with_shared_options
def status(given: Invocation) -> None:
    """Shows the versions of the store's schema, its views, and what remains for a backfill. Exit code 0.

    Example: oneread migrate status --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    with comparing(given.db, given.schema) as change:
        found = change.status()
    given.output.document(found)
    if not given.output.as_json:
        _show_status(given.output, found)


def _finish(given: Invocation, found: Planned, *, backfill: bool) -> None:
    output = given.output
    done: Backfilled | None = None
    if backfill:
        with writing(given.db, given.schema) as database, output.progress() as progress:
            done = database.backfill(progress=progress)
    output.document(ChangedStore(found, done))
    if not output.as_json:
        _show(output, found)
        if done is not None and done.done:
            output.text(f"backfill: done, {counted(done.recommitted, 'entity', 'entities')} rewritten")
        elif done is not None:
            output.text("backfill: not done; `oneread backfill` continues it and shows why")
        elif not found.nothing:
            output.note("`oneread backfill` rewrites rows and makes views readable")
    if done is not None and not done.done:
        raise typer.Exit(FOUND)


def _show(output: Output, found: Planned) -> None:
    if found.differences and not found.nothing:
        output.table(DIFFERENCE_COLUMNS, difference_rows(found))
    for line in planned_lines(found):
        output.text(line)


def _state(view: StandingView) -> str:
    return "written for older programs" if view.undeclared else view.state


def _show_status(output: Output, found: Status) -> None:
    output.text(f"version {found.version}{', a backfill is needed' if found.unfinished else ''}")
    output.table(
        ("version", "declared at", "may write", "this schema"),
        [
            (each.version, each.at.isoformat(timespec="seconds"), each.may_write, each.declared)
            for each in found.versions
        ],
    )
    if found.views:
        output.text()
        output.table(
            ("view", "state", "generation"), [(each.name, _state(each), each.generation) for each in found.views]
        )
    for layout in found.older:
        needs = f"; keep retyped(...) of {', '.join(layout.needs)}" if layout.needs else ""
        output.text(f"rows of layout {layout.layout} of {layout.model} may exist{needs}")
    for each in found.retired:
        output.text(f"to be removed: {each}")
    if found.backfill:
        output.text(f"backfill: {found.backfill}")
