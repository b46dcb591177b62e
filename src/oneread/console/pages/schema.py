"""The schema of the store: its versions, its views, how far a backfill is, and what the console's own would change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oneread.console.acting import offer
from oneread.console.asking import PageRequest
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
    number,
    says,
)
from oneread.console.pages.verify import job_blocks
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import OnereadError
from oneread.evolution.backfill_position import BackfillPosition, position
from oneread.evolution.declare import DeclaredSchema
from oneread.evolution.migrate import Planned, Status, plan_migration, status
from oneread.evolution.plan_words import DIFFERENCE_COLUMNS, difference_rows, planned_lines
from oneread.models.versions import StoredSchema

_TONES: Final[dict[str, Tone]] = {"readable": "ok", "building": "warn", "retired": "dim"}
_KEPT_SECONDS: Final = 30.0
"""For how long a plan, which asks a request for each model, is not made again."""
_VERSIONS: Final = 20
"""The newest of those that are listed."""


async def show_schema(ask: PageRequest) -> ConsolePage:
    """What the store knows of its schema, and what the console's own would change in it."""
    declared = ask.db.operations.schema.declared()
    try:
        stored = await ask.db.run(stored_schema())
        state = await ask.db.run(status(declared))
        reached = await ask.db.run(position())
    except OnereadError as error:  # a row is damaged, or of a later release
        said = (*says("what the store says of its schema cannot be read:", "bad"), *says(ask.error_text(error)))
        return ConsolePage("Schema", [NoteBlock("bad", said)], live=2)
    blocks: list[PageBlock] = []
    if stored.unfinished:
        blocks.append(offer(ask, "a backfill has work to do: run it", "backfill", "oneread backfill"))
    job = ask.jobs.last("backfill")
    if job is not None:
        blocks += job_blocks(ask, job)
    if reached is not None:
        blocks.append(_backfill(ask, reached))
    blocks += [*(await _own(ask, stored, declared)), *_versions(state), *_views(stored)]
    return ConsolePage("Schema", blocks, about=says(_about(ask, stored)), live=2)


def unopened_page(found: Planned, state: Status, why: str) -> ConsolePage:
    """The page of a store that cannot be opened under the console's schema: what that would change in it."""
    blocks = [NoteBlock("warn", says(f"the store was not opened: {why}")), *_planned(found), *_versions(state)]
    return ConsolePage("Schema", blocks, about=says(f"version {state.version} in the store"))


async def _own(ask: PageRequest, stored: StoredSchema, declared: DeclaredSchema) -> list[PageBlock]:
    """The console's own schema beside the store's."""
    if stored.history and stored.history[-1].declared == declared.digest:
        said = f"this console has the newest schema of the store, version {stored.version}"
        return [NoteBlock("ok", says(said))]
    try:
        found = await ask.remembered(
            f"plan {stored.changes}", _KEPT_SECONDS, lambda: ask.db.run(plan_migration(declared, count=False))
        )
    except OnereadError as error:
        return [
            NoteBlock("bad", says(f"what this console's schema would change is not known: {ask.error_text(error)}"))
        ]
    return list(_planned(found))


def _planned(found: Planned) -> Iterator[PageBlock]:
    """What `oneread migrate plan` prints, without the entities that a backfill would rewrite, which it counts."""
    lines = list(planned_lines(found))
    tone: Tone = "bad" if found.refused else "" if found.nothing else "warn"
    yield NoteBlock(tone, says("this schema beside the one of the store:"), "\n".join(lines))
    if found.differences:
        rows = [
            [says(each, "bad" if place == 0 else "") if each else () for place, each in enumerate(row)]
            for row in difference_rows(found)
        ]
        yield TableBlock("What differs", columns(*DIFFERENCE_COLUMNS), rows)
    yield NoteBlock("", says("with the number of entities that a backfill rewrites:", "dim"), "oneread migrate plan")


def _versions(state: Status) -> Iterator[PageBlock]:
    """The versions of the schema, newest first: whose programs may write."""
    shown = list(reversed(state.versions))[:_VERSIONS]
    rows: list[list[CellTexts]] = [
        [
            number(each.version),
            (instant(each.at),),
            says("may write") if each.may_write else says("cut off", "warn"),
            says("this schema", "ok") if each.declared else (),
        ]
        for each in shown
    ]
    yield TableBlock("Versions", columns("version", "since", "its programs", "", right=("version",)), rows)
    if state.older:
        older = [[says(each.model), number(each.layout), says(", ".join(each.needs) or "-")] for each in state.older]
        yield TableBlock("Older rows that may exist", columns("model", "layout", "keep retyped(...) of"), older)


def _views(stored: StoredSchema) -> Iterator[PageBlock]:
    rows = [
        [says(name), says(view.state, _TONES.get(view.state, "")), number(view.generation)]
        for name, view in sorted(stored.views.items())
    ]
    rows += [[says(view.name), says("retired", "dim"), number(view.generation)] for view in stored.retired]
    heads = columns("view", "state", "generation", right=("generation",))
    yield TableBlock("Views", heads, rows, empty="the store has no views")
    kinds = [[says(name), number(each)] for name, each in sorted(stored.kinds.items())]
    yield TableBlock("Models", columns("model", "number", right=("number",)), kinds)


def _about(ask: PageRequest, stored: StoredSchema) -> str:
    spans = "spans rows" if ask.db.operations.spans_rows else "changes one row at a time"
    return f"version {stored.version}, of a store that {spans}"


def _backfill(ask: PageRequest, reached: BackfillPosition) -> FactsBlock:
    of = f" of about {reached.total:,}" if reached.total else ""
    facts = [
        ("phase", says(reached.phase)),
        ("pass", number(reached.passes)),
        ("looked at", says(f"{reached.looked:,}{of} entities in this pass")),
        ("written again", number(reached.recommitted)),
        ("refused", says(f"{reached.refused:,}", "bad" if reached.refused else "")),
    ]
    facts += [
        (ask.masking.of_entity(each.entity), says(ask.masking.text_of("", each.reason), "bad"))
        for each in reached.refusals
    ]
    return FactsBlock("Backfill", facts)
