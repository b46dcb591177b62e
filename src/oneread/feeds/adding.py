"""What the schema adds for each feed: the two indexes that it is made of. Importing this makes feeds a kind of view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import new_class
from typing import Any

from oneread.derivations.access import Accesses
from oneread.derivations.derivation import VIEW_KINDS, ViewKind
from oneread.derivations.rules import by
from oneread.derivations.views import Feed
from oneread.errors import InvalidDeclaration
from oneread.feeds.feed_rules import FeedRules, about, check_feed, feed_rules
from oneread.feeds.feed_view import FeedView, feed_options, keyspace_fields
from oneread.feeds.parts import GROUP, FeedItems, FeedMembers, FeedPart, FeedPartView
from oneread.models.expiry import expires
from oneread.models.model import Model, stored_name
from oneread.models.paths import path_of
from oneread.models.types import Names, field_types, unwrap


def feed_parts(feeds: Mapping[type[Feed[Any]], type[Any]], names: Names) -> tuple[type[FeedPart[Any]], ...]:
    """The two indexes of each feed; `feeds` say which model or aggregate the items of each are."""
    accesses = Accesses(names)
    return tuple(part for feed, of in feeds.items() for part in _parts_of(feed, of, accesses))


def _parts_of(feed: type[Feed[Any]], of: type[Any], accesses: Accesses) -> Iterable[type[FeedPart[Any]]]:
    rules, joined = feed_rules(feed, accesses.names), feed.joined
    assert joined is not None, "feed_rules refuses a feed without it"
    types = field_types(feed, accesses.names)
    _check_items(feed, of, rules, accesses)
    item = accesses.of_path(feed, "joined", joined.item, of)
    membership = accesses.of_path(feed, "joined", joined.membership, rules.membership)
    shown = {name: (types[name], rule) for name, rule in rules.item.items()}
    items: Any = FeedItems[of]  # type: ignore[valid-type]
    yield _part_of(feed, items, "items", {GROUP: (item.type, by(joined.item)), **shown}, _options(feed, rules, of))
    member = {name: (types[name], rule) for name, rule in rules.member.items()}
    members: Any = FeedMembers[rules.membership]  # type: ignore[name-defined]
    yield _part_of(feed, members, "members", {GROUP: (membership.type, by(joined.membership)), **member}, {})


def _check_items(feed: type[Feed[Any]], of: type[Any], rules: FeedRules, accesses: Accesses) -> None:
    """Refuses what is not of the items, by the feed's own name, before there are classes that no program declares."""
    for name, rule in rules.item.items():
        if not issubclass(of, path_of(rule.field).declared_in):
            raise InvalidDeclaration(
                "a feed shows fields that all its items have: declare it in their model, or read the items of a page "
                "by get_many; what is of the membership, or of a variant, is not there",
                view=feed, field=name, path=str(path_of(rule.field)), items=of,
            )  # fmt: skip
    given = unwrap(accesses.of_path(feed, rules.time, rules.item[rules.time].field, of).type).bare
    if given is not datetime:
        raise InvalidDeclaration(
            "the time of a feed is an instant: made_at: datetime = newest(Post.made_at)",
            view=feed, field=rules.time, type=given,
        )  # fmt: skip
    if feed.expires_after is not None and feed.at_most is None and not issubclass(of, Model):
        raise InvalidDeclaration(
            "groups of an aggregate are not swept, so a feed of them says what bounds it: at_most = 500, or "
            "expires_after = None to keep and show all",
            view=feed, expires_after=feed.expires_after,
        )  # fmt: skip


def _options(feed: type[Feed[Any]], rules: FeedRules, of: type[Any]) -> dict[str, Any]:
    """The class options of a feed's items, whose rows expire as those of an index do.

    Those of an aggregate's groups do not: pages leave out what is too old, and `at_most` bounds what is stored.
    """
    options: dict[str, Any] = {"where": feed.where}
    if feed.expires_after is not None and issubclass(of, Model):
        options["ttl"] = expires(rules.item[rules.time].field, after=feed.expires_after)
    return options


def _part_of(
    feed: type[Feed[Any]], base: Any, name: str, fields: Mapping[str, tuple[Any, Any]], options: Mapping[str, Any]
) -> type[FeedPart[Any]]:
    def declare(space: dict[str, Any]) -> None:
        space |= {
            "__module__": feed.__module__,
            "__annotations__": {field: annotation for field, (annotation, _rule) in fields.items()},
            "__doc__": f"The {name} of {feed.__name__}.",
            "stored_as": f"{stored_name(feed)}.{name}",
            "feed": feed,
            **options,
            **{field: rule for field, (_annotation, rule) in fields.items()},
        }

    return new_class(f"{feed.__name__}.{name}", (base,), {}, declare)


VIEW_KINDS[FeedPart] = ViewKind(FeedPartView)
VIEW_KINDS[Feed] = ViewKind(FeedView, check_feed, keyspace_fields, feed_options, about, can_be_watched=True)
