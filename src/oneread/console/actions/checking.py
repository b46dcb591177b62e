"""Verify, repair and backfill, as jobs."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from oneread.console.acting import ActionDone, ActionPage, wanted
from oneread.console.asking import PageRequest
from oneread.console.blocks import FormInput, NoteBlock, says
from oneread.console.jobs import ConsoleJob
from oneread.costs.bounds import counted
from oneread.errors import NotFound, UsageError
from oneread.verify.noted import note_verified

_PACE = "rows a second, at most; none: as fast as it goes"


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


def _classes(ask: PageRequest) -> list[type[Any]]:
    """The models and views that are asked for; all where none are."""
    known = ask.db.operations.schema.named()
    names = [each for each in ask.several("of") if each]
    unknown = [each for each in names if each not in known]
    if unknown:
        raise NotFound("the schema has no model or view of this name", name=unknown[0])
    return [known[each] for each in names]


def _of(ask: PageRequest) -> str:
    return ", ".join(each.__name__ for each in _classes(ask)) or "everything"


def _inputs(ask: PageRequest) -> Sequence[FormInput]:
    return (FormInput("pace", "pace", ask.one("pace"), _PACE),)


async def describe_verify(ask: PageRequest) -> ActionPage:
    """Verify reads every row once, and writes nothing."""
    said = f"compares {_of(ask)} with the entities: every row is read once, while the store is in use"
    return ActionPage("Verify", _of(ask), [NoteBlock("", says(said))], "Verify", inputs=_inputs(ask))


async def verify(ask: PageRequest) -> ActionDone:
    """Begins to verify; the result is kept in the store where the console may write."""
    pace, classes, db, by, notes = _pace(ask), _classes(ask), ask.db, ask.user, ask.may_write

    async def work(job: ConsoleJob) -> str:
        found = await db.verify(*classes, pace=pace, on_fault=job.note_fault, progress=job.report)
        if notes and not classes:
            await db.run(note_verified(found, by))
        skipped = f"; not compared: {', '.join(found.skipped)}" if found.skipped else ""
        faults = counted(found.total, "fault") if found.total else "no faults"
        return f"{faults} in {counted(found.rows, 'row')}{skipped}"

    ask.jobs.start("verify", by, work)
    return ActionDone(f"verifying {_of(ask)}", ask.link("/verify"))


async def describe_repair(ask: PageRequest) -> ActionPage:
    """Repair mends what verify finds."""
    said = f"verifies {_of(ask)}, and writes each row that is missing or wrong as its entity says; entities stay"
    return ActionPage("Repair", _of(ask), [NoteBlock("warn", says(said))], "Repair", inputs=_inputs(ask))


async def repair(ask: PageRequest) -> ActionDone:
    """Begins to repair."""
    pace, classes, db, by = _pace(ask), _classes(ask), ask.db, ask.user

    async def work(job: ConsoleJob) -> str:
        done = await db.repair(*classes, pace=pace, on_fault=job.note_fault, progress=job.report)
        if not classes:
            await db.run(note_verified(done.verification, by))
        left = f", {counted(len(done.left), 'fault')} left: {'; '.join(done.reasons)}" if done.left else ""
        return f"{counted(done.mended, 'fault')} mended{left}"

    ask.jobs.start("repair", by, work)
    return ActionDone(f"repairing {_of(ask)}", ask.link("/verify"))


async def describe_backfill(ask: PageRequest) -> ActionPage:
    """A backfill builds what was added or changed."""
    said = (
        "builds the views that were added or changed, and commits each entity that lacks them again. At its end "
        "programs with an older schema may not write any more."
    )
    return ActionPage("Backfill", "everything", [NoteBlock("warn", says(said))], "Backfill", inputs=_inputs(ask))


async def backfill(ask: PageRequest) -> ActionDone:
    """Begins a backfill."""
    pace, db = _pace(ask), ask.db

    async def work(job: ConsoleJob) -> str:
        built = await db.backfill(pace=pace, progress=job.report)
        return "all is built" if built.done else "it has not come to its end; its page says why"

    ask.jobs.start("backfill", ask.user, work)
    return ActionDone("building", ask.link("/schema"))


async def describe_stop(ask: PageRequest) -> ActionPage:
    """A job ends behind its current batch."""
    kind = wanted(ask, "kind")
    job = ask.jobs.last(kind)
    if job is None or job.state != "running":
        raise NotFound("no such job runs", job=kind)
    said = f"{kind} ends behind its current batch; what it has done stays. {job.by} began it."
    return ActionPage(f"Stop {kind}", kind, [NoteBlock("warn", says(said))], "Stop", seen=str(job.began))


async def stop_job(ask: PageRequest) -> ActionDone:
    """Stops a job."""
    kind = wanted(ask, "kind")
    job = ask.jobs.last(kind)
    assert job is not None, "described"
    job.stop()
    return ActionDone(f"{kind} stops", ask.link("/schema" if kind == "backfill" else "/verify"))
