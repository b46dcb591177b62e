"""Numbers: the time that basic operations take on one engine and machine, and the time predicted for a bound by them.

A prediction adds up the rows of a bound, each by what is done to it: a row of an index is encoded, written and
recorded, a group is read, added to and written. Where a store changes one row at a time a commit is so many rounds of
requests besides. `oneread numbers` measures. See docs/explanation/costs.md and
docs/decisions/0108-times-by-rounds.md.
"""

from __future__ import annotations

import math
import os
import platform
import sys
from pathlib import Path
from typing import Final

import msgspec

from oneread.costs.bounds import Bound, Span, Term
from oneread.errors import UsageError

FORMAT: Final = 1

BASICS: Final[dict[str, str]] = {
    "point": "get of one entity",
    "miss": "get of an absent entity",
    "request": "a read by key that is not a get of an entity",
    "page": "a page, without its rows",
    "row": "a row of a page of an index",
    "entity row": "a row of a page of entities",
    "byte read": "a byte beyond those of a small row",
    "commit": "a transaction without its rows, or a write that is waited for",
    "entity": "an entity that is written",
    "source": "a reference that is filled, with its back-reference",
    "index row": "a row of an index that is written or deleted",
    "group": "a group that is added to",
    "extremum": "a row of a least, greatest or newest value that is written or deleted",
    "claim": "a unique value that is claimed or released",
    "byte written": "a byte beyond those of a small entity",
}
"""What is measured, each in seconds."""

SMALL_ROW: Final = 100
"""Bytes of a row that the other numbers include."""


class Machine(msgspec.Struct, frozen=True):
    """The machine that numbers were measured on, as far as it changes them."""

    system: str
    processor: str
    cores: int
    python: str


def this_machine() -> Machine:
    """The machine that this process runs on."""
    return Machine(
        platform.system(),
        platform.processor() or platform.machine(),
        os.cpu_count() or 1,
        ".".join(map(str, sys.version_info[:2])),
    )


class MachineNumbers(msgspec.Struct, frozen=True):
    """The times of the basic operations.

    Arguments:
        format: of the file.
        engine: scheme and options of the URL that was measured, without its path.
        machine: on which they were measured.
        seconds: each, by its name in `BASICS`.
        span: what the measured store changes at once.
    """

    format: int
    engine: str
    machine: Machine
    seconds: dict[str, float]
    span: Span = "rows"

    def mismatches(self, span: Span) -> list[str]:
        """Why these numbers may not apply: another machine, or a store that does not change as much at once."""
        measured, here = msgspec.structs.asdict(self.machine), msgspec.structs.asdict(this_machine())
        found = [f"{name}: {fact}, not {here[name]}" for name, fact in measured.items() if fact != here[name]]
        return [*found, f"span: {self.span} ({self.engine}), not {span}"] if span != self.span else found

    def predicted(self, bound: Bound) -> float:
        """Seconds for an operation that costs as much as its bound allows, with rows of typical size."""
        if any(term.act == "write" for term in bound.terms):
            return self._commit(bound)
        return sum(map(self._read, bound.terms))

    def group_rate(self, bound: Bound) -> float:
        """Commits a second of this bound in one entity group, where each waits for the one before.

        Groups together get no more than the store's commits a second.
        """
        return 1 / self.predicted(bound)

    def _read(self, term: Term) -> float:
        number = self.seconds
        beyond = max(0, term.typical - SMALL_ROW * term.rows) * number["byte read"]
        if term.act == "read" and term.table == "roots":
            more = max(0, term.rows - 1) * number["entity row"]
            return number["point"] * bool(term.requests) + more + beyond
        if term.act == "read":
            return number["request"] * max(term.requests, term.rows) + beyond
        row = number["entity row"] if term.table == "roots" else number["row"]
        return number["page"] * term.requests + row * term.rows + beyond

    def _commit(self, bound: Bound) -> float:
        number = self.seconds
        waits = number["commit"] if self.span == "rows" else self.waits(bound)
        written = sum(term.typical for term in bound.terms if term.act == "write")
        rows = sum(term.rows for term in bound.terms if term.act == "write")
        beyond = max(0, written - SMALL_ROW * rows) * number["byte written"]
        each = [
            term.rows * number[_NAMES[term.act, term.what]] for term in bound.terms if (term.act, term.what) in _NAMES
        ]
        return waits + beyond + sum(each)

    def waits(self, bound: Bound) -> float:
        """Seconds that the rounds of a bound take: requests that wait for the answer of another one."""
        writes = sum(term.rounds for term in bound.terms if term.act == "write")
        return writes * self.seconds["commit"] + (bound.rounds - writes) * self.seconds["request"]


_decode_numbers: Final = msgspec.json.Decoder(MachineNumbers).decode


_NAMES: Final[dict[tuple[str, str], str]] = {
    ("write", "entity"): "entity",
    ("write", "holders"): "entity",
    ("read", "sources"): "source",
    ("scan", "back-references"): "row",
    ("scan", "holds"): "request",
    ("write", "index rows"): "index row",
    ("write", "rows of holders"): "index row",
    ("write", "extremum rows"): "extremum",
    ("write", "rows of newest values"): "extremum",
    ("write", "holds"): "extremum",
    ("write", "group"): "group",
    ("read", "groups of holders"): "group",
    ("write", "claim"): "claim",
    ("write", "tasks"): "entity",
}
"""The number for a term of a commit; terms that are not here come with another one."""


def read_numbers(path: str | Path) -> MachineNumbers:
    """Numbers that were measured before.

    Raises:
        UsageError: the file does not exist, or does not hold numbers of this release.
    """
    try:
        found = _decode_numbers(Path(path).read_bytes())
    except FileNotFoundError:
        raise UsageError("no numbers here yet; measure them: oneread numbers --db URL", path=str(path)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, IsADirectoryError) as error:
        raise UsageError("these are not numbers; measure them again", path=str(path), reason=str(error)) from error
    wrong = [name for name in BASICS if not 0 <= found.seconds.get(name, -1) < math.inf]
    if found.format != FORMAT or wrong:
        raise UsageError("these numbers are of another release; measure them again", path=str(path), lacking=wrong)
    return found


def write_numbers(numbers: MachineNumbers, path: str | Path) -> None:
    """Writes numbers where `read_numbers` finds them."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(msgspec.json.format(msgspec.json.encode(numbers, order="sorted"), indent=2) + b"\n")


def seconds_text(seconds: float) -> str:
    """A time as a person reads it."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
