"""Tasks that are run now, holders that are tried again, and what has expired."""

from __future__ import annotations

from oneread.console.acting import ActedOn, ActionDone, ActionPage
from oneread.console.asking import PageRequest
from oneread.console.blocks import NoteBlock, says
from oneread.console.jobs import ConsoleJob


async def describe_drain(_ask: PageRequest, _on: ActedOn[None]) -> ActionPage:
    """Tasks that wait are done now."""
    said = "runs the tasks that wait, 200 holders a batch, until none is left; workers of programs do the same"
    return ActionPage("Run the tasks", [NoteBlock("", says(said))], "Run")


async def drain(ask: PageRequest, _on: ActedOn[None]) -> ActionDone:
    """Begins to run them."""
    return _begin(ask, "drain", retries=False)


async def describe_retry(_ask: PageRequest, _on: ActedOn[None]) -> ActionPage:
    """Holders that were set aside are tried again."""
    said = "tries the holders that are set aside again, and runs the tasks that follow"
    return ActionPage("Try again", [NoteBlock("", says(said))], "Try again")


async def retry(ask: PageRequest, _on: ActedOn[None]) -> ActionDone:
    """Begins to try them."""
    return _begin(ask, "retry", retries=True)


def _begin(ask: PageRequest, kind: str, *, retries: bool) -> ActionDone:
    db = ask.db

    async def work(_job: ConsoleJob) -> str:
        return f"{await db.drain(retry=retries):,} batches done"

    ask.jobs.start(kind, ask.user, work)
    return ActionDone("the tasks are run", ask.link("/tasks"))


async def describe_sweep(ask: PageRequest, _on: ActedOn[None]) -> ActionPage:
    """What has expired is deleted."""
    found = await ask.db.survey(most=1)
    late = (
        ", ".join(f"{name} for {seconds:,.0f} s" for name, seconds in found.unswept.items()) or "nothing waits for it"
    )
    said = f"deletes what has expired and is not deleted yet ({late}); it is not readable any more"
    return ActionPage("Sweep", [NoteBlock("warn", says(said))], "Sweep")


async def sweep(ask: PageRequest, _on: ActedOn[None]) -> ActionDone:
    """Begins to sweep."""
    db = ask.db

    def several(number: int) -> str:
        return f"{number:,} {'entity' if number == 1 else 'entities'}"

    async def work(job: ConsoleJob) -> str:
        swept = await db.sweep(progress=job.report)
        held = f"; {several(swept.held)} held by what refers to them" if swept.held else ""
        return f"{several(swept.deleted)} deleted{held}"

    ask.jobs.start("sweep", ask.user, work)
    return ActionDone("sweeping", ask.link("/tasks"))
