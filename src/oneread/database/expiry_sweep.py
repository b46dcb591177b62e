"""Deletes entities that have expired, and removes index rows that have, a batch at a time.

What has expired is at the front of the expiry indexes, so a sweep reads nothing else. Each batch is an ordinary commit
that looks again, so several sweeps at a time do no harm, and one that is killed has lost nothing. See
docs/explanation/expiry.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.derivations.derivation import CompiledView, owner_offset
from oneread.derivations.expiry import expiry_lists, expiry_of
from oneread.derivations.following_changes import Expire
from oneread.encoding.ranges import KeyBounds
from oneread.errors import OnereadError, UsageError
from oneread.evolution.fence import Fence
from oneread.feeds.parts import FeedPart
from oneread.models.model import Model
from oneread.plans.effects import Now, Together
from oneread.plans.performer import elapsed
from oneread.plans.plan import Plan
from oneread.store.keys import spread_parts
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.transactions.commit import Change
from oneread.transactions.refusals import is_refusal

BATCH: Final = 100
"""Entities of one transaction."""
MOST: Final = 1000
"""Of a batch."""
PAUSE_SECONDS: Final = 30.0
"""Between two sweeps of a worker."""
_SHOWN: Final = 10
"""Refused entities that a sweep names."""

CommitChanges: TypeAlias = Callable[[Sequence[Change]], Plan[list[bytes]]]


class Swept(msgspec.Struct, frozen=True):
    """What a sweep did.

    Arguments:
        deleted: entities that had expired.
        removed: entities whose rows in an index, or contributions to groups, had expired, and that were not deleted.
        held: expired entities that could not be deleted, as others refer to them with on_delete="refuse"; the next
            sweep tries them again.
        refused: the first of those, each with its error.
        changes: entries of change logs that are not kept any more.
    """

    deleted: int = 0
    removed: int = 0
    held: int = 0
    refused: tuple[str, ...] = ()
    changes: int = 0


class ExpirySweep:
    """One sweep: it ends with what had expired when it began, or when so many entities as `limit` were swept."""

    def __init__(self, catalog: Catalog, fence: Fence, commit: CommitChanges, batch: int, limit: int | None) -> None:
        if type(batch) is not int or not 1 <= batch <= MOST:
            raise UsageError("a batch is a whole number of entities, from 1 to 1,000", batch=batch)
        if limit is not None and (type(limit) is not int or limit < 1):
            raise UsageError("the limit of a sweep is a whole number of entities, at least 1", limit=limit)
        self._batch = batch
        self._limit = limit
        self._catalog = catalog
        self._fence = fence
        self._commit = commit
        self._waiting: list[tuple[CompiledView, bytes]] = []
        self._until: int | None = None
        self._rest: RowRange | None = None
        self._keeps = False
        self.is_together = True
        """Whether a batch is one commit; on a store that changes one row at a time each entity is one."""
        self.swept = Swept()
        self.tasks: list[bytes] = []

    @property
    def done(self) -> int:
        """Entities that were deleted, or that lost rows."""
        return self.swept.deleted + self.swept.removed

    def step(self) -> Plan[bool]:
        """Sweeps one batch; False when nothing is left to do.

        Costs a scan; with rows a transaction, and one for each entity of a batch in which one cannot be deleted.
        """
        until = (yield from self._begin()) if self._until is None else self._until
        batch = self._batch if self._limit is None else min(self._batch, self._limit - self.done)
        while self._waiting and batch:
            view, part = self._waiting[-1]
            if self._rest is None:
                if is_awaited(self._catalog, self._fence, view):
                    yield from self._fence.check_readable(view.cls)
                self._rest = expired_rows(view, until, part)
            rows = [] if self._rest is None else (yield from Scan(view.table, self._rest, batch))
            self._rest = self._rest.behind(rows[-1][0]) if self._rest is not None and len(rows) == batch else None
            if self._rest is None:
                self._waiting.pop()
            if rows:
                root_of, offset = self._catalog.kinds[view.model].root_of, owner_offset(view.key)
                self._keeps = not issubclass(expiry_lists(view.cls), Model)  # the index of its model deletes an entity
                yield from self._expire([root_of(key[offset(key) :]) for key, _row in rows])
                return True
        return False

    def _begin(self) -> Plan[int]:
        """Finds out what is to be swept, after a look whether indexes are built that were not; returns until when."""
        self._until = now = yield from Now()
        if not all(self._fence.is_readable(view.cls) for view in self._catalog.expiry_indexes()):
            yield from self._fence.refresh()
        found = swept_indexes(self._catalog, self._fence)
        self._waiting = [(view, part) for view in found for part in spread_parts(view.key.spread)][::-1]
        return now

    def _expire(self, keys: Sequence[bytes]) -> Plan[None]:
        """Expires entities in one commit, or one by one where one of them is refused."""
        if len(keys) > 1 and not self.is_together:
            for key in keys:
                yield from self._expire([key])
            return
        try:
            yield from self._expire_together(keys)
        except OnereadError as error:
            if not is_refusal(error):
                raise
            if len(keys) == 1:
                shown = f"{self._catalog.name_of(keys[0])}: {error}"
                swept = self.swept
                refused = (*swept.refused, shown) if len(swept.refused) < _SHOWN else swept.refused
                self.swept = msgspec.structs.replace(swept, held=swept.held + 1, refused=refused)
                return
            for key in keys:
                yield from self._expire([key])

    def _expire_together(self, keys: Sequence[bytes]) -> Plan[None]:
        changes = [Expire(self._catalog, key, keeps=self._keeps) for key in keys]
        self.tasks += yield from self._commit(changes)
        swept = self.swept
        self.swept = msgspec.structs.replace(
            swept,
            deleted=swept.deleted + sum(each.has_deleted for each in changes),
            removed=swept.removed + sum(each.has_removed for each in changes),
        )


def swept_indexes(catalog: Catalog, fence: Fence) -> list[CompiledView]:
    """The expiry indexes that a sweep reads: not those of former views that were dropped meanwhile."""
    dropped = catalog.formers.intersection(fence.retired)
    return [each for each in catalog.expiry_indexes() if _expiring(each) not in dropped]


def is_awaited(catalog: Catalog, fence: Fence, index: CompiledView) -> bool:
    """Whether a sweep waits until an expiry index is built, as of the last look: not where another view answers.

    What a page shows meanwhile is of the other view, and swept by its own expiry index, if it has one. Rows that are
    in the one which is built expire all the same.
    """
    pair = catalog.replaced.get(_expiring(index))
    is_answered = pair is not None and any(fence.is_readable(side.cls) for side in (pair.old, pair.new))
    return not is_answered and not fence.is_readable(index.cls)


def _expiring(index: CompiledView) -> type:
    """The model or view that has the ttl of an expiry index: of the items of a feed, the feed."""
    lists = expiry_lists(index.cls)
    found: type = lists.feed if issubclass(lists, FeedPart) else lists
    return found


class SweepSteps(Protocol):
    """A sweep."""

    def step(self) -> Plan[bool]:
        """Sweeps one batch; False when nothing is left to do."""
        ...


class BackgroundSweeper:
    """Sweeps now and then, a step at a time; for one thread. An index that is being built is left out.

    `pause` is how many seconds are between two sweeps, and `first` before the first one; `name` is that of its lease.
    """

    def __init__(
        self,
        begin: Callable[[], SweepSteps | None],
        clock: Callable[[], float] = elapsed,
        name: str = "expired",
        pause: float = PAUSE_SECONDS,
        first: float = 0.0,
    ) -> None:
        self.name = name
        self._begin = begin
        self._clock = clock
        self.pause = pause
        self._sweep: SweepSteps | None = None
        self._last = clock() + first - pause

    def step(self) -> Plan[bool]:
        """Does one step, when it is time; whether there is more to do at once.

        Costs nothing before the pause since the last sweep is over, nor in a schema without a ttl and watched
        views.
        """
        if self._sweep is None:
            if self._clock() < self._last + self.pause:
                return False
            self._sweep = self._begin()
        more = False if self._sweep is None else (yield from self._sweep.step())
        if not more:
            self._sweep = None
            self._last = self._clock()
        return more


def expired_rows(view: CompiledView, now: int, part: bytes) -> RowRange | None:
    """The rows of an expiry index, in one of its ranges, whose entities, or their rows, have expired.

    None if none can have.
    """
    bound = expiry_of(view.cls).first_living(now)
    if bound is None:
        return None
    start, stop = view.key.codec.bounded_range((), KeyBounds(until=bound), prefix=view.prefix + part)
    return RowRange(start, stop or b"")


def sweep_lags(catalog: Catalog) -> Plan[dict[str, float]]:
    """How many seconds ago what waits longest for a sweep has expired, by the name of its model or index.

    One request and row for each ttl, as many as there are ranges where that is of a model or index which is spread;
    those with nothing to sweep are left out.
    """
    now = yield from Now()
    lags: dict[str, float] = {}
    for view in catalog.expiry_indexes():
        lag = yield from _lag_of(view, now)
        if lag is not None:
            lags[expiry_lists(view.cls).__name__] = lag
    return lags


def lag_of_groups(catalog: Catalog, groups: CompiledView) -> Plan[float]:
    """How many seconds ago what waits longest for a sweep of an aggregate with a ttl has expired; 0.0 for nothing.

    One request and row, as many as there are ranges where the aggregate is spread.
    """
    now = yield from Now()
    view = next(each for each in catalog.expiry_indexes() if expiry_lists(each.cls) is groups.cls)
    return (yield from _lag_of(view, now)) or 0.0


def _lag_of(view: CompiledView, now: int) -> Plan[float | None]:
    ranges = [expired_rows(view, now, part) for part in spread_parts(view.key.spread)]
    found = yield from Together([Scan(view.table, within, 1).__iter__() for within in ranges if within is not None])
    waiting = yield from view.show([row for rows in found for row in rows])
    if not waiting:
        return None
    return max(0, now - expiry_of(view.cls).end(min(each.since for each in waiting))) / 1000
