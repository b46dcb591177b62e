"""The schema of the store: its version, its views, and how far a backfill is."""

from __future__ import annotations

from oneread.console.acting import offer
from oneread.console.asking import PageRequest
from oneread.console.blocks import ConsolePage, FactsBlock, PageBlock, TableBlock, Tone, columns, number, says
from oneread.console.pages.verify import job_blocks
from oneread.derivations.schema_rows import stored_schema
from oneread.evolution.backfill_position import BackfillPosition, position
from oneread.models.versions import StoredSchema

_TONES: dict[str, Tone] = {"readable": "ok", "building": "warn", "retired": "dim"}


async def show_schema(ask: PageRequest) -> ConsolePage:
    """What the store knows of its schema."""
    stored = await ask.db.run(stored_schema())
    reached = await ask.db.run(position())
    blocks: list[PageBlock] = []
    if stored.unfinished:
        blocks.append(offer(ask, "a backfill has work to do: run it", "backfill", "oneread backfill"))
    job = ask.jobs.last("backfill")
    if job is not None:
        blocks += job_blocks(ask, job)
    if reached is not None:
        blocks.append(_backfill(reached))
    rows = [
        [says(name), says(view.state, _TONES.get(view.state, "")), number(view.generation)]
        for name, view in sorted(stored.views.items())
    ]
    rows += [[says(view.name), says("retired", "dim"), number(view.generation)] for view in stored.retired]
    heads = columns("view", "state", "generation", right=("generation",))
    blocks.append(TableBlock("Views", heads, rows, empty="the store has no views"))
    kinds = [[says(name), number(each)] for name, each in sorted(stored.kinds.items())]
    blocks.append(TableBlock("Models", columns("model", "number", right=("number",)), kinds))
    return ConsolePage("Schema", blocks, about=says(_about(ask, stored)), live=2)


def _about(ask: PageRequest, stored: StoredSchema) -> str:
    spans = "spans rows" if ask.db.operations.spans_rows else "changes one row at a time"
    return f"version {stored.version}, of a store that {spans}"


def _backfill(reached: BackfillPosition) -> FactsBlock:
    of = f" of about {reached.total:,}" if reached.total else ""
    facts = [
        ("phase", says(reached.phase)),
        ("pass", number(reached.passes)),
        ("looked at", says(f"{reached.looked:,}{of} entities in this pass")),
        ("written again", number(reached.recommitted)),
        ("refused", says(f"{reached.refused:,}", "bad" if reached.refused else "")),
    ]
    facts += [(each.entity, says(each.reason, "bad")) for each in reached.refusals]
    return FactsBlock("Backfill", facts)
