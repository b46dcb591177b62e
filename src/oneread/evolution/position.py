"""How far a backfill is: one row of the `system` table, moved in the same transaction as the work.

See docs/decisions/0017-how-a-backfill-ends.md.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from oneread.errors import Corrupt
from oneread.plans.plan import Plan
from oneread.store.requests import Read
from oneread.store.rows import Row
from oneread.transactions.system_rows import BACKFILL_ROW
from oneread.transactions.unit_of_work import VALUE

SHOWN_REFUSALS: Final = 20
"""Refusals that are kept with their reason; all are counted."""

Phase: TypeAlias = Literal["open", "closed", "ending"]
"""Older programs may write; they may not, since before this pass began; nothing is lacking any more."""


class BackfillRefusal(msgspec.Struct, frozen=True):
    """An entity that cannot be told its views as declared."""

    entity: str
    reason: str


class BackfillPosition(msgspec.Struct, frozen=True):
    """How far a backfill is.

    Arguments:
        version: of the schema it is for.
        phase: of the work.
        passes: the pass over all commit rows that is under way, counted from 1.
        place: key of the last commit row that is done in it; empty at its beginning.
        looked: commit rows looked at in it.
        total: those of the pass before; 0 in the first.
        recommitted: commit rows written by all passes together.
        refused: rows of this pass that could not be written.
        refusals: the first of them.
        old_place, old_version: the row of this pass that older code committed last, and when.
    """

    version: int
    phase: Phase = "open"
    passes: int = 1
    place: bytes = b""
    looked: int = 0
    total: int = 0
    recommitted: int = 0
    refused: int = 0
    refusals: tuple[BackfillRefusal, ...] = ()
    old_place: bytes = b""
    old_version: int = 0

    def next_pass(self, phase: Phase) -> BackfillPosition:
        """The beginning of one more pass."""
        return BackfillPosition(self.version, phase, self.passes + 1, total=self.looked, recommitted=self.recommitted)

    def refusing(self, place: bytes, refusal: BackfillRefusal) -> BackfillPosition:
        """Behind a row that was refused."""
        kept = (*self.refusals, refusal)[:SHOWN_REFUSALS]
        return msgspec.structs.replace(self, place=place, refused=self.refused + 1, refusals=kept)


_decode = msgspec.msgpack.Decoder(BackfillPosition).decode
encode = msgspec.msgpack.Encoder().encode


def read(row: Row | None) -> tuple[bytes | None, BackfillPosition | None]:
    """The row's bytes and what they say; None where no backfill is under way."""
    if row is None:
        return None, None
    try:
        data = row[VALUE].value
        return data, _decode(data)
    except (KeyError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt("the row that says how far a backfill is cannot be read") from error


def position() -> Plan[BackfillPosition | None]:
    """How far the backfill of this store is; None when none was begun. One request, one row."""
    (row,) = yield from Read("system", [BACKFILL_ROW])
    return read(row)[1]
