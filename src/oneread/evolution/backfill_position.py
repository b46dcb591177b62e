"""How far the backfill of a store is, as its row of `system` says."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from oneread.errors import Corrupt
from oneread.plans.plan import Plan
from oneread.store.requests import Read
from oneread.store.rows import UNDECODABLE, VALUE, Row
from oneread.transactions.system_rows import BACKFILL_ROW

SHOWN_REFUSALS: Final = 20
"""Refusals stored with their reason; all are counted."""

Phase: TypeAlias = Literal["open", "closed", "ending"]
"""Older programs may write; they may not, since before this pass began; nothing is missing any more."""


class BackfillRefusal(msgspec.Struct, frozen=True):
    """An entity that cannot be in the views as they are declared."""

    entity: str
    reason: str


class BackfillPosition(msgspec.Struct, frozen=True):
    """How far the backfill to a `version` of the schema is.

    In pass number `passes`, from 1, `looked` root rows are done, the last at `place`; the pass before had `total`, and
    `refused` rows of this one could not be written. `recommitted` counts rows written by all passes. `old_place` and
    `old_version` are the row of this pass that older code committed last, and its version. In the phase "ending",
    `place` is the last group whose index rows were built, `membership` the last one of a feed whose entries were built,
    and `refused` counts groups. `shared` is that of the schema under which the passes began.
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
    membership: bytes = b""
    shared: int = 0

    def next_pass(self, phase: Phase) -> BackfillPosition:
        return BackfillPosition(
            self.version, phase, self.passes + 1, total=self.looked, recommitted=self.recommitted, shared=self.shared
        )

    def refusing(self, refusal: BackfillRefusal) -> BackfillPosition:
        kept = (*self.refusals, refusal)[:SHOWN_REFUSALS]
        return msgspec.structs.replace(self, refused=self.refused + 1, refusals=kept)


_decode = msgspec.msgpack.Decoder(BackfillPosition).decode
encode_position = msgspec.msgpack.Encoder().encode


def read_position(row: Row | None) -> tuple[bytes | None, BackfillPosition | None]:
    """The row's value and the position it encodes; None for an absent row."""
    if row is None:
        return None, None
    try:
        data = row[VALUE].value
        return data, _decode(data)
    except (KeyError, *UNDECODABLE) as error:
        raise Corrupt("the position of the backfill is unreadable; repair the store") from error


def position() -> Plan[BackfillPosition | None]:
    """The position of this store's backfill; None when none was begun. One request, one row."""
    (row,) = yield from Read("system", [BACKFILL_ROW])
    return read_position(row)[1]
