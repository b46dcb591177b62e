"""What comparisons of a move have found, in one row of its source: the last ones, and one that was interrupted."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from oneread.copying.move_results import MoveComparison
from oneread.database._sync.database import Database
from oneread.errors import Conflict, UsageError
from oneread.store.requests import Read
from oneread.store.rows import VALUE
from oneread.transactions.commit import swap_alone
from oneread.transactions.moves import COMPARED_ROW
from oneread.transactions.system_rows import Swap

FRESH: Final = timedelta(days=1)
"""How old the comparison may be that a switch asks for, and one that is resumed."""


class StoredComparisons(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last comparison that has ended, the last one of everything, and one that has not ended."""

    last: MoveComparison | None = None
    whole: MoveComparison | None = None
    begun: MoveComparison | None = None


_decode: Final = msgspec.msgpack.Decoder(StoredComparisons).decode


class MoveComparisons:
    """Reads and changes that row."""

    def __init__(self, source: Database) -> None:
        self._source = source

    def read(self) -> StoredComparisons:
        """One request."""
        return self._seen()[0]

    def begin(self, now: MoveComparison, *, resume: bool, share: float | None) -> MoveComparison:
        """The comparison that is to be made: a new one, as given, or the one that was interrupted.

        Raises:
            UsageError: there is nothing to resume, or it cannot be.
        """
        begun = self.read().begun
        if not resume:
            return now
        if begun is None:
            raise UsageError("no comparison was interrupted: run `oneread move compare` without --resume")
        if now.at - begun.at > FRESH or begun.epoch != now.epoch:
            raise UsageError(
                "this comparison was interrupted a day ago, or before a switch: compare from the beginning",
                at=begun.at.isoformat(timespec="seconds"), epoch=begun.epoch,
            )  # fmt: skip
        if share not in (None, begun.share):
            raise UsageError("a comparison is resumed with its own share", given=share, share=begun.share)
        return begun

    def keep(self, found: MoveComparison) -> None:
        """Stores what was found so far, or in the end. A read and a compare-and-set."""
        before, seen = self._seen()
        if found.cursor:
            wanted = msgspec.structs.replace(before, begun=found)
        else:
            wanted = StoredComparisons(found, found if found.whole else before.whole)
        lost, value = Conflict("another comparison has ended at the same time"), msgspec.msgpack.encode(wanted)
        swap = Swap(COMPARED_ROW, seen, value, lambda: lost)
        self._source.run(swap_alone(self._source.operations.committer, swap))

    def check(self, now: MoveComparison) -> None:
        """Raises UsageError unless all was compared within a day, and no comparison since has found a difference."""
        stored = self.read()
        if stored.whole is None or now.at - stored.whole.at > FRESH:
            is_sampled = stored.last is not None and stored.last.share < 1
            raise UsageError(
                "only a sample was compared within a day: run `oneread move compare` (or --force)"
                if is_sampled
                else "not compared within a day: run `oneread move compare` (or --force)"
            )
        for each in (stored.last, stored.whole, stored.begun):
            if each is not None and not each.equal:
                raise UsageError(
                    "the stores differed: run `oneread move compare` (or --force)",
                    differ=each.differ, faults=each.faults,
                )  # fmt: skip

    def _seen(self) -> tuple[StoredComparisons, bytes | None]:
        (row,) = self._source.run(Read("system", [COMPARED_ROW]).__iter__())
        return (StoredComparisons(), None) if row is None else (_decode(row[VALUE].value), row[VALUE].value)
