"""What a schema would cost if one declaration had another option: compiled again, for nothing but this question."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from oneread.costs.bounds import Bound, Span, counted
from oneread.costs.declared import Costs
from oneread.derivations.aggregates import AggregateView
from oneread.derivations.catalog import Catalog, open_catalog
from oneread.derivations.compile_schema import Declarations, compile_schema
from oneread.feeds.feed_view import FeedView, LargeGroupOptions
from oneread.store.keys import SPREAD_BYTES

ChangedOption: TypeAlias = Literal["spread", "shards", "large_group"]
_NO_PREFIX: Final = b""


class ChangedCosts:
    """The bounds of a schema as it is, and as it would be with another value of an option."""

    def __init__(self, catalog: Catalog, inline: int, span: Span) -> None:
        self.catalog = catalog
        self._inline = inline
        self._span: Span = span
        self.before = Costs(catalog, inline, span)

    def after(self, cls: type, option: ChangedOption, value: int) -> Costs:
        """The bounds with another value of an option of this model or view."""
        found = self.catalog
        own = open_catalog(
            compile_schema(Declarations(found.models, tuple(found.views), found.names), found.numbers)
        )  # nothing else has it, so that it may be changed
        _change(own, cls, option, value)
        return Costs(own, self._inline, self._span)


def _change(own: Catalog, cls: Any, option: ChangedOption, value: int) -> None:
    view = own.views.get(cls)
    if view is None:
        own.kinds[cls].spread = value
    elif option == "spread":
        view.key.spread, view.key.spread_bytes = value, SPREAD_BYTES
    elif isinstance(view, AggregateView):
        view.shards = min(value, own.numbers.form.most_shards)
    elif isinstance(view, FeedView):
        rows = LargeGroupOptions(value, cls.merged_groups, _NO_PREFIX, _NO_PREFIX, _NO_PREFIX)
        view.large, view.merged = rows, (view.items.prefix, rows.read)


def compared(what: str, before: Bound, after: Bound) -> str:
    """How two bounds differ, for people: what is the same is said once."""
    if (before.rows, before.requests, before.rounds) == (after.rows, after.requests, after.rounds):
        return f"{what} costs what it did, {counted(after.rows, 'row')} in {counted(after.requests, 'request')} at most"
    return (
        f"{what} costs {counted(after.rows, 'row')} in {counted(after.requests, 'request')} of "
        f"{counted(after.rounds, 'round')} at most, before {before.rows:,} in {before.requests:,} of {before.rounds:,}"
    )


def stated(what: str, bound: Bound) -> str:
    """A bound, for people."""
    return f"{what} costs {counted(bound.rows, 'row')} in {counted(bound.requests, 'request')} at most"
