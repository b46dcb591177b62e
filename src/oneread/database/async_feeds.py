"""The verbs of feeds beside `page`: what a member has seen and read, and how much of it is new.

Each verb is documented here; what it does is in `marking`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from oneread.database.marking import MOST_COUNTED, Unread
from oneread.database.operations import Operations
from oneread.database.results import Outcome, attach_outcome
from oneread.database.worker import Worker
from oneread.derivations.views import AnyFeed
from oneread.feeds.marks import Marks
from oneread.plans.plan import Plan
from oneread.plans.trace import Observer, Trace

if TYPE_CHECKING:
    from oneread.plans.async_driver import AsyncDriver

F = TypeVar("F", bound="AnyFeed")
R = TypeVar("R")


class AsyncFeedVerbs:
    """The verbs of feeds of an open store."""

    operations: Operations
    _driver: AsyncDriver
    _observers: tuple[Observer, ...]
    _worker: Worker | None

    def _wake(self, tasks: Sequence[bytes]) -> None:
        """Lets the worker, if there is one, do the tasks that a commit left."""
        if tasks and self._worker is not None:
            self._worker.wake()

    async def mark(
        self,
        feed: type[F],
        *member: Any,
        seen: F | bool | None = None,
        read: F | bool | None = None,
        back: bool = False,
    ) -> Marks:
        """Marks what a member has seen and read of a feed; returns both marks.

        Each mark is a position in the feed: this entry and all older ones are seen, or read. The two are independent.
        The feed's class says `marks = True`. Give the entry that a page showed first: with True, an entry that came
        since is marked, too.

        Costs one commit, of a read and a write, and at the first mark a read of the member more; with True a scan of
        one row before. A mark that is there already is not written. `seen=False, read=False` deletes the row.

        Arguments:
            feed: a feed of the schema.
            member: whose feed it is: as `page` takes it.
            seen: an entry of the feed, a row of its page; True for its newest entry; False takes the mark away; None
                leaves it.
            read: the same of what was read.
            back: lets a mark move to an older entry, which is else left out.

        Raises:
            InvalidQuery: the feed has no marks, or something else was given than an entry of this member's feed.
            InvalidKey: the member is not whole.
            MissingReference: there is no such member. With True of a feed without entries nothing is marked, so the
                member is not looked for.
            NotReady: the feed is still being built.

        Examples:
            ```python
            page = await db.page(Home, 7)
            await db.mark(Home, 7, seen=page[0])
            ```
        """
        trace = Trace(self._observers)
        plan = self.operations.marking.mark(feed, member, {"seen": seen, "read": read}, back=back)
        found, tasks = await self._driver.run(plan, trace)
        attach_outcome(found, Outcome(0, trace, tuple(tasks)))
        self._wake(tasks)
        return found

    async def marks(self, feed: type[AnyFeed], *member: Any) -> Marks:
        """What a member has seen and read of a feed: `marks.has_read(entry)`. One request, one row.

        Arguments:
            feed: a feed of the schema with `marks = True`.
            member: whose feed it is.

        Raises:
            InvalidQuery: the feed has no marks.
            InvalidKey: the member is not whole.

        Examples:
            ```python
            marks = await db.marks(Home, 7)
            new = [entry for entry in await db.page(Home, 7) if not marks.has_read(entry)]
            ```
        """
        return await self._with_cost(self.operations.marking.marks(feed, member))

    async def unread(self, feed: type[AnyFeed], *member: Any, limit: int = MOST_COUNTED) -> Unread:
        """How many entries of a feed are newer than a member's marks, exactly up to a limit: `str(found)` is "99+".

        Without a mark, all are. An entry that comes late, with a time before the mark, is not counted. Costs two
        requests: a row for the marks, and the keys of the entries newer than the older mark, limit + 1 at most. Where
        entries have expired by a `ttl` and are not swept yet, up to 100 rows more; then `more_unread` may mean that
        they ended the count.

        Arguments:
            feed: a feed of the schema with `marks = True`.
            member: whose feed it is.
            limit: how far to count.

        Raises:
            InvalidQuery: the feed has no marks, or the limit is out of bounds.
            InvalidKey: the member is not whole.
            NotReady: the feed is still being built.

        Examples:
            ```python
            found = await db.unread(Home, 7)
            print(found.unseen_text, found.unread_text)
            ```
        """
        return await self._with_cost(self.operations.marking.unread(feed, member, limit))

    async def _with_cost(self, plan: Plan[R]) -> R:
        """Runs a plan that reads; its result knows what it cost."""
        trace = Trace(self._observers)
        found = await self._driver.run(plan, trace)
        attach_outcome(found, Outcome(0, trace))
        return found
