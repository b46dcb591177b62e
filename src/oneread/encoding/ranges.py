"""Ranges: the half-open byte range of the keys with a prefix, and of those whose next element is between bounds.

See docs/formats/keys.md.
"""

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from oneread.encoding.framing import AFTER_VALUES, FIRST_VALUE

T = TypeVar("T")
U = TypeVar("U")


class ByteRange(NamedTuple):
    """The keys k with start <= k < stop; a stop of None is the end of the table."""

    start: bytes
    stop: bytes | None

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and self.start <= key and (self.stop is None or key < self.stop)

    def intersection(self, other: "ByteRange") -> "ByteRange":
        """The keys in both; an empty range has its start as its stop."""
        start = max(self.start, other.start)
        stops = [stop for stop in (self.stop, other.stop) if stop is not None]
        return ByteRange(start, max(start, min(stops)) if stops else None)


def successor(prefix: bytes) -> bytes | None:
    """The least bytes above everything that begins with `prefix`; None when there are none (empty, or all 0xFF)."""
    if prefix and prefix[-1] != 0xFF:  # noqa: PLR2004 - the greatest byte
        return prefix[:-1] + _NEXT[prefix[-1]]
    head = prefix.rstrip(b"\xff")
    return head[:-1] + _NEXT[head[-1]] if head else None


_NEXT: Final = tuple(bytes((byte + 1,)) for byte in range(0xFF))


def prefix_range(prefix: bytes) -> ByteRange:
    """Everything that begins with `prefix`; where that is an encoded tuple, exactly the tuples that begin with it."""
    return ByteRange(prefix, successor(prefix))


class KeyBounds(NamedTuple, Generic[T]):
    """Bounds of one element: it is >= since, > after, < until and <= through; None bounds nothing."""

    since: T | None = None
    after: T | None = None
    until: T | None = None
    through: T | None = None

    def map(self, function: Callable[[T], U]) -> "KeyBounds[U]":
        """The same bounds in another form."""
        return KeyBounds(*(None if bound is None else function(bound) for bound in self))


def bounded_range(prefix: bytes, bounds: KeyBounds[bytes], *, descending: bool = False) -> ByteRange:
    """The keys with a prefix whose next element is between bounds in the order of values, each an encoded element.

    None is never between bounds: an absent value is not compared.
    """
    since, after, until, through = bounds
    if descending:  # complemented elements sort the other way round
        since, after, until, through = through, until, after, since
    bounded = ByteRange(prefix + FIRST_VALUE, prefix + AFTER_VALUES)
    if since is not None:
        bounded = bounded.intersection(ByteRange(prefix + since, None))
    if after is not None:
        # An element's last byte may be 0xFF, but its first is not, so there is always a successor within the prefix.
        bounded = bounded.intersection(ByteRange(successor(prefix + after) or prefix + AFTER_VALUES, None))
    if until is not None:
        bounded = bounded.intersection(ByteRange(prefix, prefix + until))
    if through is not None:
        bounded = bounded.intersection(ByteRange(prefix, successor(prefix + through)))
    return bounded
