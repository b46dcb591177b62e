"""Explanations: what one call would ask of the store, in words and as data.

See docs/explanation/costs.md.
"""

from __future__ import annotations

import msgspec

from oneread.costs.bounds import Bound
from oneread.costs.numbers import seconds_text


class Explanation(msgspec.Struct, frozen=True):
    """What one call would do; nothing was done.

    Arguments:
        call: as it was given.
        plan: what it would ask for, request by request, with keys and ranges.
        bound: the most that it costs.
        seconds: that it takes, when numbers were given.
        notes: what to know about the prediction.
    """

    call: str
    plan: tuple[str, ...]
    bound: Bound
    seconds: float | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [self.call, *(f"  {line}" for line in self.plan), *str(self.bound).splitlines()]
        if self.seconds is not None:
            lines.append(f"about {seconds_text(self.seconds)}, if it costs all that")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])
