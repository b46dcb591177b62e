"""Annotations that are still text are resolved through the module and the names that the schema passes."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar

import msgspec
import pytest
from typing_extensions import TypeAliasType

from oneread.errors import InvalidDeclaration
from oneread.models.layout import Layout
from oneread.models.model import Key, Model
from oneread.models.references import Copy, Ref
from oneread.models.types import Named, field_names, field_types, type_of, types_of, unwrap

Alias = TypeAliasType("Alias", list[datetime])


class Customer(Model[int]):
    number: Key[int]
    date: str


class Local(Model[str]):
    code: Key[str]


class Purchase(Model[str]):
    code: Key[str]
    by: Ref[Customer]
    times: Alias | None = None


def test_names_of_the_module_are_found_whatever_the_schema_says():
    assert field_types(Purchase, {"Customer": int})["by"] == Ref[Customer]
    given = Purchase(code="a", by=Ref((1,)), times=[datetime(2020, 1, 1, tzinfo=UTC)])
    assert Layout(Purchase, 1).validated(given)[1] == given


def local_classes():
    class Local(Model[datetime]):
        at_: Key[datetime]
        name: str

    class Shown(Copy["Local"]):
        name: str

    class Holder(Model[str]):
        code: Key[str]
        shown: Shown | None
        local: Ref[Local]

    return Local, Shown, Holder


def test_classes_inside_functions_are_found_through_the_schemas_names():
    classes = local_classes()
    local, shown, holder = classes
    when = datetime(2020, 1, 1, tzinfo=UTC)
    layout = Layout(holder, 1, names={each.__name__: each for each in classes})
    given = holder(code="a", shown=shown(ref=Ref((when,)), name="n"), local=Ref((when,)))
    seen = layout.validated(given)[1]
    assert seen == given
    assert type(seen.shown) is shown
    assert field_types(holder, {"Local": local, "Shown": shown})["local"] == Ref[local]


def test_what_cannot_be_resolved_is_named():
    _, _, holder = local_classes()
    with pytest.raises(InvalidDeclaration) as caught:
        Layout(holder, 1)
    assert caught.value.facts["declaration"] is holder
    assert caught.value.facts["field"] == "shown"
    assert "Shown" in caught.value.facts["reason"]


def test_a_class_whose_module_is_gone_is_resolved_through_names():
    cls = type(msgspec.Struct)("Gone", (msgspec.Struct,), {"__annotations__": {"a": "Local"}, "__module__": "no.where"})
    assert field_types(cls, {"Local": int}) == {"a": int}


def test_wrappers_are_peeled_off():
    meta, more = msgspec.Meta(gt=0), msgspec.Meta(title="more")
    assert unwrap(Annotated[Annotated[int, meta] | None, more]) == (int, True, (more, meta))
    assert unwrap(Alias | None) == (list[datetime], True, ())
    assert unwrap(int | str | None).bare == int | str | None


class Shade(Enum):
    DARK = 1


@dataclasses.dataclass
class Point:
    kind: ClassVar[str] = "x"
    x: int = 0


class Pair(NamedTuple):
    a: int


class Options(TypedDict):
    loud: bool


class Attributed:
    class _Attribute(NamedTuple):
        name: str

    __attrs_attrs__ = (_Attribute("y"),)
    y: int


@pytest.mark.parametrize(
    ("cls", "names"),
    [(Shade, ()), (Point, ("x",)), (Pair, ("a",)), (Options, ("loud",)), (Attributed, ("y",)), (int, ())],
)
def test_the_fields_of_any_class(cls, names):
    assert field_names(cls) == names
    assert tuple(field_types(cls, {})) == names


AT_LEAST_ONE = msgspec.Meta(min_length=1)
AT_MOST_TWO = msgspec.Meta(max_length=2)
Short = NewType("Short", Annotated[str, AT_MOST_TWO])
T = TypeVar("T")


class Node(msgspec.Struct):
    children: list[Node]
    shades: set[Shade] | None = None


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (str, "scalar"),
        (Any, "scalar"),
        (Shade, "enum"),
        (Literal["a"], "literal"),
        (int | str, "union"),
        (Alias, "list"),
        (frozenset[int], "set"),
        (dict, "mapping"),
        (tuple[()], "tuple"),
        (Node, "class"),
        (Options, "class"),
        (Ref[Customer], "reference"),
        (Copy, "copy"),
        (Customer, "model"),
        (T, "variable"),
        (NotRequired[int], "qualified"),
        (complex, "other"),
    ],
)
def test_each_type_is_of_one_kind(annotation, kind):
    assert type_of(annotation, {}).kind == kind


def test_layers_of_constraints_keep_their_order():
    found = type_of(Annotated[Short, AT_LEAST_ONE] | None, {})
    assert found.optional
    assert found.present.bare is str
    assert found.present.layers == ((AT_MOST_TWO,), (AT_LEAST_ONE,))
    assert found.metadata == (AT_LEAST_ONE, AT_MOST_TWO)


def test_the_parts_of_a_tuple_keep_its_ellipsis():
    assert [each.kind for each in type_of(tuple[int, ...], {}).parts] == ["scalar", "ellipsis"]


def test_a_recursive_class_is_entered_once():
    kinds = [each.kind for each in type_of(Node, {}).walk()]
    assert kinds == ["class", "list", "class", "union", "set", "enum", "scalar"]
    assert type_of(Node, {}).holds_sets


def test_a_type_knows_where_it_is_written():
    (found,) = (each for each in type_of(list[Node], {}).walk() if each.kind == "set")
    assert found.owner is Node
    assert found.field == "shades"


def test_the_trees_of_a_schema_are_built_once():
    names = Named([Customer, Purchase])
    assert types_of(Purchase, names) is types_of(Purchase, names)
    assert types_of(Purchase, names)["by"].target() is Customer
