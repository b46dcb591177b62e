"""What the last verification of a store found, kept in the store: one row, which every program can read.

See "Reports" of docs/formats/rows.md.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from oneread.errors import Corrupt
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.store.requests import Mutate, Read
from oneread.store.rows import UNDECODABLE, VALUE, Cell, RowMutation
from oneread.transactions.system_rows import REPORTS
from oneread.verify.verify import Verification

_KEY: Final = REPORTS.start + b"verify"
_KEPT: Final = 20
"""Faults that are kept as text."""


class NotedVerification(msgspec.Struct, frozen=True):
    """What a verification found: when it ended, and `by` whom it was run; the first faults as texts."""

    at: datetime
    by: str
    entities: int
    rows: int
    faults: int
    texts: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether all was compared and nothing was wrong."""
        return not self.faults and not self.skipped


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(NotedVerification).decode


def note_verified(found: Verification, by: str) -> Plan[None]:
    """Stores what a verification found. Costs a put."""
    now = yield from Now()
    at = datetime.fromtimestamp(now / 1000, UTC)
    texts = tuple(each.text for each in found.faults[:_KEPT])
    noted = NotedVerification(at, by, found.entities, found.rows, found.total, texts, found.skipped)
    yield from Mutate("system", [RowMutation(_KEY, {VALUE: Cell(_encode(noted), now)})])


def last_verified() -> Plan[NotedVerification | None]:
    """What was stored last; None for nothing. One request, one row. Raises Corrupt."""
    (row,) = yield from Read("system", [_KEY])
    if row is None:
        return None
    try:
        return _decode(row[VALUE].value)
    except (*UNDECODABLE, KeyError) as error:
        raise Corrupt("the report of the last verification cannot be read; verify again", key=_KEY) from error
