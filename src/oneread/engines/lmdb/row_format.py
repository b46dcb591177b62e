"""The row format: one row is one LMDB value, whose first byte is the form that the rest has.

The rows that a store is full of, those of views and of entities, have short forms with lengths at fixed places; every
other row is spelled out. See docs/formats/lmdb.md and docs/decisions/0067-forms-of-rows.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Annotated, Final, TypeAlias

import msgspec

from oneread.engines import embedded
from oneread.errors import Corrupt
from oneread.store.engine import Column
from oneread.store.rows import MAX_STAMP, Cell, Families, Row, Table

BODY: Final = b"d:b"
"""The column that most rows have alone. An entity's row has the other two as well."""
_VERSION: Final = b"d:v"
_RECORD: Final = b"m:e"
_OF_A_ROOT: Final = (BODY, _VERSION, _RECORD)

SPELLED, ONE, LONG, ROOT, OWN, MORE = range(6)
BODY_AT: Final = (0, 8, 11, 11, 17, 17)
"""By form: where the value of BODY begins. It ends with the row in ONE and LONG."""

# A stamp has 48 bits, a u32 and a u16, since struct has no number of six bytes. A row that does not fit is spelled out.
_ONE: Final = struct.Struct("<BIHB")
_LONG: Final = struct.Struct("<BIHI")
_ROOT: Final = struct.Struct("<BIHHH")
_OWN: Final = struct.Struct("<BIHHHIH")  # the last two are the stamp of BODY
_pack_one, _pack_long, _pack_root, _pack_own = _ONE.pack, _LONG.pack, _ROOT.pack, _OWN.pack
_unpack_one, _unpack_long, _unpack_root, _unpack_own = (each.unpack_from for each in (_ONE, _LONG, _ROOT, _OWN))
_LOW: Final = 0xFFFF_FFFF
_SHORT_STAMP: Final = 0xFFFF_FFFF_FFFF
_ONE_BYTE: Final = 256

_Cells: TypeAlias = list[tuple[bytes, Annotated[int, msgspec.Meta(ge=0, le=MAX_STAMP)], bytes]]
_decode_cells: Final = msgspec.msgpack.Decoder(_Cells).decode
_decode_rows: Final = msgspec.msgpack.Decoder(list[_Cells]).decode
_encode_cells: Final = msgspec.msgpack.Encoder().encode


def encode_rows(table: Table, rows: Mapping[bytes, Row | None], written: dict[bytes, bytes | None]) -> None:
    """Adds the bytes of rows by key, None for a removed one; refuses a row or a key that exceeds a limit."""
    longest = embedded.MAX_KEY
    for key, row in rows.items():
        if not 0 < len(key) <= longest:
            embedded.check_key(table, key)
        if not row:
            written[key] = None
            continue
        if len(row) == 1 and BODY in row:  # rows of views, groups, claims: most rows there are
            body = row[BODY]
            stamp, value = body.stamp, body.value
            size = len(value)
            if size < _ONE_BYTE and 0 <= stamp <= _SHORT_STAMP:
                written[key] = _pack_one(ONE, stamp & _LOW, stamp >> 32, size) + value
                continue
        written[key] = _encode(table, key, row)


def encode(table: Table, key: bytes, row: Row) -> bytes:
    """The bytes of a row; refuses one that exceeds a limit."""
    written: dict[bytes, bytes | None] = {}
    encode_rows(table, {key: row}, written)
    made = written[key]
    assert made is not None, "a row without cells is a removed one"
    return made


def _encode(table: Table, key: bytes, row: Row) -> bytes:
    """The bytes of a row that has several cells, or a long one."""
    body = row.get(BODY)
    if body is not None:
        try:
            if len(row) == 1:
                stamp, value = body.stamp, body.value
                size = len(value)
                if _ONE_BYTE <= size <= embedded.MAX_VALUE:
                    return _pack_long(LONG, stamp & _LOW, stamp >> 32, size) + value
            else:
                made = _encode_root(table, key, row, body)
                if made is not None:
                    return made
        except (struct.error, OverflowError):  # a stamp or a length does not fit
            pass
    return bytes((SPELLED,)) + _spell(table, key, row, row)


def _encode_root(table: Table, key: bytes, row: Row, body: Cell) -> bytes | None:
    """The short form of an entity's row; None if the row has others or more than its cells."""
    version, record = row.get(_VERSION), row.get(_RECORD)
    if version is None or record is None:
        return None
    stamp = version.stamp
    if record.stamp != stamp or version.value != stamp.to_bytes(8, "big"):
        return None
    value, own, emitted = body.value, body.stamp, record.value
    is_all = len(row) == len(_OF_A_ROOT)
    if is_all and own == stamp:
        return b"".join((_pack_root(ROOT, stamp & _LOW, stamp >> 32, len(value), len(emitted)), value, emitted))
    form = OWN if is_all else MORE
    head = _pack_own(form, stamp & _LOW, stamp >> 32, len(value), len(emitted), own & _LOW, own >> 32)
    if is_all:
        return b"".join((head, value, emitted))
    others = [column for column in row if column not in _OF_A_ROOT]
    if not all(column.startswith(b"m:") for column in others):
        return None
    return b"".join((head, value, emitted, _spell(table, key, row, others)))


def _spell(table: Table, key: bytes, row: Row, columns: Iterable[bytes]) -> bytes:
    """Cells of a row, each with its column's name."""
    embedded.check_row(table, key, row)
    return _encode_cells([(column, row[column].stamp, row[column].value) for column in sorted(columns)])


def decode(table: Table, key: bytes, value: bytes, families: Families) -> Row | None:
    """The cells of a row that a reader of `families` sees; None where it sees none."""
    try:
        return _DECODERS[value[0]](value, families)
    except _TORN as failure:
        raise corrupt(table, key, value) from failure


def decode_rows(
    table: Table, keys: Sequence[bytes], values: Iterable[bytes | None], families: Families
) -> list[Row | None]:
    """`decode` of several rows, None for those that are absent."""
    rows: list[Row | None] = []
    for value in values:
        if value is None:
            rows.append(None)
            continue
        try:
            rows.append(_DECODERS[value[0]](value, families))
        except _TORN as failure:
            raise corrupt(table, keys[len(rows)], value) from failure
    return rows


def decode_cell(table: Table, key: bytes, value: bytes, column: bytes) -> tuple[bytes, int] | None:
    """The value and the stamp of one cell of a row: what `decode` gives for that column, without the others."""
    try:
        form = value[0]
        if column == BODY:
            if form == ROOT:
                _form, low, high, size, emitted = _unpack_root(value)
                stop = _ROOT.size + size
                if stop + emitted == len(value):
                    return value[_ROOT.size : stop], high << 32 | low
            elif form == ONE:
                _form, low, high, size = _unpack_one(value)
                if _ONE.size + size == len(value):
                    return value[_ONE.size :], high << 32 | low
            elif form >= OWN:
                _form, _low, _high, size, emitted, low, high = _unpack_own(value)
                stop = _OWN.size + size
                if stop + emitted <= len(value):
                    return value[_OWN.size : stop], high << 32 | low
        row = _DECODERS[form](value, "dm")
    except _TORN as failure:
        raise corrupt(table, key, value) from failure
    cell = None if row is None else row.get(column)
    return None if cell is None else (cell.value, cell.stamp)


def decode_column(table: Table, rows: Sequence[tuple[bytes, bytes]], column: bytes) -> Column:
    """The keys and one cell's values of those rows that have it.

    The rows of a view have one form as a rule, so they are cut in one step. One that is cut short makes no document,
    which its decoder finds.
    """
    if not rows:
        return (), []
    keys, values = zip(*rows, strict=True)
    bodies = _bodies(values) if column == BODY else None
    if bodies is not None:
        return keys, bodies
    cells = [(key, decode_cell(table, key, value, column)) for key, value in rows]
    found = [(key, cell[0]) for key, cell in cells if cell is not None]
    return [key for key, _value in found], [value for _key, value in found]


def _bodies(values: Sequence[bytes]) -> list[bytes] | None:
    """The values of BODY of rows that all have it, in one step; None if that takes a look at each."""
    try:
        forms = {*map(_take_form, values)}
        if forms == _ONLY_ONE:
            return [*map(_take_one, values)]
        if forms <= _ALONE:
            return [value[BODY_AT[value[0]] :] for value in values]
        if forms == _ONLY_SPELLED:  # entries of feeds, which have two columns
            array = b"".join((b"\xdd", len(values).to_bytes(4, "big"), *map(_take_spelled, values)))
            rows = _decode_rows(array)
            return [row[0][2] for row in rows] if all(row and row[0][0] == BODY for row in rows) else None
    except (IndexError, msgspec.MsgspecError):
        return None
    return None


_take_form, _take_one, _take_spelled = itemgetter(0), itemgetter(slice(BODY_AT[ONE], None)), itemgetter(slice(1, None))
_ONLY_ONE, _ALONE, _ONLY_SPELLED = {ONE}, {ONE, LONG}, {SPELLED}


def corrupt(table: Table, key: bytes, value: bytes) -> Corrupt:
    """The error of a row that cannot be read."""
    return Corrupt("a row's bytes are not in the row format", table=table, key=key, bytes=len(value), head=value[:32])


class _Torn(Exception):
    """A row is shorter or longer than its lengths say."""


_TORN: Final = (_Torn, IndexError, struct.error, msgspec.MsgspecError)


def _decode_spelled(value: bytes, families: Families) -> Row | None:
    row = _cells(value, 1)
    if not row:
        raise _Torn
    return embedded.readable(row) if families == "d" else row


def _decode_one(value: bytes, _families: Families) -> Row:
    _form, low, high, size = _unpack_one(value)
    if _ONE.size + size != len(value):
        raise _Torn
    return {BODY: Cell(value[_ONE.size :], high << 32 | low)}


def _decode_long(value: bytes, _families: Families) -> Row:
    _form, low, high, size = _unpack_long(value)
    if _LONG.size + size != len(value):
        raise _Torn
    return {BODY: Cell(value[_LONG.size :], high << 32 | low)}


def _decode_root(value: bytes, families: Families) -> Row:
    _form, low, high, size, emitted = _unpack_root(value)
    stop, stamp = _ROOT.size + size, high << 32 | low
    if stop + emitted != len(value):
        raise _Torn
    row = {BODY: Cell(value[_ROOT.size : stop], stamp), _VERSION: Cell(stamp.to_bytes(8, "big"), stamp)}
    if families == "dm":
        row[_RECORD] = Cell(value[stop:], stamp)
    return row


def _decode_own(value: bytes, families: Families) -> Row:
    """Of the forms OWN and MORE."""
    form, low, high, size, emitted, own_low, own_high = _unpack_own(value)
    start, stamp = _OWN.size, high << 32 | low
    stop = start + size
    end = stop + emitted
    if end > len(value) or (form == OWN and end != len(value)):
        raise _Torn
    row = {BODY: Cell(value[start:stop], own_high << 32 | own_low), _VERSION: Cell(stamp.to_bytes(8, "big"), stamp)}
    if families == "dm":
        row[_RECORD] = Cell(value[stop:end], stamp)
        if form == MORE:
            row.update(_cells(value, end))
    return row


def _cells(value: bytes, start: int) -> Row:
    """Cells that are spelled out from `start` on to the end."""
    cells = _decode_cells(memoryview(value)[start:])
    columns = [column for column, _stamp, _value in cells]
    if columns != sorted(set(columns)):
        raise _Torn
    return {column: Cell(each, stamp) for column, stamp, each in cells}


_Decoder: TypeAlias = Callable[[bytes, Families], Row | None]
_DECODERS: Final[tuple[_Decoder, ...]] = (
    _decode_spelled,
    _decode_one,
    _decode_long,
    _decode_root,
    _decode_own,
    _decode_own,
)
"""By form."""
