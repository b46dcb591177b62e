"""Feeds: how far their entries are behind, and how each is read."""

from __future__ import annotations

from datetime import timedelta

from oneread.console.asking import PageRequest
from oneread.console.blocks import ConsolePage, TableBlock, columns, number, says
from oneread.console.pages.data import bound_text, declared_views, key_text
from oneread.console.pages.tasks import COUNTED
from oneread.derivations.pending_tasks import TaskLag
from oneread.derivations.views import Feed
from oneread.models.model import stored_name


async def show_feeds(ask: PageRequest) -> ConsolePage:
    """All feeds of the schema."""
    found = await ask.db.survey(most=COUNTED)
    rows = []
    for feed in declared_views(ask):
        if issubclass(feed, Feed):
            lag = found.feeds.get(stored_name(feed), TaskLag())
            kept = "without end" if feed.expires_after is None else _time(feed.expires_after)
            rows.append(
                [
                    says(feed.__name__, link=ask.link_of(feed)),
                    says(key_text(ask.catalog, feed)),
                    number(lag.waiting),
                    number(lag.oldest),
                    says(kept),
                    says(bound_text(ask.page_bound(feed)[1])),
                    says("compare a member's", link=ask.link(f"/feeds/{feed.__name__}")),
                ]
            )
    waiting, cost = ("fan-outs waiting", "oldest, s"), "a page, at most"
    heads = columns("feed", "by", *waiting, "kept", cost, "", right=(*waiting, cost))
    return ConsolePage("Feeds", [TableBlock("", heads, rows, empty="the schema has no feeds")], live=2)


def _time(kept: timedelta) -> str:
    return str(kept)
