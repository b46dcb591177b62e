"""The schema as a picture: what is made of what."""

from __future__ import annotations

from oneread.console.asking import ALL, PageRequest
from oneread.console.blocks import ConsolePage, FormBlock, FormInput, PageBlock, PictureBlock
from oneread.costs.graph_svg import svg_lines
from oneread.costs.schema_graph import graph_of, part_around


async def show_graph(ask: PageRequest) -> ConsolePage:
    """The graph, or the part of it around one declaration."""
    whole = graph_of(ask.db.operations.schema, ask.db.operations.parts.prices)
    names = [each.name for each in whole.nodes]
    around = ask.chosen("around", names)
    drawn = part_around(whole, around) if around else whole
    classes = ask.db.operations.schema.named()
    links = {each.name: ask.link("/graph", around=each.name) for each in drawn.nodes if each.name != around}
    links |= {around: ask.link_of(classes[around])} if around in classes else {}
    form = FormBlock(ask.link("/graph"), [FormInput("around", "around", around, choices=(ALL, *names))], "Draw")
    blocks: list[PageBlock] = [form, PictureBlock("", "\n".join(svg_lines(drawn, links=links)))]
    return ConsolePage("Graph", blocks, most="nothing")
