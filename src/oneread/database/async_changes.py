"""The verbs that follow what changes in views and models, on the asynchronous face.

The synchronous face is generated from this module.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, TypeVar

from oneread.database.lists import Asked, Listed
from oneread.database.operations import Operations
from oneread.database.pages import Query, bounds_of
from oneread.database.watching import (
    PACE_SECONDS,
    WAIT_SECONDS,
    Changes,
    Watcher,
    changes_cursor,
    check_seconds,
    shared_log,
)
from oneread.derivations.views import AnyView
from oneread.models.model import Model
from oneread.plans.effects import Sleep
from oneread.plans.plan import Plan
from oneread.store.limits import CHANGES

if TYPE_CHECKING:
    from oneread.database.cursors import CursorCipher

P = TypeVar("P", bound="Model[*tuple[Any, ...]] | AnyView")
R = TypeVar("R")


class AsyncChangeVerbs:
    """The verbs `changes` and `changes_cursor` of an open store."""

    operations: Operations
    _cipher: CursorCipher
    _lists: dict[Any, Listed]

    if TYPE_CHECKING:

        async def run(self, plan: Plan[R]) -> R: ...
        async def _list(self, view: type, query: Query | None = None) -> Listed: ...

    async def changes(  # noqa: PLR0913 - each option narrows one range; all but the view are optional
        self,
        view: type[P],
        *equal: Any,
        cursor: str | None = None,
        limit: int | None = None,
        pace: float = PACE_SECONDS,
        wait: float = WAIT_SECONDS,
        since: Asked = None,
        after: Asked = None,
        until: Asked = None,
        through: Asked = None,
        starts_with: str | bytes | None = None,
    ) -> AsyncGenerator[Changes[P]]:
        """What changes in a page's range, without an end: `async for changes in db.changes(PurchasesOfBuyer, 12347)`.

        The view declares for how long its changes are kept: `watched = timedelta(hours=1)`. Take a cursor with
        `changes_cursor` first, read the page, then follow from that cursor: nothing is missed, and what comes twice is
        the same. Of a model that declares `logged = timedelta(days=7)` it gives the entities that were written, made to
        follow a source, or deleted: for search engines, caches and warehouses. A batch has the rows as they are when it
        is read, each row once; it is empty after `wait` seconds without a change, so that its cursor does not grow old
        and the loop can end.

        Costs one request and two rows for each look, which watchers of one view in a process share; with changes one
        more for the entries of the log, one for each transaction or 100 rows, those of other ranges included, and one
        for the rows that changed in this range. Of a feed with large groups one more, for which of them the member
        reads, and a row for each changed one in each of them.

        Arguments:
            view: a watched index or feed, or a logged model.
            equal: values of the first key fields, as for `page`.
            cursor: of `changes_cursor`, or `changes.cursor`; without one, the first batch is empty, comes at once and
                has the cursor of now.
            limit: rows of a batch, and entries of the log that are read for it, at most; by default 100, or the view's
                `max_limit` where that is less.
            pace: seconds between two looks.
            wait: seconds without a change after which an empty batch comes.
            since: a bound, as for `page`.
            after: a bound.
            until: a bound.
            through: a bound.
            starts_with: as for `page`.

        Raises:
            Expired: what follows the cursor is not kept any more, or the view was built again, or the member of a feed
                reads other large groups than before: read the page again.
            InvalidCursor: the cursor was tampered with or belongs to another view.
            InvalidQuery: the view is not watched, or the model not logged, or it cannot answer this.
            SchemaMismatch: a newer program has changed or dropped the view, or does not watch or log it.

        Examples:
            ```python
            cursor = await db.changes_cursor(PurchasesOfBuyer)
            page = await db.page(PurchasesOfBuyer, 12347, limit=10)
            async for changes in db.changes(PurchasesOfBuyer, 12347, cursor=cursor, wait=0):
                for change in changes:
                    print("removed" if change.is_removed else "put", change.source)
                break
            ```
        """
        check_seconds(pace, wait)
        shared_log(self.operations, view)
        of = self._lists.get(view) or await self._list(view)
        bounds = bounds_of(since, after, until, through)
        most = min(CHANGES, of.max_limit) if limit is None else limit
        query = Query(equal, most, cursor, bounds=bounds, starts_with=starts_with)
        watcher = Watcher(self.operations, of, query, self._cipher)
        age, quiet = 0.0, wait if cursor is None else 0.0
        while True:
            found = await self.run(watcher.step(age))
            if found.rows or (quiet >= wait and not found.more):
                yield found
                age = quiet = 0.0
            if not found.more:
                await self.run(Sleep(pace).__iter__())
                age, quiet = pace / 2, quiet + pace

    async def changes_cursor(self, view: type[Model[*tuple[Any, ...]] | AnyView]) -> str:
        """A cursor from which `changes` returns everything that changes in a watched view or logged model from now on.

        It is good for each of its ranges. Take it before you read the page: what changes in between comes again. One
        request, two rows.

        Raises:
            InvalidQuery: the view is not watched, or the model not logged.

        Examples:
            ```python
            cursor = await db.changes_cursor(PurchasesOfBuyer)
            page = await db.page(PurchasesOfBuyer, 12347, limit=10)
            ```
        """
        shared_log(self.operations, view)
        of = self._lists.get(view) or await self._list(view)
        return await self.run(changes_cursor(self.operations, of, self._cipher))
