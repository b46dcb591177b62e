"""Verify, repair and backfill, as jobs."""

from __future__ import annotations

from math import inf
from typing import Any, Final

from oneread.console.acting import ActedOn, ActionDone, ActionPage, wanted
from oneread.console.asking import PageRequest
from oneread.console.blocks import FormInput, NoteBlock, says
from oneread.console.jobs import ConsoleJob
from oneread.console.log import log_action
from oneread.costs.bounds import counted
from oneread.errors import NotFound, UsageError
from oneread.verify.noted import note_verified

_LOGGED: Final = 5
"""Faults that the log names."""


def _pace(ask: PageRequest) -> float | None:
    text = ask.one("pace").strip()
    if not text:
        return None
    try:
        pace = float(text)
    except ValueError as error:
        raise UsageError("the pace is a number of rows a second", given=text) from error
    if not 0 < pace < inf:
        raise UsageError("the pace is a number of rows a second, above 0; none: as fast as it goes", given=text)
    return pace


async def classes_to_check(ask: PageRequest) -> ActedOn[list[type[Any]]]:
    """The models and views that are asked for; none for all."""
    known = ask.db.operations.schema.named()
    names = [each for each in ask.several("of") if each]
    unknown = [each for each in names if each not in known]
    if unknown:
        raise NotFound("the schema has no model or view of this name", name=unknown[0])
    return ActedOn(", ".join(names) or "everything", [known[each] for each in names])


_INPUTS = (FormInput("pace", "pace", hint="rows a second, at most; none: as fast as it goes"),)


async def describe_verify(_ask: PageRequest, on: ActedOn[list[type[Any]]]) -> ActionPage:
    """Verify reads every row once, and writes nothing."""
    said = f"compares {on.of} with the entities: every row is read once, while the store is in use"
    return ActionPage("Verify", [NoteBlock("", says(said))], "Verify", _INPUTS)


async def verify(ask: PageRequest, on: ActedOn[list[type[Any]]]) -> ActionDone:
    """Begins to verify; the result is kept in the store where the console may write."""
    pace, db, by, notes = _pace(ask), ask.db, ask.user, ask.may_write

    async def work(job: ConsoleJob) -> str:
        found = await db.verify(*on.found, pace=pace, on_fault=job.note_fault, progress=job.report)
        if notes and not on.found:
            await db.run(note_verified(found, by))
        skipped = f"; not compared: {', '.join(found.skipped)}" if found.skipped else ""
        faults = counted(found.total, "fault") if found.total else "no faults"
        return f"{faults} in {counted(found.rows, 'row')}{skipped}"

    ask.jobs.start("verify", by, work)
    return ActionDone(f"the verification of {on.of} was begun", ask.link("/verify"))


async def describe_repair(_ask: PageRequest, on: ActedOn[list[type[Any]]]) -> ActionPage:
    """Repair mends what verify finds."""
    said = f"verifies {on.of}, and writes each row that is missing or wrong as its entity says; entities stay"
    return ActionPage("Repair", [NoteBlock("warn", says(said))], "Repair", _INPUTS)


async def repair(ask: PageRequest, on: ActedOn[list[type[Any]]]) -> ActionDone:
    """Begins to repair."""
    pace, db, by, masking = _pace(ask), ask.db, ask.user, ask.masking

    async def work(job: ConsoleJob) -> str:
        done = await db.repair(*on.found, pace=pace, on_fault=job.note_fault, progress=job.report)
        if not on.found:
            await db.run(note_verified(done.verification, by))
        job.left = frozenset(each.text for each in done.left)
        left = f", {counted(len(done.left), 'fault')} left: {'; '.join(done.reasons)}" if done.left else ""
        said = f"{counted(done.mended, 'fault')} mended{left}"
        texts = "; ".join(masking.text_of(each.view, each.text) for each in job.faults[:_LOGGED])
        await db.run(
            log_action(db.operations.committer, by, ("repair", on.of), f"{said}: {texts}" if texts else said, "")
        )
        return said

    ask.jobs.start("repair", by, work)
    return ActionDone(f"the repair of {on.of} was begun", ask.link("/verify"))


async def describe_backfill(_ask: PageRequest, _on: ActedOn[None]) -> ActionPage:
    """A backfill builds what was added or changed."""
    said = (
        "builds the views that were added or changed, and commits each entity that lacks them again. At its end "
        "programs with an older schema may not write any more."
    )
    return ActionPage("Backfill", [NoteBlock("warn", says(said))], "Backfill", _INPUTS)


async def backfill(ask: PageRequest, _on: ActedOn[None]) -> ActionDone:
    """Begins a backfill."""
    pace, db = _pace(ask), ask.db

    async def work(job: ConsoleJob) -> str:
        built = await db.backfill(pace=pace, progress=job.report)
        return "all is built" if built.done else "it has not come to its end; its page says why"

    ask.jobs.start("backfill", ask.user, work)
    return ActionDone("building", ask.link("/schema"))


async def running_job(ask: PageRequest) -> ActedOn[ConsoleJob]:
    """The job that is to be stopped."""
    kind = wanted(ask, "kind")
    job = ask.jobs.last(kind)
    if job is None or job.state != "running":
        raise NotFound("no such job runs", job=kind)
    return ActedOn(kind, job, str(job.began))


async def describe_stop(_ask: PageRequest, on: ActedOn[ConsoleJob]) -> ActionPage:
    """A job ends after its current batch."""
    said = f"{on.of} ends after its current batch; what it has done stays. {on.found.by} began it."
    return ActionPage(f"Stop {on.of}", [NoteBlock("warn", says(said))], "Stop")


async def stop_job(ask: PageRequest, on: ActedOn[ConsoleJob]) -> ActionDone:
    """Stops a job."""
    on.found.stop()
    return ActionDone(f"{on.of} stops", ask.link("/schema" if on.of == "backfill" else "/verify"))
