"""Feeds: how far their entries are behind, and how each is read."""

from __future__ import annotations

from datetime import timedelta

from oneread.console.asking import Ask
from oneread.console.blocks import Column, ConsolePage, Table, number, says
from oneread.console.pages.data import bound_text, declared_views, key_text
from oneread.console.pages.tasks import COUNTED
from oneread.derivations.pending_tasks import TaskLag
from oneread.derivations.views import Feed
from oneread.models.model import stored_name


async def show_feeds(ask: Ask) -> ConsolePage:
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
                    says(bound_text(ask.costs.page(feed))),
                ]
            )
    columns = [
        Column("feed"), Column("by"), Column("fan-outs waiting", right=True), Column("oldest, s", right=True),
        Column("kept"), Column("a page, at most", right=True),
    ]  # fmt: skip
    return ConsolePage("Feeds", [Table("", columns, rows, empty="the schema has no feeds")], live=2)


def _time(kept: timedelta) -> str:
    return str(kept)
