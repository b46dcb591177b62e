"""What is still to be done: tasks by kind, feeds, commits that are not finished, and what was set aside."""

from __future__ import annotations

from typing import Final

from oneread.console.acting import offer
from oneread.console.asking import Ask
from oneread.console.blocks import Block, Column, ConsolePage, Note, Table, Text, instant, number, says
from oneread.console.pages.verify import job_blocks
from oneread.costs.bounds import counted
from oneread.derivations.pending_tasks import TaskLag

HOLDERS: Final = 50
COUNTED: Final = 100
"""Tasks of each kind, and unfinished commits, that a page counts."""
_KINDS: Final = {
    "follow": "copies take their source's values",
    "total": "entities and indexes show changed groups",
    "counter": "entities show counters",
}


async def show_tasks(ask: Ask) -> ConsolePage:
    """Tasks, what is behind, and the holders that could not follow."""
    found = await ask.db.survey(most=COUNTED)
    aside = await ask.db.set_aside(HOLDERS) if found.set_aside else []
    lag = [(f"{kind} tasks", _KINDS.get(kind, ""), each) for kind, each in found.lag.items()]
    lag += [(name, "entries of a feed follow", each) for name, each in found.feeds.items()]
    columns = [
        Column("tasks"),
        Column("for"),
        *(Column(name, right=True) for name in ("waiting", "begun", "oldest, s")),
    ]
    blocks: list[Block] = [Table("Waiting", columns, [_lag_row(*each) for each in lag], empty="no tasks wait")]
    if found.commits is not None and found.commits.markers:
        blocks.append(
            Note(
                "warn",
                says(
                    f"{counted(found.commits.markers, 'commit')} not finished, the oldest began "
                    f"{found.commits.oldest:,.1f} s ago; workers finish them"
                ),
            )
        )
    rows = [[says(name), number(seconds)] for name, seconds in found.unswept.items()]
    if rows:
        blocks.append(Table("Expired and not swept", [Column("list"), Column("for, s", right=True)], rows))
    holders = [
        [
            says(each.holder or "every holder", "bad"),
            says(each.source),
            says(f"{each.error}: {each.message}"),
            number(each.tries),
            (instant(each.since),),
        ]
        for each in aside
    ]
    names = [Column("holder"), Column("of"), Column("why"), Column("tries", right=True), Column("since")]
    blocks.append(Table("Set aside", names, holders, empty="nothing is set aside"))
    if found.tasks:
        blocks.append(offer(ask, "run the tasks that wait", "drain", "oneread tasks --drain"))
    if holders:
        blocks.append(offer(ask, "once the cause is gone, try them again", "retry", "oneread tasks --retry"))
    if found.unswept:
        blocks.append(offer(ask, "delete what has expired", "sweep", "oneread sweep"))
    for kind in ("drain", "retry", "sweep"):
        job = ask.jobs.last(kind)
        if job is not None:
            blocks += job_blocks(ask, job)
    return ConsolePage("Tasks", blocks, about=(Text(behind_text(found.behind, are_all=found.are_all)),), live=2)


def behind_text(seconds: float, *, are_all: bool) -> str:
    """How far views, copies and totals are behind."""
    return f"{'' if are_all else 'at least '}{seconds:,.1f} s behind"


def _lag_row(name: str, what: str, lag: TaskLag) -> list[tuple[Text, ...]]:
    return [says(name), says(what), number(lag.waiting), number(lag.begun), number(lag.oldest)]
