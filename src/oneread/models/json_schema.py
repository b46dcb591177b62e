"""JSON schemas of declared classes: a schema and the definitions it refers to, by name.

See "OpenAPI" in docs/reference/web.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import cleandoc
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgspec

from oneread.errors import InvalidDeclaration
from oneread.models.fields import FACTORY, Marker
from oneread.models.json_body import Tag
from oneread.models.json_numbers import add_float_texts, spell_floats
from oneread.models.set_order import order_sets
from oneread.models.types import Annotation

Json: TypeAlias = dict[str, Any]

_EMPTY: Final[Mapping[object, object]] = {list: [], tuple: [], set: [], frozenset: [], dict: {}}
"""What a `default_factory` makes, where a schema can say so."""


class Definition(NamedTuple):
    """A named schema, and the definitions that it and they refer to as `{"$ref": name}`."""

    name: str
    schema: Json
    parts: dict[str, Json]


def define(
    cls: type, stand_in: Annotation, defaults: Mapping[str, object], tag: Tag | None, *, may_lack_tag: bool = False
) -> Definition:
    """The schema of a class, taken from a struct with its fields, with its docstring and defaults by name in JSON.

    Raises:
        InvalidDeclaration: a field has no JSON schema, or two different classes in them have one full name.
    """
    try:
        (found,), parts = msgspec.json.schema_components((stand_in,), schema_hook=_of_reference, ref_template="{name}")
    except TypeError as error:
        raise InvalidDeclaration(
            "a field of this class has no JSON schema", declaration=cls, reason=str(error)
        ) from error
    except KeyError as error:  # by full names, too
        raise InvalidDeclaration("two classes in the fields of this one have one name", declaration=cls) from error
    _drop_false_items(parts)
    add_float_texts(parts)
    for part in parts.values():
        part.pop("title", None)  # the name says it, and generators of clients take two equal titles for one class
    schema: Json = parts.pop(found["$ref"])
    if tag is not None:
        _add_tag(schema, tag, required=not may_lack_tag)
    if not schema["required"]:
        del schema["required"]
    text = vars(cls).get("__doc__")
    if text:
        schema["description"] = cleandoc(text)
    for name, given in defaults.items():
        default = _EMPTY.get(getattr(given, "factory", None), given)
        if not isinstance(default, (Marker, FACTORY)):
            schema["properties"][name]["default"] = spell_floats(
                msgspec.to_builtins(order_sets(default), str_keys=True)
            )
    return Definition(stand_in.__name__, schema, parts)


def _add_tag(schema: Json, tag: Tag, *, required: bool) -> None:
    """Adds the discriminator; by its default generated clients send it without being asked."""
    constant = {"type": "string", "const": tag.value}
    others = {name: each for name, each in schema["properties"].items() if name != tag.name}
    schema["properties"] = {tag.name: constant | ({"default": tag.value} if required else {}), **others}
    if required:
        schema["required"] = [tag.name, *schema["required"]]


class Choice(NamedTuple):
    """Classes by the value of the discriminator; a body may name those of `named`, and `way` is oneOf or anyOf."""

    discriminator: str
    choices: Mapping[str, Definition]
    named: frozenset[str]
    way: str


def define_choice(cls: type, name: str, given: Choice) -> Definition:
    """The schema of what is one of several classes.

    Raises:
        InvalidDeclaration: classes inside two of them have one name.
    """
    parts: dict[str, Json] = {}
    for each in given.choices.values():
        for part, schema in (*each.parts.items(), (each.name, each.schema)):
            if parts.setdefault(part, schema) != schema:
                raise InvalidDeclaration("two classes in the variants of a model have one name", model=cls, name=part)
    refs = {value: {"$ref": each.name} for value, each in given.choices.items()}
    mapping = {value: ref for value, ref in refs.items() if value in given.named}
    discriminator = {"propertyName": given.discriminator, "mapping": mapping}
    schema = {given.way: [*refs.values()], "discriminator": discriminator}
    text = vars(cls).get("__doc__")
    return Definition(name, schema | ({"description": cleandoc(text)} if text else {}), parts)


def _of_reference(_type: object) -> Json:
    """The schema of a reference deep inside another type: msgspec's own form, a list of the key's list."""
    return {"type": "array", "prefixItems": [{"type": "array"}], "minItems": 1, "maxItems": 1}


def _drop_false_items(schema: object) -> None:
    """Takes `"items": false` from lists of a fixed length: `maxItems` says the same, and generators know that."""
    if isinstance(schema, dict):
        given = cast("Json", schema)
        if given.get("items") is False:
            del given["items"]
        for each in given.values():
            _drop_false_items(each)
    elif isinstance(schema, (list, tuple)):
        for each in cast("Sequence[object]", schema):
            _drop_false_items(each)


def replace_refs(schema: object, point: Callable[[str], Json]) -> Any:
    """A copy of a schema in which `point` makes each reference from the name of what it refers to.

    A discriminator's mapping has the same references as text.
    """
    if isinstance(schema, (list, tuple)):
        return [replace_refs(each, point) for each in cast("Sequence[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    given = cast("Json", schema)
    name = given.get("$ref")
    found = {key: replace_refs(value, point) for key, value in given.items() if key != "$ref"}
    if isinstance(given.get("propertyName"), str) and "mapping" in given:
        found["mapping"] = {value: each["$ref"] for value, each in found["mapping"].items()}
    return point(name) | found if isinstance(name, str) else found
