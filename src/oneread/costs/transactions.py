"""The commit that several changes of one entity group share, on a store that changes one row at a time.

What is asked for once in a commit - the root's row, the marker, the commit itself, rows of views, sums - is a shared
term of the bound of each write. See docs/explanation/costs.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from oneread.costs.bounds import Bound, BoundBuilder
from oneread.costs.sizes import Size

_ONE_ROW: Final = frozenset({"row", "marker", "mark", "marked", "commit", "clear", "unmark"})
"""What is one row, however many changes the commit has; of the others each change has its own rows."""

AGAIN: Final = "again"
"""Names what each change asks for by itself, and once more where another one is a delete that marks the root."""


def shared_commit(writes: Sequence[tuple[Bound, int]]) -> BoundBuilder:
    """The bound of one commit with all these writes, each so many times."""
    total = BoundBuilder()
    asked, rows = Counter[str](), Counter[str]()
    waited = Counter[str]()
    has_mark = any(term.shared == "mark" for bound, _times in writes for term in bound.terms)
    for bound, times in writes:
        total.note_undeclared(frozenset(bound.undeclared))
        for term in bound.terms:
            each = term.scaled(times)
            if term.shared == AGAIN:
                each = term.scaled(times * (1 + has_mark))
            elif term.shared:
                number = term.rows if term.shared in _ONE_ROW else each.rows
                each = msgspec.structs.replace(
                    each,
                    requests=max(0, term.requests - asked[term.shared]),
                    rounds=max(0, term.rounds - waited[term.shared]),
                    rows=max(0, number - rows[term.shared]) if term.shared in _ONE_ROW else number,
                )
                asked[term.shared] += each.requests
                waited[term.shared] += each.rounds
                rows[term.shared] += each.rows
            total.add_term(each)
    return total


def hold_size(key: Size) -> Size:
    """A hold of a child on its root."""
    return Size(2 * key.most + 203, 30)
