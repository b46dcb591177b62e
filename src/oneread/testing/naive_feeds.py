"""Feeds in the plainest way: every item of each group beside every membership in that group.

See "Semantics" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

from oneread.derivations.rules import Rule, by, rules_of
from oneread.derivations.views import Feed
from oneread.feeds.feed_rules import feed_rules
from oneread.models.paths import Path, path_of
from oneread.models.references import Ref
from oneread.models.types import Names
from oneread.testing.naive import look
from oneread.testing.naive_entities import Entry, Held, KeyParts, Place

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Joint: TypeAlias = tuple[Any, ...]
"""A group as plain values: a reference stands for its key, as a value of the key's type does."""


class FeedItem(NamedTuple):
    """An item in one of its groups."""

    group: Joint
    time: datetime
    place: Place
    held: Held


class FeedMembership(NamedTuple):
    """A membership."""

    group: Joint
    member: tuple[Any, ...]


class FeedSides(NamedTuple):
    """What a feed joins; an item is there once for each of its groups."""

    items: list[FeedItem]
    memberships: list[FeedMembership]

    def counts(self) -> dict[str, int]:
        """How many rows there are, by what the name of their keyspace ends in."""
        return {"": len(self.entries()), ".items": len(self.items), ".members": len(self.memberships)}

    def entries(self) -> list[Entry]:
        """Each item once for each member who is in one of its groups, those that have expired too."""
        joined = {
            (whose.member, item.place): item
            for item, whose in product(self.items, self.memberships)
            if item.group == whose.group
        }
        return [((*whose, item.time), place, item.held) for (whose, place), item in joined.items()]


class Subjects(NamedTuple):
    """What the sides of a feed are made of."""

    items: Iterable[tuple[Place, Held]]
    """What the feed lists, of which its `where` holds."""
    entities: Mapping[Place, Held]
    keys: Any
    """From an entity or a group, and rules, to the values of the rules: `Oracle.key_values`."""


def sides_of(feed: type[Feed[Any]], rules: Mapping[str, Rule], names: Names, subjects: Subjects) -> FeedSides:
    """Both sides of a feed, in the order of what they are made of; `rules` are the feed's own."""
    found, joined = feed_rules(feed, names), feed.joined
    assert joined is not None, "feed_rules refuses a feed without it"
    of_item: dict[str, Rule] = {"": by(joined.item), found.time: rules[found.time]}
    of_member: dict[str, Rule] = {"": by(joined.membership), **found.member}
    return FeedSides(
        [
            FeedItem(_joint(values[""]), values[found.time], place, held)
            for place, held in subjects.items
            for values in subjects.keys(held, of_item)
        ],
        [
            FeedMembership(_joint(values.pop("")), tuple(values.values()))
            for held in subjects.entities.values()
            if isinstance(held.entity, found.membership)
            for values in subjects.keys(held, of_member)
        ],
    )


def feed_paths(feed: type[Feed[Any]], of: type, names: Names) -> Iterable[tuple[type, Path]]:
    """The paths that a feed of items of a model reads, each with the model that it begins at."""
    found, joined = feed_rules(feed, names), feed.joined
    assert joined is not None, "feed_rules refuses a feed without it"
    for rules, model in ((found.item, of), (found.member, found.membership)):
        yield from [(model, path_of(rule.field)) for rule in rules.values()]
    yield of, path_of(joined.item)
    yield found.membership, path_of(joined.membership)


def _joint(value: object) -> KeyParts:
    return value.key if isinstance(value, Ref) else (value,)


def has_left(feed: type[Feed[Any]], time: datetime, now: int) -> bool:
    """Whether an item of this instant is too old for a feed."""
    if feed.expires_after is None:
        return False
    try:
        return time <= _EPOCH + timedelta(milliseconds=now) - feed.expires_after
    except OverflowError:
        return False


class EverListed:
    """Everything that feeds with `at_most` ever had, since what is trimmed does not come back."""

    def __init__(self, feeds: Iterable[type[Feed[Any]]]) -> None:
        self._ever: dict[type[Feed[Any]], set[tuple[tuple[Any, ...], Place]]] = {
            feed: set() for feed in feeds if feed.at_most is not None
        }

    def note(self, entries: Callable[[type[Feed[Any]]], Iterable[Entry]]) -> None:
        """Notes what the feeds have now."""
        for feed, ever in self._ever.items():
            ever.update([(values, place) for values, place, _held in entries(feed)])

    def must_have(self, feed: type[Feed[Any]], member: tuple[Any, ...], rows: Sequence[Any], found: Any) -> list[Any]:
        """Of the rows of a member's naive join, in order, those that `found` has, or must have.

        A row may lack only if the member ever had `at_most` others that are not older: when it was trimmed, or came too
        late, as many were there.
        """
        if feed not in self._ever or feed.at_most is None:
            return list(rows)
        time = next(name for name, rule in rules_of(feed).items() if rule.kind == "key" and rule.descending)
        ever = [values[-1] for values, _place in self._ever[feed] if values[:-1] == member]
        shown = [look(each) for each in found]
        return [
            row for row in rows if look(row) in shown or sum(at >= getattr(row, time) for at in ever) <= feed.at_most
        ]
