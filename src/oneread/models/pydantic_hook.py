"""What pydantic is told when it asks a declared class for its schema: so a model is a FastAPI response and a body.

Importing this module teaches every declaration at once: a model could not do it itself, because its JSON form knows
models. See "Web frameworks" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from oneread.errors import InvalidValue
from oneread.models.declared import Declared
from oneread.models.json_form import form, written


def plain_schema(validate: Callable[[Any], Any], write: Callable[[Any], Any]) -> dict[str, Any]:
    """A pydantic core schema made of two functions: what is sent to a value, and a value to what JSON takes."""
    return {
        "type": "function-plain",
        "function": {"type": "no-info", "function": validate},
        "serialization": {"type": "function-plain", "function": write, "return_schema": {"type": "any"}},
    }


def builtins(value: Any) -> Any:
    """What a value is in JSON, as plain lists, dicts and texts."""
    return msgspec.to_builtins(written(value), str_keys=True)


def core_schema(cls: Any, _source: Any, _handler: Any) -> dict[str, Any]:
    """Pydantic's `__get_pydantic_core_schema__`."""

    def validate(value: Any) -> Any:
        if isinstance(value, cls):
            return value
        try:
            return form(cls).convert(value)
        except InvalidValue as error:
            raise ValueError(error.facts["reason"]) from error  # pydantic takes no other error for a refusal

    return plain_schema(validate, builtins) | {"ref": f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"}


def json_schema(cls: Any, _core: Any, handler: Any) -> dict[str, Any]:
    """Pydantic's `__get_pydantic_json_schema__`."""
    return form(cls).schema(sent=handler.mode == "validation")


def teach(kind: Any, core: Any, json: Any) -> None:
    """Lets the classes of a metaclass, or a class, answer pydantic."""
    kind.__get_pydantic_core_schema__ = core
    kind.__get_pydantic_json_schema__ = json


teach(Declared, core_schema, json_schema)
