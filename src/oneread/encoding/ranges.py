"""Ranges: which half-open byte range holds the keys with a prefix, and those whose next element lies between bounds.

See docs/formats/keys.md.
"""

from typing import NamedTuple

from oneread.encoding.framing import AFTER_VALUES, FIRST_VALUE


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
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes((head[-1] + 1,)) if head else None


def prefix_range(prefix: bytes) -> ByteRange:
    """Everything that begins with `prefix`; where that is an encoded tuple, exactly the tuples that begin with it."""
    return ByteRange(prefix, successor(prefix))


def bounded_range(
    prefix: bytes,
    *,
    descending: bool = False,
    since: bytes | None = None,
    after: bytes | None = None,
    until: bytes | None = None,
    through: bytes | None = None,
) -> ByteRange:
    """The keys behind `prefix` whose next element lies between bounds, each a whole encoded element.

    Args:
        prefix: the bytes before the element.
        descending: the element, and therefore each bound given here, is complemented.
        since: the least value that is in (>=).
        after: the greatest value that is still out (>).
        until: the least value that is out again (<).
        through: the greatest value that is in (<=).

    None is never between bounds: an absent value is not compared.
    """
    if descending:
        since, after, until, through = through, until, after, since
    return _ascending(prefix, since=since, after=after, until=until, through=through)


def _ascending(
    prefix: bytes, *, since: bytes | None, after: bytes | None, until: bytes | None, through: bytes | None
) -> ByteRange:
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
