"""A schema: the declarations that belong together, checked as a whole.

Knows declarations. Must not know stores: it is compiled for one when that is opened. The law is "Two kinds of mistakes,
two moments" of the API page: whatever cannot work is refused here, with the class, the field and what to write instead.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import msgspec

from oneread.derivations.catalog import Catalog, Numbers, extremum_names, stored_name
from oneread.derivations.checks import check_model, check_view
from oneread.derivations.rules import Rule, rules_of
from oneread.derivations.views import View
from oneread.errors import InvalidDeclaration
from oneread.models.annotations import field_types
from oneread.models.model import Model
from oneread.models.paths import path_of
from oneread.models.references import Copy
from oneread.models.registry import root_model
from oneread.models.versions import DeclaredModel, DeclaredView, Description

Declaration: TypeAlias = type[Model[*tuple[Any, ...]]] | type[View[Any]]


class Schema:
    """The models and views of one application: `Schema(Customer, Product, Purchase, PurchasesOfBuyer)`.

    Arguments:
        declarations: model classes (each variant too) and view classes, in any order. Copy classes are found through
            the models.
        inline: carriers of a source's copies that are changed within its commit; more become a task. Default 1,000.

    Raises:
        InvalidDeclaration: something is missing, of the wrong type, unbounded, or depends on itself.
    """

    def __init__(self, *declarations: Declaration, inline: int = 1000) -> None:
        self.models = tuple(cast("type[Model[Any]]", each) for each in declarations if _is(each, Model))
        self.views = tuple(cast("type[View[Any]]", each) for each in declarations if _is(each, View))
        self.inline = inline
        if type(inline) is not int or inline < 0:
            raise InvalidDeclaration("inline is a number of carriers, 0 or more", inline=inline)
        self._check_classes(declarations)
        self._names: dict[str, Any] = {each.__name__: each for each in declarations}
        self.catalog(self._provisional())

    def _check_classes(self, declarations: tuple[Declaration, ...]) -> None:
        if not self.models:
            raise InvalidDeclaration("a schema needs a model", given=declarations)
        for each in declarations:
            if not (_is(each, Model) or _is(each, View)):
                raise InvalidDeclaration("a schema takes classes of models and views", given=each)
        for names in ([each.__name__ for each in declarations], [stored_name(each) for each in declarations]):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise InvalidDeclaration("two declarations have one name", names=twice)
        for model in self.models:
            if root_model(model) not in self.models:
                raise InvalidDeclaration(
                    "a variant needs its model in the schema", variant=model, model=root_model(model)
                )
            check_model(model, self.named())
            _check_bounds(model, self.named())
        for view in self.views:
            check_view(view, self.named())

    def named(self) -> dict[str, Any]:
        """The declared classes by name."""
        return {each.__name__: each for each in (*self.models, *self.views)}

    def _provisional(self) -> Numbers:
        """Numbers that are good for checking only."""
        hidden = [name for view in self.views for name in _hidden(view)]
        return Numbers(
            {stored_name(root_model(model)): place for place, model in enumerate(self.models)},
            {stored_name(model): place for place, model in enumerate(self.models)},
            {name: (place + 1, 1) for place, name in enumerate([*map(stored_name, self.views), *hidden])},
        )

    def catalog(self, numbers: Numbers) -> Catalog:
        """The schema compiled with the numbers of one store."""
        return Catalog(self.models, self.views, numbers)

    def declared(self) -> tuple[tuple[DeclaredModel, ...], tuple[DeclaredView, ...]]:
        """The schema as a store remembers it."""
        models = tuple(
            DeclaredModel(stored_name(cls), stored_name(root_model(cls)), self._fields_of(cls)) for cls in self.models
        )
        views = tuple(
            DeclaredView(
                stored_name(view), stored_name(root_model(self._viewed(view))), self._rules_text(view), _hidden(view)
            )
            for view in self.views
        )
        return models, views

    def _viewed(self, view: type[View[Any]]) -> type[Model[Any]]:
        given = view.type_arguments[0]
        name = getattr(given, "__forward_arg__", given)
        model: type[Model[Any]] = self._names[name] if isinstance(name, str) else given
        return model

    def _fields_of(self, cls: type[msgspec.Struct]) -> Description:
        """A class's fields and types, the fields of its copies included: they lie in its documents."""
        found: list[tuple[str, str]] = []
        for name, annotation in field_types(cls, self._names).items():
            found.append((name, _text(annotation)))
            copy = _copy_in(annotation)
            if copy is not None:
                found.extend(
                    (f"{name}.{inner}", _text(kind))
                    for inner, kind in field_types(copy, self._names).items()
                    if inner != "ref"
                )
        return tuple(found)

    def _rules_text(self, view: type[View[Any]]) -> Description:
        model = self._fields_of(self._viewed(view))
        where = () if view.where is None else (("where", view.where.canonical().hex()),)
        unique = (("unique", "true"),) if getattr(view, "unique", False) else ()
        rules = tuple((name, _rule_text(rule, dict(model))) for name, rule in rules_of(view).items())
        return (*rules, *where, *unique)


def _hidden(view: type[View[Any]]) -> tuple[str, ...]:
    return tuple(extremum_names(view).values())


def _rule_text(rule: Rule, types: dict[str, str]) -> str:
    path = "" if rule.field is None else ".".join(path_of(rule.field).names)
    options = [rule.kind, rule.fold or "", path, types.get(path, ""), rule.size or "", rule.none or ""]
    options.extend(word for word, is_set in (("descending", rule.descending), ("hashed", rule.hashed)) if is_set)
    if rule.field is not None and path_of(rule.field).every:
        options.append("each")
    return " ".join(filter(None, options))


def _text(annotation: Any) -> str:
    """A type as text that is the same in every process.

    Classes by name, so that moving one to another module changes nothing.
    """
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__name__
    origin = getattr(annotation, "__origin__", None)
    arguments = getattr(annotation, "__args__", ())
    metadata = getattr(annotation, "__metadata__", ())
    if metadata:
        return f"{_text(origin)}{{{', '.join(map(repr, metadata))}}}"
    if arguments:
        name = getattr(origin, "__name__", "Union")
        return f"{name}[{', '.join(map(_text, arguments))}]"
    return repr(annotation)


def _copy_in(annotation: Any) -> type[Copy[Any]] | None:
    for each in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(each, type) and issubclass(each, Copy):
            return each
    return None


def _is(given: Any, base: type) -> bool:
    return isinstance(given, type) and issubclass(given, base) and given is not base


def _check_bounds(model: type[Model[Any]], names: dict[str, Any]) -> None:
    """A list of references must say how long it may become: each element is rows in every index by it."""
    for name, annotation in field_types(model, names).items():
        text = _text(annotation)
        if any(f"{kind}[Ref[" in text for kind in ("list", "set")) and "max_length" not in text:
            raise InvalidDeclaration(
                "a list of references needs a declared maximum: Annotated[list[Ref[Tag]], msgspec.Meta(max_length=20)]",
                model=model,
                field=name,
            )
