"""The graph of a schema with what its verbs cost at most: on each declaration, and on what a change writes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from oneread.costs.bounds import Bound, counted
from oneread.costs.declared import Costs
from oneread.costs.schema_graph import GraphEdge, SchemaGraph
from oneread.errors import Unsupported
from oneread.evolution.schema import Schema
from oneread.models.model import Model, stored_name

_SHOWN: Final = ("get", "page", "save", "delete")
"""Verbs whose bounds a declaration shows, where it has them."""


def with_costs(graph: SchemaGraph, schema: Schema, costs: Costs) -> SchemaGraph:
    """The graph with bounds, which hold however full a store is."""
    named, lines = schema.named(), _lines(costs)
    return SchemaGraph(
        tuple([replace(each, lines=(*each.lines, *lines.get(each.name, ()))) for each in graph.nodes]),
        tuple([replace(each, cost=_cost(named, costs, each)) for each in graph.edges]),
    )


def _lines(costs: Costs) -> dict[str, list[str]]:
    """What each declaration shows."""
    found: dict[str, list[str]] = {}
    for bound in costs.table():
        if bound.verb.partition("(")[0] in _SHOWN:
            found.setdefault(bound.target, []).append(f"{bound.verb}: up to {_amounts(bound)}")
    return found


def _amounts(bound: Bound) -> str:
    """The requests and rows of a bound."""
    return f"{counted(bound.requests, 'request')}, {counted(bound.rows, 'row')}"


def _cost(named: Mapping[str, Any], costs: Costs, edge: GraphEdge) -> str:
    """What a change of what an edge ends at costs for it: a change of copied fields, or the rows of a view."""
    start: Any = named.get(edge.start)
    end: Any = named.get(edge.end)
    if edge.carried and edge.most is not None:
        fields = dict.fromkeys(each.partition(".")[0] for each in edge.carried)
        with suppress(Unsupported):  # it has no bound
            return f"a change of {', '.join(fields)}: up to {_amounts(costs.patch(end, *fields))}"
    if edge.kind == "view" and isinstance(end, type) and issubclass(end, Model):
        name = stored_name(start)
        rows = [
            max(changes.values(), default=0)
            for (_table, row), changes in costs.row_changes(end).items()
            if row == name or row.startswith(f"{name}.")
        ]
        return f"a change writes up to {counted(sum(rows), 'row')}"
    return ""
