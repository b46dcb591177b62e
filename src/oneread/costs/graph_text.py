"""A graph of a schema as text that other programs lay out: Mermaid's flowcharts, and DOT of Graphviz.

Mermaid reads `#34;` in a label as the character of this number, and much else as markup; so every character is written
by its number that is not known to be harmless. DOT reads quotes, backslashes and the entities of HTML.
"""

from __future__ import annotations

import re
from typing import Final

from oneread.costs.schema_graph import GraphEdge, NodeKind, SchemaGraph
from oneread.errors import printable

_HARMFUL: Final = re.compile(r"[^\w .,:;=()+-]")
_MERMAID_NODES: Final[dict[NodeKind, str]] = {
    "model": '["{}"]',
    "counter": '[("{}")]',
    "aggregate": '{{{{"{}"}}}}',
    "index": '[/"{}"/]',
    "feed": '(["{}"])',
}
_DOT_NODES: Final[dict[NodeKind, str]] = {
    "model": "box",
    "counter": "cylinder",
    "aggregate": "box3d",
    "index": "note",
    "feed": "folder",
}


def mermaid_lines(graph: SchemaGraph) -> list[str]:
    """A flowchart of Mermaid: dashed arrows refer, thick ones carry values, and thin ones are those of views."""
    places = {node.name: f"n{place}" for place, node in enumerate(graph.nodes)}
    lines = ["flowchart RL"]
    for node in graph.nodes:
        text = "<br>".join(map(_mermaid_text, (node.title, *node.lines)))
        lines.append(f"    {places[node.name]}{_MERMAID_NODES[node.kind].format(text)}")
    for edge in graph.edges:
        arrow = "-.->" if edge.refers else "==>" if edge.carries else "-->"
        text = "<br>".join(map(_mermaid_text, _edge_texts(edge)))
        label = f'|"{text}"|' if text else ""
        lines.append(f"    {places[edge.start]} {arrow}{label} {places[edge.end]}")
    widths = graph.widths
    return lines + [f"    linkStyle {place} stroke-width:{width}px" for place, width in enumerate(widths) if width]


def dot_lines(graph: SchemaGraph) -> list[str]:
    """A digraph of DOT, with arrows as `mermaid_lines` has them."""
    lines = [
        "digraph schema {",
        '    rankdir="RL"',
        '    node [fontname="sans-serif"]',
        '    edge [fontname="sans-serif"]',
    ]
    for node in graph.nodes:
        text = r"\n".join(map(_dot_text, (node.title, *node.lines)))
        lines.append(f'    "{_dot_text(node.name)}" [shape="{_DOT_NODES[node.kind]}", label="{text}"]')
    for edge, width in zip(graph.edges, graph.widths, strict=True):
        style = "dashed" if edge.refers else "bold" if edge.carries else "solid"
        text = r"\n".join(map(_dot_text, _edge_texts(edge)))
        ends = f'"{_dot_text(edge.start)}" -> "{_dot_text(edge.end)}"'
        drawn = f', penwidth="{width}"' if width else ""
        lines.append(f'    {ends} [style="{style}", label="{text}"{drawn}]')
    return [*lines, "}"]


def _edge_texts(edge: GraphEdge) -> list[str]:
    return [each for each in (edge.label, *edge.notes) if each]


def _mermaid_text(text: str) -> str:
    return _HARMFUL.sub(lambda found: f"#{ord(found.group())};", printable(text))


def _dot_text(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
