"""What users call or implement: the names of the package, those that the reference documents, and the contracts."""

import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path

from tests.tidy import tree
from tools import public_surface

CONTRACT = "oneread.store."
"""The room whose protocols and values authors of engines implement and receive."""
DOCUMENTED = re.compile(r"^::: (oneread[.\w]*)", re.MULTILINE)


def is_public(path: Path, name: str) -> bool:
    """Whether the class or function of this qualified name is public, or belongs to a public class."""
    module = ".".join(path.with_suffix("").parts[1:])
    if module.startswith(CONTRACT) or module in documented_modules():
        return not any(part.startswith("_") and not part.startswith("__") for part in name.split("."))
    outer, _dot, own = name.rpartition(".")
    return (module, name) in names() or ((module, outer) in names() and own.startswith("__"))


@cache
def names() -> frozenset[tuple[str | None, str | None]]:
    """Module and qualified name of everything public."""
    found = {where(value) for _name, value in public_surface.public_objects()}
    for value in [each for page in documented().values() for each in (page, *exported(page))]:
        members = vars(value).items() if inspect.isclass(value) else ()
        found |= {where(value), *(where(own) for key, own in members if not key.startswith("_"))}
    return frozenset(found)


@cache
def documented() -> dict[str, object]:
    """What the pages of the reference document, by its dotted name."""
    pages = [tree.text(path) or "" for path in tree.files() if path.parts[:2] == ("docs", "reference")]
    return {name: pkgutil.resolve_name(name) for page in pages for name in DOCUMENTED.findall(page)}


def exported(value: object) -> list[object]:
    """What a documented module exports from elsewhere."""
    return [getattr(value, name) for name in getattr(value, "__all__", ())]


@cache
def documented_modules() -> frozenset[str]:
    return frozenset(name for name, value in documented().items() if inspect.ismodule(value))


def where(value: object) -> tuple[str | None, str | None]:
    """Where a class, function, method or property was written."""
    if isinstance(value, property):
        value = value.fget
    code: object = inspect.unwrap(getattr(value, "__func__", value))  # type: ignore[arg-type]
    return getattr(code, "__module__", None), getattr(code, "__qualname__", None)
