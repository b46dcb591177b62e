"""The tokens that the records of one entity class have: of its views, and of what else an entity leaves elsewhere.

See rule 17 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from oneread.derivations.emitted_record import HIDDEN, LAST_VALUES, Record
from oneread.derivations.hidden_copies import HiddenCopies


class RecordTokens:
    """`views` are those of views, `empty` those of a record without contributions and without hidden copies."""

    def __init__(self, views: Iterable[int], empty: Iterable[int], hidden: HiddenCopies) -> None:
        self.views = frozenset(views)
        self.empty = frozenset(empty)
        self._hidden = hidden
        self._living = self.empty | {HIDDEN} if hidden else self.empty

    def missing_views(self, record: Record) -> frozenset[int]:
        """Tokens of views that are not in a record, which has an entry even for a view without contributions."""
        return self.views.difference(record)

    def cover_views(self, record: Record, *, alive: bool, left_out: AbstractSet[int] = frozenset()) -> bool:
        """Whether a record has the tokens of all declared views but those that are left out, and no others."""
        if not alive:
            return frozenset(record) - {LAST_VALUES} == self.empty
        hidden, living = self._hidden, self._living - left_out if left_out else self._living
        return record.keys() == living and (not hidden or record[HIDDEN].keys() == hidden.types.keys())
