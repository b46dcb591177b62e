"""Removes tokens and earlier epochs of counters on stores that change one row at a time (rules N3 and N4).

A token is removed a window after this sweeper first saw it, by its own clock that is never set. Stamps in a row never
fall, so what the sweeper keeps of a row are a few pairs: at this time all tokens with stamps up to this were there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from oneread.counters.rows import MOST_SHARDS, SETTINGS, shard_key, shards_of
from oneread.counters.settings import Epoch, SettingsRow, read_settings_row
from oneread.counters.shard_counters import read_rows, seal_row
from oneread.counters.shard_rows import ShardRow, read_shard_row, settings_request
from oneread.errors import OutcomeUnknown
from oneread.plans.effects import Now
from oneread.plans.performer import elapsed
from oneread.plans.plan import Plan
from oneread.store.keys import VIEW_BYTES
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import RowMutation, RowRange

BATCH: Final = 500
"""Counters whose settings are read at a time."""
PAUSE_SECONDS: Final = 60.0
"""The least time between two rounds over all counters."""
LOOKS: Final = 4
"""Looks at the rows of a counter within the time that its tokens are kept."""

_ALL: Final = RowRange.under(SETTINGS)


class ShardSweeper:
    """Sweeps the counters of one store, a batch at a time; for one thread."""

    name = "tokens"

    def __init__(self, clock: Callable[[], float] = elapsed, pause: float = PAUSE_SECONDS) -> None:
        self._clock = clock
        self._pause = pause
        self._next = clock() + pause
        self._rest = _ALL
        self._due: dict[bytes, float] = {}
        self._seen: dict[bytes, list[tuple[float, int]]] = {}
        self._sealed: dict[tuple[bytes, Epoch], float] = {}

    def step(self, batch: int = BATCH) -> Plan[bool]:
        """Looks at some counters, when it is time; whether there are more to look at at once.

        Costs a scan of their settings; for each counter with tokens that is due a scan of its rows, and a request for
        each row that has tokens to be removed; for each earlier epoch a read of its rows.
        """
        if self._clock() < self._next:
            return False
        rows = yield from Scan("counts", self._rest, batch, families="dm")
        for key, row in rows:
            found = read_settings_row(key[VIEW_BYTES:], row)
            if found.placing.once_for and self._clock() >= self._due.get(found.name, 0.0):
                yield from self._sweep(found)
                self._due[found.name] = self._clock() + max(self._pause, found.placing.once_for / LOOKS)
        if len(rows) == batch:
            self._rest = self._rest.behind(rows[-1][0])
            return True
        self._rest, self._next = _ALL, self._clock() + self._pause
        return False

    def _sweep(self, found: SettingsRow) -> Plan[None]:
        rows = yield from Scan("counts", shards_of(found.name), MOST_SHARDS + 1, families="dm")
        for key, row in rows:
            yield from self._remove_tokens(read_shard_row(key, row), found.placing.once_for)
        ended = yield from self._ended_epochs(found)
        if ended:
            wanted = found._replace(placing=found.placing.without(ended))
            request, _made = settings_request(found, wanted, (yield from Now()))
            try:
                yield from request
            except OutcomeUnknown:
                return  # the next look finds out

    def _remove_tokens(self, row: ShardRow, window: float) -> Plan[None]:
        """Removes the tokens of a row that were seen a window ago, each at its own stamp."""
        if not row.tokens or row.writes is None:
            self._seen.pop(row.key, None)
            return
        now = self._clock()  # after the row was read: it is never seen too early
        looks = [*self._seen.get(row.key, []), (now, row.writes)]
        last = max((writes for seen, writes in looks if now - seen > window), default=-1)
        self._seen[row.key] = [each for each in looks if each[1] > last]
        expired = {column: cell.stamp for column, cell in row.tokens.items() if cell.stamp <= last}
        if expired:
            try:
                yield from Mutate("counts", [RowMutation(row.key, deletes=expired)])
            except OutcomeUnknown:
                return  # what is still there is removed later

    def _ended_epochs(self, found: SettingsRow) -> Plan[list[Epoch]]:
        ended: list[Epoch] = []
        for each in found.placing.earlier:
            ended += [each] if (yield from self._has_ended(found, each)) else []
        return ended

    def _has_ended(self, found: SettingsRow, epoch: Epoch) -> Plan[bool]:
        """Seals the rows of an earlier epoch; whether a window has passed since all of them were."""
        keys = [shard_key(found.name, number) for number in range(epoch.shards)]
        for row in (yield from read_rows(keys)):
            if not (yield from seal_row(row, found.placing.epoch)):
                return False
        now = self._clock()
        return now - self._sealed.setdefault((found.name, epoch), now) > found.placing.once_for
