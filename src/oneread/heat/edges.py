"""The heat of a schema's graph: how many rows a second are written for each edge, as far as recorded rows say it.

A recorded write has the declaration whose row it is, and the model that it was called with, or whose values follow. So
it belongs to an edge where only that one leads from the one to the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from oneread.costs.bounds import counted
from oneread.costs.schema_graph import GraphEdge, SchemaGraph
from oneread.heat.map import HeatMap

_BY_CAUSE: Final = ("copy", "total", "items", "memberships")
"""Kinds of edges for which the rows are written that the model at their other end causes; of a view all of its rows."""


class WrittenFor(NamedTuple):
    """The declaration whose rows are written, and the model that causes it."""

    declared: str
    cause: str


def with_heat(graph: SchemaGraph, heat: HeatMap) -> SchemaGraph:
    """The graph with the heat of its edges; `heat` is of rows that were written.

    None for what only refers, for counters, and where several edges could be the one: two arrows of one holder to one
    source, or an entity whose own writes are those that follow.
    """
    if not heat.ranges:
        return graph
    bases = {each.start: each.end for each in graph.edges if each.kind == "variant"}
    counted = {each.start: each.end for each in graph.edges if each.kind == "view"}
    written: dict[WrittenFor, float] = {}
    for part in heat.parts:
        declared = heat.ranges[part.range].declared.partition(".")[0]
        place = WrittenFor(declared, _last(bases, part.declared))
        written[place] = written.get(place, 0.0) + part.amount / len(heat.times)
    places = {each: _place(bases, counted, each) for each in graph.edges if each.kind in _BY_CAUSE}
    edges_at = Counter(places.values())
    return SchemaGraph(
        graph.nodes, tuple([replace(each, heat=_heat(written, edges_at, places, each)) for each in graph.edges])
    )


def _last(steps: Mapping[str, str], name: str) -> str:
    """Where steps from a name end: of a variant its model, of an aggregate what it counts."""
    while name in steps:
        name = steps[name]
    return name


def _place(bases: Mapping[str, str], counted: Mapping[str, str], edge: GraphEdge) -> WrittenFor:
    return WrittenFor(_last(bases, edge.start), _last(bases, _last(counted, edge.end)))


def _heat(
    written: Mapping[WrittenFor, float],
    edges_at: Counter[WrittenFor],
    places: Mapping[GraphEdge, WrittenFor],
    edge: GraphEdge,
) -> float | None:
    if edge.kind == "view":
        return sum(amount for place, amount in written.items() if place.declared == edge.start)
    place = places.get(edge)
    if place is None or edges_at[place] > 1 or place.declared == place.cause:
        return None
    return written.get(place, 0.0)


def said_of_heat(graph: SchemaGraph, heat: HeatMap) -> str:
    """What is known of the heat of edges, for people."""
    if not heat.ranges:
        return "nothing was written in this time, or not recorded: programs record with connect(url, schema, heat=1.0)"
    unknown = sum(each.heat is None for each in graph.edges if not each.refers)
    said = f"rows written a second, as {counted(heat.processes, 'program')} recorded them"
    return f"{said}; not known of {counted(unknown, 'arrow')} for which others could be meant" if unknown else said
