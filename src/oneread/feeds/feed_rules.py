"""The rules of a feed: which fields are of its memberships and which of its items, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, NamedTuple

from oneread.derivations.rules import FeedJoin, Rule, rules_of
from oneread.derivations.views import Feed
from oneread.errors import InvalidDeclaration
from oneread.models.model import Model
from oneread.models.paths import Path, path_of
from oneread.models.registry import root_model
from oneread.models.types import Names

MOST_MEMBERS: Final = 1_000_000_000
"""The greatest `large_group`."""

MOST_MERGED: Final = 100
"""The greatest `merged_groups`."""

_WRITE_JOINED: Final = (
    "a feed says which items a membership shows: joined = on(Post.group, Membership.group), with a field of the item "
    "and one of the membership's model"
)


class FeedRules(NamedTuple):
    """The rules of a feed's fields, by what they are about."""

    membership: type[Model[Any]]
    member: dict[str, Rule]
    """Of the membership: whose feed it is."""
    time: str
    """The field of the item's instant."""
    item: dict[str, Rule]
    """Of the item, the instant first."""


def feed_rules(feed: type[Feed[Any]], names: Names) -> FeedRules:
    """The rules of a feed. Raises InvalidDeclaration for what a feed cannot be."""
    joined: Any = feed.joined
    if not isinstance(joined, FeedJoin):
        raise InvalidDeclaration(_WRITE_JOINED, view=feed, joined=joined)
    membership = _membership(feed, path_of(joined.membership), names)
    rules = rules_of(feed)
    member: dict[str, Rule] = {}
    item: dict[str, Rule] = {}
    for name, rule in rules.items():
        _check_kind(feed, name, rule)
        if rule.kind == "key" and not item and not _is_time(rule):
            _check_member(feed, name, rule, membership)
            member[name] = rule
        else:
            item[name] = rule
    if not member:
        raise InvalidDeclaration(
            "a feed begins with whose it is: member: Ref[Member] = by(Membership.member)", view=feed
        )
    keyed = [name for name, rule in item.items() if rule.kind == "key"]
    if len(keyed) != 1 or next(iter(item)) != keyed[0] or not _is_time(item[keyed[0]]):
        raise InvalidDeclaration(
            "behind its by(...) a feed has one time of the item, newest(Post.at), and then what it shows", view=feed,
            fields=keyed,
        )  # fmt: skip
    return FeedRules(membership, member, keyed[0], item)


def _is_time(rule: Rule) -> bool:
    return rule.kind == "key" and rule.descending


def _check_kind(feed: type, name: str, rule: Rule) -> None:
    if rule.kind == "fold":
        raise InvalidDeclaration(
            "a feed has no totals; let it list the groups of an Aggregate: class Lines(Feed[JoinsOfDay])",
            view=feed, field=name,
        )  # fmt: skip
    if rule.kind == "key" and (rule.none is not None or rule.hashed or path_of(rule.field).every):
        raise InvalidDeclaration(
            "the member and the time of a feed are plain values: by(Membership.member), newest(Post.at)",
            view=feed, field=name,
        )  # fmt: skip


def _check_member(feed: type, name: str, rule: Rule, membership: type) -> None:
    if not issubclass(membership, path_of(rule.field).declared_in):
        raise InvalidDeclaration(
            "the first by(...) of a feed are fields of the membership's model, which is second in `joined`",
            view=feed, field=name, path=str(path_of(rule.field)), membership=membership,
        )  # fmt: skip


def _membership(feed: type, path: Path, names: Names) -> type[Model[Any]]:
    """The model of a feed's memberships: the one of the schema that has the field."""
    if path.every:
        raise InvalidDeclaration("a membership is in one group: on(Post.group, Membership.group)", view=feed)
    known = [each for each in names.values() if isinstance(each, type) and issubclass(each, Model)]
    found = {root_model(each) for each in known if issubclass(each, path.declared_in)}
    if len(found) != 1:
        raise InvalidDeclaration(
            "joined: the second field is of one model of the schema, that of the memberships; add it to the schema",
            view=feed,
            path=str(path),
            models=sorted(found, key=str),
        )
    return found.pop()


def check_feed(feed: type[Feed[Any]], names: Names) -> None:
    """Checks the options and the rules of a feed."""
    feed_rules(feed, names)
    expires: Any = feed.expires_after
    if expires is not None and (type(expires) is not timedelta or expires < timedelta(milliseconds=1)):
        raise InvalidDeclaration(
            "expires_after: expected an age of a millisecond or more, as timedelta(days=61), or None", view=feed,
            expires_after=expires,
        )  # fmt: skip
    most: Any = feed.at_most
    if most is not None and (type(most) is not int or most < 1):
        raise InvalidDeclaration("at_most: expected a number of entries, 1 or more, or None", view=feed, at_most=most)
    _check_large_groups(feed)


def _check_large_groups(feed: type[Feed[Any]]) -> None:
    """Refuses bounds that are not plain numbers in range."""
    above: Any = feed.large_group
    if above is not None and (type(above) is not int or not 1 <= above <= MOST_MEMBERS):
        raise InvalidDeclaration(
            "large_group: expected a number of members, above which items are read and not written, or None", view=feed,
            large_group=above, limit=MOST_MEMBERS,
        )  # fmt: skip
    merged: Any = feed.merged_groups
    if type(merged) is not int or not 1 <= merged <= MOST_MERGED:
        raise InvalidDeclaration(
            "merged_groups: expected how many large groups a page may merge", view=feed, merged_groups=merged,
            limit=MOST_MERGED,
        )  # fmt: skip


def about(feed: type[Feed[Any]], of: type[Any], names: Names) -> dict[str, type[Any]]:
    """By field, the model that its rule's path begins at: that of the memberships, or the items' (`of`)."""
    rules = feed_rules(feed, names)
    return {**dict.fromkeys(rules.member, rules.membership), **dict.fromkeys(rules.item, of)}
