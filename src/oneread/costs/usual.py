"""What follows one change as a rule: the holders, members and items that bounds expect, unless a store was counted.

See "Bytes" in docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

HOLDERS: Final = 3
"""Holders of an entity's copies that are expected."""

PARTNERS: Final = 20
"""Members of a group, and items of one, that are expected."""


class FanOutSize(msgspec.Struct, frozen=True):
    """How many rows follow one entity or one group, as counted in a store."""

    counted: int
    """Entities or groups that have any."""
    median: int
    most: int
    key: str
    """Which has most, as a person writes it."""
    whole: bool = True
    """False where there are more than were counted: then it is of the first ones."""


class UsualFanOuts(msgspec.Struct, frozen=True):
    """What follows one change in one store."""

    holders: Mapping[str, FanOutSize] = {}
    """Of copies of an entity, by its model's name."""
    members: Mapping[str, FanOutSize] = {}
    """Of a group, by the feed's name."""
    items: Mapping[str, FanOutSize] = {}
    """Of a group, likewise."""

    def holders_of(self, model: type) -> int:
        """Those to expect of an entity of a model."""
        return self._median(self.holders, model, HOLDERS)

    def members_of(self, feed: type) -> int:
        """Those to expect of a group of a feed: they get a changed item."""
        return self._median(self.members, feed, PARTNERS)

    def items_of(self, feed: type) -> int:
        """Those to expect of a group of a feed: a changed membership gives them."""
        return self._median(self.items, feed, PARTNERS)

    def _median(self, counted: Mapping[str, FanOutSize], cls: type, otherwise: int) -> int:
        found = counted.get(cls.__name__)
        return otherwise if found is None else found.median

    def lines(self) -> list[str]:
        """What was counted, a line each, for people."""
        found = [(name, each, "holders of its copies") for name, each in self.holders.items()]
        found += [(name, each, "members of a group") for name, each in self.members.items()]
        found += [(name, each, "items of a group") for name, each in self.items.items()]
        return [
            f"{name}: {each.median:,} {what} at the median, {each.most:,} at the most, of {each.key}"
            + ("" if each.whole else f"; of the first {each.counted:,} that have any")
            for name, each, what in found
        ]


NOTHING_COUNTED: Final = UsualFanOuts()
