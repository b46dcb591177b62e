"""Fresh pages of feeds: a page that includes one's own write, and one that knows how far its feed is behind.

See docs/explanation/unread.md.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from oneread.database.cursors import LONGEST, Cursor, CursorCipher, equality_of
from oneread.database.operations import Operations
from oneread.database.pages import BoundQuery, Page, bound_page
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
    """What is asked of the page of a feed besides its rows."""

    tasks: tuple[bytes, ...]
    """What the writes that the page includes have left to do."""
    lag: bool


def fresh_page(operations: Operations, bound: BoundQuery, fresh: Freshness, trace: Trace) -> Plan[Page[Any]]:
    """The page, behind what it includes; its lag is read before it, so that a page with lag 0.0 lacks nothing."""
    of, query = bound.of, bound.query
    if type(fresh.lag) is not bool:
        raise InvalidQuery("lag is True or False", view=of.cls, lag=fresh.lag)
    yield from operations.outbox.include(fresh.tasks)
    if not (fresh.lag or operations.marking.is_feed(of.rows_of)):
        return (yield from bound_page(bound, trace))
    feed = operations.marking.feed(of.rows_of)
    if fresh.tasks:
        tasks = fresh.tasks
        for prefix in {branch.member: None for branch in bound.branches}:
            member = prefix[len(of.prefix) :]
            yield from operations.parts.own_writes.include(feed.entries, member, tasks, query.limit)
    seconds = (yield from operations.parts.tasks.oldest_of_feed(feed.parts, feed.groups)) if fresh.lag else None
    found = yield from bound_page(bound, trace)
    found.lag = seconds
    return found
