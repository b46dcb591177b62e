"""What is still to be done: tasks by kind, feeds, commits that are not finished, and what was set aside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from oneread.console.acting import offer
from oneread.console.asking import PageRequest
from oneread.console.blocks import (
    ConsolePage,
    NoteBlock,
    PageBlock,
    ShownText,
    TableBlock,
    columns,
    instant,
    number,
    says,
)
from oneread.console.pages.verify import job_blocks
from oneread.costs.bounds import counted
from oneread.database.survey import Survey
from oneread.derivations.pending_tasks import SetAsideHolder, TaskLag, WaitingTask
from oneread.jobs.queue import JobCounts
from oneread.jobs.queued import QueuedJob, jobs_text
from oneread.transactions.chores import chore_leases
from oneread.transactions.leases import Lease

HOLDERS: Final = 50
TASKS: Final = 20
LEASES: Final = 20
JOBS: Final = 50
COUNTED: Final = 100
"""Tasks of each kind, and unfinished commits, that a page counts."""
_KINDS: Final = {
    "follow": "copies take their source's values",
    "feed": "entries of feeds follow what they show",
    "total": "entities and indexes show changed groups",
    "counter": "entities show counters",
}


async def show_tasks(ask: PageRequest) -> ConsolePage:
    """Tasks, what is behind, and the holders that could not follow."""
    found = await ask.db.survey(most=COUNTED)
    aside = await ask.db.set_aside(HOLDERS) if found.set_aside else []
    tasks = await ask.db.run(ask.db.operations.waiting(TASKS)) if found.tasks else []
    leases = await ask.db.run(chore_leases(LEASES))
    jobs = await ask.db.jobs(JOBS, set_aside=True) if found.jobs.set_aside else []
    blocks: list[PageBlock] = [
        *_waiting(found), *_tasks(ask, tasks), _set_aside(ask, aside), *_jobs(ask, found.jobs, jobs), *_leases(leases),
    ]  # fmt: skip
    if found.tasks:
        blocks.append(offer(ask, "run the tasks that wait", "drain", "oneread tasks --drain"))
    if aside:
        blocks.append(offer(ask, "once the cause is gone, try them again", "retry", "oneread tasks --retry"))
    if found.unswept:
        blocks.append(offer(ask, "delete what has expired", "sweep", "oneread sweep"))
    for kind in ("drain", "retry", "sweep"):
        job = ask.jobs.last(kind)
        if job is not None:
            blocks += job_blocks(ask, job)
    about = (ShownText(behind_text(found.behind, are_all=found.are_all)),)
    return ConsolePage("Tasks", blocks, about=about, live=2)


def _waiting(found: Survey) -> Iterator[PageBlock]:
    """Tasks by kind and feed, commits that are not finished, and what waits for a sweep."""
    lag = [(f"{kind} tasks", _KINDS.get(kind, ""), each) for kind, each in found.lag.items()]
    lag += [(name, "entries of a feed follow", each) for name, each in found.feeds.items()]
    amounts = ("waiting", "begun", "oldest, s")
    heads = columns("tasks", "for", *amounts, right=amounts)
    yield TableBlock("Waiting", heads, [_lag_row(*each) for each in lag], empty="no tasks wait")
    if found.commits is not None and found.commits.markers:
        many = f"{counted(found.commits.markers, 'commit')} not finished"
        said = f"{many}, the oldest began {found.commits.oldest:,.1f} s ago; workers finish them"
        yield NoteBlock("warn", says(said))
    if found.unswept:
        rows = [[says(name), number(seconds)] for name, seconds in found.unswept.items()]
        yield TableBlock("Expired and not swept", columns("list", "for, s", right=("for, s",)), rows)


def _tasks(ask: PageRequest, tasks: Sequence[WaitingTask]) -> Iterator[PageBlock]:
    """The first tasks, and which worker has begun them."""
    if tasks:
        rows = [
            [
                says(ask.masking.of_entity(each.source), "" if each.readable else "bad"),
                number(each.done),
                number(each.age),
                says(each.worker or "not begun", "" if each.worker else "dim"),
            ]
            for each in tasks
        ]
        heads = columns("of", "holders done", "age, s", "worker", right=("holders done", "age, s"))
        yield TableBlock(f"The first {len(rows)}", heads, rows)


def _leases(leases: Sequence[tuple[str, Lease]]) -> Iterator[PageBlock]:
    """What workers do again and again, and which of them has it."""
    if leases:
        rows = [
            [
                says(name),
                says(lease.owner or "free", "" if lease.owner else "dim"),
                (instant(datetime.fromtimestamp(lease.until / 1000, UTC)),),
            ]
            for name, lease in leases
        ]
        yield TableBlock("Chores of workers", columns("chore", "worker", "until"), rows)


def _set_aside(ask: PageRequest, aside: Sequence[SetAsideHolder]) -> TableBlock:
    """Holders whose copies could not follow, each with its error."""
    rows = [
        [
            says(ask.masking.of_entity(each.holder) if each.holder else "every holder", "bad"),
            says(ask.masking.of_entity(each.source)),
            says(f"{each.error}: {ask.masking.text_of('', each.message)}"),
            number(each.tries),
            (instant(each.since),),
        ]
        for each in aside
    ]
    heads = columns("holder", "of", "why", "tries", "since", right=("tries",))
    return TableBlock("Set aside", heads, rows, empty="nothing is set aside")


def _jobs(ask: PageRequest, counts: JobCounts, aside: Sequence[QueuedJob]) -> Iterator[PageBlock]:
    """How many jobs there are, and those that are set aside."""
    if said := jobs_text(counts):
        yield NoteBlock("warn" if counts.set_aside else "", says(said))
    if aside:
        rows = [
            [
                says(each.token),
                says(each.kind, "" if each.known else "dim"),
                says(f"{each.error}: {ask.masking.text_of('', each.message)}"),
                number(each.tries),
                (instant(each.enqueued),),
            ]
            for each in aside
        ]
        heads = columns("token", "job", "why", "tries", "enqueued", right=("tries",))
        yield TableBlock("Jobs set aside", heads, rows)


def behind_text(seconds: float, *, are_all: bool) -> str:
    """How far views, copies and totals are behind."""
    return f"{'' if are_all else 'at least '}{seconds:,.1f} s behind"


def _lag_row(name: str, what: str, lag: TaskLag) -> list[tuple[ShownText, ...]]:
    return [says(name), says(what), number(lag.waiting), number(lag.begun), number(lag.oldest)]
