"""The fence of a store that changes one row at a time: read now and then, and known for as long as a lease.

A commit of one row cannot read the fence at the same moment, so a program reads it before, and commits for twenty
seconds by what it read. A program that raises the fence waits longer than that. Both count by clocks that are never
set. While the store is moved the lease is shorter, and is of the row of the move as well; it is shorter, too, where the
schema launches a view. See rules F1 to F5 of the commit protocol and docs/decisions/0076-the-fence-is-a-lease.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import changes_of, fence_in, is_moving, read_stored, refuse_overtaken
from oneread.evolution.fence import Fence
from oneread.plans.performer import elapsed
from oneread.plans.plan import Plan
from oneread.store.requests import Read
from oneread.store.rows import Row
from oneread.transactions.journal_recovery import LAUNCHED_LEASE_SECONDS, LEASE_SECONDS, MOVING_LEASE_SECONDS
from oneread.transactions.moves import MOVE_ROW, MoveRow, move_in, read_move
from oneread.transactions.system_rows import SCHEMA_ROW


class LeasedFence(Fence):
    """What one open database knows of its store's schema, and since when: see `WriteLease`.

    `read_at` is the time of `clock` when the read of the schema row was begun, or before.
    """

    def __init__(self, catalog: Catalog, version: int, seen: bytes, building: frozenset[type], read_at: float) -> None:
        super().__init__(catalog, version, seen, building)
        self.clock = elapsed
        self._catalog = catalog
        self._has_shares = any(each.is_launched for each in catalog.replaced.values())
        self.move: MoveRow | None = None
        self._read_at = float("-inf") if is_moving(seen) else read_at

    @property
    def shares(self) -> object:
        return self._catalog.learned.shares if self._has_shares else None

    def renew(self) -> Plan[None]:
        if self._newer is not None or self.clock() - self._read_at >= self._seconds / 2:
            yield from self.learn()

    def hold(self) -> Plan[None]:
        while self._newer is not None or self.clock() - self._read_at >= self._seconds:  # the read may take that long
            yield from self.learn()

    def look(self) -> Plan[MoveRow | None]:
        """The row of the move as it was half of a lease ago at most. No request as a rule; one while it is switched.

        The store is closed for longer than a lease before it is switched. So what is known behind that is `closing`, or
        is over: a verb that begins when the row says that the store has moved finds this.
        """
        is_closing = self.move is not None and self.move.state == "closing"
        if is_closing or self.clock() - self._read_at >= self._seconds / 2:
            yield from self.refresh()
        return self.move

    @property
    def _seconds(self) -> float:
        if self.move is not None:
            return MOVING_LEASE_SECONDS
        return LAUNCHED_LEASE_SECONDS if self._has_shares else LEASE_SECONDS

    def learn(self) -> Plan[None]:
        yield from self.refresh()
        if self._newer is not None:
            refuse_overtaken(self._newer, self.version)

    def refresh(self) -> Plan[None]:
        """Reads the schema row again, and takes a new lease. One request, one row."""
        yield from self.refresh_with([])

    def refresh_with(self, keys: Sequence[bytes]) -> Plan[Sequence[Row | None]]:
        """Refreshes, and returns these rows of `system`, which are read in the same request.

        While the store is moved one row more.
        """
        # What the answer says was so at some moment since, and for how long is not known.
        read_at = self.clock()
        more = [] if self.move is None else [MOVE_ROW]
        row, *others = yield from Read("system", [SCHEMA_ROW, *keys, *more])
        found = fence_in(row)
        move = move_in(others.pop())[0] if more else None
        if move is None and is_moving(found):  # the row comes before what the fence says, and goes before it
            move, _stored = yield from read_move()
        if changes_of(found) > changes_of(self._seen):
            with self._updating:
                if changes_of(found) > changes_of(self._seen):  # another thread may have a newer answer
                    self._update(read_stored(row))
                    self._seen = found
        with self._updating:
            if read_at >= self._read_at:
                self._read_at, self.move = read_at, move
        return others
