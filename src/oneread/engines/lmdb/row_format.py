"""The row format: one row is one LMDB value, whose first three bits are the form that the rest has.

The rows that a store is full of, those of views, of feeds and of entities, have short forms without names, and with a
length only where something follows; every other row is spelled out. See docs/formats/lmdb.md and
docs/decisions/0071-rows-say-what-their-keys-do-not.md.
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
from oneread.store.rows import (
    EMITTED,
    MAX_STAMP,
    UNDECODABLE,
    VALUE,
    VERSION,
    Cell,
    EntityRow,
    Families,
    Row,
    Table,
    as_entity_row,
    row_of_root,
    rows_of_values,
)

BODY: Final = VALUE
"""The column that most rows have alone. An entity's row has the next two as well, an entry of a feed the third."""
_VERSION: Final = VERSION
_RECORD: Final = EMITTED
_SHOWN_BY: Final = b"m:s"
_OF_A_ROOT: Final = (BODY, _VERSION, _RECORD)

SPELLED, ONE, ENTRY, ROOT, OWN, MORE = range(6)

# A short form begins with a number: the form in 3 bits, a stamp in 45, and in 16 the length of the first value, which
# ONE does not have. A row that does not fit is spelled out.
_STAMPS: Final = 1 << 45
_SIZES: Final = 1 << 16
_STAMP, _SIZE, _LOW = _STAMPS - 1, _SIZES - 1, 0xFFFF_FFFF
_IN_FIRST_BYTE: Final = 5
"""How many bits of the stamp are in the byte of the form."""
_ONE: Final = struct.Struct(">HI")
_ROOT: Final = struct.Struct(">Q")
_TWO: Final = struct.Struct(">QHI")  # the last two are the other stamp: of BODY in OWN, of SHOWN_BY in ENTRY
_MORE: Final = struct.Struct(">QHIH")  # the last is the length of RECORD
_pack_root: Final = _ROOT.pack
_pack_two: Final = _TWO.pack
_unpack_one, _unpack_root, _unpack_two, _unpack_more = (each.unpack_from for each in (_ONE, _ROOT, _TWO, _MORE))
_HEAD_OF_ONE: Final = ONE << 45
_HEAD_OF_ROOT: Final = ROOT << 45
_HEAD_OF_OWN: Final = OWN << 45
_ROOT_SIZE: Final = _ROOT.size
_TWO_SIZE: Final = _TWO.size
_ONE_SIZE: Final = _ONE.size

_Cells: TypeAlias = list[tuple[bytes, Annotated[int, msgspec.Meta(ge=0, le=MAX_STAMP)], bytes]]
_decode_cells: Final = msgspec.msgpack.Decoder(_Cells).decode
_encode_cells: Final = msgspec.msgpack.Encoder().encode


def encode_rows(table: Table, rows: Mapping[bytes, Row | None], written: dict[bytes, bytes | None]) -> None:
    """Adds the bytes of rows by key, None for a removed one; refuses a row or a key that exceeds a limit."""
    longest, largest = embedded.MAX_KEY, embedded.MAX_VALUE
    for key, row in rows.items():
        if not 0 < len(key) <= longest:
            embedded.check_key(table, key)
        if not row:
            written[key] = None
            continue
        if len(row) == 1 and BODY in row:  # rows of views, groups, claims: most rows there are
            body = row[BODY]
            stamp, value = body.stamp, body.value
            if 0 <= stamp < _STAMPS and len(value) <= largest:
                written[key] = (_HEAD_OF_ONE | stamp).to_bytes(6, "big") + value
                continue
        written[key] = _encode(table, key, row)


def encode_values(
    table: Table, values: Mapping[bytes, bytes | None], stamp: int, written: dict[bytes, bytes | None]
) -> None:
    """`encode_rows` of rows that have `VALUE` alone, all with this stamp."""
    longest, largest = embedded.MAX_KEY, embedded.MAX_VALUE
    if not 0 <= stamp < _STAMPS:
        encode_rows(table, rows_of_values(values, stamp), written)
        return
    head = (_HEAD_OF_ONE | stamp).to_bytes(6, "big")
    for key, value in values.items():
        if not 0 < len(key) <= longest:
            embedded.check_key(table, key)
        if value is None:
            written[key] = None
        elif len(value) <= largest:
            written[key] = head + value
        else:
            written[key] = _encode(table, key, {BODY: Cell(value, stamp)})


def encode(table: Table, key: bytes, row: Row) -> bytes:
    """The bytes of a row; refuses one that exceeds a limit."""
    written: dict[bytes, bytes | None] = {}
    encode_rows(table, {key: row}, written)
    made = written[key]
    assert made is not None, "a row without cells is a removed one"
    return made


def _encode(table: Table, key: bytes, row: Row) -> bytes:
    """The bytes of a row that has several cells, or one that does not fit the short form."""
    body = row.get(BODY)
    if body is not None and len(row) > 1:
        try:
            made = _encode_entry(row, body) if len(row) == 2 else _encode_root(table, key, row, body)  # noqa: PLR2004 - cells
        except (struct.error, OverflowError):  # the other stamp or the other length does not fit
            made = None
        if made is not None:
            return made
    embedded.check_row(table, key, row)
    return bytes((SPELLED,)) + _spell(row)


def _head(form: int, stamp: int, size: int) -> int:
    """The number that a short form begins with; struct refuses -1, which stands for one that does not fit."""
    return (form << 45 | stamp) << 16 | size if 0 <= stamp < _STAMPS and size < _SIZES else -1


def _encode_entry(row: Row, body: Cell) -> bytes | None:
    """The short form of an entry of a feed; None for other rows."""
    shown_by = row.get(_SHOWN_BY)
    if shown_by is None or len(body.value) > embedded.MAX_VALUE:
        return None
    value, other = shown_by.value, shown_by.stamp
    head = _TWO.pack(_head(ENTRY, body.stamp, len(value)), other >> 32, other & _LOW)
    return b"".join((head, value, body.value))


def _encode_root(table: Table, key: bytes, row: Row, body: Cell) -> bytes | None:
    """The short form of an entity's row; None for other rows."""
    version, record = row.get(_VERSION), row.get(_RECORD)
    if version is None or record is None:
        return None
    stamp = version.stamp
    if record.stamp != stamp or version.value != stamp.to_bytes(8, "big"):
        return None
    if len(row) > len(_OF_A_ROOT):
        return _encode_more(table, key, row)
    value, own, emitted = body.value, body.stamp, record.value
    if len(emitted) > embedded.MAX_VALUE:
        return None
    if own == stamp:
        return _pack_root(_head(ROOT, stamp, len(value))) + value + emitted
    return b"".join((_TWO.pack(_head(OWN, stamp, len(value)), own >> 32, own & _LOW), value, emitted))


def _encode_more(table: Table, key: bytes, row: Row) -> bytes | None:
    """The short form of the row of an entity group's root, which has the cells of an entity; None for other rows."""
    others = {column: cell for column, cell in row.items() if column not in _OF_A_ROOT}
    embedded.check_row(table, key, others)
    spelled = _spell(others)
    if len(spelled) >= _SIZES or any(not column.startswith(b"m:") for column in others):
        return None
    body, record = row[BODY], row[_RECORD]
    head = _head(MORE, record.stamp, len(body.value)), body.stamp >> 32, body.stamp & _LOW, len(record.value)
    return b"".join((_MORE.pack(*head), body.value, record.value, spelled))


def _spell(row: Row) -> bytes:
    """Cells, each with its column's name."""
    return _encode_cells([(column, row[column].stamp, row[column].value) for column in sorted(row)])


def decode(table: Table, key: bytes, value: bytes, families: Families) -> Row | None:
    """The cells of a row that a reader of `families` sees; None where it sees none."""
    try:
        return _DECODERS[value[0] >> _IN_FIRST_BYTE](value, families)
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
            rows.append(_DECODERS[value[0] >> _IN_FIRST_BYTE](value, families))
        except _TORN as failure:
            raise corrupt(table, keys[len(rows)], value) from failure
    return rows


def decode_roots(keys: Sequence[bytes], values: Iterable[bytes | None]) -> list[EntityRow | Row | None]:
    """Rows of `roots`: those that have just the cells of a living entity as `EntityRow`."""
    roots: list[EntityRow | Row | None] = []
    for value in values:
        if value is None:
            roots.append(None)
        elif len(value) >= _ROOT_SIZE and value[0] >> _IN_FIRST_BYTE == ROOT:
            (head,) = _unpack_root(value)
            stop, stamp = _ROOT_SIZE + (head & _SIZE), head >> 16 & _STAMP
            if stop > len(value):
                raise corrupt("roots", keys[len(roots)], value)
            roots.append(EntityRow(stamp, value[_ROOT_SIZE:stop], value[stop:], stamp))
        elif len(value) >= _TWO_SIZE and value[0] >> _IN_FIRST_BYTE == OWN:
            head, high, low = _unpack_two(value)
            stop = _TWO_SIZE + (head & _SIZE)
            if stop > len(value):
                raise corrupt("roots", keys[len(roots)], value)
            roots.append(EntityRow(head >> 16 & _STAMP, value[_TWO_SIZE:stop], value[stop:], high << 32 | low))
        else:
            roots.append(as_entity_row(decode("roots", keys[len(roots)], value, "dm")))
    return roots


def encode_roots(roots: Mapping[bytes, EntityRow | Row], written: dict[bytes, bytes | None]) -> None:
    """`encode_rows` of root rows, each in the form that `decode_roots` gives it."""
    longest, largest = embedded.MAX_KEY, embedded.MAX_VALUE
    for key, root in roots.items():
        if isinstance(root, EntityRow):
            version, body, emitted = root.version, root.body, root.emitted
            own = root.own
            if (
                body is not None and emitted is not None and 0 <= version < _STAMPS and 0 <= own < _STAMPS
                and len(body) < _SIZES and len(emitted) <= largest and 0 < len(key) <= longest
            ):  # fmt: skip
                if own == version:
                    head = _pack_root((_HEAD_OF_ROOT | version) << 16 | len(body))
                else:
                    head = _pack_two((_HEAD_OF_OWN | version) << 16 | len(body), own >> 32, own & _LOW)
                written[key] = head + body + emitted
                continue
        encode_rows("roots", {key: row_of_root(root)}, written)


def decode_values(table: Table, keys: Sequence[bytes], values: Iterable[bytes | None]) -> list[Cell | None]:
    """The cells of `BODY` of rows that have it alone, None for those that are absent."""
    cells: list[Cell | None] = []
    for value in values:
        if value is None:
            cells.append(None)
        elif len(value) >= _ONE_SIZE and value[0] >> _IN_FIRST_BYTE == ONE:
            high, low = _unpack_one(value)
            cells.append(Cell(value[_ONE_SIZE:], (high << 32 | low) & _STAMP))
        else:
            row = decode(table, keys[len(cells)], value, "dm")
            cells.append(None if row is None else row.get(BODY))
    return cells


def decode_cell(table: Table, key: bytes, value: bytes, column: bytes) -> tuple[bytes, int] | None:
    """The value and the stamp of one cell of a row: what `decode` gives for that column, without the others."""
    try:
        form = value[0] >> _IN_FIRST_BYTE
        if column == BODY:
            if form == ROOT:
                (head,) = _unpack_root(value)
                stop = _ROOT.size + (head & _SIZE)
                if stop <= len(value):
                    return value[_ROOT.size : stop], head >> 16 & _STAMP
            elif form == ONE:
                high, low = _unpack_one(value)
                return value[_ONE.size :], (high << 32 | low) & _STAMP
            elif form >= OWN:
                head, high, low = _unpack_two(value)
                start = _TWO.size if form == OWN else _MORE.size
                stop = start + (head & _SIZE)
                if stop <= len(value):
                    return value[start:stop], high << 32 | low
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
    keys, values = (*map(_take_key, rows),), (*map(_take_value, rows),)
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
        if forms <= _OF_ONE:
            return [*map(_take_one, values)]
        if forms <= _OF_ENTRY:
            bodies = [value[_TWO.size + (value[6] << 8 | value[7]) :] for value in values]
            return bodies if all(bodies) else None  # an empty one, if its row ends before it
    except IndexError:
        return None
    return None


_take_key, _take_value = itemgetter(0), itemgetter(1)
_take_form, _take_one = itemgetter(0), itemgetter(slice(_ONE.size, None))
_OF_ONE, _OF_ENTRY = (
    frozenset(range(form << _IN_FIRST_BYTE, form + 1 << _IN_FIRST_BYTE)) for form in (ONE, ENTRY)
)  # the first bytes of a form


def corrupt(table: Table, key: bytes, value: bytes) -> Corrupt:
    """The error of a row that cannot be read."""
    return Corrupt("a row's bytes are not in the row format", table=table, key=key, bytes=len(value), head=value[:32])


class _Torn(Exception):
    """A row is shorter or longer than its lengths say."""


_TORN: Final = (_Torn, IndexError, struct.error, *UNDECODABLE)


def _decode_spelled(value: bytes, families: Families) -> Row | None:
    row = _cells(value, 1)
    if not row or value[0] != SPELLED:
        raise _Torn
    return embedded.readable(row) if families == "d" else row


def _decode_one(value: bytes, _families: Families) -> Row:
    high, low = _unpack_one(value)
    return {BODY: Cell(value[_ONE_SIZE:], (high << 32 | low) & _STAMP)}


def _decode_entry(value: bytes, families: Families) -> Row:
    head, high, low = _unpack_two(value)
    stop = _TWO.size + (head & _SIZE)
    if stop > len(value):
        raise _Torn
    row = {BODY: Cell(value[stop:], head >> 16 & _STAMP)}
    if families == "dm":
        row[_SHOWN_BY] = Cell(value[_TWO.size : stop], high << 32 | low)
    return row


def _decode_root(value: bytes, families: Families) -> Row:
    (head,) = _unpack_root(value)
    stop, stamp = _ROOT_SIZE + (head & _SIZE), head >> 16 & _STAMP
    if stop > len(value):
        raise _Torn
    row = {BODY: Cell(value[_ROOT_SIZE:stop], stamp), _VERSION: Cell(stamp.to_bytes(8, "big"), stamp)}
    if families == "dm":
        row[_RECORD] = Cell(value[stop:], stamp)
    return row


def _decode_own(value: bytes, families: Families) -> Row:
    head, high, low = _unpack_two(value)
    stop, stamp = _TWO.size + (head & _SIZE), head >> 16 & _STAMP
    if stop > len(value):
        raise _Torn
    row = {BODY: Cell(value[_TWO.size : stop], high << 32 | low), _VERSION: Cell(stamp.to_bytes(8, "big"), stamp)}
    if families == "dm":
        row[_RECORD] = Cell(value[stop:], stamp)
    return row


def _decode_more(value: bytes, families: Families) -> Row:
    head, high, low, emitted = _unpack_more(value)
    stop, stamp = _MORE.size + (head & _SIZE), head >> 16 & _STAMP
    end = stop + emitted
    if end > len(value):
        raise _Torn
    row = {BODY: Cell(value[_MORE.size : stop], high << 32 | low), _VERSION: Cell(stamp.to_bytes(8, "big"), stamp)}
    if families == "dm":
        row[_RECORD] = Cell(value[stop:end], stamp)
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
    _decode_entry,
    _decode_root,
    _decode_own,
    _decode_more,
)
"""By form."""
