"""`graph`: every declaration is drawn once, with the bounds of costs, in text that readers of each format accept."""

import json
import random
import re
from html import unescape
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from examples.community.schema import COMMUNITY
from examples.events.schema import EVENTS
from examples.qa.schema import SITE
from examples.shop.schema import SHOP, Customer, Purchase
from oneread import Aggregate, Copy, Index, Key, Model, Ref, Schema, by, count, counter, field, rollup, within
from oneread.costs.declared import of
from oneread.costs.graph_svg import svg_lines
from oneread.costs.graph_text import dot_lines, mermaid_lines
from oneread.costs.schema_graph import SchemaGraph, graph_of
from oneread.errors import printable
from oneread.models.types import types_of
from tests.cli.conftest import SCHEMA
from tests.schemas.declaring import declare

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = {"shop": SHOP, "qa": SITE, "community": COMMUNITY, "events": EVENTS}
RANDOM = [declare(random.Random(seed))[0] for seed in range(40)]
SVG = "{http://www.w3.org/2000/svg}"
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')

HARM = "a\"b'c`d\\e#f&lt;<g>|h\n日本;{number}"


class Ware(Model[int]):
    number: Key[int]
    name: str
    price: int
    views: int = rollup(counter(HARM), every=10)


class Bought(Copy[Ware]):
    name: str


class Order(Model[int]):
    number: Key[int]
    ware: Bought
    other: Ref[Ware] | None = None


class Größe(Index[Order]):  # noqa: PLC2401 - any name that Python takes
    where = field(within(Order.ware, Bought.name)) != '<"b">\\ & | `#` ];--> end'

    price: int = by(within(Order.other, Ware.price))


class OrdersOfWare(Aggregate[Order]):
    stored_as = 'sales "old"'

    ware: Bought = by(Order.ware)
    orders: int = count()


HARMFUL = Schema(Ware, Order, Größe, OrdersOfWare)


@pytest.fixture(scope="module")
def declared():
    """Schemas, each with the names of its module."""
    examples = [(schema, vars(import_module(f"examples.{name}.schema"))) for name, schema in EXAMPLES.items()]
    return [*examples, (HARMFUL, globals()), *(program.declare() for program in RANDOM)]


@pytest.fixture(scope="module")
def schemas(declared):
    return [schema for schema, _names in declared]


def declared_in(names, schema):
    """The classes of a schema among the names of a module: the others are added by the schema itself."""
    return [each for each in (*schema.models, *schema.views) if any(each is found for found in names.values())]


def refers(given):
    kinds = {given.present.kind, *([given.present.several.present.kind] if given.present.several else [])}
    return bool(kinds & {"reference", "copy"})


def referring_fields(classes, names):
    """(model, field) of each field that refers; those that a variant inherits are its model's."""
    for model in (each for each in classes if issubclass(each, Model)):
        inherited = {name for base in model.__mro__[1:] if base in classes for name in base.__struct_fields__}
        for name, given in types_of(model, names).items():
            if name not in inherited and refers(given):
                yield model.__name__, name


def field_of(edge):
    return re.split("[:;]", edge.label)[0]


def test_every_declaration_and_reference_is_in_it_once(declared):
    for schema, names in declared:
        graph = graph_of(schema)
        classes = declared_in(names, schema)
        drawn = [node.name for node in graph.nodes if node.kind != "counter"]
        assert sorted(drawn) == sorted(each.__name__ for each in classes)
        fields = [(each.start, field_of(each)) for each in graph.edges if each.kind in ("reference", "copy")]
        assert sorted(fields) == sorted(referring_fields(classes, schema.named()))
        assert {edge.start for edge in graph.edges if edge.kind in ("view", "items")} == {
            node.name for node in graph.nodes if node.kind in ("index", "aggregate", "feed")
        }
        drawn = [node.name for node in graph.nodes]
        assert all({edge.start, edge.end} <= set(drawn) for edge in graph.edges)
        assert len(set(graph.edges)) == len(graph.edges)


def test_a_copy_says_what_it_carries_and_a_plain_reference_which_values_views_take():
    edges = {(each.start, field_of(each)): each for each in graph_of(HARMFUL).edges}
    assert edges["Order", "ware"].label == "ware: name"
    assert edges["Order", "other"].label == "other: price"
    assert edges["Order", "other"].kind == "copy"
    assert edges["Ware", "views"].label == "views: copied within 10 s"


@pytest.mark.parametrize(("inline", "span", "most"), [(1000, "rows", 1000), (1000, "row", 100), (7, "row", 7)])
def test_a_fan_out_is_the_bound_of_costs(inline, span, most):
    schema = Schema(*SHOP.models, *SHOP.views, inline=inline)
    found = [each for each in graph_of(schema, span).edges if each.end == "Customer"]
    assert [(each.most, each.label) for each in found] == [(most, "buyer: name, country")]
    assert f"up to {most:,} follow in the {'commit' if span == 'rows' else 'call'}" == found[0].fan_out
    terms = of(schema, span).save(Customer).terms
    assert max(each.rows for each in terms if each.what == "back-references") == most
    assert of(schema, span).following(Purchase).holders == 0


def test_where_nothing_follows_within_the_commit_a_task_does_it():
    schema = Schema(*SHOP.models, *SHOP.views, inline=0)
    assert {each.fan_out for each in graph_of(schema).edges if each.kind == "copy"} == {"a task does it"}


def test_a_total_has_the_entities_that_show_the_groups_of_one_change():
    totals = [each for each in graph_of(COMMUNITY).edges if each.kind == "total"]
    terms = {}
    for model in COMMUNITY.models:
        for each in of(COMMUNITY).save(model).terms:
            if each.act == "write" and each.what == "entities that show":
                terms.setdefault(each.because, set()).add(each.rows)
    assert len(totals) > 5
    assert all(each.most in terms[each.end] for each in totals)
    assert {each.most for each in totals} == {1, 2}


def test_graphs_are_the_same_each_time(schemas):
    assert [graph_of(each) for each in schemas] == [graph_of(each) for each in schemas]


def decoded(text):
    """A label as Mermaid shows it."""
    return re.sub("#([0-9]+);", lambda found: chr(int(found[1])), text).split("<br>")


NODE = re.compile(
    r'    (n[0-9]+)(?:\["([^"]*)"\]|\[\("([^"]*)"\)\]|\{\{"([^"]*)"\}\}|\[/"([^"]*)"/\]|\(\["([^"]*)"\]\))'
)
ARROW = re.compile(r'    (n[0-9]+) (?:-->|==>|-\.->)(?:\|"([^"]*)"\|)? (n[0-9]+)')


def test_mermaid_has_every_node_and_edge(schemas):
    for schema in schemas:
        graph = graph_of(schema)
        first, *lines = mermaid_lines(graph)
        assert first == "flowchart RL"
        nodes = [NODE.fullmatch(line) for line in lines[: len(graph.nodes)]]
        arrows = [ARROW.fullmatch(line) for line in lines[len(graph.nodes) :]]
        titles = {found[1]: decoded("".join(filter(None, found.groups()[1:]))) for found in nodes}
        assert list(titles.values()) == [list(map(printable, (each.title, *each.lines))) for each in graph.nodes]
        names = dict(zip(titles, (each.name for each in graph.nodes), strict=True))
        drawn = [(names[found[1]], names[found[3]], *decoded(found[2] or "")) for found in arrows]
        assert drawn == [(each.start, each.end, *edge_texts(each)) for each in graph.edges]
        assert not re.search(r"#(?![0-9]+;)", "".join(lines))


def edge_texts(edge):
    return [printable(each) for each in (edge.label, edge.fan_out) if each] or [""]


def unquoted(text):
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], unescape(text))


def test_dot_is_balanced_and_has_every_node_and_edge(schemas):
    for schema in schemas:
        graph = graph_of(schema)
        lines = dot_lines(graph)
        bare = QUOTED.sub("", "\n".join(lines))
        assert not set(bare) & set('"\\&<')
        assert all(bare.count(opening) == bare.count(closing) for opening, closing in ("{}", "[]"))
        strings = [list(map(unquoted, QUOTED.findall(line))) for line in lines]
        edges = [found for line, found in zip(lines, strings, strict=True) if " -> " in QUOTED.sub("", line)]
        nodes = [found for line, found in zip(lines, strings, strict=True) if " [shape=" in QUOTED.sub("", line)]
        assert [name for name, _shape, _label in nodes] == [printable(each.name) for each in graph.nodes]
        assert [(start, end) for start, end, _style, _label in edges] == [
            (printable(each.start), printable(each.end)) for each in graph.edges
        ]
        assert [label for *_, label in edges] == ["\n".join(edge_texts(each)) for each in graph.edges]


def test_svg_has_every_node_and_edge_and_no_text_over_another(schemas):
    for schema in schemas:
        graph = graph_of(schema)
        picture = ET.fromstring("\n".join(svg_lines(graph)))
        boxes = [
            {name: float(each.get(name)) for name in ("x", "y", "width", "height")}
            for each in picture.iter(f"{SVG}rect")
        ]
        texts = [(float(each.get("x")), float(each.get("y")), each.text or "") for each in picture.iter(f"{SVG}text")]
        assert len(boxes) == len(graph.nodes)
        assert all(one["y"] + one["height"] < next_one["y"] for one, next_one in pairwise(boxes))
        assert len({y for _x, y, _text in texts}) == len(texts)
        for _x, y, text in texts:
            assert any(box["y"] + 10 < y < box["y"] + box["height"] - 3 for box in boxes)
            assert len(text) <= 40
        begun = [each.get("d") for each in picture.iter(f"{SVG}path") if re.fullmatch(r"M\d+ \d+H\d+", each.get("d"))]
        assert len(begun) == len(set(begun)) == len(graph.edges)
        written = "".join("".join(text.split()) for _x, _y, text in texts)
        for name in (printable(node.title) for node in graph.nodes):
            assert "".join(name.split()) in written


def test_the_picture_of_a_schema_without_a_view_is_drawn():
    assert ET.fromstring("\n".join(svg_lines(graph_of(Schema(Customer))))).tag == f"{SVG}svg"


@pytest.fixture
def graph(bare):
    return lambda *arguments: bare("graph", *arguments, "--schema", SCHEMA)


def test_the_command_prints_each_format_and_json(graph):
    assert graph().out.startswith("flowchart RL\n")
    assert graph("--format", "dot").out.startswith("digraph schema {\n")
    assert graph("--format", "svg").out.startswith("<svg ")
    found = graph("--json").document(SchemaGraph)
    assert {"Person", "Note", "NotesOfAuthor"} <= {each.name for each in found.nodes}


def test_one_declaration_is_drawn_with_its_neighbours(graph):
    whole, part = graph("--json").out, graph("--json", "--around", "Note").out
    names = {each["name"] for each in json.loads(part)["nodes"]}
    assert "Note" in names
    assert names < {each["name"] for each in json.loads(whole)["nodes"]}
    assert all("Note" in (each["start"], each["end"]) for each in json.loads(part)["edges"])
    assert "no declaration of this name" in graph("--around", "Nothing").err


def test_a_picture_in_a_page_is_compared(graph, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Notes\n\n```mermaid\n{graph().out}```\n")
    assert graph("--check", page).code == 0
    page.write_text(page.read_text().replace("Note", "Letter"))
    assert (graph("--check", page).code, "draw it again" in graph("--check", page).out) == (1, True)
    assert graph("--check", tmp_path / "nothing").code == 2


def test_what_is_wrong_is_wrong_use(bare, graph):
    assert "--schema" in bare("graph").err
    assert bare("graph").code == 2
    unknown = graph("--format", "png")
    assert unknown.code == 2
    assert "'mermaid', 'dot', 'svg'" in unknown.err
    assert graph("--span", "columns").code == 2
    assert graph("--format", "png", "--json").failure().kind == "UsageError"


def drawing(page):
    """The Mermaid drawing of a page."""
    (found,) = re.findall(r"^```mermaid\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_page_of_an_example_has_its_drawing(bare, name):
    """Where it differs, print it again: `oneread graph --schema examples.NAME.schema`."""
    assert drawing(ROOT / "examples" / name / "README.md") == bare("graph", "--schema", f"examples.{name}.schema").out


def test_the_reference_has_the_picture_of_the_shop(bare):
    found = bare("graph", "--schema", "examples.shop.schema", "--format", "svg").out
    assert (ROOT / "docs" / "images" / "shop.svg").read_text(encoding="utf-8") == found
