"""The graph of a schema: what is declared, what each declaration is made of, and what follows from one change.

An edge begins at the declaration that names the other one: a holder refers to its source, a view to what it lists, an
entity to the group whose total it shows. So each field is the beginning of one edge at most, and values go against the
edges. See "oneread graph" of docs/reference/command-line.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias

import msgspec

from oneread.costs.bounds import Span
from oneread.costs.declared import Costs, of
from oneread.derivations.access import Accesses
from oneread.derivations.catalog import Catalog
from oneread.derivations.copies import Reference
from oneread.derivations.counter_fields import ShownCounter
from oneread.derivations.entity_groups import CHILD_OF
from oneread.derivations.rollups import Rollup
from oneread.derivations.rules import Rule, rules_of
from oneread.derivations.views import Aggregate, Feed, Index, View
from oneread.errors import UsageError, perhaps
from oneread.evolution.schema import Schema
from oneread.feeds.feed_view import FeedView
from oneread.feeds.marks import FeedMarks
from oneread.models.expiry import Expiry
from oneread.models.fingerprints import describe
from oneread.models.model import Model, key_names, stored_name
from oneread.models.paths import path_of
from oneread.models.references import copied_names
from oneread.models.variants import is_variants_only

NodeKind: TypeAlias = Literal["model", "counter", "aggregate", "index", "feed"]
EdgeKind: TypeAlias = Literal[
    "reference", "copy", "child", "variant", "view", "items", "memberships", "total", "counter"
]


WIDEST: Final = 7
"""Pixels that heat adds to an edge, at most."""


class GraphNode(msgspec.Struct, frozen=True):
    """One declaration.

    Arguments:
        name: of the class; of a counter, `counter` and the pattern of its name.
        kind: of the declaration.
        lines: its key, order or numbers, and its options, for people.
    """

    name: str
    kind: NodeKind
    lines: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What it is, and its name."""
        return self.name if self.kind == "counter" else f"{self.kind} {self.name}"


class GraphEdge(msgspec.Struct, frozen=True):
    """What a declaration is made of.

    Arguments:
        start: the name of the declaration that names the other one.
        end: the name of the other one.
        kind: of the relation.
        label: the field, and what it carries.
        most: of a copy, the holders that follow within the call that changes one source; of a total, the entities that
            follow one change of what is counted; None for what does not follow.
        fan_out: the same in words.
        carried: the fields of a source whose values a copy has.
        cost: what a change of what it ends at costs at most, in words; empty unless it was asked for.
        heat: rows a second that are written for it at its beginning; None where that is not known, or not asked for.
    """

    start: str
    end: str
    kind: EdgeKind
    label: str = ""
    most: int | None = None
    fan_out: str = ""
    carried: tuple[str, ...] = ()
    cost: str = ""
    heat: float | None = None

    @property
    def notes(self) -> list[str]:
        """What is said of it below its label."""
        heat = "" if self.heat is None else f"{self.heat:,.3g} rows written a second"
        return [each for each in (self.fan_out, self.cost, heat) if each]

    @property
    def refers(self) -> bool:
        """Whether no values go along: drawn dashed."""
        return self.kind in ("reference", "child", "variant")

    @property
    def carries(self) -> bool:
        """Whether values are stored a second time: drawn thick."""
        return self.kind in ("copy", "total", "counter")


class SchemaGraph(msgspec.Struct, frozen=True):
    """A schema as it is drawn.

    Arguments:
        nodes: each model with its counters and views behind it, in the order of declaration.
        edges: in the order of the nodes that they begin at.
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]

    @property
    def widths(self) -> list[int]:
        """How wide each edge is drawn, by the square root of its heat: 1 to 8 pixels, 0 where that is not known."""
        most = max([each.heat or 0.0 for each in self.edges], default=0.0)
        return [
            0 if each.heat is None else 1 + round(WIDEST * (each.heat / most) ** 0.5) if most else 1
            for each in self.edges
        ]


def graph_of(schema: Schema, span: Span = "rows") -> SchemaGraph:
    """The graph of a schema, without what the schema adds by itself; no store is opened or read.

    Arguments:
        schema: of the store.
        span: what the store changes at once, which fan-outs depend on: `rows` in a transaction, or one `row`.

    Raises:
        UsageError: this is not a schema, or there is no such span.
        Unsupported: stores that change one row at a time do not keep something that is declared.
    """
    return _Grapher(schema, of(schema, span)).graph()


def part_around(graph: SchemaGraph, name: str) -> SchemaGraph:
    """One declaration of a graph with those that it is made of, and those that are made of it.

    Raises:
        UsageError: the graph has no declaration of this name.
    """
    known = [each.name for each in graph.nodes]
    if name not in known:
        raise UsageError(
            "the graph has no declaration of this name", name=name, **(perhaps(name, known) or {"known": known})
        )
    edges = tuple(each for each in graph.edges if name in (each.start, each.end))
    near = {name, *(each.start for each in edges), *(each.end for each in edges)}
    return SchemaGraph(tuple(each for each in graph.nodes if each.name in near), edges)


class _Grapher:
    """Describes the declarations of one schema."""

    def __init__(self, schema: Schema, costs: Costs) -> None:
        self._catalog: Catalog = schema.unstored()
        self._costs = costs
        self._models = [each for each in schema.models if not issubclass(each, FeedMarks)]
        accesses = Accesses(self._catalog.names)
        self._viewed = {view: accesses.viewed(view) for view in schema.views if not view.is_added}

    def graph(self) -> SchemaGraph:
        nodes: dict[str, GraphNode] = {}
        edges: list[GraphEdge] = []
        for model in self._models:
            found = [self._model(model), *map(_counter_node, self._counters(model)), *self._views(model)]
            nodes |= {each.name: each for each in found if each.name not in nodes}
            edges += self._edges_of_model(model)
            edges += [edge for view in self._views_of(model) for edge in self._edges_of_view(view)]
        return SchemaGraph(tuple(nodes.values()), tuple(edges))

    def _views_of(self, of: type) -> Iterator[type[View[Any]]]:
        """The views of a model, each aggregate with the views of its groups behind it."""
        for view, viewed in self._viewed.items():
            if viewed is of:
                yield view
                yield from self._views_of(view)

    # Models.

    def _model(self, model: type[Model[Any]]) -> GraphNode:
        """A model; of a variant only what is not its model's."""
        own = _stored_lines(model) + ["variants only"] * is_variants_only(model)
        if self._base(model) is not None:
            return GraphNode(model.__name__, "model", tuple(own))
        types = {name: given for name, given, _default in describe(model, self._catalog.names)}
        key = [f"{name}: {types[name].arguments[0]}" for name in key_names(model)]  # the argument of Key[...]
        spread = [f"spread {model.spread}"] * (model.spread > 1)
        options = [*_ttl_lines(model.ttl), *spread, *_duration_lines("logged for", model.logged)]
        return GraphNode(model.__name__, "model", (*key, *own, *options))

    def _base(self, model: type) -> type | None:
        """The model that a variant is one of; None for a model."""
        bases = [each for each in model.__mro__[1:] if each in self._catalog.entity_types]
        return bases[0] if bases else None

    def _own_references(self, model: type) -> list[Reference]:
        """Those that the class of a variant adds."""
        base = self._base(model)
        known = () if base is None else {each.name for each in self._catalog.entity_types[base].references}
        return [each for each in self._catalog.entity_types[model].references if each.name not in known]

    def _own_rollups(self, model: type) -> list[Rollup]:
        base = self._base(model)
        known = () if base is None else {each.field for each in self._catalog.entity_types[base].rollups}
        return [each for each in self._catalog.entity_types[model].rollups if each.field not in known]

    def _counters(self, model: type) -> list[ShownCounter]:
        return [each.shown for each in self._own_rollups(model) if isinstance(each.shown, ShownCounter)]

    def _edges_of_model(self, model: type[Model[Any]]) -> Iterator[GraphEdge]:
        base = self._base(model)
        if base is not None:
            yield GraphEdge(model.__name__, base.__name__, "variant", "variant")
        for reference in self._own_references(model):
            yield self._edge_of_reference(model, reference)
        for rollup in self._own_rollups(model):
            yield self._edge_of_rollup(model, rollup)

    def _edge_of_reference(self, model: type, reference: Reference) -> GraphEdge:
        target = reference.access.target
        assert target is not None, "a reference refers to a model"
        start, end = model.__name__, target.__name__
        if reference.name == CHILD_OF:
            return GraphEdge(start, end, "child", "child of")
        hidden = [name.partition(".")[2] for name, _get, _type in reference.hidden]
        carried = (*([] if reference.copy is None else copied_names(reference.copy)), *hidden)
        label = f"{reference.name}: {', '.join(carried)}" if carried else reference.name
        options = [f"on_delete {reference.on_delete}"] * (reference.on_delete != "keep")
        options += ["missing_ok"] * reference.missing_ok
        label = "; ".join((label, *options))
        kind: EdgeKind = "copy" if reference.copy is not None or hidden else "reference"
        if not reference.tracked:
            return GraphEdge(start, end, kind, label, carried=carried)
        most = self._costs.following(reference.kind.cls).holders
        return GraphEdge(start, end, kind, label, most, self._fan_out(most), carried)

    def _edge_of_rollup(self, model: type, rollup: Rollup) -> GraphEdge:
        if rollup.number is None:
            assert isinstance(rollup.shown, ShownCounter), "a field shows a number of a group, or a counter"
            label = f"{rollup.field}: copied within {rollup.shown.every:,g} s"
            return GraphEdge(model.__name__, _counter_node(rollup.shown).name, "counter", label)
        view, field = rollup.number
        counted = self._catalog.views[view].model
        most = self._costs.following(counted).groups[view]
        label = rollup.field if field == rollup.field else f"{rollup.field}: {field}"
        return GraphEdge(model.__name__, view.__name__, "total", label, most, self._fan_out(most))

    def _fan_out(self, most: int) -> str:
        if not most:
            return "a task does it"
        verb = "follows" if most == 1 else "follow"
        return f"up to {most:,} {verb} in the {'commit' if self._costs.span == 'rows' else 'call'}"

    # Views.

    def _views(self, model: type) -> Iterator[GraphNode]:
        for view in self._views_of(model):
            rules = rules_of(view)
            kind: NodeKind = "feed" if issubclass(view, Feed) else "index" if issubclass(view, Index) else "aggregate"
            keys = [_rule_text(name, rule) for name, rule in rules.items() if rule.kind == "key"]
            shown = [_rule_text(name, rule) for name, rule in rules.items() if rule.kind == "shown"]
            lines = [f"by {', '.join(keys)}"] if keys else []
            lines += [f"shows {', '.join(shown)}"] if shown else []
            lines += [_fold_text(name, rule) for name, rule in rules.items() if rule.kind == "fold"]
            lines += [] if view.where is None else [f"where {view.where!r}"]
            lines += _stored_lines(view) + _options_of(view) + _duration_lines("watched for", view.watched)
            yield GraphNode(view.__name__, kind, tuple(lines))

    def _edges_of_view(self, view: type[View[Any]]) -> Iterator[GraphEdge]:
        of, compiled = self._viewed[view].__name__, self._catalog.views[view]
        if not isinstance(compiled, FeedView):
            yield GraphEdge(view.__name__, of, "view")
            return
        most = self._costs.most_entries
        joined: Any = view.joined  # type: ignore[attr-defined]
        membership = compiled.rules.membership.__name__
        sides: tuple[tuple[EdgeKind, str, object], ...] = (
            ("items", of, joined.item),
            ("memberships", membership, joined.membership),
        )
        for kind, name, path in sides:
            yield GraphEdge(view.__name__, name, kind, f"{kind} by {_path_text(path)}", most, self._fan_out(most))


def _counter_node(shown: ShownCounter) -> GraphNode:
    return GraphNode(f"counter {shown.name}", "counter")


def _stored_lines(declared: type) -> list[str]:
    name = stored_name(declared)
    return [] if name == declared.__name__ else [f"stored as {name}"]


def _path_text(given: object) -> str:
    path = path_of(given)
    text = ".".join(path.names)
    return f"each({text})" if path.every else text


def _rule_text(name: str, rule: Rule) -> str:
    """A part of a key, or a value that a row shows: `product`, `month = ordered_at by month`."""
    text = _path_text(rule.field)
    words = [text if text == name else f"{name} = {text}"]
    words += [f"by {rule.size}"] if rule.size else []
    words += ["descending"] * rule.descending + ["hashed"] * rule.hashed
    return " ".join((*words, *([f"none {rule.none}"] if rule.none else ())))


def _fold_text(name: str, rule: Rule) -> str:
    given = [_path_text(each) for each in rule.given_fields]
    most = [f"most={rule.most}"] if rule.most else []
    where = [f"where={rule.where!r}"] if rule.where is not None else []
    return f"{name} = {rule.fold}({', '.join((*given, *most, *where))})"


def _options_of(view: type[View[Any]]) -> list[str]:
    if issubclass(view, Aggregate):
        return _ttl_lines(view.ttl) + [f"shards {view.shards}"] * (view.shards > 1)
    if issubclass(view, Index):
        return ["unique"] * view.unique + _ttl_lines(view.ttl) + [f"spread {view.spread}"] * (view.spread > 1)
    assert issubclass(view, Feed), "an index, an aggregate or a feed"
    lines = _duration_lines("expires after", view.expires_after)
    lines += [] if view.at_most is None else [f"at most {view.at_most:,} entries"]
    lines += [] if view.large_group is None else [f"groups above {view.large_group:,} members are read"]
    return lines + ["marks"] * view.marks


def _ttl_lines(ttl: Expiry | None) -> list[str]:
    if ttl is None:
        return []
    field = ttl.field if isinstance(ttl.field, str) else _path_text(ttl.field)
    return [f"expires {_duration_text(ttl.after)} after {field}" if ttl.after else f"expires at {field}"]


def _duration_lines(name: str, duration: timedelta | None) -> list[str]:
    return [] if duration is None else [f"{name} {_duration_text(duration)}"]


def _duration_text(duration: timedelta) -> str:
    return str(duration).removesuffix(", 0:00:00")
