"""A schema: the declarations that belong together, checked as a whole.

Knows declarations. Must not know stores: it is compiled for one when that is opened. The law is "Two kinds of mistakes,
two moments" of the API page: whatever cannot work is refused here, with the class, the field and what to write instead.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast, get_args, get_origin

import msgspec

from oneread.derivations.catalog import Catalog, Numbers, extremum_names, stored_name
from oneread.derivations.checks import check_model, check_view
from oneread.derivations.rules import Rule, rules_of
from oneread.derivations.views import View
from oneread.errors import InvalidDeclaration
from oneread.models.annotations import field_types, peeled
from oneread.models.fingerprints import describe
from oneread.models.model import Model
from oneread.models.paths import Path, path_of
from oneread.models.references import Copy, copied_names
from oneread.models.registry import root_model
from oneread.models.shadow import is_copy, is_ref
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
        """A class's fields and types, classes spelled out; the fields of its copies included, and what they promise."""
        found: list[tuple[str, str]] = []
        types = field_types(cls, self._names)
        for name, text, _default in describe(cls, self._names):
            copy, optional, _metadata = peeled(types[name])
            if not is_copy(copy):
                found.append((name, text))
                continue
            promises = f"on_delete={copy.on_delete}, missing_ok={copy.missing_ok}"
            found.append((name, f"{copy.__name__}({promises}){' | None' if optional else ''}"))
            found.extend(self._copied(name, copy))
        return tuple(found)

    def _copied(self, name: str, copy: type[Copy[Any]]) -> Description:
        """What one field of a carrier copies: types, and where in the source each value is from."""
        sources = {each.name: each.default for each in msgspec.structs.fields(copy)}
        return tuple(
            (f"{name}.{inner}", f"{text} of {sources[inner] if isinstance(sources[inner], Path) else inner}")
            for inner, text, _default in describe(copy, self._names)
            if inner in copied_names(copy)
        )

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


def _is(given: Any, base: type) -> bool:
    return isinstance(given, type) and issubclass(given, base) and given is not base


def _check_bounds(model: type[Model[Any]], names: dict[str, Any]) -> None:
    """A list of references must say how long it may become: each element is rows in every index by it."""
    for name, annotation in field_types(model, names).items():
        bare, _optional, metadata = peeled(annotation)
        several = get_origin(bare) in (list, set, frozenset) and is_ref(peeled(get_args(bare)[0]).bare)
        if several and not any(getattr(each, "max_length", None) for each in metadata):
            raise InvalidDeclaration(
                "a list of references needs a declared maximum: Annotated[list[Ref[Tag]], msgspec.Meta(max_length=20)]",
                model=model,
                field=name,
            )
