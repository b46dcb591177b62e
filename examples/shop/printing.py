"""Text for people: aligned tables, money, costs, and how long something took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from statistics import median
from time import perf_counter_ns
from typing import Any, TypeVar

T = TypeVar("T")


def table(head: Sequence[str], rows: Iterable[Sequence[object]], indent: str = "  ") -> str:
    """Rows under their headings; numbers to the right, text to the left."""
    rows = list(rows)
    body = [[shown(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    right = [all(isinstance(row[place], int | float | Decimal | None) for row in rows) for place in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        aligned = zip(cells, widths, right, strict=True)
        return indent + "  ".join(
            text.rjust(width) if is_right else text.ljust(width) for text, width, is_right in aligned
        )

    return "\n".join(line(cells).rstrip() for cells in [list(head), ["-" * width for width in widths], *body])


def shown(value: object) -> str:
    """A value as a cell of a table."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    return money(value) if isinstance(value, Decimal) else str(value)


def money(amount: Decimal) -> str:
    """To the penny, exactly what there is behind it included: 2.5 is 2.50, and 1.255 stays."""
    exponent = amount.normalize().as_tuple().exponent
    digits = max(2, -exponent if isinstance(exponent, int) else 2)
    return f"{amount:,.{digits}f}"


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it returns, and microseconds."""
    started = perf_counter_ns()
    result = work()
    return result, (perf_counter_ns() - started) / 1000


def rivals(
    keys: Iterable[tuple[Any, ...]], ours: Callable[..., object], theirs: Callable[..., object]
) -> tuple[float, float]:
    """The median microseconds of two ways to the same page, taken turn by turn over the same keys."""
    mine: list[float] = []
    other: list[float] = []
    for key in keys:
        for work, times in ((ours, mine), (theirs, other)):
            started = perf_counter_ns()
            work(*key)
            times.append((perf_counter_ns() - started) / 1000)
    return median(mine), median(other)


def again(work: Callable[[], object], times: int = 200) -> float:
    """The median microseconds of doing it so many times."""
    return median(timed(work)[1] for _ in range(times))


def size(count: int) -> str:
    """Bytes, in MiB."""
    return f"{count / 2**20:,.1f} MiB"
