"""A feed as a kind of view: its rows, (member, newest first, item), each with what a page shows.

No entity emits them: they follow from the rows of the two indexes of `parts`, as `following` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from oneread.derivations.access import Access
from oneread.derivations.derivation import (
    Compiling,
    Keyspace,
    RowForm,
    key_paths,
    key_values,
    owner_offset,
)
from oneread.derivations.expiry import model_expiry, row_expiries
from oneread.derivations.keyed import KeyRule, ViewKey
from oneread.derivations.operations import ViewProgram
from oneread.derivations.rules import rules_of
from oneread.derivations.shown_rows import ShownRows
from oneread.derivations.views import Feed, View
from oneread.encoding.codec import Codec, KeyElement
from oneread.errors import InvalidDeclaration
from oneread.feeds.feed_rules import FeedRules, feed_rules
from oneread.feeds.parts import parts_of_feed
from oneread.models.model import Model
from oneread.models.paths import path_of
from oneread.models.registry import EntityKind
from oneread.models.versions import Description
from oneread.plans.plan import Plan
from oneread.store.keys import VIEW_BYTES
from oneread.store.limits import VALUES_BYTES

KEPT: Final = "kept"
"""The keyspace that says, for each member of a feed with `at_most`, how many entries there are."""


LARGE_ROWS: Final = ("groups", "read", "written")
"""The keyspaces of a feed with large groups: members of groups, and memberships that are read or written."""


class LargeGroupOptions(NamedTuple):
    """What a feed with large groups declares, and the prefixes of its further keyspaces."""

    above: int
    """The items of a group with more members are read."""
    merged: int
    """Large groups that one page merges, at most."""
    groups: bytes
    read: bytes
    written: bytes


class FeedView(ShownRows):
    """One feed, compiled."""

    can_find = False

    def __init__(self, cls: type[Feed[Any]], compiling: Compiling) -> None:
        names = compiling.accesses.names
        self.model = compiling.model
        self.groups = compiling.groups
        self.prefix = compiling.prefix
        self.tokens: tuple[int, ...] = ()
        self.items, self.members = parts_of_feed(cls, compiling.made)
        self.parts: tuple[type[View[Any]], ...] = (self.items.cls, self.members.cls)
        self.rules: FeedRules = feed_rules(cls, names)
        _check_same_group(cls, self.items.key.parts[0], self.members.key.parts[0])
        source: type = self.model if self.groups is None else self.groups.cls
        keyed = self.rules.member | {self.rules.time: self.rules.item[self.rules.time]}
        about = {name: self.rules.membership if name in self.rules.member else source for name in keyed}
        self.key = ViewKey(cls, about, keyed, compiling.accesses, compiling.kinds)
        width = len(self.key.codec.elements) - 1
        self.member_codec = Codec(self.key.codec.elements[:width], max_length=VALUES_BYTES)
        self.group_codec = Codec(self.members.key.parts[0].elements, max_length=VALUES_BYTES)
        self.expires_after, self.at_most = cls.expires_after, cls.at_most
        self.kept = compiling.prefixes.get(KEPT)
        self.large = _large_options(cls, compiling.prefixes)
        self._further = self._further_rows()
        self.merged: tuple[bytes, ...] = () if self.large is None else (self.items.prefix, self.large.read)
        self.items_expire = bool(row_expiries(self.items.cls, source))
        has_expiries = issubclass(source, Model) and model_expiry(source) is not None
        only_refer = keyed if self.groups is None else rules_of(cls)
        super().__init__(cls, only_refer, compiling, has_expiries=has_expiries)

    def program(self) -> ViewProgram:
        raise AssertionError("no entity emits the rows of a feed")

    def keyspaces(self, kind: EntityKind) -> tuple[Keyspace, ...]:
        name, offset = self.cls.__name__, owner_offset(self.key) if self.groups is None else None
        entries = Keyspace(
            self.prefix, "views", name, kind, key_values(self.key), offset, fields=self.named_values, is_joined=True
        )
        return (
            entries,
            *(
                Keyspace(prefix, "views", f"{name}.{field}", kind, decode, is_joined=True)
                for field, prefix, decode in self._further
            ),
        )

    def _further_rows(self) -> list[tuple[str, bytes, Callable[[bytes], tuple[Any, ...]]]]:
        """The keyspaces besides that of the entries: what each is called, its prefix, what decodes its keys."""
        elements, width = self.members.key.codec.elements, len(self.members.key.parts[0].elements)
        group, member = elements[:width], elements[width:]
        further = [] if self.kept is None else [(KEPT, self.kept, _decoder(member))]
        if self.large is not None:
            prefixes = self.large.groups, self.large.read, self.large.written
            decoders = [_decoder(key) for key in (group, member + group, group + member)]
            further += zip(LARGE_ROWS, prefixes, decoders, strict=True)
        return further

    def probed_values(self) -> Iterable[tuple[str, Access, Callable[[Any], object]]]:
        return ()

    def find_many(self, wanted: Sequence[tuple[Any, ...]]) -> Plan[list[Any]]:  # noqa: ARG002 - part of the contract
        raise AssertionError("a feed is paged, `can_find` is false")

    def explain_find(self, place: bytes) -> list[str]:  # noqa: ARG002 - part of the contract
        raise AssertionError("a feed is paged, `can_find` is false")

    def forms(self) -> tuple[RowForm, ...]:
        shown = frozenset(path_of(rule.field).names for rule in rules_of(self.cls).values() if rule.kind == "shown")
        name = self.cls.__name__
        place = key_paths(self.key)
        return (
            RowForm(name, "feed entries", "feed entry", "feed entries", "views", place, shown, "row", paged="rows"),
        )


def _check_same_group(feed: type, item: KeyRule, membership: KeyRule) -> None:
    """Refuses fields whose values cannot be equal."""
    refer_to_two = item.kind is not None and membership.kind is not None and item.kind is not membership.kind
    if refer_to_two or [each.type for each in item.elements] != [each.type for each in membership.elements]:
        raise InvalidDeclaration(
            "joined: both fields refer to the same model, or have the type of its key",
            view=feed, item=item.access.type, membership=membership.access.type,
        )  # fmt: skip


def feed_options(feed: type[Feed[Any]]) -> Description:
    """What the store keeps of a feed's options."""
    joined = feed.joined
    assert joined is not None, "check_feed refuses a feed without it"
    found = [("joined", f"{path_of(joined.item)} = {path_of(joined.membership)}")]
    if feed.expires_after is not None:
        found.append(("expires_after", str(feed.expires_after)))
    if feed.at_most is not None:
        found.append(("at_most", str(feed.at_most)))
    if feed.large_group is not None:
        found.append(("large_group", f"{feed.large_group}, {feed.merged_groups} merged"))
    return tuple(found)


def keyspace_fields(feed: type[Feed[Any]]) -> Iterable[str]:
    """The keyspaces of a feed besides that of its entries."""
    kept = () if feed.at_most is None else (KEPT,)
    return kept if feed.large_group is None else (*kept, *LARGE_ROWS)


def _large_options(feed: type[Feed[Any]], prefixes: Mapping[str, bytes]) -> LargeGroupOptions | None:
    if feed.large_group is None:
        return None
    return LargeGroupOptions(feed.large_group, feed.merged_groups, *[prefixes[field] for field in LARGE_ROWS])


def _decoder(elements: tuple[KeyElement, ...]) -> Callable[[bytes], tuple[Any, ...]]:
    """From a row's key to the values of these elements."""
    decode = Codec(elements).decode_prefix
    return lambda key: decode(key, VIEW_BYTES)[0]
