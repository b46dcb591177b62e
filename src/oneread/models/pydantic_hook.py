"""Pydantic schemas of declared classes, by which a model is a FastAPI response and body.

Importing this module installs the hooks on the metaclass: a model cannot define them, because its JSON form imports
models. Nothing of pydantic is imported: it asks, and gets dicts. See "Web frameworks" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from hashlib import blake2b
from itertools import islice
from typing import Any, Final, Protocol, cast

import msgspec

from oneread.errors import InvalidValue
from oneread.models.declared import DESCRIBED, Declared
from oneread.models.json_body import MOST_FAULTS, JsonBody
from oneread.models.json_form import JsonForm, form, to_plain
from oneread.models.json_schema import Definition, Json, replace_refs
from oneread.models.variants import expected


class SchemaHandler(Protocol):
    """Pydantic's handler of JSON schemas."""

    mode: str

    def __call__(self, core: Json, /) -> Json: ...


WRITTEN: Final[ContextVar[list[tuple[object, object]] | None]] = ContextVar("WRITTEN", default=None)
"""What pydantic wrote of entities and shapes, with its JSON, in a context that wants to know."""


def builtins(value: object) -> object:
    """A value's JSON as plain lists, dicts and texts."""
    return note_written(value, to_plain(value))


def note_written(value: object, form: object) -> object:
    """The JSON of a value as plain lists, dicts and texts; notes both."""
    found = msgspec.to_builtins(form, str_keys=True)
    written = WRITTEN.get()
    if written is not None:
        written.append((value, found))
    return found


def written_by(write: Callable[[Any], Any]) -> Json:
    """The part of a core schema that says how values are written."""
    return {"type": "function-plain", "function": write, "return_schema": {"type": "any"}}


def response_schema(check: Callable[[Any], Any], write: Callable[[Any], Any]) -> Json:
    """The core schema of a class that is only returned."""
    function = {"type": "no-info", "function": check}
    return {"type": "function-plain", "function": function, "serialization": written_by(write)}


def body_schema(
    body: JsonBody, make: Callable[[Mapping[str, Any]], object], cls: type, write: Callable[[Any], Any]
) -> Json:
    """The core schema of a body: pydantic reports each wrong field by its own place, as it does for its own models."""

    def validate(value: object, convert: Callable[[object], dict[str, Any]]) -> object:
        if isinstance(value, cls):
            return value
        sent = convert(_bounded(value, fields))
        try:
            return make(body.held(sent))
        except InvalidValue as error:
            raise ValueError(error.facts.get("reason", error.message)) from error

    fields = {
        name: {
            "type": "typed-dict-field",
            "required": declared not in body.optional,
            "schema": _field_schema(body, name),
        }
        for declared, name in body.spelled.items()
    }
    if body.tag is not None:
        own = {"type": "literal", "expected": [body.tag.value]}
        fields[body.tag.name] = {"type": "typed-dict-field", "required": False, "schema": own}
    return {
        "type": "function-wrap",
        "function": {"type": "no-info", "function": validate},
        "schema": {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"},
        "serialization": written_by(write),
    }


def _bounded(value: object, fields: Mapping[str, Json]) -> object:
    """A body with 20 of its unknown fields at most, each of which is a fault: pydantic makes an error of every one."""
    if not isinstance(value, dict) or len(value) <= len(fields) + MOST_FAULTS:
        return value
    sent = cast("dict[object, object]", value)
    unknown = islice((each for each in sent if each not in fields), MOST_FAULTS)
    return {name: sent[name] for name in (*(each for each in fields if each in sent), *unknown)}


_UNKNOWN: Final = ""
"""What chooses the schema that refuses a discriminator; no class is called so."""


def sent_schema(of: JsonForm[Any], own: Callable[[type[Any]], Json], cls: type, *, patches: bool) -> Json:
    """The core schema of a body of a model; `own` makes that of one class, of several the body names one.

    From here on the model has the variants that it has.
    """
    DESCRIBED.add(of.cls)
    found = of.discriminator
    if found is None or not found.is_choice:
        return own(of.cls)
    name, known = found.name, found.variants
    unnamed = found.value if patches else _UNKNOWN

    def choose(value: object) -> str:
        sent = cast("Mapping[object, object]", value) if isinstance(value, Mapping) else {}
        if name not in sent:
            return unnamed
        given = sent[name]
        return given if isinstance(given, str) and given in known else _UNKNOWN

    def refuse(_given: object) -> object:
        raise ValueError(expected(known))

    def validate(value: object, convert: Callable[[object], object]) -> object:
        if isinstance(value, cls):
            return value
        try:
            return convert(value)
        except ValueError as error:
            raise _without_choice(error) from None

    refusing = {"type": "function-plain", "function": {"type": "no-info", "function": refuse}}
    always = {"type": "default", "schema": refusing, "default": None, "validate_default": True}
    unknown = {"type": "typed-dict", "fields": {name: {"type": "typed-dict-field", "schema": always}}}
    choices = {value: own(each) for value, each in (found.patched if patches else known).items()} | {_UNKNOWN: unknown}
    return {
        "type": "function-wrap",
        "function": {"type": "no-info", "function": validate},
        "schema": {"type": "tagged-union", "discriminator": choose, "choices": choices},
    }


def _without_choice(error: Any) -> Any:
    """Pydantic's error with each fault's place as it is in the body: in a union it begins with the choice."""
    found = [each | {"loc": each["loc"][1:]} for each in error.errors(include_url=False)]
    return type(error).from_exception_data(error.title, found)


def _field_schema(body: JsonBody, name: str) -> Json:
    def validate(value: object) -> object:
        return body.convert_field(name, value)

    return {"type": "function-plain", "function": {"type": "no-info", "function": validate}}


def ref_of(cls: type) -> str:
    """The reference by which pydantic knows a class; it names the class in a document by the text behind the dots."""
    return f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"


def core_schema(cls: Any, _source: object, _handler: object) -> Json:
    """Pydantic's `__get_pydantic_core_schema__`."""
    core = sent_schema(form(cls), _own_schema, cls, patches=False)
    return core | {"serialization": written_by(builtins), "ref": ref_of(cls)}


def _own_schema(cls: Any) -> Json:
    """The core schema of entities of exactly this class."""
    found = form(cls)
    return body_schema(found.whole, found.make, cls, builtins)


def json_schema(cls: Any, _core: object, handler: SchemaHandler) -> Json:
    """Pydantic's `__get_pydantic_json_schema__`."""
    return with_definitions(form(cls).schema(sent=handler.mode == "validation"), cls.__module__, handler)


def with_definitions(definition: Definition, module: str, handler: SchemaHandler) -> Json:
    """A schema for pydantic's document, which takes the definitions under their names.

    A definition is known by its name and content, so that equal ones are one. Pydantic finds another name for two that
    are not.
    """
    encode = msgspec.json.Encoder(order="deterministic").encode
    refs = {
        name: f"{module}.{name}:{blake2b(encode(part), digest_size=8).hexdigest()}"
        for name, part in definition.parts.items()
    }

    def point(name: str) -> Json:
        return handler({"type": "definition-ref", "schema_ref": refs[name]})

    def core(name: str, part: Json) -> Json:
        def describe(_core: object, _handler: object) -> object:
            return replace_refs(part, point)

        return {"type": "any", "ref": refs[name], "metadata": {"pydantic_js_functions": [describe]}}

    definitions = [core(name, part) for name, part in definition.parts.items()]
    handler({"type": "definitions", "schema": {"type": "any"}, "definitions": definitions})
    found: Json = replace_refs(definition.schema, point)
    return found


def install(kind: Any, core: Any, json: Any) -> None:
    """Installs pydantic's hooks on a class or metaclass."""
    kind.__get_pydantic_core_schema__ = core
    kind.__get_pydantic_json_schema__ = json


install(Declared, core_schema, json_schema)
