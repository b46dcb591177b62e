"""A schema: the declarations that belong together, checked as a whole.

See "Two kinds of mistakes, two moments" of the API page: whatever cannot work is refused here, with the class, the
field and what to write instead.
"""

from __future__ import annotations

import warnings
from typing import Any, Final, TypeAlias, cast

from oneread.counters.counters import DEFAULT_RULES
from oneread.counters.wanted import CounterRules
from oneread.derivations.access import Accesses
from oneread.derivations.catalog import Catalog, open_catalog
from oneread.derivations.checks import check_model, check_view
from oneread.derivations.compile_schema import Declarations, compile_schema, keyspace_names
from oneread.derivations.compiled_schema import CompiledSchema, SchemaNumbers
from oneread.derivations.costly import costly_values
from oneread.derivations.expiry import check_view_ttl, expiry_indexes
from oneread.derivations.one_row import refuse_unportable
from oneread.derivations.views import Aggregate, AnyView, Feed, Index, View
from oneread.errors import CostlyDeclaration, InvalidDeclaration
from oneread.evolution.declare import DeclaredSchema, declare_schema
from oneread.evolution.stored_rules import former_classes
from oneread.feeds.adding import feed_parts
from oneread.feeds.marks import FeedMarks, marks_models
from oneread.jobs.declared import Job, JobForm, is_job
from oneread.models.evolving import steps_of
from oneread.models.model import Model, stored_name
from oneread.models.references import Copy
from oneread.models.registry import root_model
from oneread.models.types import Named, Names, types_of
from oneread.store.limits import INLINE_HOLDERS

_KEPT: Final = 4
"""Compiled schemas that are kept for further openings: with the numbers of as many stores."""

Declaration: TypeAlias = type[Model[*tuple[Any, ...]]] | type[AnyView] | type[Job]


class Schema:
    """The models, views and jobs of one application: `Schema(Customer, Product, Purchase, PurchasesOfBuyer)`.

    Arguments:
        declarations: model classes (each variant too), view classes and job classes, in any order. Copy classes are
            found through the models.
        inline: holders of a source's copies that are updated within its commit; with more, a task does it. Default
            1,000.
        portable: a transaction reads and writes one entity group, as stores that change one row at a time need it.
            Default False.
        counters: how its named counters are kept.

    Warns:
        CostlyDeclaration: something takes a total, so that each entity that is counted rewrites many rows.

    Raises:
        InvalidDeclaration: something is missing, of the wrong type, unbounded, or depends on itself.
    """

    def __init__(
        self,
        *declarations: Declaration,
        inline: int = INLINE_HOLDERS,
        portable: bool = False,
        counters: CounterRules = DEFAULT_RULES,
    ) -> None:
        self.models = tuple(cast("type[Model[Any]]", each) for each in declarations if _is_declared(each, Model))
        self.views = tuple(cast("type[View[Any]]", each) for each in declarations if _is_declared(each, View))
        self.jobs: dict[type[Job], JobForm[Any]] = {each: JobForm(each) for each in declarations if is_job(each)}
        self.inline = inline
        self.portable = portable
        if type(portable) is not bool:
            raise InvalidDeclaration("portable must be True or False", portable=portable)
        if type(inline) is not int or inline < 0:
            raise InvalidDeclaration("inline must be an int, 0 or more", inline=inline)
        self.counters = counters
        if not isinstance(counters, CounterRules):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
            raise InvalidDeclaration("counters takes CounterRules(...)", counters=counters)
        self._names = Named((*self.models, *self.views))
        self._check_classes(declarations)
        self.models += self._added_models()
        self.views += self._added_views()
        self._all_names = Named((*self.models, *self.views))
        self._declared: DeclaredSchema | None = None
        self._recent: tuple[CompiledSchema, ...] = ()  # replaced as a whole: threads may open stores at once
        self._compiled = self.catalog(self._unstored_numbers())
        self.costly = tuple(costly_values(self._compiled))
        for costly in self.costly:
            warnings.warn(str(costly), CostlyDeclaration, stacklevel=2)
        if portable:
            refuse_unportable(self._compiled)
        for copy in {
            each.copy for entity_type in self._compiled.entity_types.values() for each in entity_type.references
        }:
            steps_of(copy or Copy)

    def _check_classes(self, declarations: tuple[Declaration, ...]) -> None:
        if not self.models:
            raise InvalidDeclaration("a schema needs a model", given=declarations)
        for each in declarations:
            if not (_is(each, Model) or _is(each, View) or _is(each, Job)):
                raise InvalidDeclaration("a schema takes classes of models, views and jobs", given=each)
        named = [each for each in declarations if not _is_added(each)]
        for names in ([each.__name__ for each in named], [stored_name(each) for each in named]):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise InvalidDeclaration("two declarations have one name", names=twice)
        for model in self.models:
            if root_model(model) not in self.models:
                raise InvalidDeclaration(
                    "a variant needs its model in the schema", variant=model, model=root_model(model)
                )
            check_model(model, self._names)
            steps_of(model)
            _check_bounds(model, self._names)
        for view in self.views:
            check_view(view, self._names)

    def _added_models(self) -> tuple[type[Model[Any]], ...]:
        """Those that hold the marks of feeds."""
        added = marks_models([view for view in self.views if issubclass(view, Feed)], self._names)
        for model in added:
            check_model(model, self._names)
        return added

    def _added_views(self) -> tuple[type[View[Any]], ...]:
        """The indexes by which a sweep finds what has expired, and those that feeds are made of."""
        accesses = Accesses(self._names)
        viewed = {view: accesses.viewed(view) for view in self.views}
        for view, of in viewed.items():
            if issubclass(view, (Index, Aggregate)):
                check_view_ttl(view, of, self._names)
        feeds = {view: of for view, of in viewed.items() if issubclass(view, Feed)}
        parts = {part: accesses.viewed(part) for part in feed_parts(feeds, self._names)}
        return (*parts, *expiry_indexes(self.models, viewed | parts))

    def __repr__(self) -> str:
        return f"Schema({', '.join(self._names)})"

    def named(self) -> dict[str, Any]:
        """The declared classes by name."""
        return dict(self._names)

    def unstored(self) -> Catalog:
        """The schema compiled without a store, for questions about the declarations alone."""
        return self._compiled

    def _unstored_numbers(self) -> SchemaNumbers:
        hidden = [name for view in self.views for name in keyspace_names(view).values()]
        return SchemaNumbers(
            {stored_name(root_model(model)): place for place, model in enumerate(self.models)},
            {stored_name(model): place for place, model in enumerate(self.models)},
            {name: (place + 1, 1) for place, name in enumerate([*map(stored_name, self.views), *hidden])},
        )

    def catalog(self, numbers: SchemaNumbers) -> Catalog:
        """The schema compiled with the numbers of one store, whose layouts the catalog has to itself."""
        recent = self._recent
        compiled = next((each for each in recent if each.numbers == numbers), None)
        if compiled is None:
            views = (*self.views, *self._former_views(numbers)) if numbers.formers else self.views
            compiled = compile_schema(Declarations(self.models, views, self._all_names), numbers)
        others = [each for each in recent if each is not compiled]
        self._recent = (compiled, *others[: _KEPT - 1])
        return open_catalog(compiled)

    def _former_views(self, numbers: SchemaNumbers) -> tuple[type[View[Any]], ...]:
        """The former generations of views that were edited in place, and the indexes by which a sweep finds theirs."""
        views = {stored_name(each): each for each in self.views}
        models = {stored_name(each): each for each in self.models}
        found = tuple(former_classes(numbers.formers, views, models, self._all_names))
        accesses = Accesses(self._all_names)
        parts = feed_parts({each: accesses.viewed(each) for each in found if issubclass(each, Feed)}, self._all_names)
        swept = expiry_indexes((), {view: accesses.viewed(view) for view in (*found, *parts)})
        return (*found, *parts, *(each for each in swept if stored_name(each) in numbers.views))

    def declared(self) -> DeclaredSchema:
        """The schema as it is stored; described once, for all openings."""
        if self._declared is None:
            self._declared = declare_schema(self._compiled, self.views, self._names)
        return self._declared


def _is_declared(given: object, base: type) -> bool:
    """Whether this is a model, or a view; those that a schema adds, which another schema may bring, are made again."""
    return _is(given, base) and not _is_added(given)


def _is_added(given: object) -> bool:
    """Whether a schema adds this class; a model may have a field called `is_added`."""
    return _is(given, FeedMarks) or (_is(given, View) and bool(getattr(given, "is_added", False)))


def _is(given: object, base: type) -> bool:
    return isinstance(given, type) and issubclass(given, base) and given is not base


def _check_bounds(model: type[Model[Any]], names: Names) -> None:
    """Refuses an unbounded list of references: each element is a row in every index by it."""
    for name, given in types_of(model, names).items():
        element = given.present.several
        refers = element is not None and element.present.kind == "reference"
        if refers and not any(getattr(each, "max_length", None) for each in given.metadata):
            raise InvalidDeclaration(
                "a list of references needs a declared maximum: Annotated[list[Ref[Tag]], msgspec.Meta(max_length=20)]",
                model=model,
                field=name,
            )
