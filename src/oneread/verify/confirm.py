"""Suspects become faults by looks that are apart and agree, where a scan sees rows of different moments.

See docs/decisions/0104-verify-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

from oneread.plans.effects import Sleep
from oneread.plans.plan import Plan


class Wrong(Protocol):
    """What a look finds wrong with a suspect."""

    @property
    def identity(self) -> Hashable:
        """What makes it the same as what another look finds."""


W = TypeVar("W", bound=Wrong)


class Seen(NamedTuple, Generic[W]):
    """What is wrong, by suspect, and which suspects cannot be judged because others are changing them."""

    found: dict[bytes, list[W]]
    unsettled: set[bytes]


class Pace(NamedTuple):
    """How often suspects are looked at, and how many seconds apart."""

    looks: int
    apart: float
    agreeing: int = 1
    """Looks from the first to the last that must agree."""


def confirm(suspects: Iterable[bytes], look: Callable[[list[bytes]], Plan[Seen[W]]], pace: Pace) -> Plan[Seen[W]]:
    """What is wrong by looks that agree, and the suspects that were being changed whenever they were looked at."""
    sure: dict[bytes, list[W]] = {}
    before: dict[bytes, tuple[set[Hashable], int]] = {}
    rest = list(suspects)
    for number in range(pace.looks):
        if number:
            yield from Sleep(pace.apart)
        seen = yield from look(rest)
        again = set(seen.unsettled)
        for suspect, wrong in seen.found.items():
            now = {each.identity for each in wrong}
            known, since = before.get(suspect, (set[Hashable](), number))
            if not now <= known:
                since = number
                before[suspect] = now, since
            if number - since >= pace.agreeing:
                sure[suspect] = wrong
            else:
                again.add(suspect)
        rest = [each for each in rest if each in again]
        if not rest:
            break
    return Seen(sure, set(rest))
