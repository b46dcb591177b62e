"""What the log of a moved store held at some moment, and whether that is followed by now; for either kind of log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from oneread.plans.plan import Plan
from oneread.store.requests import Scan
from oneread.transactions.intents import MARKER
from oneread.transactions.move_gate import MARKS
from oneread.transactions.moves import LOG_ENTRIES, MOVE_LOG

LogPosition: TypeAlias = Mapping[bytes, int]
"""What a log held at some moment: marks with their numbers, or the last number of all."""


class LogPositions(NamedTuple):
    """What the log of one kind of store holds now, and whether what it held at some moment is followed."""

    now: Callable[[], Plan[LogPosition]]
    has_passed: Callable[[LogPosition], Plan[bool]]


_PAGE: Final = 500
_MOST: Final = 10_000
"""Marks that are counted at most."""
_SURELY_FOLLOWED: Final = 2_000
"""Milliseconds between two numbers of a row that is always about to change: a follower has read it in between."""


def entry_number(key: bytes) -> int:
    """The number of an entry of the log."""
    return int.from_bytes(key[len(MOVE_LOG) :], "big")


def _position_of_entries() -> Plan[LogPosition]:
    """That of a store whose transactions span rows. One request, one row."""
    last = yield from Scan("system", LOG_ENTRIES, 1, reverse=True)
    return {MOVE_LOG: entry_number(last[0][0]) if last else 0}


def _entries_have_passed(position: LogPosition) -> Plan[bool]:
    """Whether all entries of then are followed. One request, one row."""
    first = yield from Scan("system", LOG_ENTRIES, 1)
    return not first or entry_number(first[0][0]) > position[MOVE_LOG]


def position_of_marks() -> Plan[dict[bytes, int]]:
    """That of a store that changes one row at a time: its marks. A request for each 500 of them."""
    stamps, within = dict[bytes, int](), MARKS
    while len(stamps) < _MOST:
        found = yield from Scan("system", within, _PAGE)
        stamps.update({key: row[MARKER].stamp for key, row in found})
        if len(found) < _PAGE:
            break
        within = within.behind(found[-1][0])
    return stamps


def _marks_have_passed(position: LogPosition) -> Plan[bool]:
    """Whether all marks of then are followed. A request for each 500 marks."""
    now = yield from position_of_marks()
    return all(now[key] > stamp + _SURELY_FOLLOWED for key, stamp in position.items() if key in now)


OF_ENTRIES: Final = LogPositions(_position_of_entries, _entries_have_passed)
OF_MARKS: Final = LogPositions(position_of_marks, _marks_have_passed)
