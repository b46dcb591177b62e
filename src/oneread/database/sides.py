"""Sides: which of two views answers a read, where one replaces the other.

The new view answers once it may be read, and the former one until then; rows are always of the view that was asked.
`replaced_pages` has what pages need besides. See docs/decisions/0141-a-view-replaces-another.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final

from oneread.derivations.derivation import CompiledView
from oneread.derivations.replacing import Replacing, converter
from oneread.evolution.fence import LOOK_SECONDS, Fence
from oneread.plans.effects import Now
from oneread.plans.plan import Plan

CHOSEN: Final[ContextVar[type | None]] = ContextVar("oneread_chosen_side", default=None)
"""The view that a launch lets answer in this thread or task."""


class Sides:
    """Chooses sides for one open database. May be used by many threads at once."""

    def __init__(self, replaced: Mapping[type, Replacing], fence: Fence) -> None:
        self._replaced = replaced
        self._fence = fence
        self.launched = {pair.old.cls: pair for pair in replaced.values() if pair.is_launched}
        """The views whose reads are launched by percent, each with the one that replaces it."""
        self._looked = 0

    def __contains__(self, view: object) -> bool:
        return view in self._replaced

    def pair(self, asked: type) -> Replacing:
        """A view, and the one that it replaces or is replaced by."""
        return self._replaced[asked]

    def is_waiting(self, asked: type) -> bool:
        """Whether the new view was being built, when that was looked at last."""
        return not self._fence.is_readable(self._replaced[asked].new.cls)

    def is_settled(self, asked: type) -> bool:
        """Whether a view answers its own first pages from now on: it is the new one, and built."""
        pair = self._replaced[asked]
        return asked is pair.new.cls and not pair.is_launched and not self.is_waiting(asked)

    def may_change(self, asked: type) -> bool:
        """Whether another view may answer after a look: one is built, or a launched one not written any more."""
        pair = self._replaced[asked]
        return self.is_waiting(asked) or (pair.is_launched and self.answering(asked) is pair.new)

    def look(self, asked: type, *, at_once: bool = False) -> Plan[None]:
        """Finds out whether a view that was being built may be read, or a launched one still. One request and row.

        None within 2 seconds, unless `at_once`.
        """
        if not self.may_change(asked):
            return
        now = yield from Now()
        if at_once or not 0 <= now - self._looked < LOOK_SECONDS * 1000:
            before, self._looked = self._looked, now
            try:
                yield from self._fence.refresh()
            except BaseException:
                self._looked = before
                raise

    def answering(self, asked: type) -> CompiledView:
        """The view whose rows answer a read, as of the last look. No request."""
        pair, chosen = self._replaced[asked], CHOSEN.get()
        if chosen is not None and chosen in (pair.old.cls, pair.new.cls):
            return pair.side(chosen)
        if not self.is_waiting(asked):
            return pair.new if asked is pair.new.cls or not pair.is_launched else pair.old
        return pair.new if asked is pair.new.cls and not pair.shows_all else pair.old

    def find_readable(self, asked: type) -> Plan[CompiledView]:
        """The view whose rows answer a read; see `look` for what it costs. Raises NotReady."""
        yield from self.look(asked)
        view = self.answering(asked)
        self._fence.check(view.cls)
        return view

    def find_many(self, asked: type, wanted: Sequence[tuple[Any, ...]]) -> Plan[list[Any]]:
        """The rows under these values of a view's key, None for absent ones; see `look` for what it costs besides."""
        view = yield from self.find_readable(asked)
        found = yield from view.find_many(wanted)
        if view.cls is asked:
            return found
        convert = converter(asked)
        return [None if row is None else convert(row) for row in found]
