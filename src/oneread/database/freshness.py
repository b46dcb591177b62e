"""Fresh pages: one of a feed that includes one's own write, and one that knows how far its feed or groups are behind.

See docs/explanation/unread.md, and "Groups with a ttl" of docs/explanation/expiry.md.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from oneread.database.cursors import LONGEST, Cursor, CursorCipher, equality_of
from oneread.database.expiry_sweep import lag_of_groups
from oneread.database.operations import Operations
from oneread.database.pages import BoundQuery, Page, bound_page
from oneread.derivations.derivation import CompiledView
from oneread.derivations.views import Aggregate
from oneread.errors import InvalidQuery, LimitExceeded
from oneread.plans.plan import Plan
from oneread.plans.trace import Trace

_TOKEN: Final = equality_of([b"tasks of a write"])
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode


def make_token(cipher: CursorCipher, tasks: tuple[bytes, ...]) -> str:
    """Tasks as text; raises LimitExceeded when they are too many."""
    token = cipher.encode(Cursor(0, 0, backward=False, equality=_TOKEN, key=_encode(tasks)))
    if len(token) > LONGEST:
        raise LimitExceeded("too many tasks for one token; wait for them here", tasks=len(tasks))
    return token


def read_token(cipher: CursorCipher, token: str) -> tuple[bytes, ...]:
    """The tasks of a token. Raises InvalidCursor."""
    return _decode(cipher.decode(token, view=0, generation=0, equality=_TOKEN).key)


class Freshness(NamedTuple):
    """What is asked of a page besides its rows."""

    tasks: tuple[bytes, ...]
    """What the writes that the page includes have left to do."""
    lag: bool


def fresh_page(operations: Operations, bound: BoundQuery, fresh: Freshness, trace: Trace) -> Plan[Page[Any]]:
    """The page, behind what it includes; its lag is read before it, so that a page with lag 0.0 lacks nothing.

    It is the lag of a feed, or that of groups with a ttl, or of a list of them.
    """
    of, query = bound.of, bound.query
    if type(fresh.lag) is not bool:
        raise InvalidQuery("lag is True or False", view=of.cls, lag=fresh.lag)
    yield from operations.outbox.include(fresh.tasks)
    if fresh.tasks and operations.marking.is_feed(of.rows_of):
        entries = operations.marking.feed(of.rows_of).entries
        for prefix in {branch.member: None for branch in bound.branches}:
            member = prefix[len(of.prefix) :]
            yield from operations.parts.own_writes.include(entries, member, fresh.tasks, query.limit)
    seconds = (yield from _lag_of(operations, of.rows_of)) if fresh.lag else None
    found = yield from bound_page(bound, trace)
    found.lag = seconds
    return found


def _lag_of(operations: Operations, listed: Any) -> Plan[float]:
    if not operations.marking.is_feed(listed):
        return (yield from lag_of_groups(operations.catalog, _groups_with_ttl(operations, listed)))
    feed = operations.marking.feed(listed)
    return (yield from operations.parts.tasks.oldest_of_feed(feed.parts, feed.groups))


def _groups_with_ttl(operations: Operations, listed: Any) -> CompiledView:
    """The aggregate whose groups are listed. Raises InvalidQuery where a list has no lag."""
    view = operations.catalog.views.get(listed)
    found = view if view is None or view.groups is None else view.groups
    if found is None or not issubclass(found.cls, Aggregate) or found.cls.ttl is None:
        raise InvalidQuery("a page has a lag if it is of a feed, or of groups with a ttl", view=listed)
    return found
