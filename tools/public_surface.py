"""Lists what users may rely on: every public name, and of each class its public attributes.

`python -m tools.public_surface > tests/tidy/public_surface.txt` accepts a change on purpose; tests/tidy compares.
"""

import importlib
import inspect
from collections.abc import Iterator

PACKAGE = "oneread"


def public_surface(package: str = PACKAGE) -> list[str]:
    """One line for each public name and each public attribute, sorted; callables show their parameters' names."""
    module = importlib.import_module(package)
    return sorted(line for name in module.__all__ for line in _lines(name, getattr(module, name)))


def public_objects(package: str = PACKAGE) -> Iterator[tuple[str, object]]:
    """Every public class and function, and every public method and property of the classes, by dotted name."""
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            yield name, value
        if inspect.isclass(value):
            yield from ((f"{name}.{key}", own) for key, own in _attributes(value) if _is_code(own))


def _is_code(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, classmethod | staticmethod | property)


def _lines(name: str, value: object) -> Iterator[str]:
    yield f"{name}{_parameters(value)}"
    if inspect.isclass(value):
        yield from (f"{name}.{key}{_parameters(own)}" for key, own in _attributes(value))


def _attributes(cls: type) -> list[tuple[str, object]]:
    """Public attributes of a class that this package gave it, inherited ones included."""
    found: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.split(".")[0] == cls.__module__.split(".")[0]:
            found |= {key: value for key, value in vars(base).items() if not key.startswith("_")}
    return sorted(found.items())


def _parameters(value: object) -> str:
    function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    if not inspect.isfunction(function):
        return ""
    marks: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parts: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        optional = "" if parameter.default is inspect.Parameter.empty else "="
        parts.append(f"{marks.get(parameter.kind, '')}{parameter.name}{optional}")
    return f"({', '.join(part for part in parts if part not in {'self', 'cls'})})"


if __name__ == "__main__":
    print("\n".join(public_surface()))
