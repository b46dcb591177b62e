"""The share of entities for which launched views are written: changed and reported beside what their launches have.

See docs/decisions/0149-writes-by-percent.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from oneread.database.operations import Operations
from oneread.derivations.replacing import Replacing
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import UsageError
from oneread.evolution.writing_shares import change_share, refuse_share
from oneread.launches.reports import LaunchReport
from oneread.launches.sides import check_percent
from oneread.launches.state import NEW_STATE, LaunchState, shown_percent
from oneread.models.model import stored_name
from oneread.models.versions import ALL
from oneread.plans.plan import Plan

_NO_VIEW = "`writes` is of the launch of a view, one of this schema that another replaces"
_IS_READ = "a view that answers or is compared is written for all entities: set reads and shadow to 0 first"
_NOT_WRITTEN = "the new view is not written for all entities: set writes to 100, and run `oneread backfill`"


class ViewWrites:
    """Of the launched views of one open database."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self.pairs = {stored_name(pair.new.cls): pair for pair in operations.sides.launched.values()}
        """By the names of launches."""

    def pair(self, name: str, what: str) -> Replacing:
        """Both views of a launch. Raises UsageError for one that is not of a view of this schema."""
        pair = self.pairs.get(name)
        if pair is None:
            raise UsageError(what, launch=name, known=sorted(self.pairs))
        return pair

    def check_readable(self, name: str) -> Plan[None]:
        """Raises UsageError or NotReady unless the new view of a launch may be read; nothing for other launches.

        A request, and one more where the schema row has changed.
        """
        pair = self.pairs.get(name)
        if pair is not None:
            yield from self._operations.fence.refresh()
            percent = self._operations.catalog.learned.shares.percent(pair.new)
            if percent < ALL:
                raise UsageError(_NOT_WRITTEN, launch=name, writes=percent)
            self._operations.fence.check(pair.new.cls)

    def check_share(self, name: str) -> None:
        """Raises UsageError for the launch of no view, or of one that must be written for all entities."""
        refuse_share(self._operations.catalog, self.pair(name, _NO_VIEW).new)

    def change(self, name: str, percent: float, by: str, *, is_read: bool) -> Plan[None]:
        """Changes for which share of the entities a view is written: two requests, and what changes the schema row.

        `is_read` says that it is to be read or compared as well.
        """
        percent = check_percent("writes", percent)
        self.pair(name, _NO_VIEW)
        operations = self._operations
        if percent < ALL:
            self.check_share(name)
            (known,) = yield from operations.launches.states([name])
            state: LaunchState = known or NEW_STATE
            if is_read or state.reads or state.shadow:
                raise UsageError(_IS_READ, launch=name, writes=percent, reads=state.reads, shadow=state.shadow)
        before = (yield from stored_schema()).views[name].writes
        if before != percent:
            yield from change_share(operations.committer, name, percent)
            yield from operations.fence.refresh()
            what = f"writes {shown_percent(before)} -> {shown_percent(percent)}"
            yield from operations.launches.note(name, what, by)

    def reported(self, reports: Sequence[LaunchReport]) -> Plan[list[LaunchReport]]:
        """Reports with what the schema row says of views; a request where there is a launched view."""
        if self.pairs.keys().isdisjoint(each.name for each in reports):
            return list(reports)
        views = (yield from stored_schema()).views
        found: list[LaunchReport] = []
        for each in reports:
            view = views.get(each.name) if each.name in self.pairs else None
            if view is not None and view.state == "building":
                phase = "building" if view.writes else "stopped"
                found.append(msgspec.structs.replace(each, phase=phase, writes=view.writes))
            else:
                found.append(each)
        return found
