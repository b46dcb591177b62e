"""`oneread graph`: the schema drawn as Mermaid, DOT or SVG. See docs/reference/command-line.md."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from oneread.cli.failures import FOUND
from oneread.cli.heat import LastOption, time_of
from oneread.cli.options import DbOption, JsonOption, QuietOption, SchemaOption, SpanOption, reading, schema_of
from oneread.cli.output import Output
from oneread.costs.declared import of
from oneread.costs.graph_costs import with_costs
from oneread.costs.graph_svg import svg_lines
from oneread.costs.graph_text import dot_lines, mermaid_lines
from oneread.costs.schema_graph import SchemaGraph, graph_of, part_around
from oneread.errors import UsageError
from oneread.heat.edges import said_of_heat, with_heat


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
AroundOption = Annotated[
    str, typer.Option("--around", metavar="NAME", help="One declaration, with what it is made of and what shows it.")
]
ShownCostsOption = Annotated[bool, typer.Option("--costs", help="What verbs cost at most, in each box and arrow.")]
ShownHeatOption = Annotated[
    bool, typer.Option("--heat", help="Rows a second that were written for each arrow, of the store of --db.")
]
CheckGraphOption = Annotated[
    str, typer.Option("--check", metavar="FILE", help="Fail if the file does not have this picture.")
]


def command(  # noqa: PLR0913 - the options of the command
    *,
    schema: SchemaOption = "",
    form: Annotated[
        GraphFormat, typer.Option("--format", help="Mermaid for Markdown, DOT for Graphviz, or an SVG picture.")
    ] = GraphFormat.MERMAID,
    around: AroundOption = "",
    check: CheckGraphOption = "",
    span: SpanOption = "rows",
    costs: ShownCostsOption = False,
    heat: ShownHeatOption = False,
    last: LastOption = "6h",
    db: DbOption = "",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Draws the schema: models, references, copies with what they carry, views, totals, feeds, and what follows.

    Only --heat opens a store. --check is for a picture in your own pages: it says whether a file, or a block of it, has
    this one. An arrow begins at what is declared and ends at what it is made of. Where values follow a change, the
    arrow says how many follow within the commit at most; a task does the rest. --costs adds what verbs cost at most;
    --heat how many rows a second were written for each arrow, as its width too, as far as that is known.

    Example: oneread graph --format svg --schema shop.models:shop > shop.svg
    """
    output = Output(as_json=as_json, quiet=quiet)
    declared = schema_of(schema)
    graph = graph_of(declared, span)  # type: ignore[arg-type]  # which checks it
    if costs:
        graph = with_costs(graph, declared, of(declared, span))  # type: ignore[arg-type]  # as above
    if heat:
        with reading(db, declared) as database:
            recorded = database.heat(last=time_of(last), operation="write", measure="rows", ranges=1)
        graph = with_heat(graph, recorded)
        output.note(said_of_heat(graph, recorded))
    if around:
        graph = part_around(graph, around)
    lines = _WRITERS[form](graph)
    if check:
        _compare(output, check, lines)
        return
    output.document(graph)
    for line in lines:
        output.text(line)


def _compare(output: Output, path: str, lines: list[str]) -> None:
    """Ends with 1 where a file has another picture."""
    try:
        stored = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("the file of --check cannot be read", path=path, reason=str(error)) from error
    same = "\n".join(lines) in stored
    output.document({"same": same})
    output.text(f"{path}: {'as the schema is' if same else 'not as the schema is; draw it again'}")
    if not same:
        raise typer.Exit(FOUND)
