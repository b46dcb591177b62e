"""Signatures as a reader of the reference needs them: what the type checkers need besides is left out.

A griffe extension, named in mkdocs.yml. It gives structs the parameters that msgspec makes from their fields, so that
the tables of the reference have types; shows a constant that is a default by its value; and writes `type` for the
protocols that connect a class with its key.
"""

from __future__ import annotations

import ast
from typing import Any

import griffe

_CLASSES = {"Copied", "Exact", "Located"}
"""Protocols that stand for "a class whose instances are the first part": shown as `type[R]`."""
_ANY_TYPE = "Asked"
"""The name of `Any` where other declarations hold the type: shown as `Any`."""


class Signatures(griffe.Extension):
    """Rewrites the parameters of a loaded package, before a page shows them."""

    def on_package(self, *, pkg: griffe.Module, **_options: Any) -> None:
        """Every class and function of the package."""
        errors = pkg.members["errors"]
        _rewrite(pkg, {name: each.path for name, each in errors.members.items() if isinstance(each, griffe.Class)})


def _rewrite(scope: griffe.Module | griffe.Class, errors: dict[str, str]) -> None:
    """Rewrites signatures, and names all errors in every module: `Raises` links those that it does not import, too."""
    for member in list(scope.members.values()):
        if isinstance(member, griffe.Alias):
            continue
        if isinstance(member, griffe.Function):
            for function in [member, *(member.overloads or [])]:
                _simplify(function)
        elif isinstance(member, griffe.Module | griffe.Class):
            _rewrite(member, errors)
    if isinstance(scope, griffe.Module):
        _name_errors(scope, errors)
    else:
        for overloads in scope.overloads.values():
            for function in overloads:
                _simplify(function)
        if "__init__" not in scope.members and _is_struct(scope):
            _add_constructor(scope)


def _name_errors(module: griffe.Module, errors: dict[str, str]) -> None:
    for name in errors.keys() - module.members.keys():
        module.set_member(name, griffe.Alias(name, errors[name]))


def _simplify(function: griffe.Function) -> None:
    for parameter in function.parameters:
        if parameter.kind is griffe.ParameterKind.var_positional and str(parameter.annotation).startswith("*"):
            parameter.annotation = None  # the types of a key's parts; its model says them
        if str(parameter.annotation) == _ANY_TYPE:
            parameter.annotation = "Any"
        parameter.annotation = _without_protocols(parameter.annotation)
        parameter.default = _value(parameter.default, function)


def _without_protocols(annotation: str | griffe.Expr | None) -> str | griffe.Expr | None:
    """`type[R]` for `Located[R, *KeyTypes]`, and `tuple` for a tuple of a key's parts."""
    if isinstance(annotation, griffe.ExprSubscript) and str(annotation.left) in _CLASSES:
        inner = annotation.slice
        first = inner.elements[0] if isinstance(inner, griffe.ExprTuple) else inner
        return griffe.ExprSubscript(left="type", slice=first)
    if isinstance(annotation, griffe.ExprSubscript) and "*" in str(annotation.slice):
        if str(annotation.left) == "tuple":
            return "tuple"  # of the parts of a key, as above
        return griffe.ExprSubscript(left=annotation.left, slice=_without_protocols(annotation.slice) or "")
    return annotation


def _value(default: str | griffe.Expr | None, function: griffe.Function) -> str | griffe.Expr | None:
    """The value of a constant; `...` for one which only says that nothing was given."""
    if not isinstance(default, griffe.ExprName):
        return default
    if default.name.startswith("_") or default.name == "UNSET":
        return "..."
    try:
        found = function.module.modules_collection[default.canonical_path]
        shown = found.value
    except (KeyError, AttributeError, griffe.AliasResolutionError):
        return default
    if isinstance(shown, griffe.ExprName):  # one constant is another
        return _value(shown, function)
    return shown if shown is not None and _is_literal(str(shown)) else default


def _is_literal(text: str) -> bool:
    """Whether an expression names nothing, so that a reader knows its value: 1000, "save", 1 << 20, {}."""
    try:
        parsed = ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return not any(isinstance(node, ast.Name | ast.Call | ast.Attribute) for node in ast.walk(parsed))


def _is_struct(found: griffe.Class) -> bool:
    """Whether msgspec makes a class's constructor from its fields; so for the structs that it is derived from."""
    return any(
        str(base).rpartition(".")[2] == "Struct" or ((inner := _resolved(base)) is not None and _is_struct(inner))
        for base in found.bases
    )


def _resolved(base: str | griffe.Expr) -> griffe.Class | None:
    if not isinstance(base, griffe.ExprName):
        return None
    try:
        target: Any = base.resolved
        if isinstance(target, griffe.Alias):
            target = target.final_target
    except (griffe.AliasResolutionError, griffe.NameResolutionError, AttributeError):
        return None  # a dotted name of another package has no attribute that griffe could resolve it by
    return target if isinstance(target, griffe.Class) else None


def _fields(found: griffe.Class) -> dict[str, griffe.Parameter]:
    fields: dict[str, griffe.Parameter] = {}
    for base in found.bases:
        inner = _resolved(base)
        if inner is not None and _is_struct(inner):
            fields |= _fields(inner)
    for member in found.members.values():
        if isinstance(member, griffe.Attribute) and member.annotation is not None and "property" not in member.labels:
            kind = griffe.ParameterKind.positional_or_keyword
            fields[member.name] = griffe.Parameter(
                member.name, annotation=member.annotation, kind=kind, default=member.value
            )
    return fields


def _add_constructor(found: griffe.Class) -> None:
    parameters = griffe.Parameters(
        griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword), *_fields(found).values()
    )
    found.set_member("__init__", griffe.Function("__init__", parent=found, parameters=parameters, returns="None"))
