"""The emitted record: what a commit row remembers of what it told its views.

A write diffs the recorded contributions against the new ones, so that changed view declarations, old code beside new
code, backfill and most repairs are one operation: re-emit. See "The commit row remembers what it told its views" of the
architecture page and docs/formats/rows.md.

A record maps a token to contributions. A token is one byte of kind and, for views, the view's four-byte prefix (id,
generation): `i` index rows [[key suffix, hash of what is shown], ...], `a` sums [[key suffix, amounts], ...], `q`
unique values [suffix, ...], `r` sources whose back-references exist [source key, ...], `h` sources that must not be
deleted [source key, ...], `u` values copied for views' sake, `f` the hash of what copies were told, `l` what a deleted
entity's copies keep {route: value}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from oneread.errors import Corrupt
from oneread.transactions.deltas import Number, from_wire, to_wire, wire_decoder
from oneread.transactions.outbox import back_reference_key, hold_key
from oneread.transactions.unit_of_work import DerivedWrites

Record: TypeAlias = dict[bytes, Any]
"""Token to contributions, in the form that msgpack gives back."""


class Emission(NamedTuple):
    """What an entity tells its views: filled in by each derivation in turn.

    Arguments:
        record: token to contributions, as the commit row will remember them; every token is there from the start.
        shown: the whole key of each index row to what it shows.
        deltas: (key in `counts`, amounts, sign) of each contribution to a sum.
        claims: claim keys of its unique values.
        made: elements of view keys, amounts and packed values by what they are made of; views of one entity share them.
    """

    record: Record
    shown: dict[bytes, bytes]
    deltas: list[tuple[bytes, Sequence[Number | None], int]]
    claims: list[bytes]
    made: dict[str, Any]


ROWS: Final = b"i"
SUMS: Final = b"a"
UNIQUE: Final = b"q"
REFERENCES: Final = b"r"
HELD: Final = b"h"
HIDDEN: Final = b"u"
COPIED: Final = b"f"
LAST_VALUES: Final = b"l"

SOURCE_DELETED: Final = b"\x00"
"""What copies were told last: that their source is gone."""

DiffOf: TypeAlias = Callable[[DerivedWrites, bytes, bytes, Any, Any, Mapping[bytes, bytes]], None]

_PRESENT: Final = b"\xc0"

_encode = msgspec.msgpack.Encoder().encode
_decode = wire_decoder(dict[bytes, Any])


def encode_record(record: Record) -> bytes:
    """The bytes of a record."""
    try:
        return _encode(record)
    except OverflowError:
        return _encode({token: _wired(each) for token, each in record.items()})


def _wired(contributions: Any) -> Any:
    """Contributions with ints beyond 64 bits, amounts or values held out of sight, as msgpack can hold them."""
    if isinstance(contributions, list):
        return [_wired(each) for each in contributions]
    if isinstance(contributions, dict):
        return {name: _wired(each) for name, each in contributions.items()}
    return to_wire([contributions])[0] if type(contributions) is int else contributions


def decode_record(data: bytes | None) -> Record:
    """The record of a commit row; a row without one has told nobody anything."""
    if data is None:
        return {}
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt("the emitted record of a commit row cannot be read") from error


def short_hash(shown: bytes) -> bytes:
    """What a record keeps of bytes that are shown: themselves when short, else 16 bytes of BLAKE2b."""
    return shown if len(shown) <= 16 else blake2b(shown, digest_size=16).digest()  # noqa: PLR2004 - the length of the hash


def record_diff(key: bytes, old: Record, new: Record, shown: Mapping[bytes, bytes]) -> DerivedWrites:
    """The operations that turn what `old` told into what `new` tells.

    Arguments:
        key: the commit row.
        old: its recorded contributions; alone enough to take them back.
        new: its new ones.
        shown: what each new index row shows, by its key.
    """
    operations = DerivedWrites({}, [], [], {}, {})
    for token, contributions in new.items():
        before = old.get(token)
        if before != contributions:
            _DIFFS[token[:1]](operations, key, token[1:], before or (), contributions, shown)
    for token, before in old.items():
        if token not in new and before:
            _DIFFS[token[:1]](operations, key, token[1:], before, (), shown)
    return operations


def first_writes(key: bytes, emission: Emission) -> DerivedWrites:
    """The writes of an entity that contributed nothing before: `record_diff` against nothing."""
    record, shown, deltas, claims, _made = emission
    for source in record.get(REFERENCES, ()):
        shown[back_reference_key(source, key)] = _PRESENT
    for source in record.get(HELD, ()):
        shown[hold_key(source, key)] = _PRESENT
    return DerivedWrites(shown, [], deltas, {}, dict.fromkeys(claims, key))


def _rows(
    operations: DerivedWrites, _key: bytes, prefix: bytes, old: Any, new: Any, shown: Mapping[bytes, bytes]
) -> None:
    before = dict(old)
    for suffix, digest in new:
        if before.pop(suffix, None) != digest:
            place = prefix + suffix
            operations.puts[place] = shown[place]
    operations.deletes.extend([prefix + suffix for suffix in before])


def _sums(
    operations: DerivedWrites, _key: bytes, prefix: bytes, old: Any, new: Any, _shown: Mapping[bytes, bytes]
) -> None:
    operations.deltas.extend([(prefix + suffix, from_wire(amounts), -1) for suffix, amounts in old])
    operations.deltas.extend([(prefix + suffix, from_wire(amounts), 1) for suffix, amounts in new])


def _unique(
    operations: DerivedWrites, key: bytes, prefix: bytes, old: Any, new: Any, _shown: Mapping[bytes, bytes]
) -> None:
    operations.released.update({prefix + suffix: key for suffix in old if suffix not in new})
    for suffix in new:
        if suffix not in old:
            operations.claimed[prefix + suffix] = key


def _pointing(place: Callable[[bytes, bytes], bytes]) -> DiffOf:
    """The diff of sources that a row of `views` each points at the carrier from."""

    def diff_of(
        operations: DerivedWrites, key: bytes, _prefix: bytes, old: Any, new: Any, _shown: Mapping[bytes, bytes]
    ) -> None:
        operations.deletes.extend([place(source, key) for source in old if source not in new])
        for source in new:
            if source not in old:
                operations.puts[place(source, key)] = _PRESENT

    return diff_of


def _nothing(*_arguments: Any) -> None:
    """What copies were told and what was used are memory, not rows."""


_DIFFS: Final[dict[bytes, DiffOf]] = {
    ROWS: _rows,
    SUMS: _sums,
    UNIQUE: _unique,
    REFERENCES: _pointing(back_reference_key),
    HELD: _pointing(hold_key),
    HIDDEN: _nothing,
    COPIED: _nothing,
    LAST_VALUES: _nothing,
}
