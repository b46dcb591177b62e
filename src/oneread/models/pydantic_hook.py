"""Pydantic schemas of declared classes, by which a model is a FastAPI response and body.

Importing this module installs the hooks on the metaclass: a model cannot define them, because its JSON form imports
models. See "Web frameworks" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from oneread.errors import InvalidValue
from oneread.models.declared import Declared
from oneread.models.json_form import form, to_plain


def plain_schema(validate: Callable[[Any], Any], write: Callable[[Any], Any]) -> dict[str, Any]:
    """A pydantic core schema of two functions: one makes a value from input, one makes JSON from a value."""
    return {
        "type": "function-plain",
        "function": {"type": "no-info", "function": validate},
        "serialization": {"type": "function-plain", "function": write, "return_schema": {"type": "any"}},
    }


def builtins(value: object) -> object:
    """A value's JSON as plain lists, dicts and texts."""
    return msgspec.to_builtins(to_plain(value), str_keys=True)


def core_schema(cls: Any, _source: object, _handler: object) -> dict[str, Any]:
    """Pydantic's `__get_pydantic_core_schema__`."""

    def validate(value: object) -> object:
        if isinstance(value, cls):
            return value
        try:
            return form(cls).convert(value)
        except InvalidValue as error:
            raise ValueError(error.facts["reason"]) from error  # the error that pydantic reports as a failed validation

    return plain_schema(validate, builtins) | {"ref": f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"}


def json_schema(cls: Any, _core: object, handler: Any) -> dict[str, Any]:
    """Pydantic's `__get_pydantic_json_schema__`."""
    return form(cls).schema(sent=handler.mode == "validation")


def install(kind: Any, core: Any, json: Any) -> None:
    """Installs pydantic's hooks on a class or metaclass."""
    kind.__get_pydantic_core_schema__ = core
    kind.__get_pydantic_json_schema__ = json


install(Declared, core_schema, json_schema)
