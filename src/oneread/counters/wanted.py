"""What callers may give: names, amounts, tokens, numbers of shards and of windows.

See docs/explanation/counters.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from oneread.counters.rows import MOST_SHARDS, SECONDS, TOKEN_BYTES, CounterSettings, WindowSize, name_key, text_of
from oneread.errors import InvalidDeclaration, InvalidKey, InvalidQuery, InvalidValue, UsageError
from oneread.plans.performer import LAST_MILLISECOND
from oneread.store.limits import KEY_BYTES

SHARDS: Final = 20
"""Rows that the adds of one counter are spread over, unless it says otherwise."""
ONCE_FOR: Final = 3600.0
"""Seconds for which an add with a token is counted once, unless the schema says otherwise."""
LONGEST_ONCE: Final = 366 * 86_400.0
MOST_WINDOWS: Final = 1000
"""Windows of one size that a counter keeps at most: they are read at once."""

CHANCE: Final = 0.1
"""Of an add to a cache-first counter to be stored, unless it says otherwise."""
LEAST_CHANCE: Final = 1e-6
MOST_GROWTH: Final = 1 << 32
"""Of a cache-first or an approximate counter in one add: far below where such a number begins again."""

SOONEST_FLUSH: Final = 0.01
LATEST_FLUSH: Final = 3600

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

_AMOUNT: Final = 1 << 63
_TOKEN: Final = 200

NO_WINDOWS: Final = "an approximate counter has no windows: an increment of the store changes one number"
NOT_SHOWN: Final = (
    "entities show this counter, so an add has to mark it, which an increment of the store cannot: "
    "use a counter without approximate=True"
)
NO_TOKENS: Final = (
    "an add to an approximate counter takes no token: an increment of the store cannot compare it; "
    "use a counter without approximate=True"
)

OnceToken: TypeAlias = str | bytes
"""What makes an add count once: a request's id, of 1 to 200 bytes."""


class CounterRules(msgspec.Struct, frozen=True):
    """How the counters of a schema are kept: `Schema(..., counters=CounterRules(once_for=86_400))`.

    Arguments:
        shards: rows that the adds of a counter are spread over when its first add does not say; 1 to 256. More rows
            make a read dearer, and let more processes add at once on a store that changes one row at a time.
        once_for: seconds, at least, for which an add with a token is counted once however often it is repeated. Each
            such add leaves a row for that long, and up to twice as long.

    Raises:
        InvalidDeclaration: a number is out of bounds.
    """

    shards: int = SHARDS
    once_for: float = ONCE_FOR

    def __post_init__(self) -> None:
        if not is_shards(self.shards):
            raise InvalidDeclaration("a counter has 1 to 256 shards", shards=self.shards)
        given: object = self.once_for
        if type(given) not in (int, float) or not 1 <= self.once_for <= LONGEST_ONCE:
            raise InvalidDeclaration("counting once lasts from a second to a year", once_for=given)


class Add(NamedTuple):
    """One wanted add: the name as part of keys, the amount, and how a counter that is new is kept.

    `at` is the moment whose windows it counts in, in milliseconds since 1970; that of the clock unless given.
    """

    name: bytes
    amount: int
    declared: CounterSettings
    at: int | None = None
    checks_kind: bool = False
    """Whether it is refused by a counter that is approximate and not declared so, or the other way round."""


def check_kind(wanted: Add, stored: CounterSettings) -> None:
    """Raises UsageError for an add that is declared to be of another kind than the counter."""
    if wanted.checks_kind and wanted.declared.approximate != stored.approximate:
        raise UsageError(
            "one program adds to this counter approximately, another exactly: say the same in both, or delete it",
            counter=text_of(wanted.name),
            stored_approximate=stored.approximate,
            approximate=wanted.declared.approximate,
        )


def check_windows(name: bytes, stored: CounterSettings, windows: Mapping[WindowSize, int]) -> None:
    """Raises UsageError for windows of an approximate counter."""
    if stored.approximate and windows:
        raise UsageError(NO_WINDOWS, counter=text_of(name), keep=dict(windows))


def is_shards(given: object) -> bool:
    return type(given) is int and 1 <= given <= MOST_SHARDS


def check_name(name: object) -> bytes:
    """A name as part of keys. Raises InvalidKey unless it is text of 1 to 200 bytes."""
    if type(name) is not str or not name:
        raise InvalidKey('a counter\'s name is text that is not empty: db.counter("votes:42")', name=name)
    key = name_key(name)
    if len(key) > KEY_BYTES:
        raise InvalidKey("the name of a counter is too long", length=len(key), limit=KEY_BYTES, name=name[:60])
    return key


def check_prefix(prefix: object) -> bytes:
    """What names begin with, as part of keys. Raises InvalidKey unless it is text of up to 200 bytes."""
    if type(prefix) is not str:
        raise InvalidKey('a prefix is the text that names begin with: "votes:", or "" for all', prefix=prefix)
    key = name_key(prefix)
    if len(key) > KEY_BYTES:
        raise InvalidKey("a prefix is no longer than a name", length=len(key), limit=KEY_BYTES, prefix=prefix[:60])
    return key


def check_amount(amount: object) -> int:
    """Raises InvalidValue unless this is a whole number of 64 bits."""
    if type(amount) is not int or not -_AMOUNT <= amount < _AMOUNT:
        raise InvalidValue("expected a whole number of 64 bits to add", amount=amount)
    return amount


def check_growth(amount: object) -> int:
    """Raises InvalidValue unless a cache-first counter can grow by this, or an approximate one."""
    if type(amount) is not int or not 1 <= amount <= MOST_GROWTH:
        raise InvalidValue(
            "this kind of counter only grows, by 1 to 2**32; db.counter(name) takes other amounts", amount=amount
        )
    return amount


def check_chance(chance: object) -> float:
    """Raises InvalidValue unless an add may be stored with this chance."""
    if type(chance) not in (int, float) or not LEAST_CHANCE <= chance <= 1:  # type: ignore[operator]
        raise InvalidValue("chance_to_write is from a millionth to 1: 0.1 stores one add in ten", chance=chance)
    return float(chance)  # type: ignore[arg-type]


def check_token(token: object) -> bytes:
    """A token's digest: text and bytes differ. Raises InvalidValue unless it is text or bytes of 1 to 200 bytes."""
    if isinstance(token, str):
        data, kind = token.encode(errors="surrogatepass"), b"text"
    elif isinstance(token, bytes):
        data, kind = token, b"bytes"
    else:
        raise InvalidValue("a token is text or bytes: once=request_id", once=token)
    if not 0 < len(data) <= _TOKEN:
        raise InvalidValue("a token has 1 to 200 bytes", length=len(data), once=token[:60])
    return blake2b(data, digest_size=TOKEN_BYTES, person=kind).digest()


def check_shards(shards: object) -> int:
    """Raises InvalidValue unless a counter can have so many shards."""
    if not is_shards(shards):
        raise InvalidValue("a counter has 1 to 256 shards", shards=shards)
    return shards  # type: ignore[return-value]


def check_keep(keep: object) -> dict[WindowSize, int]:
    """Raises InvalidValue unless this says how many windows of which sizes are kept."""
    if keep is None:
        return {}
    given: Any = keep
    fits = isinstance(given, Mapping) and all(
        size in SECONDS and type(kept) is int and 1 <= kept <= MOST_WINDOWS for size, kept in given.items()
    )
    if not fits:
        raise InvalidValue(
            'keep says how many windows, 1 to 1,000: keep={"minute": 60, "hour": 48, "day": 60}', keep=keep
        )
    return {size: given[size] for size in SECONDS if size in given}


def check_limit(limit: object) -> int | None:
    """Raises InvalidQuery unless a list may have so many counters; None is all."""
    if limit is not None and (type(limit) is not int or limit < 1):
        raise InvalidQuery("limit: expected a whole number of counters, 1 or more, or None for all", limit=limit)
    return limit


def check_size(size: object) -> WindowSize:
    """Raises InvalidValue unless this is a size of windows."""
    if not isinstance(size, str) or size not in SECONDS:
        raise InvalidValue("a window is a minute, an hour or a day", size=size)
    return size


def check_moment(argument: str, given: object) -> int:
    """A moment in milliseconds since 1970, where windows begin. Raises InvalidValue unless it is such an instant."""
    if not isinstance(given, datetime):
        raise InvalidValue("expected an instant: datetime(2024, 1, 1, tzinfo=UTC)", argument=argument, given=given)
    if given.tzinfo is None or given.utcoffset() is None:
        raise InvalidValue("a naive datetime is not an instant; give it a time zone", argument=argument, given=given)
    moment = (given - _EPOCH) // _MILLISECOND
    if not 0 <= moment <= LAST_MILLISECOND:
        raise InvalidValue("counters have windows from 1970 to the year 9999", argument=argument, given=given)
    return moment


def check_batch(seconds: object, size: object) -> None:
    """Raises InvalidValue unless a batch can flush after such a time and number of adds."""
    if type(seconds) not in (int, float) or not SOONEST_FLUSH <= seconds <= LATEST_FLUSH:  # type: ignore[operator]
        raise InvalidValue("a batch flushes after 0.01 to 3,600 seconds", seconds=seconds)
    if type(size) is not int or size < 1:
        raise InvalidValue("a batch flushes after a whole number of adds, 1 or more", size=size)


def check_seconds(name: str, given: object) -> float:
    """Raises InvalidValue unless this is a number of seconds, 0 or more."""
    if type(given) not in (int, float) or not 0 <= given <= LONGEST_ONCE:  # type: ignore[operator]
        raise InvalidValue("expected seconds, from 0 to a year", argument=name, given=given)
    return float(given)  # type: ignore[arg-type]
