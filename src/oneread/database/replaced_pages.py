"""Pages of views of which one replaces the other: of either side, with rows of the view that was asked.

A page that continues is answered by the side that made its cursor. A query that names more of the key than both have is
answered by the view that was asked. See docs/decisions/0141-a-view-replaces-another.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneread.database.cursors import Cursor, CursorCipher
from oneread.database.lists import Listed, list_of, listed
from oneread.database.operations import Operations
from oneread.database.pages import AnyOf, Query
from oneread.database.sides import CHOSEN
from oneread.derivations.derivation import CompiledView, RowDecoder
from oneread.derivations.replacing import converter
from oneread.derivations.views import View
from oneread.errors import UsageError
from oneread.plans.plan import Plan
from oneread.store.keys import number_and_generation
from oneread.store.requests import Found


def answering_list(operations: Operations, asked: type, query: Query, cipher: CursorCipher) -> Listed:
    """The list whose page answers a query, as rows of the model or view that was asked; no request.

    Raises:
        NotReady: what answers is being built.
        InvalidCursor: the cursor was tampered with.
    """
    if asked not in operations.sides:
        return listed(operations, asked)
    side = _side_of(operations, _kept(operations, asked, asked), query, cipher)
    operations.fence.check(side.cls)
    return _kept(operations, asked, side.cls)


def is_continued(operations: Operations, asked: type, query: Query, cipher: CursorCipher) -> bool:
    """Whether a query continues a page of the new one of two views: another program knows already that it is built.

    Raises:
        InvalidCursor: the cursor was tampered with.
    """
    return query.cursor is not None and _has_made(operations.sides.pair(asked).new, cipher.decrypt(query.cursor))


def launched_key(operations: Operations, asked: type, query: Query) -> tuple[Any, ...] | None:
    """The values of the key by which the launch of a view chooses a side; None where no launch decides.

    That is so for a page that continues, and for a query that one side alone can answer.
    """
    pair = operations.sides.launched.get(asked)
    if pair is None or CHOSEN.get() is not None or query.cursor is not None or operations.sides.is_waiting(asked):
        return None
    own = _kept(operations, asked, asked)
    return own.flat(_first_values(query)) if _is_shared(own, query, pair.shared) else None


def _kept(operations: Operations, asked: type, side: type) -> Listed:
    """The list of one side with rows of the view that was asked, whether or not it may be read."""
    kept: Listed | None = operations.lists.get((asked, side))
    if kept is None:
        made = list_of(operations, side)
        kept = made if side is asked else _as_asked(_kept(operations, asked, asked), made)
        operations.lists[asked, side] = kept
    return kept


def _side_of(operations: Operations, own: Listed, query: Query, cipher: CursorCipher) -> CompiledView:
    """The view whose rows are the page that a query asks of the view of this list."""
    pair, side = operations.sides.pair(own.cls), operations.sides.answering(own.cls)
    if query.cursor is not None:
        cursor = cipher.decrypt(query.cursor)
        readable = [each for each in (pair.old, pair.new) if operations.fence.is_readable(each.cls)]
        side = next((each for each in readable if _has_made(each, cursor)), side)
    if side.cls is own.cls or _is_shared(own, query, pair.shared):
        return side
    return pair.side(own.cls)


def _has_made(view: CompiledView, cursor: Cursor) -> bool:
    return number_and_generation(view.prefix) == (cursor.view, cursor.generation)


def _is_shared(own: Listed, query: Query, shared: int) -> bool:
    """Whether a query names no more elements of the key than both sides have."""
    given = len(query.equal)
    if tuple(map(type, query.equal)) not in own.plain:
        try:
            given = len(own.flat(_first_values(query)))
        except UsageError:  # the view that was asked refuses it
            return False
    return given + (query.bounds is not None or query.starts_with is not None) <= shared


def _first_values(query: Query) -> tuple[Any, ...]:
    """The values of a query, the first one of several."""
    return tuple([each.values[0] if isinstance(each, AnyOf) and each.values else each for each in query.equal])


def _as_asked(own: Listed, side: Listed) -> Listed:
    """The list of the other side, whose pages show rows of the view that was asked."""
    convert = converter(own.cls)

    def show(rows: Sequence[Found]) -> Plan[list[Any]]:
        return [convert(row) for row in (yield from side.show(rows))]

    decoder = None if side.decoder is None else _ConvertedRows(own.cls, side.decoder)
    return side._replace(
        cls=own.cls, max_limit=own.max_limit, conditions=own.conditions, show=show, decoder=decoder, flat=own.flat,
        kept_in=side.cls,
    )  # fmt: skip


class _ConvertedRows:
    """Decodes rows of one view, and makes rows of another one of them: a `RowDecoder`."""

    is_json_of_parsed = False
    is_seen_as_json = False

    def __init__(self, cls: type[View[Any]], decoder: RowDecoder) -> None:
        self.cls = cls
        self.parse_rows = decoder.parse_rows
        self._settle = decoder.settle_rows
        self._convert = converter(cls)

    def write_json(self, docs: list[bytes]) -> None:  # noqa: ARG002 - part of the contract
        """None: rows of the other view have to be made."""
        return

    write_checked = write_json

    def settle_rows(self, rows: list[Any]) -> None:
        found = list(rows)
        if found and type(found[0]) is not self.cls:
            self._settle(found)
            rows[:] = map(self._convert, found)
