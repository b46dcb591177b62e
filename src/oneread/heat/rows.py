"""The rows of heat: read, added up to longer times when they are older, and removed.

Each process puts a row of its own each minute, so that none waits for another. A sum is put once, if it is not there
yet, before what it is the sum of is removed; where both are, the sum counts. See "Heat" of docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from oneread.errors import Conflict
from oneread.heat.cells import HeatSums, decode_sums, encode_sums, merge
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.scans import scan_all, scan_up_to
from oneread.store.requests import Found, Mutate, Read, Scan
from oneread.store.rows import UNDECODABLE, VALUE, Cell, RowMutation, RowRange
from oneread.transactions.commit import SystemCommitter, swap_alone
from oneread.transactions.system_rows import HEAT, Swap

MINUTE: Final = 60_000
"""Milliseconds."""
BATCH: Final = 500
_MINUTE_BYTES: Final = 4


class HeatLevel(NamedTuple):
    """Rows of one length, in minutes, and for how long they are kept behind the end of their sum."""

    letter: bytes
    minutes: int
    kept: int


OF_PROCESS: Final = HeatLevel(b"m", 1, 10)
LEVELS: Final = (
    OF_PROCESS,
    HeatLevel(b"s", 1, 6 * 60),
    HeatLevel(b"t", 10, 24 * 60),
    HeatLevel(b"u", 60, 14 * 24 * 60),
)
"""Those of each process, of all processes, of ten minutes, and of an hour; each is added up to the next one."""
DAYS: Final = LEVELS[-1].kept // (24 * 60)
"""For how long rows of an hour are kept, unless the store says fewer days."""
KEPT: Final = HEAT.start + b"kept"
"""The row that says for how many days; `k` is not the letter of a level."""


_encode_days = msgspec.msgpack.Encoder().encode
_decode_days = msgspec.msgpack.Decoder(int).decode


class HeatSpan(NamedTuple):
    """The sums of some minutes from one on."""

    minute: int
    minutes: int
    sums: HeatSums


def row_of_process(minute: int, process: bytes) -> bytes:
    """The key of what one process requested within a minute; `process` has eight bytes."""
    return _key(OF_PROCESS, minute) + process


def _key(level: HeatLevel, minute: int) -> bytes:
    return HEAT.start + level.letter + max(0, minute).to_bytes(_MINUTE_BYTES, "big")


def _minute_of(key: bytes) -> int:
    behind = len(HEAT.start) + 1
    return int.from_bytes(key[behind : behind + _MINUTE_BYTES], "big")


def _block(level: HeatLevel, minute: int) -> int:
    """The first minute of the row of a level that a minute is in."""
    return minute - minute % level.minutes


class HeatFolding:
    """The chore that adds rows up when they are old enough, and removes what was added up."""

    name = "heat"

    def __init__(self, system: SystemCommitter) -> None:
        self._system = system

    def step(self) -> Plan[bool]:
        """Adds up one row: up to five requests, a few more for what is added up. False when nothing is old enough."""
        now = (yield from Now()) // MINUTE
        for each, longer in zip(LEVELS, (*LEVELS[1:], None), strict=True):
            level = each if longer is not None else each._replace(kept=(yield from _read_days()) * 24 * 60)
            span = (longer or level).minutes
            rows = yield from Scan("system", RowRange(_key(level, 0), _key(level, now - level.kept)), 1)
            if rows:
                block = _minute_of(rows[0][0])
                block -= block % span
                if block + span + level.kept <= now:
                    yield from self._fold(level, longer, block)
                    return True
        return False

    def _fold(self, level: HeatLevel, longer: HeatLevel | None, block: int) -> Plan[None]:
        span = (longer or level).minutes
        rows: list[Found] = []
        yield from scan_all("system", RowRange(_key(level, block), _key(level, block + span)), rows.extend, BATCH)
        if longer is not None:
            yield from self._add_up(rows, longer, _key(longer, block), of_one_time=level is OF_PROCESS)
        gone = [RowMutation(key, deletes={column: cell.stamp for column, cell in row.items()}) for key, row in rows]
        yield from Mutate("system", gone)

    def _add_up(self, rows: Sequence[Found], longer: HeatLevel, key: bytes, *, of_one_time: bool) -> Plan[None]:
        """Puts the sum unless it is there: another worker may be at it, and may have removed some rows already."""
        sums = merge([each.sums for each in _spans(longer, rows)], of_one_time=of_one_time)
        lost = Conflict("another worker has added this up", row=key)
        try:
            yield from swap_alone(self._system, Swap(key, None, encode_sums(sums), lambda: lost))
        except Conflict:
            return


def _spans(level: HeatLevel, rows: Iterable[Found]) -> Iterable[HeatSpan]:
    for key, row in rows:
        sums = decode_sums(row[VALUE].value) if VALUE in row else None
        if sums is not None:
            yield HeatSpan(_minute_of(key), level.minutes, sums)


HeatRows: TypeAlias = "list[tuple[HeatLevel, list[Found]]]"
"""What was recorded, as it is stored: the longest times first."""


def read_heat_rows(since: int, until: int) -> Plan[HeatRows]:
    """The rows from one minute to another, not included. Costs a scan of each of four levels."""
    found: HeatRows = []
    for level in reversed(LEVELS):
        within = RowRange(_key(level, _block(level, since)), _key(level, until))
        found.append((level, (yield from scan_up_to("system", within, None, BATCH))))
    return found


def read_heat(since: int, until: int) -> Plan[list[HeatSpan]]:
    """What was recorded from one minute to another, not included. Costs a scan of each of four levels."""
    return spans_of((yield from read_heat_rows(since, until)))


def spans_of(recorded: HeatRows) -> list[HeatSpan]:
    """What the rows say; of a time whose sum is there the sum alone."""
    found: list[HeatSpan] = []
    sums: set[int] = set()
    above: HeatLevel | None = None
    for level, rows in recorded:
        spans = list(_spans(level, rows))
        if above is not None:
            spans = [each for each in spans if _block(above, each.minute) not in sums]
        found += spans
        sums, above = {each.minute for each in spans}, level
    return found


def has_heat() -> Plan[bool]:
    """Whether any program has recorded within what is kept. Costs a scan of one row."""
    return bool((yield from Scan("system", RowRange(_key(OF_PROCESS, 0), HEAT.stop), 1)))


def keep_days(days: int) -> Plan[None]:
    """From now on all programs keep rows of an hour for so many days, 0 to 14. Costs a put."""
    now = yield from Now()
    yield from Mutate("system", [RowMutation(KEPT, {VALUE: Cell(_encode_days(days), now)})])


def _read_days() -> Plan[int]:
    """For how many days rows of an hour are kept. One row."""
    row = (yield from Read("system", [KEPT]))[0]
    try:
        return DAYS if row is None else min(DAYS, max(0, _decode_days(row[VALUE].value)))
    except (*UNDECODABLE, KeyError):
        return DAYS
