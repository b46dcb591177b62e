"""The schema as a picture: what is made of what, what that costs, and what was written for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from oneread.console.asking import ALL, PageRequest
from oneread.console.blocks import ConsolePage, FormBlock, FormInput, NoteBlock, PageBlock, PictureBlock, says
from oneread.console.pages.slow import HOURS
from oneread.costs.graph_costs import with_costs
from oneread.costs.graph_svg import svg_lines
from oneread.costs.schema_graph import SchemaGraph, graph_of, part_around
from oneread.heat.edges import said_of_heat, with_heat

_NO: Final = "no"
_COSTS: Final = (_NO, "yes")


async def show_graph(ask: PageRequest) -> ConsolePage:
    """The graph, or the part of it around one declaration; its bounds and its heat where they are asked for."""
    schema = ask.db.operations.schema
    graph = graph_of(schema, ask.db.operations.parts.prices)
    names = [each.name for each in graph.nodes]
    around, costs = ask.chosen("around", names), ask.chosen("costs", _COSTS)
    last = ask.chosen("heat", (_NO, *HOURS))
    inputs = [
        FormInput("around", "around", around, choices=(ALL, *names)),
        FormInput("costs", "costs", costs, choices=_COSTS),
        FormInput("heat", "heat of the last", last, choices=(_NO, *HOURS)),
    ]
    blocks: list[PageBlock] = [FormBlock(ask.link("/graph"), inputs, "Draw")]
    if costs not in ("", _NO):
        graph = with_costs(graph, schema, ask.costs)
    if last not in ("", _NO):
        back = timedelta(hours=HOURS[last])
        heat = await ask.db.heat(last=back, operation="write", measure="rows", ranges=1)
        graph = with_heat(graph, heat)
        blocks.append(NoteBlock("", says(said_of_heat(graph, heat))))
    links = {each: ask.link("/graph", around=each, costs=costs, heat=last) for each in names if each != around}
    classes = schema.named()
    links |= {around: ask.link_of(classes[around])} if around in classes else {}
    drawn = await asyncio.to_thread(_drawn, part_around(graph, around) if around else graph, links)
    return ConsolePage("Graph", [*blocks, drawn], most="" if last not in ("", _NO) else "nothing")


def _drawn(graph: SchemaGraph, links: Mapping[str, str]) -> PictureBlock:
    return PictureBlock("", "\n".join(svg_lines(graph, links=links)))
