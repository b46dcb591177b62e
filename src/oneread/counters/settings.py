"""How a counter is kept: what an add needs, and what each verb makes of the settings; the same on every store.

Only a store that changes one row at a time keeps a number of changes and the places of tokens beside the settings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import msgspec

from oneread.counters.rows import CounterSettings, WindowSize, encode_settings, kept, settings_of
from oneread.counters.wanted import check_windows
from oneread.errors import Corrupt
from oneread.store.rows import REMOVED, UNDECODABLE, VALUE, WRITES, Row
from oneread.transactions.intents import decode_version

PLACING: Final = b"m:c"
"""The column of the settings row that says which row a token belongs to."""

_ONLY_SHOWN: Final = CounterSettings(0, 0, {}, shown=True)
"""Of a counter that an entity shows, and to which nothing was added."""


class Epoch(NamedTuple):
    """The number of rows that adds were spread over since a change of it."""

    number: int
    shards: int


class TokenPlaces(msgspec.Struct, frozen=True, array_like=True):
    """Which rows the tokens of a counter may be in.

    `earlier` are epochs whose rows are still looked at; `once_for` is for how many seconds a token is kept at least, 0
    while no add had one.
    """

    epoch: int = 0
    shards: int = 0
    earlier: tuple[Epoch, ...] = ()
    once_for: float = 0.0

    def spread(self, shards: int) -> TokenPlaces:
        """With another number of rows. Without a token there is nothing to look for in the rows of before."""
        if shards == self.shards:
            return self
        if not self.shards:
            return TokenPlaces(self.epoch, shards, (), self.once_for)
        if not self.once_for:
            return TokenPlaces(self.epoch + 1, shards)
        still = [each for each in self.earlier if each.shards not in (self.shards, shards)]
        earlier = (*still, Epoch(self.epoch, self.shards))
        return TokenPlaces(self.epoch + 1, shards, earlier, self.once_for)

    @property
    def earlier_shards(self) -> list[int]:
        return [each.shards for each in self.earlier]

    def without(self, epochs: Collection[Epoch]) -> TokenPlaces:
        """No longer looking for tokens in the rows of some epochs."""
        still = tuple(each for each in self.earlier if each not in epochs)
        return msgspec.structs.replace(self, earlier=still)


def needed_settings(stored: CounterSettings | None, declared: CounterSettings) -> CounterSettings:
    """What an add to a counter that is declared like this needs: `stored` itself where that lacks nothing."""
    if stored is not None and stored.shards and not stored.lacks(declared):  # most
        return stored
    settings = kept(stored, declared)
    return msgspec.structs.replace(settings, windows={**declared.windows, **settings.windows})


class SettingsRow(NamedTuple):
    """The settings row of a counter as it was read; `settings` is None for one that was deleted, or never added to.

    `writes` and `placing` are stored where one row is changed at a time; elsewhere `placing` is the epoch and the rows.
    """

    name: bytes
    writes: int | None = None
    settings: CounterSettings | None = None
    placing: TokenPlaces = TokenPlaces()

    @property
    def is_shown(self) -> bool:
        """Whether entities show the counter."""
        return self.settings is not None and self.settings.shown

    @property
    def has_adds(self) -> bool:
        """Whether adds go by these settings: not those of a counter that was deleted, or is shown and nothing else."""
        return self.settings is not None and self.settings.shards > 0

    @property
    def stored(self) -> CounterSettings:
        """The settings of a row that has some."""
        assert self.settings is not None
        return self.settings

    def fits(self, declared: CounterSettings, seconds: float) -> bool:
        """Whether a counter that is declared like this needs nothing else, nor tokens kept for so many seconds."""
        return needed_settings(self.settings, declared) is self.settings and seconds <= self.placing.once_for

    def needed(self, declared: CounterSettings, seconds: float) -> SettingsRow:
        """As a counter that is declared like this needs it, and tokens that are kept for so many seconds."""
        return self.changed(needed_settings(self.settings, declared), seconds)

    def changed(self, settings: CounterSettings, seconds: float = 0.0) -> SettingsRow:
        """With other settings; their epoch follows from the number of rows."""
        placing = self.placing
        if seconds > placing.once_for:
            placing = msgspec.structs.replace(placing, once_for=seconds)
        placing = placing.spread(settings.shards)
        settings = msgspec.structs.replace(settings, epoch=placing.epoch)
        return self._replace(settings=settings, placing=placing)

    def configured(
        self, declared: CounterSettings, shards: int | None, keep: Mapping[WindowSize, int] | None
    ) -> SettingsRow:
        """With another number of rows, or other windows; None leaves as it is. Raises UsageError."""
        before = kept(self.settings, declared)
        many = before.shards if shards is None else shards
        windows = before.windows if keep is None else dict(keep)
        check_windows(self.name, before, windows)
        return self.changed(msgspec.structs.replace(before, shards=many, windows=windows))

    def restored(self, settings: CounterSettings) -> SettingsRow:
        """With the settings of a dump; entities that show the counter go on showing it."""
        return self.changed(msgspec.structs.replace(settings, shown=self.is_shown))

    def deleted(self) -> SettingsRow:
        """As a delete leaves them: adds of a counter that entities show still mark it."""
        return self._replace(settings=_ONLY_SHOWN if self.is_shown else None)

    def shown(self) -> SettingsRow:
        """As they are once entities show the counter."""
        if self.settings is None:
            return self._replace(settings=_ONLY_SHOWN)
        return self if self.is_shown else self._replace(settings=msgspec.structs.replace(self.settings, shown=True))

    def hidden(self) -> SettingsRow:
        """As they are once no entity shows the counter any more."""
        if not self.has_adds:
            return self._replace(settings=None)
        return self._replace(settings=msgspec.structs.replace(self.stored, shown=False))


def read_settings_row(name: bytes, row: Row | None) -> SettingsRow:
    """The settings of a counter as they were read; with both families where one row is changed at a time.

    Raises Corrupt.
    """
    if row is None:
        return SettingsRow(name)
    value, writes = row.get(VALUE), row.get(WRITES)
    settings = None if value is None or value.value == REMOVED else settings_of({VALUE: value})
    if PLACING in row:
        placing = _placing_in(row[PLACING].value)
    else:
        placing = TokenPlaces() if settings is None else TokenPlaces(settings.epoch, settings.shards)
    return SettingsRow(name, None if writes is None else decode_version(writes.value), settings, placing)


def show_in_settings(row: Row | None) -> bytes | None:
    """The settings of a counter that entities show; None if these say so."""
    found = read_settings_row(b"", row)
    return None if found.is_shown else encode_settings(found.shown().stored)


_decode_placing: Final = msgspec.msgpack.Decoder(TokenPlaces).decode


def _placing_in(data: bytes) -> TokenPlaces:
    try:
        return _decode_placing(data)
    except UNDECODABLE as error:
        raise Corrupt("this row of a counter is unreadable; restore a backup, or drop it", column=PLACING) from error
