"""Verify, repair and backfill, as jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneread.console.acting import Described, Done, wanted
from oneread.console.asking import Ask
from oneread.console.blocks import Input, Note, says
from oneread.console.jobs import Job
from oneread.costs.bounds import counted
from oneread.errors import NotFound, UsageError
from oneread.verify.noted import note_verified

_PACE = "rows a second, at most; none: as fast as it goes"


def _pace(ask: Ask) -> float | None:
    text = ask.one("pace").strip()
    if not text:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise UsageError("the pace is a number of rows a second", given=text) from error


def _classes(ask: Ask) -> list[type[Any]]:
    """The models and views that are asked for; all where none are."""
    known = ask.db.operations.schema.named()
    names = [each for each in ask.several("of") if each]
    unknown = [each for each in names if each not in known]
    if unknown:
        raise NotFound("the schema has no model or view of this name", name=unknown[0])
    return [known[each] for each in names]


def _of(ask: Ask) -> str:
    return ", ".join(each.__name__ for each in _classes(ask)) or "everything"


def _inputs(ask: Ask) -> Sequence[Input]:
    return (Input("pace", "pace", ask.one("pace"), _PACE),)


async def describe_verify(ask: Ask) -> Described:
    """Verify reads every row once, and writes nothing."""
    said = f"compares {_of(ask)} with the entities: every row is read once, while the store is in use"
    return Described("Verify", _of(ask), [Note("", says(said))], "Verify", inputs=_inputs(ask))


async def verify(ask: Ask) -> Done:
    """Begins to verify; the result is kept in the store where the console may write."""
    pace, classes, db, by, notes = _pace(ask), _classes(ask), ask.db, ask.user, ask.may_write

    async def work(job: Job) -> str:
        found = await db.verify(*classes, pace=pace, on_fault=job.note_fault, progress=job.report)
        if notes and not classes:
            await db.run(note_verified(found, by))
        skipped = f"; not compared: {', '.join(found.skipped)}" if found.skipped else ""
        faults = counted(found.total, "fault") if found.total else "no faults"
        return f"{faults} in {counted(found.rows, 'row')}{skipped}"

    ask.jobs.start("verify", by, work)
    return Done(f"verifying {_of(ask)}", "/verify")


async def describe_repair(ask: Ask) -> Described:
    """Repair mends what verify finds."""
    said = f"verifies {_of(ask)}, and writes each row that is missing or wrong as its entity says; entities stay"
    return Described("Repair", _of(ask), [Note("warn", says(said))], "Repair", inputs=_inputs(ask))


async def repair(ask: Ask) -> Done:
    """Begins to repair."""
    pace, classes, db, by = _pace(ask), _classes(ask), ask.db, ask.user

    async def work(job: Job) -> str:
        done = await db.repair(*classes, pace=pace, on_fault=job.note_fault, progress=job.report)
        if not classes:
            await db.run(note_verified(done.verification, by))
        left = f", {counted(len(done.left), 'fault')} left: {'; '.join(done.reasons)}" if done.left else ""
        return f"{counted(done.mended, 'fault')} mended{left}"

    ask.jobs.start("repair", by, work)
    return Done(f"repairing {_of(ask)}", "/verify")


async def describe_backfill(ask: Ask) -> Described:
    """A backfill builds what was added or changed."""
    said = (
        "builds the views that were added or changed, and commits each entity that lacks them again. At its end "
        "programs with an older schema may not write any more."
    )
    return Described("Backfill", "everything", [Note("warn", says(said))], "Backfill", inputs=_inputs(ask))


async def backfill(ask: Ask) -> Done:
    """Begins a backfill."""
    pace, db = _pace(ask), ask.db

    async def work(job: Job) -> str:
        built = await db.backfill(pace=pace, progress=job.report)
        return "all is built" if built.done else "it has not come to its end; its page says why"

    ask.jobs.start("backfill", ask.user, work)
    return Done("building", "/schema")


async def describe_stop(ask: Ask) -> Described:
    """A job ends behind its current batch."""
    kind = wanted(ask, "kind")
    job = ask.jobs.last(kind)
    if job is None or job.state != "running":
        raise NotFound("no such job runs", job=kind)
    said = f"{kind} ends behind its current batch; what it has done stays. {job.by} began it."
    return Described(f"Stop {kind}", kind, [Note("warn", says(said))], "Stop", seen=str(job.began))


async def stop_job(ask: Ask) -> Done:
    """Stops a job."""
    kind = wanted(ask, "kind")
    job = ask.jobs.last(kind)
    assert job is not None, "described"
    job.stop()
    return Done(f"{kind} stops", "/schema" if kind == "backfill" else "/verify")
