"""Generated keys: UUIDs of version 7 (RFC 9562, section 5.7), which sort by the instant they were made at.

See RFC 9562.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from oneread.errors import UsageError

RANDOM_BITS: Final = 74
COUNTER_BITS: Final = 42
"""With a counter, this many of the random bits hold it (section 6.2, method 1), and 32 stay random."""

_MILLISECOND_BITS: Final = 48
_LOW_BITS: Final = 62  # rand_b: what stands behind the variant
_VERSION: Final = 7 << 76
_VARIANT: Final = 2 << 62


def uuid7(milliseconds: int, random: int, counter: int | None = None) -> UUID:
    """The UUID of an instant.

    Arguments:
        milliseconds: since 1970, below 2**48.
        random: 74 random bits.
        counter: below 2**42; for equal milliseconds a greater one gives a greater UUID. It takes the place of the upper
            random bits.

    Raises:
        UsageError: a number is out of its range.
    """
    for number, bits in ((milliseconds, _MILLISECOND_BITS), (random, RANDOM_BITS), (counter or 0, COUNTER_BITS)):
        if not 0 <= number < 1 << bits:
            raise UsageError("a number of a generated key is out of its range", given=number, bits=bits)
    if counter is not None:
        rest = RANDOM_BITS - COUNTER_BITS
        random = counter << rest | random & (1 << rest) - 1
    high, low = random >> _LOW_BITS, random & (1 << _LOW_BITS) - 1
    return UUID(int=milliseconds << 80 | _VERSION | high << 64 | _VARIANT | low)
