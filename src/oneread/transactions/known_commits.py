"""Commits whose ids are known before they are made, so that a program that continues finds those of the one before it.

The history of a root row names its last commits. See docs/decisions/0102-pages-of-commits.md.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from oneread.errors import Conflict

if TYPE_CHECKING:
    from oneread.transactions.intents import HistoryEntry

_FORGOTTEN: Final = (
    "a program that was killed may have made this change, and so many have come since that this cannot be seen; look,"
    " and make it by hand if it is missing"
)


class KnownCommit(NamedTuple):
    """The commit that a change must be.

    `proofs` are the ids that show that it was made: its own, and those of changes of the same row that come after it.
    Without any, no program can have made it. One that may have, began at `since` at the earliest. `earlier` are the ids
    of changes of the same row that come before it.
    """

    id: bytes
    proofs: Collection[bytes] = ()
    since: int = 0
    earlier: Collection[bytes] = ()

    def was_made(self, history: Sequence[HistoryEntry], remembered: int) -> bool:
        """Whether the history of the row, of at most so many commits, has it.

        Raises:
            Conflict: the history does not reach back.
        """
        if not self.proofs:
            return False
        if any(each.commit in self.proofs for each in history):
            return True
        reaches_back = any(each.commit in self.earlier for each in history) or len(history) < remembered
        if not reaches_back and history[0].replaced >= self.since:
            raise Conflict(_FORGOTTEN)
        return False
