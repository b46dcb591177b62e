"""A graph of a schema as an SVG picture: an arc diagram, in which one column of boxes is wide enough for a telephone.

Each declaration is a box, and each arrow a line of text in the box that it begins at. All arrows to one box share a
vertical track at the right; tracks that overlap in height are beside each other (M. Wattenberg, "Arc Diagrams", 2002).
So nothing is ever drawn over text, however a schema is connected.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterator, Mapping
from html import escape
from typing import Final, NamedTuple

from oneread.costs.schema_graph import GraphEdge, GraphNode, SchemaGraph
from oneread.errors import printable

_CELLS: Final = 40
"""Characters of a line, those of double width counted twice."""
_CELL, _LINE, _PAD, _GAP, _TRACK, _MARGIN = 7.3, 17, 8, 16, 10, 8
"""In pixels; 7.3 is a character of 12 pixels in the widest of the usual fonts of equal widths."""
_WIDTH: Final = round(_CELLS * _CELL) + 2 * _PAD
_COLOURS: Final = 6
LIGHT_GRAPH: Final = """\
svg { max-width: 100%; height: auto; color-scheme: light dark; background: #fff; }
text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1b1f24; }
.name { font-weight: bold; }
.fan { fill: #57606a; }
rect { fill: #f6f8fa; stroke: #8c959f; }
.model { fill: #e6f0fb; stroke: #0a5cad; }
path { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
.thick { stroke-width: 2.5; }
.w1 { stroke-width: 1; } .w2 { stroke-width: 2; } .w3 { stroke-width: 3; } .w4 { stroke-width: 4; }
.w5 { stroke-width: 5; } .w6 { stroke-width: 6; } .w7 { stroke-width: 7; } .w8 { stroke-width: 8; }
.dashed { stroke-dasharray: 3 3; }
.c0 { stroke: #0a5cad; } .c1 { stroke: #b3400b; } .c2 { stroke: #1a7f37; }
.c3 { stroke: #8250df; } .c4 { stroke: #a40e5c; } .c5 { stroke: #6e5a00; }
"""
DARK_GRAPH: Final = """\
svg { background: #0d1117; }
text { fill: #e6edf3; }
.fan { fill: #9ea7b3; }
rect { fill: #161b22; stroke: #6e7681; }
.model { fill: #10233c; stroke: #58a6ff; }
.c0 { stroke: #58a6ff; } .c1 { stroke: #f0883e; } .c2 { stroke: #3fb950; }
.c3 { stroke: #bc8cff; } .c4 { stroke: #f778ba; } .c5 { stroke: #d29922; }
"""
"""The rules of a picture, and those by which it is dark."""
_STYLE: Final = f"{LIGHT_GRAPH}@media (prefers-color-scheme: dark) {{\n{DARK_GRAPH}}}"


class PlacedLine(NamedTuple):
    """A line of text, the place of its middle, and the edge that begins there."""

    y: int
    text: str
    style: str
    edge: GraphEdge | None = None
    width: int = 0
    """Of the edge by its heat; 0 where it has none."""


class PlacedBox(NamedTuple):
    """A node with its place."""

    node: GraphNode
    top: int
    lines: list[PlacedLine]

    @property
    def height(self) -> int:
        return len(self.lines) * _LINE + _PAD

    @property
    def entry(self) -> int:
        """Where arrows end."""
        return self.lines[0].y


def svg_lines(graph: SchemaGraph, *, links: Mapping[str, str] | None = None) -> list[str]:
    """The picture; light or dark as its reader likes.

    Within a page, names link to the addresses of `links`, and the page has the rules itself.
    """
    boxes = list(_boxes(graph))
    tracks = _tracks(boxes)
    count = max((track for _ends, track in tracks.values()), default=-1) + 1
    width = _MARGIN * 2 + _WIDTH + (count + 1) * _TRACK
    height = boxes[-1].top + boxes[-1].height + _MARGIN
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>', "<title>schema</title>"]
    if links is None:
        lines += ["<style>", *_STYLE.splitlines(), "</style>"]
    for place, box in enumerate(boxes):
        if box.node.name in tracks:
            lines += _arrows(box, *tracks[box.node.name], colour=f"c{place % _COLOURS}")
    for box in boxes:
        style = f'class="{box.node.kind}" rx="4"'
        lines.append(f'<rect {style} x="{_MARGIN}" y="{box.top}" width="{_WIDTH}" height="{box.height}"/>')
        for line in box.lines:
            at = f'x="{_MARGIN + _PAD}" y="{line.y + 4}"'
            text = f'<text class="{line.style}" {at} xml:space="preserve">{escape(line.text)}</text>'
            link = links.get(box.node.name) if links and line.style == "name" else None
            lines.append(text if link is None else f'<a href="{escape(link)}">{text}</a>')
    return [*lines, "</svg>"]


def _boxes(graph: SchemaGraph) -> Iterator[PlacedBox]:
    top, widths = _MARGIN, dict(zip(graph.edges, graph.widths, strict=True))
    for node in graph.nodes:
        box = PlacedBox(node, top, [])
        for text, style, edge in _texts(node, graph):
            for place, part in enumerate(_wrapped(printable(text))):
                y = top + _PAD // 2 + _LINE * len(box.lines) + _LINE // 2
                begins = None if place else edge
                box.lines.append(PlacedLine(y, part, style, begins, widths[begins] if begins else 0))
        yield box
        top += box.height + _GAP


def _texts(node: GraphNode, graph: SchemaGraph) -> Iterator[tuple[str, str, GraphEdge | None]]:
    """What a box says: the text, its style, and the edge that begins there."""
    yield node.title, "name", None
    for line in node.lines:
        yield line, "line", None
    for edge in graph.edges:
        if edge.start == node.name:
            yield f"{_relation(edge)} {edge.end}", "edge", edge
            for note in edge.notes:
                yield f"  {note}", "fan", None


def _relation(edge: GraphEdge) -> str:
    """What an edge is, before the name that it ends at."""
    return {"view": "of", "child": "child of", "variant": "variant of"}.get(edge.kind, f"{edge.label} <-")


def _wrapped(text: str) -> list[str]:
    """The lines of a text, the further ones indented; a long word is broken."""
    cells = "".join(each + "\0" * (unicodedata.east_asian_width(each) in "WF") for each in text)
    found = textwrap.wrap(cells, _CELLS, subsequent_indent="    ", drop_whitespace=True, break_on_hyphens=False)
    return [each.replace("\0", "") for each in found] or [""]


def _tracks(boxes: list[PlacedBox]) -> dict[str, tuple[list[PlacedLine], int]]:
    """For each box that arrows end at: where they begin, and its track, the first that is free at this height."""
    ends: dict[str, list[PlacedLine]] = {}
    for line in (line for box in boxes for line in box.lines if line.edge is not None):
        assert line.edge is not None, "filtered"
        ends.setdefault(line.edge.end, []).append(line)
    taken: list[int] = []
    found: dict[str, tuple[list[PlacedLine], int]] = {}
    spans = [(min(box.entry, ends[box.node.name][0].y), box) for box in boxes if box.node.name in ends]
    for start, box in sorted(spans, key=lambda span: span[0]):
        track = next((place for place, until in enumerate(taken) if until < start), len(taken))
        taken[track : track + 1] = [max(box.entry, ends[box.node.name][-1].y)]
        found[box.node.name] = ends[box.node.name], track
    return found


def _arrows(box: PlacedBox, begin: list[PlacedLine], track: int, *, colour: str) -> Iterator[str]:
    """The arrows that end at a box: its track, and one way from each line to it."""
    edge, x = _MARGIN + _WIDTH, _MARGIN + _WIDTH + (track + 1) * _TRACK
    top, bottom = min(box.entry, begin[0].y), max(box.entry, begin[-1].y)
    yield f'<path class="{colour}" d="M{x} {top}V{bottom}M{x} {box.entry}H{edge + 1}m5 -4l-5 4l5 4"/>'
    for line in begin:
        assert line.edge is not None, "lines that arrows begin at"
        style = " dashed" if line.edge.refers else " thick" if line.edge.carries else ""
        yield f'<path class="{colour}{style}" d="M{edge} {line.y}H{x}"/>'
        if line.width:
            yield f'<path class="{colour} w{line.width}" d="M{edge} {line.y}H{x}V{box.entry}"/>'
