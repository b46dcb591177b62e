"""The emitted record: what a root row remembers of its contributions to views.

A write diffs the recorded contributions against the new ones, so changed view declarations, old programs beside new
ones, backfill and most repairs are one operation: re-emit. See "The root row remembers what was derived from it" of the
architecture page and docs/formats/rows.md.

A record maps a token to contributions. A token is one byte for the form of rows, which all kinds of view share, and the
view's four-byte prefix (id, generation): `i` index rows [[key suffix, digest of the row], ...], `a` sums [[key suffix,
amounts], ...], `q` unique values [suffix, ...]. Without a prefix: `r` what has a back-reference [source key and
selection, ...], `h` sources that must not be deleted [source key, ...], `u` hidden copies {name: value}, `f` digests of
what holders copy {selection: digest}, `l` the last values of a deleted entity {route: value}.
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

Contributions: TypeAlias = Any
"""Of one token, as msgpack gives them back; the module says of which form."""

Record: TypeAlias = dict[bytes, Contributions]


class Emission(NamedTuple):
    """The contributions of an entity: each view adds its own."""

    record: Record
    """For the root row; every token is there from the start."""
    shown: dict[bytes, bytes]
    """The whole key of each index row to its value."""
    deltas: list[tuple[bytes, Sequence[Number | None], int]]
    """(key in `counts`, amounts, sign) of each contribution to a sum."""
    claims: list[bytes]
    """Claim keys of its unique values."""
    made: dict[str, Any]
    """Encoded elements of keys, amounts and values by the code that makes them; the views of one entity share them."""
    now: int = 0
    """The clock: index rows that have expired are left out. 0 to have them all."""


ROWS: Final = b"i"
SUMS: Final = b"a"
UNIQUE: Final = b"q"
REFERENCES: Final = b"r"
HELD: Final = b"h"
HIDDEN: Final = b"u"
COPIED: Final = b"f"
LAST_VALUES: Final = b"l"

SOURCE_DELETED: Final = b"\x00"
"""In place of the digests: the source is deleted."""


class _Diff(NamedTuple):
    writes: DerivedWrites
    key: bytes
    """Of the root row."""
    shown: Mapping[bytes, bytes]


DiffOf: TypeAlias = Callable[[_Diff, bytes, Contributions, Contributions], None]
"""Adds the writes of one token: of its prefix, the old contributions and the new ones."""

_PRESENT: Final = b"\xc0"

_encode = msgspec.msgpack.Encoder().encode
_decode = wire_decoder(dict[bytes, Any])


def encode_record(record: Record) -> bytes:
    """The bytes of a record."""
    try:
        return _encode(record)
    except OverflowError:
        return _encode({token: _wired(each) for token, each in record.items()})


def _wired(contributions: Contributions) -> Contributions:
    """Contributions with ints beyond 64 bits, in amounts or hidden copies, in a form that msgpack can hold."""
    if isinstance(contributions, list):
        return [_wired(each) for each in contributions]
    if isinstance(contributions, dict):
        return {name: _wired(each) for name, each in contributions.items()}
    return to_wire([contributions])[0] if type(contributions) is int else contributions


def decode_record(data: bytes | None) -> Record:
    """The record of a root row; empty if the row has none."""
    if data is None:
        return {}
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt("the emitted record of a root row cannot be read") from error


def short_hash(shown: bytes) -> bytes:
    """What a record keeps of a row's value: the value itself if it is short, else 16 bytes of BLAKE2b."""
    return shown if len(shown) <= 16 else blake2b(shown, digest_size=16).digest()  # noqa: PLR2004 - the length of the hash


def record_diff(key: bytes, old: Record, new: Record, shown: Mapping[bytes, bytes]) -> DerivedWrites:
    """The writes that turn the derived rows of record `old` into those of `new`.

    `key` is the root row's, `shown` the value of each new index row by its key. `old` alone is enough to take its rows
    back, so no declaration of the view that wrote them is needed.
    """
    writes = DerivedWrites({}, [], [], {}, {})
    diff = _Diff(writes, key, shown)
    for token, contributions in new.items():
        before = old.get(token)
        if before != contributions:
            _DIFFS[token[:1]](diff, token[1:], before or (), contributions)
    for token, before in old.items():
        if token not in new and before:
            _DIFFS[token[:1]](diff, token[1:], before, ())
    return writes


def first_writes(key: bytes, emission: Emission) -> DerivedWrites:
    """The writes of an entity that contributed nothing before: `record_diff` against nothing."""
    record, shown, deltas, claims, _made, _now = emission
    for source in record.get(REFERENCES, ()):
        shown[back_reference_key(source, key)] = _PRESENT
    for source in record.get(HELD, ()):
        shown[hold_key(source, key)] = _PRESENT
    return DerivedWrites(shown, [], deltas, {}, dict.fromkeys(claims, key))


def leave_out_expired(emission: Emission, living: Emission, recorded: Record) -> None:
    """Leaves out of an emission the index rows that a record does not list because they have expired.

    `living` is what the same entity emits without expired rows. Until the entity is committed again the record lists
    them, and they are there.
    """
    for token, contributions in living.record.items():
        if emission.record[token] != contributions and recorded.get(token) == contributions:
            emission.record[token] = contributions
            prefix = token[1:]
            for place in [each for each in emission.shown if each.startswith(prefix)]:
                if place not in living.shown:
                    del emission.shown[place]
            emission.claims[:] = [
                each for each in emission.claims if each in living.claims or not each.startswith(prefix)
            ]


def _diff_rows(diff: _Diff, prefix: bytes, old: Contributions, new: Contributions) -> None:
    before, puts = dict(old), diff.writes.puts
    for suffix, digest in new:
        if before.pop(suffix, None) != digest:
            place = prefix + suffix
            puts[place] = diff.shown[place]
    diff.writes.deletes.extend([prefix + suffix for suffix in before])


def _diff_sums(diff: _Diff, prefix: bytes, old: Contributions, new: Contributions) -> None:
    deltas = diff.writes.deltas
    deltas.extend([(prefix + suffix, from_wire(amounts), -1) for suffix, amounts in old])
    deltas.extend([(prefix + suffix, from_wire(amounts), 1) for suffix, amounts in new])


def _diff_claims(diff: _Diff, prefix: bytes, old: Contributions, new: Contributions) -> None:
    diff.writes.released.update({prefix + suffix: diff.key for suffix in old if suffix not in new})
    diff.writes.claimed.update({prefix + suffix: diff.key for suffix in new if suffix not in old})


def _diff_pointers(place: Callable[[bytes, bytes], bytes]) -> DiffOf:
    """The diff of sources, each of which has a row of `views` that names the holder."""

    def diff_of(diff: _Diff, _prefix: bytes, old: Contributions, new: Contributions) -> None:
        diff.writes.deletes.extend([place(source, diff.key) for source in old if source not in new])
        diff.writes.puts.update({place(source, diff.key): _PRESENT for source in new if source not in old})

    return diff_of


def _no_rows(_diff: _Diff, _prefix: bytes, _old: Contributions, _new: Contributions) -> None:
    """Hidden copies, digests of copied values and last values have no rows."""


_DIFFS: Final[dict[bytes, DiffOf]] = {
    ROWS: _diff_rows,
    SUMS: _diff_sums,
    UNIQUE: _diff_claims,
    REFERENCES: _diff_pointers(back_reference_key),
    HELD: _diff_pointers(hold_key),
    HIDDEN: _no_rows,
    COPIED: _no_rows,
    LAST_VALUES: _no_rows,
}
