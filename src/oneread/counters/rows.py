"""The rows of named counters, all in `counts`: their keys and values.

Configuration rows are beside each other, so that listing counters passes over nothing else; the shards of one counter
are one range, and so are its windows of one size. See "Named counters" of docs/formats/rows.md.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from oneread.encoding.codec import Codec
from oneread.encoding.ordered import encode
from oneread.encoding.parts import KeyElement
from oneread.errors import Corrupt
from oneread.store.keys import VIEW_BYTES, view_prefix
from oneread.store.rows import REMOVED, UNDECODABLE, VALUE, Row, RowRange
from oneread.transactions.deltas import Number, decode_amounts, encode_amounts
from oneread.transactions.derived_writes import COUNTER_ROWS
from oneread.transactions.moves import COUNTERS

T = TypeVar("T")

_NUMBER: Final = COUNTERS

GENERATIONS_ROW: Final = view_prefix(_NUMBER, 0)
"""The key of the row that says which generations of tokens there are."""
SETTINGS: Final = view_prefix(_NUMBER, 1)
SHARDS: Final = view_prefix(_NUMBER, 2)
WINDOWS: Final = view_prefix(_NUMBER, 3)
TOKENS: Final = view_prefix(_NUMBER, 4)
MARKS: Final = view_prefix(_NUMBER, 5)
CHANCES: Final = view_prefix(_NUMBER, 6)
GREATEST: Final = view_prefix(_NUMBER, 7)
PREFIXES: Final = frozenset({GENERATIONS_ROW, SETTINGS, SHARDS, WINDOWS, TOKENS, MARKS, CHANCES, GREATEST})
"""What the keys of all rows of counters begin with."""

_NAMED: Final = frozenset({SETTINGS, SHARDS, MARKS, CHANCES, GREATEST})
"""What rows begin with that have a name behind it."""

ALL: Final = RowRange.under(GENERATIONS_ROW[: VIEW_BYTES // 2])
"""Every row of a counter."""

KINDS: Final = {
    GENERATIONS_ROW: "counters: generations of tokens",
    SETTINGS: "counters",
    SHARDS: "counters: shards",
    WINDOWS: "counters: windows",
    TOKENS: "counters: tokens",
    MARKS: "counters: to be copied",
    CHANCES: "cache-first counters",
    GREATEST: "cache-first counters: shards",
}
"""What the rows under each prefix are, for people."""

MOST_SHARDS: Final = COUNTER_ROWS
GREATEST_VALUE: Final = (1 << 63) - 1
"""Of a cache-first counter."""
INCREMENTS: Final = b"d:i"
"""The column of a shard that the store increments: of approximate counters where it changes one row at a time."""
FORGOTTEN: Final = b"d:j"
"""The column of a shard that says which part of its increments was deleted, and does not count."""
_NUMBER_BYTES: Final = 8
_GENERATION_BYTES: Final = 4
_START_BYTES: Final = 6
"""Of a window's start, in seconds since 1970: beyond the last instant that a clock may show."""
TOKEN_BYTES: Final = 16
_SUMS: Final = 2
_SHORT: Final = (1 << 63) - 1
"""The greatest sum that is stored as a number of msgpack."""
_REMEMBERED: Final = 1000
"""Settings and generations that a process has decoded, of which most counters have the same few; and names."""

WindowSize: TypeAlias = Literal["minute", "hour", "day"]
"""How long a window of a counter is; windows begin at whole minutes, hours and days of UTC."""

SECONDS: Final[dict[WindowSize, int]] = {"minute": 60, "hour": 3_600, "day": 86_400}
_SIZES: Final[dict[WindowSize, bytes]] = {"minute": b"m", "hour": b"h", "day": b"d"}
_SIZE_OF: Final[dict[bytes, WindowSize]] = {number: size for size, number in _SIZES.items()}

_NAME: Final = Codec((KeyElement("name", str),))


encode_struct: Final = msgspec.msgpack.Encoder().encode


class CounterSettings(msgspec.Struct, frozen=True, array_like=True):
    """How a counter is kept: its configuration row.

    `epoch` counts the changes of `shards`, the rows that adds are spread over, 0 before the first add; `windows` are
    how many of each size are kept. While an entity shows the counter, `shown`, adds mark it. Adds to an
    `approximate` counter are increments of the store where it changes one row at a time.
    """

    epoch: int
    shards: int
    windows: dict[WindowSize, int] = {}
    shown: bool = False
    approximate: bool = False

    def lacks(self, declared: CounterSettings) -> bool:
        """Whether sizes of windows are declared that the counter does not keep; an approximate one keeps none."""
        return not self.approximate and not declared.windows.keys() <= self.windows.keys()


def encode_settings(settings: CounterSettings) -> bytes:
    """The value of a configuration row: four elements, five for an approximate counter."""
    if settings.approximate:
        return encode_struct(settings)
    return encode_struct((settings.epoch, settings.shards, settings.windows, settings.shown))


def kept(stored: CounterSettings | None, declared: CounterSettings) -> CounterSettings:
    """How a counter is kept, of which an entity may have said only that it shows it."""
    if stored is None:
        return declared
    if stored.shards:
        return stored
    return msgspec.structs.replace(declared, windows={**declared.windows, **stored.windows}, shown=stored.shown)


class Generations(msgspec.Struct, frozen=True, array_like=True):
    """Which tokens there are: those of the generations `first` to `current`; new ones are of the current.

    `once_for` is how many seconds each is kept at least: the most that any program has declared.
    """

    first: int
    current: int
    once_for: float

    @property
    def living(self) -> range:
        return range(self.first, self.current + 1)


class Sums(NamedTuple):
    """What was added to a row and what was taken from it, both 0 or more; neither ever falls."""

    raised: Annotated[int, msgspec.Meta(ge=0)]
    lowered: Annotated[int, msgspec.Meta(ge=0)]

    @property
    def value(self) -> int:
        return self.raised - self.lowered

    def plus(self, amount: int) -> Sums:
        return Sums(self.raised + amount, self.lowered) if amount >= 0 else Sums(self.raised, self.lowered - amount)


NOTHING: Final = Sums(0, 0)


class Window(NamedTuple):
    """One window of a counter: when it began, in seconds since 1970, and what was counted in it."""

    start: int
    sums: Sums


@lru_cache(maxsize=_REMEMBERED)
def name_key(name: str) -> bytes:
    """A counter's name as part of keys."""
    return encode((name,))


def name_of(key: bytes) -> str:
    """The name of a counter, by the key of its configuration row or of its mark; Corrupt where it has none."""
    return text_of(key[VIEW_BYTES:])


def name_of_row(key: bytes) -> str | None:
    """The name of the counter that a row of settings, a shard or a mark is of; None for other rows."""
    if key[:VIEW_BYTES] not in _NAMED:
        return None
    (name,), _end = _NAME.decode_prefix(key, VIEW_BYTES)
    assert isinstance(name, str)
    return name


def text_of(name: bytes) -> str:
    """The name of a counter by its part of keys."""
    (text,) = _NAME.decode(name)
    assert isinstance(text, str)
    return text


def shard_key(name: bytes, shard: int) -> bytes:
    return SHARDS + name + bytes([shard])


def shards_of(name: bytes) -> RowRange:
    """The rows of one counter, those included to which nothing is added any more."""
    return RowRange.under(SHARDS + name)


def window_start(size: WindowSize, now: int) -> int:
    """The start, in seconds, of the window that an instant in milliseconds is in."""
    length = SECONDS[size]
    return now // 1000 // length * length


def window_key(name: bytes, size: WindowSize, start: int) -> bytes:
    return WINDOWS + name + _SIZES[size] + start.to_bytes(_START_BYTES, "big")


def windows_between(name: bytes, size: WindowSize, start: int, stop: int) -> RowRange:
    """The windows of one size that began at `start` or later, and before `stop`."""
    return RowRange(window_key(name, size, start), window_key(name, size, stop))


def windows_of(name: bytes, size: WindowSize) -> RowRange:
    """All windows of one size."""
    return RowRange.under(WINDOWS + name + _SIZES[size])


def start_of(key: bytes) -> int:
    """When the window of a row began."""
    return int.from_bytes(key[-_START_BYTES:], "big")


def window_size_of(key: bytes) -> WindowSize:
    """The size of the window of a row."""
    return _SIZE_OF[key[-_START_BYTES - 1 : -_START_BYTES]]


MARKED: Final = RowRange.under(MARKS)
"""The marks of counters whose values were not copied since the last add."""


def mark_key(name: bytes) -> bytes:
    return MARKS + name


def new_mark(now: int) -> bytes:
    """A mark: when it was set, in milliseconds since 1970."""
    return encode_struct(now)


def marked_since(mark: Row) -> int:
    """When a counter was marked, in milliseconds since 1970: first, where its rows mark it. Raises Corrupt."""
    return min([int(_decoded(cell.value, _decode_mark)) for cell in mark.values()])


def token_key(generation: int, name: bytes, token: bytes) -> bytes:
    return TOKENS + generation.to_bytes(_GENERATION_BYTES, "big") + name + token


def tokens_before(generation: int) -> RowRange:
    """The tokens of all generations below one."""
    return RowRange(TOKENS, TOKENS + generation.to_bytes(_GENERATION_BYTES, "big"))


def tokens_of(generation: int) -> RowRange:
    return RowRange.under(TOKENS + generation.to_bytes(_GENERATION_BYTES, "big"))


def greatest_key(name: bytes, shard: int) -> bytes:
    return GREATEST + name + bytes([shard])


def greatest_of(name: bytes) -> RowRange:
    """The rows of one cache-first counter."""
    return RowRange.under(GREATEST + name)


_decode_settings: Final = msgspec.msgpack.Decoder(CounterSettings).decode
_decode_sums: Final = msgspec.msgpack.Decoder(Sums).decode
_decode_mark: Final = msgspec.msgpack.Decoder(int).decode
_decode_generations: Final = msgspec.msgpack.Decoder(Generations).decode
_decode_chance: Final = msgspec.msgpack.Decoder(float).decode


def settings_of(row: Row | None) -> CounterSettings | None:
    """The settings in a configuration row. Raises Corrupt."""
    return None if row is None else _settings_in(_value_of(row))


@lru_cache(maxsize=_REMEMBERED)
def _settings_in(data: bytes) -> CounterSettings:
    settings: CounterSettings = _decoded(data, _decode_settings)
    if not (
        0 <= settings.shards <= MOST_SHARDS
        and (settings.shards or settings.shown)
        and settings.epoch >= 0
        and all(kept > 0 for kept in settings.windows.values())
    ):
        raise Corrupt(_UNREADABLE, settings=settings)
    return settings


def generations_of(row: Row | None) -> Generations | None:
    """What the row of the generations says. Raises Corrupt."""
    return None if row is None else _generations_in(_value_of(row))


@lru_cache(maxsize=_REMEMBERED)
def _generations_in(data: bytes) -> Generations:
    generations: Generations = _decoded(data, _decode_generations)
    if not (0 <= generations.first <= generations.current and generations.once_for > 0):
        raise Corrupt(_UNREADABLE, generations=generations)
    return generations


_UNREADABLE: Final = "this row of a counter is unreadable; restore a backup, or drop it"


def _value_of(row: Row) -> bytes:
    cell = row.get(VALUE)
    if cell is None:
        raise Corrupt(_UNREADABLE)
    return cell.value


def _decoded(data: bytes, decode: Any) -> Any:
    try:
        return decode(data)
    except UNDECODABLE as error:
        raise Corrupt(_UNREADABLE) from error


def sums_of(row: Row | None) -> Sums:
    """What a shard or window holds; nothing for an absent row. Raises Corrupt."""
    if row is None:
        return NOTHING
    cell = row.get(VALUE)
    if INCREMENTS in row:
        sums = NOTHING if cell is None or cell.value == REMOVED else sums_of_amounts(cell.value)
        return sums.plus(number_of(row, INCREMENTS) - number_of(row, FORGOTTEN))
    return sums_of_amounts(b"\x90" if cell is None else cell.value)


def number_of(row: Row, column: bytes) -> int:
    """The number that the store's increments made in a column, or a copy of it; 0 without one. Raises Corrupt."""
    cell = row.get(column)
    if cell is None:
        return 0
    if len(cell.value) != _NUMBER_BYTES:
        raise Corrupt(_UNREADABLE, column=column)
    return int.from_bytes(cell.value, "big", signed=True)


def sums_of_amounts(data: bytes | None) -> Sums:
    """The sums of encoded amounts; nothing for None. Raises Corrupt."""
    if data is None:
        return NOTHING
    try:
        return _decode_sums(data)
    except UNDECODABLE:  # beyond 64 bits, or unreadable
        amounts = _amounts_in(data)
    if len(amounts) != _SUMS or not all(type(each) is int and each >= 0 for each in amounts):
        raise Corrupt(_UNREADABLE, amounts=amounts)
    return Sums(*amounts)  # type: ignore[arg-type]


def _amounts_in(data: bytes) -> list[Number]:
    try:
        return decode_amounts(data)
    except Corrupt as error:  # which says that a repair helps
        raise Corrupt(_UNREADABLE) from error


def encode_sums(sums: Sums) -> bytes:
    raised, lowered = sums
    if raised <= _SHORT and lowered <= _SHORT:
        return encode_struct(sums)
    return encode_amounts(sums)


def greatest_in(row: Row | None) -> int:
    """The value that a shard of a cache-first counter holds; 0 for an absent row. Raises Corrupt."""
    if row is None:
        return 0
    cell = row.get(VALUE)
    amounts = [] if cell is None else _amounts_in(cell.value)
    if len(amounts) != 1 or type(amounts[0]) is not int or not 0 <= amounts[0] <= GREATEST_VALUE:
        raise Corrupt(_UNREADABLE, amounts=amounts)
    return amounts[0]


def encode_greatest(value: int) -> bytes:
    return encode_amounts((value,))


def chance_of(row: Row | None) -> float | None:
    """The chance in the configuration row of a cache-first counter; None without one. Raises Corrupt."""
    if row is None:
        return None
    chance: float = _decoded(_value_of(row), _decode_chance)
    if not 0 < chance <= 1:
        raise Corrupt(_UNREADABLE, chance=chance)
    return chance


def fault_of(key: bytes, row: Row) -> str | None:
    """Why a row of a counter cannot be right by itself; None when it can.

    Counters have no source to compare with, so this is all that can be verified.
    """
    try:
        _CHECKS[key[:VIEW_BYTES]](key, row)
    except (Corrupt, ValueError, IndexError, KeyError) as error:
        return str(error)
    return None


def _check_settings(key: bytes, row: Row) -> None:
    name_of(key)
    settings_of(row)


def _check_generations(key: bytes, row: Row) -> None:
    if key != GENERATIONS_ROW:
        raise Corrupt(_UNREADABLE)
    generations_of(row)


def _check_shard(key: bytes, row: Row) -> None:
    _check_name(key, VIEW_BYTES, 1)
    sums_of(row)


def _check_window(key: bytes, row: Row) -> None:
    end = _check_name(key, VIEW_BYTES, 1 + _START_BYTES)
    size = _SIZE_OF[key[end : end + 1]]
    if start_of(key) % SECONDS[size]:
        raise Corrupt(_UNREADABLE, start=start_of(key))
    sums_of(row)


def _check_token(key: bytes, row: Row) -> None:
    _check_name(key, VIEW_BYTES + _GENERATION_BYTES, TOKEN_BYTES)
    if VALUE not in row:
        raise Corrupt(_UNREADABLE)


def _check_mark(key: bytes, row: Row) -> None:
    name_of(key)
    marked_since(row)


def _check_chance(key: bytes, row: Row) -> None:
    name_of(key)
    chance_of(row)


def _check_greatest(key: bytes, row: Row) -> None:
    _check_name(key, VIEW_BYTES, 1)
    greatest_in(row)


def _check_name(key: bytes, start: int, behind: int) -> int:
    """Where the name in a key ends; Corrupt unless so many bytes follow it."""
    _parts, end = _NAME.decode_prefix(key, start)
    if len(key) - end != behind:
        raise Corrupt(_UNREADABLE, key=key)
    return end


_CHECKS: Final = {
    GENERATIONS_ROW: _check_generations,
    SETTINGS: _check_settings,
    SHARDS: _check_shard,
    WINDOWS: _check_window,
    TOKENS: _check_token,
    MARKS: _check_mark,
    CHANCES: _check_chance,
    GREATEST: _check_greatest,
}
