"""Charts as SVG: what they say stands in a table beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from oneread.errors import printable
from oneread.heat.drawing import HeatLine
from oneread.heat.map import HeatMap

_COLOURS: Final = 7
_LABEL, _LINE, _CELLS, _MEAN = 200, 22, 380, 60
"""Of the map of heat, in its own units: the width of labels, the height of a line, the width of cells and of means."""
_TIMES: Final = 120
"""Squares of a line of that map, at most: where there are more times, each is the mean of several."""
_LETTERS: Final = 30
"""Of a label."""
_WIDTH, _HEIGHT, _FOOT = 640, 80, 18
"""Of bars."""
_NAMES: Final = 5
"""Bars whose names are written below them."""
_NAME: Final = 76
"""The width of such a name."""
_SIDES, _SIDE, _MARGIN = 400, 56, 36
"""Of two sides: the width, the height of each, and the place of their names."""


def heat_lines(heat: HeatMap, lines: Sequence[HeatLine]) -> Iterator[str]:
    """The map: a line for each declaration or range, a square for each time; what it says stands in the table too."""
    width, height = _LABEL + _CELLS + _MEAN, _LINE * (len(lines) + 1)
    per = -(-len(heat.times) // _TIMES) or 1
    times = heat.times[::per]
    drawn = [_means(each.amounts, per) for each in lines]
    most = max([max(each, default=0.0) for each in drawn], default=0.0)
    step = _CELLS / max(1, len(times))
    yield f'<svg class="heat" role="img" aria-label="heat by time" viewBox="0 0 {width} {height}">'
    for place, time in enumerate(times):
        if place % max(1, len(times) // 5) == 0:
            yield f'<text class="dim" x="{_LABEL + place * step:.1f}" y="14">{time:%H:%M}</text>'
    for number_of, (line, amounts) in enumerate(zip(lines, drawn, strict=True), 1):
        top = number_of * _LINE
        label = printable(line.label)
        cut = label if len(label) <= _LETTERS else f"{label[: _LETTERS - 1]}…"
        yield f'<text x="0" y="{top + 14}"><title>{escape(label)}</title>{escape(cut)}</text>'
        yield f'<rect class="c0" x="{_LABEL}" y="{top}" width="{_CELLS}" height="{_LINE - 4}"/>'
        for place, amount in enumerate(amounts):
            if not amount:
                continue
            level = 1 + min(_COLOURS - 1, int(amount / most * _COLOURS))
            x = _LABEL + place * step
            title = f"<title>{times[place]:%H:%M} UTC: {amount:,.1f} a second</title>"
            yield f'<rect class="c{level}" x="{x:.2f}" y="{top}" width="{step:.2f}" height="{_LINE - 4}">{title}</rect>'
        mean = sum(line.amounts) / max(1, len(line.amounts))
        yield f'<text x="{_LABEL + _CELLS + 6}" y="{top + 14}">{mean:,.1f}</text>'
    yield "</svg>"


def _means(amounts: Sequence[float], per: int) -> list[float]:
    """The means of so many amounts each; the last one may be of fewer."""
    parts = [amounts[start : start + per] for start in range(0, len(amounts), per)]
    return [sum(part) / len(part) for part in parts]


def bars(values: Sequence[float], names: Sequence[str], said: str) -> Iterator[str]:
    """A bar for each value; some of their names are below them, all of them are their titles."""
    most, step = max(values, default=0) or 1, _WIDTH / max(1, len(values))
    yield f'<svg class="heat" role="img" aria-label="{escape(said)}" viewBox="0 0 {_WIDTH} {_HEIGHT + _FOOT}">'
    for place, (value, name) in enumerate(zip(values, names, strict=True)):
        height, x = max(0.0, value / most) * _HEIGHT, place * step
        size = f'x="{x + 0.5:.2f}" y="{_HEIGHT - height:.2f}" width="{max(0.5, step - 1):.2f}" height="{height:.2f}"'
        yield f'<rect class="bar" {size}><title>{escape(printable(name))}: {value:,}</title></rect>'
        if place % max(1, len(values) // _NAMES) == 0 and x <= _WIDTH - _NAME:
            yield f'<text class="dim" x="{x:.2f}" y="{_HEIGHT + 14}">{escape(printable(name))}</text>'
    yield f'<rect class="line" x="0" y="{_HEIGHT - 0.5}" width="{_WIDTH}" height="1"/>'
    yield "</svg>"


def two_sides(
    names: Sequence[str], sides: tuple[str, str], upper: Sequence[float], lower: Sequence[float]
) -> Iterator[str]:
    """Bars of one side above a line and of the other below it, place by place; all are parts of 1."""
    height, step = 2 * _SIDE + _FOOT, (_SIDES - _MARGIN) / max(1, len(names))
    most = max([*upper, *lower], default=0.0) or 1.0
    said = f"{sides[0]} above, {sides[1]} below, by how long answers took"
    yield f'<svg class="sides" role="img" aria-label="{escape(said)}" viewBox="0 0 {_SIDES} {height}">'
    for side, top in zip(sides, (12, 2 * _SIDE - 2), strict=True):
        yield f'<text class="dim" x="0" y="{top}">{escape(side)}</text>'
    for place, (name, *amounts) in enumerate(zip(names, upper, lower, strict=True)):
        x = _MARGIN + place * step
        for side, amount, is_upper in zip(sides, amounts, (True, False), strict=True):
            size = amount / most * (_SIDE - 2)
            y = _SIDE - 1 - size if is_upper else _SIDE + 1.0
            drawn = f'x="{x + 0.5:.2f}" y="{y:.2f}" width="{max(0.5, step - 1):.2f}" height="{size:.2f}"'
            title = f"{side}, {escape(printable(name))}: {amount:.1%}"
            yield f'<rect class="bar" {drawn}><title>{title}</title></rect>'
        if place % -(-len(names) // _NAMES) == 0 and x <= _SIDES - _NAME:
            yield f'<text class="dim" x="{x:.2f}" y="{height - 4}">{escape(printable(name))}</text>'
    yield f'<rect class="line" x="{_MARGIN}" y="{_SIDE - 0.5}" width="{_SIDES - _MARGIN}" height="1"/>'
    yield "</svg>"
