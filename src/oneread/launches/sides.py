"""Which side of a launch a key is on: a number below 10,000 by its CRC, compared with the percentage.

So a key never changes its side while the percentage rises, in every process, and two launches pick different keys,
because the name of a launch is the seed. CRC-32 takes a tenth of the time of a cryptographic hash; nothing here needs
more. See docs/decisions/0142-dark-launch-of-functions.md.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias
from zlib import crc32

import msgspec

from oneread.errors import InvalidValue, UsageError

BUCKETS: Final = 10_000
"""A percentage has two decimal places."""

LaunchSide: TypeAlias = Literal["old", "new"]
"""The way that answered so far, and the one that is launched."""

UNSET: Final = object()
"""No `sticky` block is around a call."""
STICKY: Final[ContextVar[object]] = ContextVar("oneread_sticky", default=UNSET)
"""The key by which launches choose in this thread or task."""

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


def seed_of(name: str) -> int:
    """The seed of a launch."""
    return crc32(name.encode())


def bucket_of(key: object, seed: int) -> int:
    """The bucket of a key, 0 to 9,999. Raises TypeError for a key that has no MessagePack form."""
    return crc32(_encode(key), seed) % BUCKETS


def buckets_below(percent: float) -> int:
    """How many buckets a percentage is: a key is in it when its bucket is less."""
    return round(percent * 100)


def check_percent(name: str, percent: float) -> float:
    """A percentage as it is stored. Raises InvalidValue for one out of bounds."""
    if type(percent) not in (int, float) or not 0 <= percent <= 100:  # noqa: PLR2004 - percent
        raise InvalidValue("expected a percentage, 0 to 100", **{name: percent})
    return buckets_below(percent) / 100


class sticky:  # noqa: N801 - reads as the statement it is: with sticky(user)
    """Within it every launch takes the side of this key: `with sticky(user_id): ...`.

    So one person sees one side on all pages. It counts for the thread or task, as a `budget` does; tasks started inside
    have it as well. Inside another one it counts alone. `sticky(None)` is the old side, whatever the percentage.

    Arguments:
        key: a number, text, or another value that MessagePack has; a tuple of such.

    Raises:
        UsageError: the key has no such form; or the block ends in another task than it began in.
    """

    __slots__ = ("_key", "_token")

    def __init__(self, key: object) -> None:
        try:
            _encode(key)
        except (TypeError, OverflowError, ValueError) as error:
            raise UsageError("the key of a launch is a number, text, or a tuple of such", key=key) from error
        self._key = key
        self._token: Token[Any] | None = None

    def __enter__(self) -> None:
        if self._token is not None:
            raise UsageError("this block is in use; create another one")
        self._token = STICKY.set(self._key)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None
        try:
            STICKY.reset(self._token)
        except ValueError:
            raise UsageError("a sticky block must end in the task or thread in which it began") from error
        finally:
            self._token = None
