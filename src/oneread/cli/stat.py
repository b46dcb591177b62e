"""`oneread stat`: how large a store is, what it holds, and which tasks wait.

See docs/reference/command-line.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import typer

from oneread.cli.options import DATA, Invocation, folder_of, reading, with_shared_options
from oneread.cli.output import Output, Right, age_of, counted, size
from oneread.database._sync.database import Database
from oneread.database.survey import Survey
from oneread.database.unfinished_commits import UnfinishedCommits
from oneread.derivations.pending_tasks import COUNTER, TaskLag
from oneread.jobs.queued import jobs_text
from oneread.store import unfinished

FEW_ROWS: Final = 200_000
"""Up to this many rows are counted by model and view by default: about a quarter of a second."""

FEED_ROWS: Final = {
    "items": "the items of each group, newest first",
    "items.expiry": "when items leave the feed, for the sweep",
    "members": "the members of each group",
    "kept": "how many entries each member has, for at_most=",
    "groups": "which groups are large, for large_group=",
    "read": "by member, the large groups whose items a page reads",
    "written": "members whose entries are written although their group is large, or is becoming so",
}
"""What the ranges of a feed hold besides its entries, by the last part of their names."""

ExactOption = Annotated[
    bool | None,
    typer.Option("--exact/--quick", help="Count the rows of each model and view, or not. [default: if they are few]"),
]


@with_shared_options
def command(given: Invocation, *, exact: ExactOption = None) -> None:
    """Shows how large a store is: rows and bytes by table, model and view, and the tasks in the outbox.

    The engine counts tables at once. Models and views are counted by reading all their rows, about a million a second;
    by default only if they are few.

    Example: oneread stat --exact --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = given.output
    with reading(given.db, given.schema) as database:
        found = _survey(output, database, exact=exact)
        is_kept = database.operations.grace is None
    output.document(found)
    if not output.as_json:
        _show(output, given.db, found)
    if is_kept:
        output.note("removed rows stay for good: programs purge them where their URL has grace_s=")
    folder = folder_of(given.db)
    for path in [] if folder is None else unfinished.leftovers(folder.absolute().parent, within=DATA):
        output.note(f"unfinished copy of a killed process, can be removed: {path}")


def _survey(output: Output, database: Database, *, exact: bool | None) -> Survey:
    if exact is None:
        quick = database.survey()
        if quick.engine is None or sum(table.rows for table in quick.engine.tables.values()) > FEW_ROWS:
            return quick
        exact = True
    with output.progress() as report:
        return database.survey(exact=exact, progress=report)


def _show(output: Output, db: str, found: Survey) -> None:
    state = "; a backfill is needed: oneread backfill" if found.unfinished else ""
    output.text(f"{db}: version {found.schema_version} of its schema{state}")
    output.text(_behind(found))
    aside = f"; {counted(found.set_aside, 'holder')} set aside: oneread tasks" if found.set_aside else ""
    shown = found.lag.get(COUNTER, TaskLag()).waiting
    counters = f", {counted(shown, 'counter')} to be shown among them" if shown else ""
    output.text(f"{counted(found.tasks, 'task')} waiting{counters}{age_of(found.lag)}{aside}")
    if jobs := jobs_text(found.jobs):
        output.text(jobs)
    if found.commits is not None and found.commits.markers:
        output.text(_unfinished(found.commits))
    for name, lag in found.feeds.items():
        if lag.waiting:
            output.text(f"{name}: {counted(lag.waiting, 'fan-out')} waiting{age_of({name: lag})}")
    for name, seconds in found.unswept.items():
        output.text(f"{name}: expired {seconds:,.1f} s ago and not swept yet: oneread sweep")
    if found.engine is not None:
        output.text()
        tables = found.engine.tables.items()
        output.table(["table", "rows", "bytes"], [[name, table.rows, size(table.bytes)] for name, table in tables])
    output.text()
    if found.parts:
        headers = ["table", "of", "rows", "bytes", "a row", "deleted", "state"]
        output.table(
            headers,
            [
                [part.table, part.name, part.rows, size(part.bytes), part.bytes // part.rows, part.deleted, part.state]
                for part in found.parts
            ],
        )
    else:
        output.table(["view", "state"], list(found.views.items()))
        output.note("--exact counts the rows of each model and view")
    explained = list(_feed_rows(found))
    if explained:
        output.text()
        output.table(["rows of a feed", ""], explained)
    if found.engine is not None and found.engine.facts:
        output.text()
        output.table(["engine", ""], [[_label(name), _fact(name, fact)] for name, fact in found.engine.facts.items()])


def _feed_rows(found: Survey) -> Iterator[list[object]]:
    """The ranges of rows of feeds, each with what it holds."""
    names = (each.name for each in found.parts) if found.parts else found.views
    for name in names:
        feed, _dot, rows = name.partition(".")
        if feed in found.feeds and rows in FEED_ROWS:
            yield [name, FEED_ROWS[rows]]


def _behind(found: Survey) -> str:
    """How far the views are behind, in a line."""
    if not found.behind:
        apart = " but those of the holders set aside" if found.set_aside else ""
        return f"views, copies and totals show every change{apart}"
    least = "" if found.are_all else "at least "
    return f"views, copies and totals may lack changes of the last {least}{found.behind:,.1f} s"


def _unfinished(commits: UnfinishedCommits) -> str:
    began = f"{counted(commits.markers, 'commit')} not finished, the oldest began {commits.oldest:,.1f} s ago"
    return f"{began}; {counted(commits.roots, 'entity', 'entities')} with views that are not right yet"


def _label(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


def _fact(name: str, fact: int) -> Right:
    if name.endswith("_bytes"):
        return size(fact)
    return Right(fact) if name.endswith("_pid") else Right(f"{fact:,}")
