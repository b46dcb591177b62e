"""The states of a move, in a row of each of its two stores, and how each is reached from the one before.

Every step is a compare-and-set of one row, so that it may be made again after any failure, and by several controllers
at once. What decides is the row of the target: see docs/decisions/0145-a-live-store-is-moved.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from oneread.copying.move_logs import log_of
from oneread.database._sync.database import Database
from oneread.derivations.schema_rows import replace_schema, stored_schema
from oneread.errors import Conflict, UsageError
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Now
from oneread.plans.inside import run_plan
from oneread.plans.performer import elapsed
from oneread.transactions.commit import swap_alone
from oneread.transactions.moves import MOVE_ROW, MoveRow, MoveState, encode_move, move_cell, move_in, read_move
from oneread.transactions.system_rows import Swap

_OTHER = "another move is under way in this store; finish or cancel that one"


class SeenMove(NamedTuple):
    """The move as one store has it, None for none, and the bytes that a compare-and-set expects."""

    row: MoveRow | None
    stored: bytes | None


class MoveStates:
    """Reads and changes the rows of one move."""

    def __init__(self, source: Database, target: Database, places: tuple[str, str]) -> None:
        self.source, self.target = source, target
        self._places = places

    def of_source(self) -> SeenMove:
        return SeenMove(*self.source.run(read_move()))

    def of_target(self) -> SeenMove:
        return SeenMove(*self.target.run(read_move()))

    def begin(self, new_id: str) -> None:
        """Makes both rows: that of the target first, and with that of the source its log begins.

        Raises:
            UsageError: one of the two stores is part of another move.
        """
        source, target = self.of_source(), self.of_target()
        waits = [each for each in (self.source, self.target) if not each.operations.spans_rows]
        if target.row is None and source.row is None:
            row = MoveRow(new_id, "target", "copying", 1, self._places[0], self._now())
            self._change(self.target, target, row)
            target = self.of_target()
        if target.row is None or target.row.role != "target" or target.row.state == "cancelled":
            raise UsageError(_OTHER, state="" if target.row is None else target.row.state)
        if source.row is None:
            if target.row.other != self._places[0]:
                raise UsageError(_OTHER, source=target.row.other)
            first: MoveState = "planned" if waits else "copying"
            row = MoveRow(target.row.id, "source", first, 1, self._places[1], self._now())
            self._change(self.source, source, row)
            source = self.of_source()
        if source.row is None or source.row.id != target.row.id:
            raise UsageError(_OTHER)
        if source.row.state == "planned":
            self._end_older(waits)
            self._change(self.source, source, source.row.became("copying", self._now()))

    def _end_older(self, stores: Sequence[Database]) -> None:
        """Lets programs of stores that change one row at a time know of the move: what they send from now on is logged.

        What was sent before is ended, if the journal has it.
        """
        for each in stores:
            self._tell(each, moving=True)
        changed = elapsed()
        stores[0].run(stores[0].operations.committer.end_older())
        for each in stores[1:]:
            each.run(log_of(each).end_unaware(changed))

    def end_unaware(self, closed: float, *, back: bool) -> None:
        """Returns when all programs of the store that was closed then know it, and what they sent before is logged."""
        store = self.target if back else self.source
        store.run(log_of(store).end_unaware(closed))

    def copied(self) -> None:
        """The copy is complete: what follows is the log."""
        for store in (self.target, self.source):
            seen = SeenMove(*store.run(read_move()))
            if seen.row is not None and seen.row.state == "copying":
                self._change(store, seen, seen.row.became("following", self._now()))

    def close(self, hold: float, *, back: bool = False) -> int:
        """Lets the writers of the source wait, of the target to go back; returns the epoch in which they do.

        A target whose epoch is ahead has decided about an earlier switch, which is carried out first.
        """
        store, rests = (self.target, "switched") if back else (self.source, "following")
        while True:
            self.carry_out()
            source, target = self.of_source(), self.of_target()
            if target.row is None or target.row.epoch != _moving(source).epoch:
                continue
            seen = target if back else source
            assert seen.row is not None, "both rows were read"
            if seen.row.state != rests:
                return seen.row.epoch
            until = self._now() + round(hold * 1000)
            self._change(store, seen, seen.row.became("closing", self._now(), until=until))

    def decide(self, epoch: int, state: MoveState, *, back: bool = False) -> bool:
        """Decides about the switch of this epoch, in one compare-and-set of the target's row; with `back`, to go back.

        Returns whether this state was decided, now or before by another controller; another decision stands.
        """
        while True:
            seen = self.of_target()
            row = seen.row
            if row is None:
                return False
            if row.epoch != epoch or row.state not in (("closing",) if back else ("copying", "following")):
                return row.epoch == epoch + 1 and row.state == state
            if self._change(self.target, seen, row.became(state, self._now(), epoch=epoch + 1, until=0)):
                return True

    def carry_out(self) -> MoveRow:
        """Makes the row of the source what the target has decided; returns it."""
        while True:
            seen, target = self.of_source(), self.of_target().row
            row = _moving(seen)
            if target is None or target.id != row.id or target.epoch <= row.epoch:
                return row
            if target.state == "cancelled":
                self._change(self.source, seen, None)
                return row.became("cancelled", self._now())
            self._change(self.source, seen, row.became(target.state, self._now(), epoch=target.epoch, until=0))

    def writes_back(self) -> MoveRow | None:
        """The row of the target while programs write to it, or wait to; None while they write to the source."""
        row = self.of_target().row
        return row if row is not None and row.takes_writes else None

    def shadow(self, percent: float) -> None:
        """Has programs make such a share of their reads in the target, too. Raises UsageError unless that follows."""
        while True:
            seen = self.of_source()
            row = _moving(seen)
            if percent and row.state != "following":
                raise UsageError("reads are shadowed while the target follows", state=row.state)
            if row.shadow == percent or self._change(self.source, seen, msgspec.structs.replace(row, shadow=percent)):
                return

    def finish(self) -> None:
        """The source is read-only from now on, and the target is a store like others."""
        seen, target = self.of_source(), self.of_target()
        row = _moving(seen)
        if row.state == "switched":
            self._change(self.source, seen, row.became("finished", self._now()))
        if target.row is not None and target.row.id == row.id:
            self._change(self.target, target, None)

    def name_follower(self, owner: str, *, back: bool = False) -> bool:
        """Makes a follower the one that may write to the target, or to the source where that follows.

        False where that store takes the writes itself.
        """
        store = self.source if back else self.target
        while True:
            seen = SeenMove(*store.run(read_move()))
            row = seen.row
            if row is None or row.takes_writes or row.state in ("cancelled", "finished"):
                return False
            if row.mover == owner:
                return True
            if self._change(store, seen, msgspec.structs.replace(row, mover=owner)):
                store.run(log_of(store).end_unaware(elapsed()))  # the follower before this one
                return True

    def _now(self) -> int:
        return self.source.run(Now().__iter__())

    def _change(self, store: Database, seen: SeenMove, wanted: MoveRow | None) -> bool:
        """A compare-and-set of the row of a move; whether it was as it was seen."""
        committer = store.operations.committer
        if store.operations.spans_rows:
            done = store.run(committer.together(partial(_replace, seen=seen.stored, wanted=wanted)))
            store.run(store.operations.refresh())
            return done
        value = None if wanted is None else encode_move(wanted)
        lost = Conflict("the row of the move has changed", key=MOVE_ROW)
        try:
            store.run(swap_alone(committer, Swap(MOVE_ROW, seen.stored, value, lambda: lost)))
        except Conflict:
            return False
        if wanted is None:
            self._tell(store, moving=False)
        store.run(store.operations.refresh())
        return True

    def _tell(self, store: Database, *, moving: bool) -> None:
        """Makes the schema row of a store say whether there is a row of a move; that comes before, and goes before."""
        store.run(store.operations.committer.together(partial(_replace_moving, moving=moving)))


def _replace(store: CountedStore, seen: bytes | None, wanted: MoveRow | None) -> bool:
    """Inside a transaction: the row of the move, and in the schema row whether there is one."""
    _row, stored = move_in(store.read("system", [MOVE_ROW])[0])
    if stored != seen:
        return False
    store.replace("system", {MOVE_ROW: move_cell(wanted, store.now())})
    _replace_moving(store, moving=wanted is not None)
    return True


def _replace_moving(store: CountedStore, *, moving: bool) -> None:
    schema = run_plan(store, stored_schema())
    if schema.moving != moving:
        replace_schema(store, msgspec.structs.replace(schema, moving=moving), store.now())


def _moving(seen: SeenMove) -> MoveRow:
    """The row of a source. Raises UsageError."""
    if seen.row is None or seen.row.role != "source":
        raise UsageError("this store is not moved: run `oneread move start`")
    return seen.row
