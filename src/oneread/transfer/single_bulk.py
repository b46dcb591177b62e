"""Bulk writing on a store that changes one row at a time: every change is a commit of its own.

See docs/decisions/0082-bulk-on-one-row.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from oneread.errors import Conflict, OnereadError, Unsupported
from oneread.plans.plan import Plan
from oneread.transactions.commit import Commit, Committer
from oneread.transactions.unit_of_work import is_refusal
from oneread.transfer.bulk import Batches, BatchOptions, MakeChange, Refusal, WantedChange
from oneread.transfer.checkpoints import Position

_TWICE: Final = (
    "with a checkpoint, on a store that changes one row at a time, a program that is killed does its last changes"
    " again, and this one must not be done twice; use save, delete or a patch of plain values, or leave out the"
    " checkpoint"
)

_TAKEN: Final = "another program works under this checkpoint; the changes of this batch are stored, as its own are"


class SingleBatches(Batches):
    """Gathers changes and commits each by itself, in order; the position of a batch is stored behind it.

    A program that is killed does its last batch again. So with a checkpoint a change must be one that `may_repeat`, or
    it raises Unsupported.
    """

    def __init__(
        self, make: MakeChange, committer: Committer, options: BatchOptions, may_repeat: Callable[[WantedChange], bool]
    ) -> None:
        super().__init__(make, committer, options)
        self._may_repeat = may_repeat

    def add(self, given: WantedChange, size: int, position: Position | None) -> bool:
        if self._options.checkpoint is not None and not self._may_repeat(given):
            raise Unsupported(_TWICE, verb=given[0])
        return super().add(given, size, position)

    def committed(self) -> Plan[list[bytes]]:
        """Commits what was given up to the last position; returns the tasks that this left.

        Costs a commit for each change, and with a checkpoint a compare-and-set for each batch. What is refused is left
        out by itself: the other changes of its item are stored.
        """
        items, self._closed = self._closed, []
        self._count = self._size = 0
        tasks: list[bytes] = []
        for item in items:
            for given in item.given:
                error = yield from self._store(given, tasks)
                if error is not None and self._options.on_refused is None:
                    item.error = error
                    yield from self.settled()
                    self._give_up(item)
                if error is not None and self._options.on_refused is not None:
                    self._options.on_refused(Refusal(error, (given,), item.position))
                self._count_change(is_refused=error is not None)
            if item.position is not None:
                self.reached = msgspec.structs.replace(self.reached, position=item.position)
        yield from self.settled()
        if items:
            self._batches += 1
            self._report_progress()
        return tasks

    def _store(self, given: WantedChange, tasks: list[bytes]) -> Plan[OnereadError | None]:
        """Commits one change; returns the error of one that is refused."""
        commit = Commit([])
        try:
            commit.changes = [(yield from self._make(given))]
            tasks += yield from self._committer.commit(commit)
        except OnereadError as error:
            if not is_refusal(error) or (commit.changes and not commit.is_deciding):
                raise
            return error
        return None

    def _save_checkpoint(self, *, finished: bool) -> Plan[None]:
        try:
            yield from super()._save_checkpoint(finished=finished)
        except Conflict as error:
            raise Conflict(_TAKEN, **error.facts) from error

    def _count_change(self, *, is_refused: bool) -> None:
        self._stored += not is_refused
        self._refused += is_refused
        if self._options.checkpoint is not None:
            stored, refused = self.reached.stored + (not is_refused), self.reached.refused + is_refused
            self.reached = msgspec.structs.replace(self.reached, finished=False, stored=stored, refused=refused)
