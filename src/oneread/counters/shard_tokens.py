"""Tokens that are kept on a store that changes one row at a time: cells of the rows that counted them.

See "Rows of stores that change one row at a time" of docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from oneread.counters.kept_tokens import TakeTokens
from oneread.counters.rows import SETTINGS, SHARDS, shard_key, text_of
from oneread.counters.settings import SettingsRow, read_settings_row
from oneread.counters.shard_counters import change_settings, read_rows, try_swap
from oneread.counters.shard_rows import TOKEN, ShardChange, read_shard_row, slot_row
from oneread.errors import Conflict
from oneread.plans.effects import Now, Random, Sleep
from oneread.plans.plan import Plan
from oneread.plans.retry import ATTEMPTS, backoff
from oneread.plans.scans import scan_all
from oneread.store.keys import VIEW_BYTES
from oneread.store.requests import Found, Read
from oneread.store.rows import RowRange
from oneread.transactions.move_gate import NO_GATE, MoveGate

BATCH: Final = 64
"""Shards of one request: each has all its tokens."""


class ShardTokens:
    """`KeptTokens` of such stores."""

    def __init__(self, gate: MoveGate = NO_GATE) -> None:
        self._gate = gate

    def read(self, take: TakeTokens) -> Plan[None]:
        """A scan of all shards, and a request for each counter with tokens."""
        tokens: dict[bytes, set[bytes]] = {}

        def take_rows(rows: list[Found]) -> Plan[None]:
            for key, row in rows:
                name = key[VIEW_BYTES:-1]
                if tokens and name not in tokens:
                    yield from _give(tokens, take)
                found = read_shard_row(key, row).tokens
                if found:
                    tokens.setdefault(name, set()).update(each.removeprefix(TOKEN) for each in found)

        yield from scan_all("counts", RowRange.under(SHARDS), take_rows, BATCH)
        yield from _give(tokens, take)

    def keep(self, name: bytes, tokens: Sequence[bytes], seconds: float) -> Plan[None]:
        """A request or two for the settings, and as many for each row that tokens belong to."""
        found = yield from change_settings(name, lambda row: _keeping(row, seconds), self._gate)
        slots: dict[int, list[bytes]] = {}
        for each in tokens:
            slots.setdefault(slot_row(each, found.placing.shards), []).append(each)
        for number, several in slots.items():
            yield from self._note(shard_key(name, number), several, found.placing.epoch)

    def _note(self, key: bytes, tokens: Sequence[bytes], epoch: int) -> Plan[None]:
        """Notes tokens in a row, unless it has them."""
        for attempt in range(ATTEMPTS):
            (row,) = yield from read_rows([key])
            change = ShardChange(row, (yield from Now()))
            new = [each for each in tokens if row.token(each) is None]
            for each in new:
                change.note(each, epoch)
            if not new:
                return
            yield from self._gate.enter_counter(change.request())
            if (yield from try_swap(change.request())):
                return
            yield from Sleep(backoff(attempt, (yield from Random())))
        raise Conflict("others change this counter all the time; try again", counter=text_of(key[VIEW_BYTES:-1]))


def _give(tokens: dict[bytes, set[bytes]], take: TakeTokens) -> Plan[None]:
    """Gives the tokens of one counter, and forgets them."""
    for name, found in tokens.items():
        (row,) = yield from Read("counts", [SETTINGS + name], "dm")
        take(name, read_settings_row(name, row).placing.once_for, sorted(found))
    tokens.clear()


def _keeping(row: SettingsRow, seconds: float) -> SettingsRow:
    """The settings with tokens kept for so long, in one row while the counter has none."""
    if row.has_adds:
        return row.changed(row.stored, seconds)
    placing = msgspec.structs.replace(row.placing, once_for=max(seconds, row.placing.once_for))
    return row._replace(placing=placing if placing.shards else placing.spread(1))
