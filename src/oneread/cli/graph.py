"""`oneread graph`: the schema drawn as Mermaid, DOT or SVG. See docs/reference/command-line.md."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Final

import typer

from oneread.cli.options import JsonOption, QuietOption, SchemaOption, SpanOption, schema_of
from oneread.cli.output import Output
from oneread.costs.graph_svg import svg_lines
from oneread.costs.graph_text import dot_lines, mermaid_lines
from oneread.costs.schema_graph import SchemaGraph, graph_of


class GraphFormat(StrEnum):
    """How a graph is written."""

    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"


_WRITERS: Final[dict[GraphFormat, Callable[[SchemaGraph], list[str]]]] = {
    GraphFormat.MERMAID: mermaid_lines,
    GraphFormat.DOT: dot_lines,
    GraphFormat.SVG: svg_lines,
}


def command(
    *,
    schema: SchemaOption = "",
    form: Annotated[
        GraphFormat, typer.Option("--format", help="Mermaid for Markdown, DOT for Graphviz, or an SVG picture.")
    ] = GraphFormat.MERMAID,
    span: SpanOption = "rows",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Draws the schema: models, references, copies with what they carry, views, totals, feeds, and what follows.

    No store is opened. An arrow begins at what is declared and ends at what it is made of. Where values follow a
    change, the arrow says how many follow within the commit at most; a task does the rest.

    Example: oneread graph --format svg --schema shop.models:shop > shop.svg
    """
    output = Output(as_json=as_json, quiet=quiet)
    graph = graph_of(schema_of(schema), span)  # type: ignore[arg-type]  # which checks it
    output.document(graph)
    for line in _WRITERS[form](graph):
        output.text(line)
