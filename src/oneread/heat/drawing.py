"""Draws a map of heat on a terminal: a line for each declaration or range, a character for each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice, pairwise
from typing import Final, NamedTuple

from oneread.heat.map import HeatMap

BLOCKS: Final = " ▁▂▃▄▅▆▇█"
ASCII: Final = " .:-=+*#%@"
_COLOURS: Final = (17, 18, 19, 55, 91, 127, 163, 199, 203, 209, 215, 220, 226)
"""Of the 256 of terminals, from cold to hot."""
_CAUSES: Final = 2
"""That a line names."""
_APART: Final = 8
"""Characters between two times of the heading, at least."""


class HeatLine(NamedTuple):
    """A line of the drawing: what it is of, its amounts a second by column, and what is said at its end."""

    label: str
    amounts: Sequence[float]
    end: str


def lines_by_declaration(heat: HeatMap) -> list[HeatLine]:
    """A line for each declaration, the hottest first."""
    found: dict[str, list[float]] = {}
    for each, amounts in zip(heat.ranges, heat.cells, strict=True):
        known = found.setdefault(each.declared, [0.0] * len(amounts))
        found[each.declared] = [one + more for one, more in zip(known, amounts, strict=True)]
    hot = sorted(found.items(), key=lambda item: (-sum(item[1]), item[0]))
    causes = _causes(heat)
    return [HeatLine(name, amounts, _most_of(causes.get(name, {}))) for name, amounts in hot]


def _causes(heat: HeatMap) -> dict[str, dict[str, float]]:
    """How much of each declaration's heat each verb makes."""
    names = [each.declared for each in heat.ranges]
    found: dict[str, dict[str, float]] = {}
    for part in heat.parts:
        of_name = found.setdefault(names[part.range], {})
        cause = f"{part.verb} {part.declared}".rstrip()
        of_name[cause] = of_name.get(cause, 0.0) + part.amount
    return found


def _most_of(found: dict[str, float]) -> str:
    """The verbs that make most of it."""
    whole = sum(found.values())
    hot = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join([f"{cause} {amount / whole:.0%}" for cause, amount in islice(hot, _CAUSES)])


def lines_by_range(heat: HeatMap) -> list[HeatLine]:
    """A line for each range, in the order of keys."""
    return [
        HeatLine(
            f"{each.first or 'first'} to {each.last or 'last'}",
            amounts,
            "" if each.share is None else f"{each.share:.0%} of its rows",
        )
        for each, amounts in zip(heat.ranges, heat.cells, strict=True)
    ]


def draw(heat: HeatMap, lines: Sequence[HeatLine], width: int, *, ascii_only: bool, colours: bool) -> Iterator[str]:
    """The drawing; amounts are drawn by the greatest one of all, and written as means."""
    widest = min(max([len(each.label) for each in lines], default=0), width // 3)
    columns = max(1, min(len(heat.times), width - widest - 2 - _END))
    per = -(-len(heat.times) // columns)
    starts = range(0, len(heat.times), per)
    yield " " * (widest + 2) + _heading([heat.times[start] for start in starts]) + "  a second"
    drawn = [[sum(each.amounts[start : start + per]) / per for start in starts] for each in lines]
    most = max([max(amounts, default=0.0) for amounts in drawn], default=0.0)
    for line, amounts in zip(lines, drawn, strict=True):
        cells = "".join(
            [_cell(each / most if most else 0.0, ascii_only=ascii_only, colours=colours) for each in amounts]
        )
        mean = sum(line.amounts) / max(1, len(line.amounts))
        yield f"{line.label[:widest].ljust(widest)}  {cells}  {mean:8,.1f}  {line.end}".rstrip()


_END: Final = 12


def _cell(share: float, *, ascii_only: bool, colours: bool) -> str:
    signs = ASCII if ascii_only else BLOCKS
    sign = signs[min(len(signs) - 1, -int(-share * (len(signs) - 1) // 1))]
    if not colours or not share:
        return sign
    return f"\033[38;5;{_COLOURS[min(len(_COLOURS) - 1, int(share * len(_COLOURS)))]}m{sign}\033[0m"


def _heading(times: Sequence[datetime]) -> str:
    """Times in local time, as far apart as they need."""
    days = bool(times) and (times[-1] - times[0]).days > 0
    text = ""
    for number, (before, time) in enumerate(pairwise([None, *times])):
        if len(text) > number:
            continue
        is_due = before is None or number - len(text.rstrip()) >= _APART or not text
        local = time.astimezone() if time is not None else None
        mark = "" if local is None or not is_due else local.strftime("%d %H:%M" if days else "%H:%M")
        text = text.ljust(number) + (mark if number + len(mark) <= len(times) else "")
    return text.ljust(len(times))
