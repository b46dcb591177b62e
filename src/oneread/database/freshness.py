"""Fresh pages of feeds: a page that includes one's own write, and one that knows how far its feed is behind.

See docs/explanation/unread.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from oneread.database.operations import Operations
from oneread.database.pages import BoundQuery, Page, bound_page
from oneread.database.results import tasks_of
from oneread.derivations.pending_tasks import lag_of_feed
from oneread.errors import InvalidQuery
from oneread.plans.plan import Plan
from oneread.plans.trace import Trace


class Freshness(NamedTuple):
    """What is asked of the page of a feed besides its rows."""

    includes: object
    """What a write returned; None for no write."""
    lag: bool


def fresh_page(operations: Operations, bound: BoundQuery, fresh: Freshness, trace: Trace) -> Plan[Page[Any]]:
    """The page, behind what it includes; its lag is read before it, so that a page with lag 0.0 lacks nothing."""
    of, query = bound.of, bound.query
    if type(fresh.lag) is not bool:
        raise InvalidQuery("lag is True or False", view=of.cls, lag=fresh.lag)
    feed = operations.marking.feed(of.cls)
    if fresh.includes is not None:
        tasks = tasks_of(fresh.includes)
        for prefix in {branch.member: None for branch in bound.branches}:
            member = prefix[len(of.prefix) :]
            yield from operations.own_writes.include(feed.entries, member, tasks, query.limit)
    seconds = (yield from lag_of_feed(feed.parts)) if fresh.lag else None
    found = yield from bound_page(bound, trace)
    found.lag = seconds
    return found
