"""Whether the store is being moved, and how far that is."""

from __future__ import annotations

from datetime import UTC, datetime

from oneread.console.asking import PageRequest
from oneread.console.blocks import ConsolePage, FactsBlock, NoteBlock, PageBlock, TableBlock, columns, instant, says
from oneread.transactions.moves import read_move

_SAID = {
    "planned": "the move is being begun",
    "copying": "entities are copied",
    "following": "the target follows what is written here",
    "closing": "the store is being switched: writers wait",
    "switched": "the other store takes the writes; this one follows it",
    "finished": "the move has ended",
    "cancelled": "the move was given up",
}


async def show_moves(ask: PageRequest) -> ConsolePage:
    """The row of the move, as both stores have it."""
    move, _stored = await ask.db.run(read_move())
    if move is None:
        return ConsolePage("Moves", [NoteBlock("", says("this store is not being moved"))], most="1 request, 1 row")
    facts = [
        ("state", says(f"{move.state}: {_SAID.get(move.state, '')}")),
        ("this store is", says(f"the {move.role}")),
        ("other store", says(move.other)),
        ("epoch", says(str(move.epoch))),
        ("since", (instant(_date(move.at)),)),
    ]
    earlier = [[says(state), (instant(_date(at)),)] for at, state in reversed(move.history)]
    command = "oneread move status --watch --db ... --to ..."
    blocks: list[PageBlock] = [
        FactsBlock("", facts), TableBlock("Before", columns("state", "since"), earlier),
        NoteBlock("", says("both stores are asked by"), command),
    ]  # fmt: skip
    return ConsolePage("Moves", blocks, live=2)


def _date(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
