"""The emitted record: what a root row remembers of its contributions to views.

A write diffs the recorded contributions against the new ones, so changed view declarations, old programs beside new
ones, backfill and most repairs are one operation: re-emit. See "The root row remembers what was derived from it" of the
architecture page and docs/formats/rows.md.

A record maps a token to contributions. The tokens of a view are made of its number, its generation and the form of
rows, which all kinds of view share: `ROWS` index rows [key suffix, digest of the row, ...], `SUMS` [key suffix,
amounts, ...], `UNIQUE` values [key suffix, ...]. Of no view are `REFERENCES`, what has a back-reference [source key and
selection, ...], `HELD`, sources that must not be deleted [source key, ...], `HIDDEN` copies {name: value}, `COPIED`,
digests of what holders copy {selection: digest}, and `LAST_VALUES` of a deleted entity {route: value}. The key suffix
of an index row is what stands between the view's prefix and the entity's own key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import msgspec

from oneread.errors import Corrupt
from oneread.store.keys import entity_part, number_and_generation, view_prefix
from oneread.store.rows import UNDECODABLE
from oneread.transactions.deltas import Number, difference, from_wire, to_wire, wire_decoder
from oneread.transactions.derived_writes import DerivedWrites
from oneread.transactions.outbox import BACK_REFERENCES, PRESENT, back_reference_key, hold_key
from oneread.transactions.root import Root

Contributions: TypeAlias = Any
"""Of one token, as msgpack gives them back; the module says of which form."""

Record: TypeAlias = dict[int, Contributions]


class Emission(msgspec.Struct, frozen=True, gc=False):
    """The contributions of an entity to all its views."""

    record: Record
    """For the root row; it has every token."""
    shown: dict[bytes, bytes]
    """The whole key of each index row to its value."""
    deltas: list[tuple[bytes, Sequence[Number | None], int]]
    """(key in `counts`, amounts, sign) of each contribution to a sum."""
    claims: list[bytes]
    """Claim keys of its unique values."""


ROWS: Final = 0
SUMS: Final = 1
UNIQUE: Final = 2
REFERENCES: Final = -1
HELD: Final = -2
HIDDEN: Final = -3
COPIED: Final = -4
LAST_VALUES: Final = -5

_FORM_BITS: Final = 2
_FORMS: Final = (1 << _FORM_BITS) - 1
_NUMBER_BITS: Final = 15
_NUMBERS: Final = (1 << _NUMBER_BITS) - 1

SOURCE_DELETED: Final = 0
"""In place of the digests: the source is deleted."""
SAID_BY_KEY: Final = 0
"""In place of the digest of an index row: its key says all that it shows."""


def view_token(form: int, prefix: bytes) -> int:
    """The token of a view's contributions of one form; of the first views of a schema, it is one byte in a record."""
    number, generation = number_and_generation(prefix)
    return ((generation - 1) << _NUMBER_BITS | number) << _FORM_BITS | form


def form_of(token: int) -> int:
    """The form of contributions; a token of no view is its own form."""
    return token if token < 0 else token & _FORMS


@lru_cache(maxsize=1024)
def view_of(token: int) -> bytes:
    """The prefix of the view whose contributions these are; empty for those of no view."""
    if token < 0:
        return b""
    number = token >> _FORM_BITS
    return view_prefix(number & _NUMBERS, (number >> _NUMBER_BITS) + 1)


def row_suffixes(contributions: Contributions) -> Iterator[tuple[bytes, bytes | int]]:
    """The index rows of a token: what stands between prefix and own key, and the digest."""
    return zip(contributions[::2], contributions[1::2], strict=True)


def group_amounts(contributions: Contributions) -> Iterator[tuple[bytes, list[Number | None]]]:
    """The groups of a token, and the amounts that each has of the entity."""
    return zip(contributions[::2], map(from_wire, contributions[1::2]), strict=True)


class _Diff(msgspec.Struct, frozen=True, gc=False):
    writes: DerivedWrites
    key: bytes
    """Of the root row."""
    shown: Mapping[bytes, bytes]


DiffOf: TypeAlias = Callable[[_Diff, int, Contributions, Contributions], None]
"""Adds the writes of one token: of the old contributions and the new ones."""

_encode = msgspec.msgpack.Encoder().encode
_decode = wire_decoder(dict[int, Any])

decode_dumped: Final = wire_decoder(dict[bytes, Any])
"""The contributions of `encode_dumped`. Raises msgspec's errors."""


def encode_record(record: Record) -> bytes:
    """The bytes of a record."""
    try:
        return _encode(record)
    except OverflowError:
        return _encode(_wired(record))


def encode_dumped(contributions: Mapping[bytes, Contributions]) -> bytes:
    """The bytes of some contributions of a record, under their names in dumps."""
    try:
        return _encode(contributions)
    except OverflowError:
        return _encode(_wired(contributions))


def _wired(contributions: Contributions) -> Contributions:
    """Contributions with ints beyond 64 bits, in amounts or hidden copies, in a form that msgpack can hold."""
    if isinstance(contributions, (list, tuple)):
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
    except UNDECODABLE as error:
        raise Corrupt("the emitted record of a root row cannot be read") from error


class RecordedPointers:
    """What a root row's record says that its entity has, and in which group it is: see `RecordedKeys`."""

    def __init__(self, group_of: Callable[[bytes], bytes] | None = None) -> None:
        self._group_of = group_of

    def group(self, key: bytes, /) -> bytes:
        """The key of the root row of an entity group; without groups, the entity's own."""
        return key if self._group_of is None else self._group_of(key)

    def pointers(self, key: bytes, root: Root, /) -> frozenset[bytes]:
        """The keys in `views` of its back-references and holds."""
        record = decode_record(root.emitted)
        taken = [back_reference_key(source, key) for source in record.get(REFERENCES, ())]
        return frozenset([*taken, *(hold_key(source, key) for source in record.get(HELD, ()))])

    def claims(self, root: Root, /) -> frozenset[bytes]:
        """The keys in `counts` of its unique values."""
        record = decode_record(root.emitted)
        held = [(view_of(token), suffixes) for token, suffixes in record.items() if form_of(token) == UNIQUE]
        return frozenset([prefix + suffix for prefix, suffixes in held for suffix in suffixes])

    def covered(self, root: Root, /) -> frozenset[int]:
        """Its tokens, but for those that only living or only deleted entities have."""
        return frozenset(decode_record(root.emitted)) - {HIDDEN, LAST_VALUES}


def short_hash(shown: bytes) -> bytes:
    """What a record keeps of a row's value: the value itself if it is short, else 8 bytes of BLAKE2b."""
    return shown if len(shown) <= 8 else blake2b(shown, digest_size=8).digest()  # noqa: PLR2004 - the length of the hash


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
            _DIFFS[form_of(token)](diff, token, before or (), contributions)
    for token, before in old.items():
        if token not in new and before:
            _DIFFS[form_of(token)](diff, token, before, ())
    return writes


def first_writes(key: bytes, emission: Emission) -> DerivedWrites:
    """The writes of an entity that contributed nothing before: `record_diff` against nothing."""
    record, shown = emission.record, emission.shown
    for source in record.get(REFERENCES, ()):
        shown[BACK_REFERENCES + source + key] = PRESENT  # `back_reference_key`, without its call
    for source in record.get(HELD, ()):
        shown[hold_key(source, key)] = PRESENT
    return DerivedWrites(shown, [], emission.deltas, {}, dict.fromkeys(emission.claims, key))


def leave_out_expired(emission: Emission, living: Emission, recorded: Record) -> None:
    """Leaves out of an emission the rows and contributions that a record does not list because they have expired.

    `living` is what the same entity emits without what has expired. Until the entity is committed again the record
    lists it, and it is there: late, and counted in the groups. So a group is wrong only where it differs from what the
    records list.
    """
    for token, contributions in living.record.items():
        if emission.record[token] != contributions and recorded.get(token) == contributions:
            emission.record[token] = contributions
            prefix = view_of(token)
            for place in [each for each in emission.shown if each.startswith(prefix)]:
                if place not in living.shown:
                    del emission.shown[place]
            emission.claims[:] = [
                each for each in emission.claims if each in living.claims or not each.startswith(prefix)
            ]
            emission.deltas[:] = [
                each for each in emission.deltas if each in living.deltas or not each[0].startswith(prefix)
            ]


def _diff_rows(diff: _Diff, token: int, old: Contributions, new: Contributions) -> None:
    prefix, own, puts = view_of(token), entity_part(diff.key), diff.writes.puts
    if len(old) == len(new) == 2 and old[0] == new[0]:  # noqa: PLR2004 - one row, which shows something else
        place = prefix + new[0] + own
        puts[place] = diff.shown[place]
        return
    before = dict(zip(old[::2], old[1::2], strict=True))
    for suffix, digest in zip(new[::2], new[1::2], strict=True):
        if before.pop(suffix, None) != digest:
            place = prefix + suffix + own
            puts[place] = diff.shown[place]
    if before:
        diff.writes.deletes.extend([prefix + suffix + own for suffix in before])


def _diff_sums(diff: _Diff, token: int, old: Contributions, new: Contributions) -> None:
    deltas, prefix = diff.writes.deltas, view_of(token)
    if len(old) == len(new) == 2 and old[0] == new[0] and len(old[1]) == len(new[1]):  # noqa: PLR2004 - one group
        deltas.append((prefix + new[0], difference(old[1], new[1]), 1))
        return
    deltas.extend([(prefix + suffix, amounts, -1) for suffix, amounts in group_amounts(old)])
    deltas.extend([(prefix + suffix, amounts, 1) for suffix, amounts in group_amounts(new)])


def _diff_claims(diff: _Diff, token: int, old: Contributions, new: Contributions) -> None:
    prefix = view_of(token)
    diff.writes.released.update({prefix + suffix: diff.key for suffix in old if suffix not in new})
    diff.writes.claimed.update({prefix + suffix: diff.key for suffix in new if suffix not in old})


def _diff_pointers(place: Callable[[bytes, bytes], bytes]) -> DiffOf:
    """The diff of sources, each of which has a row of `views` that names the holder."""

    def diff_of(diff: _Diff, _token: int, old: Contributions, new: Contributions) -> None:
        diff.writes.deletes.extend([place(source, diff.key) for source in old if source not in new])
        diff.writes.puts.update({place(source, diff.key): PRESENT for source in new if source not in old})

    return diff_of


def _no_rows(_diff: _Diff, _token: int, _old: Contributions, _new: Contributions) -> None:
    """Hidden copies, digests of copied values and last values have no rows."""


_DIFFS: Final[dict[int, DiffOf]] = {
    ROWS: _diff_rows,
    SUMS: _diff_sums,
    UNIQUE: _diff_claims,
    REFERENCES: _diff_pointers(back_reference_key),
    HELD: _diff_pointers(hold_key),
    HIDDEN: _no_rows,
    COPIED: _no_rows,
    LAST_VALUES: _no_rows,
}
