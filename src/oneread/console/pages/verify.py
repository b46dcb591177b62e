"""Verify and repair: how far they are, and what they found."""

from __future__ import annotations

from typing import Final

from oneread.console.acting import offer
from oneread.console.asking import PageRequest, text_cell
from oneread.console.blocks import (
    CellTexts,
    ConsolePage,
    FactsBlock,
    NoteBlock,
    PageBlock,
    TableBlock,
    Tone,
    columns,
    instant,
    says,
)
from oneread.console.jobs import ConsoleJob
from oneread.console.masking import MASK
from oneread.costs.bounds import counted
from oneread.plans.progress import Fault
from oneread.verify.noted import NotedVerification, last_verified

_TONES: Final[dict[str, Tone]] = {"running": "", "ended": "ok", "stopped": "warn", "failed": "bad"}
SHOWN: Final = 100
_BY_HAND: Final = {True: "drop", False: "look at it"}


async def show_verify(ask: PageRequest) -> ConsolePage:
    """The jobs, the faults as they are found, and what was found last."""
    noted = await ask.db.run(last_verified())
    blocks: list[PageBlock] = [NoteBlock("", says("verify everything", link=ask.link("/do/verify")))]
    blocks.append(offer(ask, "repair what verify finds", "repair", "oneread repair"))
    for kind in ("verify", "repair"):
        job = ask.jobs.last(kind)
        if job is not None:
            blocks += job_blocks(ask, job)
    if noted is not None:
        blocks.append(_noted(ask, noted))
    elif ask.jobs.last("verify") is None:
        blocks.append(NoteBlock("", says("no verification is noted: verify here, or run oneread verify --note")))
    return ConsolePage("Verify", blocks, live=1)


def job_blocks(ask: PageRequest, job: ConsoleJob) -> list[PageBlock]:
    """How far a job is, and its faults."""
    facts = [("state", says(job.state, _TONES[job.state])), ("by", says(job.by)), ("since", (instant(job.began),))]
    progress = job.progress
    if progress is not None:
        of = f" of {progress.total:,}" if progress.total is not None else ""
        facts.append(("at", says(f"{progress.phase}: {progress.done:,}{of}")))
    facts.append(("for", says(f"{job.seconds:,.1f} s")))
    if job.said:
        facts.append(("said", says(_said(ask, job), "" if job.state == "ended" else _TONES[job.state])))
    if job.state == "running" and job.stops:
        facts.append(("", says("stops after its current batch", "warn")))
    elif job.state == "running":
        facts.append(("", says("stop", link=ask.link("/do/stop", kind=job.kind))))
    blocks: list[PageBlock] = [FactsBlock(job.kind.capitalize(), facts)]
    if job.found:
        classes, text_of = ask.db.operations.schema.named(), ask.masking.text_of
        rows = [
            [
                says(each.kind, "bad"),
                says(each.view, link=ask.link_of(classes[each.view]) if each.view in classes else ""),
                (text_cell(_row_of(ask, each)),),
                *((text_cell(text_of(each.view, text) or "nothing"),) for text in (each.found, each.expected)),
                _then(ask, job, each),
            ]
            for each in job.faults[:SHOWN]
        ]
        heads = columns("fault", "in", "row", "found", "expected", "then")
        first = f", the first {len(rows):,}" if len(rows) < job.found else ""
        blocks.append(TableBlock(f"{counted(job.found, 'fault')}{first}", heads, rows))
    return blocks


def _said(ask: PageRequest, job: ConsoleJob) -> str:
    """What a job said at its end; an error without values that may be personal."""
    return job.said if job.error is None else ask.error_text(job.error)


def _row_of(ask: PageRequest, fault: Fault) -> str:
    """The row of a fault; where its key is masked, the entity that it is of."""
    row = ask.masking.text_of(fault.view, fault.row)
    return ask.masking.of_entity(fault.entity) if row == MASK and fault.entity else row


def _then(ask: PageRequest, job: ConsoleJob, fault: Fault) -> CellTexts:
    """What becomes of a fault, or has become of it."""
    if not fault.mendable:
        return says(_BY_HAND[fault.droppable])
    if job.kind == "repair" and job.state == "ended":
        return says("left", "bad") if fault.text in job.left else says("mended", "ok")
    classes = [fault.view] if fault.view in ask.db.operations.schema.named() else []
    return says("repair mends it", link=ask.link("/do/repair", of=classes) if ask.may_write else "")


def _noted(ask: PageRequest, noted: NotedVerification) -> FactsBlock:
    """What was noted last."""
    said = "clean" if noted.clean else counted(noted.faults, "fault") if noted.faults else "not all was compared"
    facts = [
        ("found", says(said, "ok" if noted.clean else "bad")),
        ("at", (instant(noted.at),)),
        ("by", says(noted.by)),
        ("compared", says(f"{noted.entities:,} entities, {noted.rows:,} rows")),
    ]
    if noted.skipped:
        facts.append(("not compared", says(", ".join(noted.skipped), "warn")))
    facts += [("", (text_cell(ask.masking.text_of("", each)),)) for each in noted.texts]
    return FactsBlock("Last verification", facts)
