"""Access: how a view or a copy reaches a value from an entity, one or two hops away, as generated code.

A path through a copy reads the copied field. A path through a plain reference, or to a field that the copy does not
show, makes the holder store that value as a hidden copy in its record. So all that a view needs of an entity is in that
entity's own row. See "Semantics" of the decisions page.
"""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from oneread.derivations.rules import rules_of
from oneread.derivations.views import Aggregate, Feed, Index, View
from oneread.errors import InvalidDeclaration
from oneread.models.expiry import Expiry
from oneread.models.expressions import Expression
from oneread.models.fields import FACTORY, Marker, defaults_of, is_counter, is_rollup
from oneread.models.model import Model
from oneread.models.paths import Path, path_of
from oneread.models.references import Copy, Ref, is_copied
from oneread.models.registry import reference_target, target_of
from oneread.models.types import FieldType, Names, type_of, types_of

_OF_ROWS: Final = "an index lists entities or the groups of an aggregate, not the rows of another index"
_OF_GROUPS: Final = (
    "only an index lists the groups of an aggregate; to count or sum their numbers, let an entity show them with "
    "rollup(...), and aggregate that entity"
)
_GROUP_REFERS: Final = (
    "a group only refers to an entity, and holds no fields of it: let the entity show the group's numbers with "
    "rollup(...), and index the entity"
)

FieldRoute: TypeAlias = tuple[str, ...]
"""Field names from a model to a value."""


class HiddenRoute(NamedTuple):
    """A value of another entity that a holder stores for its views or copies."""

    reference: str
    """The holder's field that refers to the other entity."""
    target: type[Model[Any]]
    route: FieldRoute
    """From the other entity to the value."""

    @property
    def name(self) -> str:
        """What the value is called in the holder's record."""
        return ".".join((self.reference, *self.route))


class ValuePath(NamedTuple):
    """Where an entity has one value: in a field or a hidden copy, or behind further attributes of that."""

    name: str
    """Of the field, or of the hidden copy; empty for no value at all."""
    steps: tuple[str, ...] = ()
    """The attributes on the way; the value is None if anything before the last one is."""
    is_hidden: bool = False

    @property
    def code(self) -> str:
        """An expression over `e` (the entity) and `u` (its hidden copies by name).

        Nested ones share a variable: the inner one is done before the outer one is bound.
        """
        if not self.name:
            return "None"
        code = f"u.get({self.name!r})" if self.is_hidden else f"e.{self.name}"
        for step in self.steps:
            code = f"(None if (t := {code}) is None else t.{step})"
        return code

    def behind(self, step: str) -> ValuePath:
        """The value of an attribute of this one."""
        return self._replace(steps=(*self.steps, step))

    def __str__(self) -> str:
        return ".".join((self.name, *self.steps))


NO_VALUE: Final = ValuePath("")


class Access(NamedTuple):
    """How to reach one value."""

    value: ValuePath
    type: Any
    """The declared type without None."""
    optional: bool
    target: type[Model[Any]] | None = None
    """The model that a reference or a copy refers to."""
    copy: type[Copy[Any]] | None = None
    many: bool = False
    """The value is a list or set, each element of which counts."""
    hidden: HiddenRoute | None = None
    """The hidden copy that this reads."""
    through: HiddenRoute | None = None
    """Where the value comes from when it belongs to another entity."""
    unordered: bool = False
    """Of `many`: the elements are those of a set."""
    stands_for: type[Copy[Any]] | None = None
    """The copy at the end of the path, in whose place its reference is read."""
    rank: int = 0
    """How many aggregates are behind the value, one on the other; 0 for one that does not depend on any."""

    @property
    def code(self) -> str:
        """The expression of the value; None if anything on the way is None."""
        return self.value.code


class GroupField(NamedTuple):
    """A number of a group that an entity shows."""

    view: type[Aggregate[Any]]
    field: str

    @classmethod
    def of(cls, model: type, name: str, marker: Marker) -> GroupField:
        """What the field `name = rollup(...)` of a model means. Raises InvalidDeclaration."""
        given: Any = marker.group
        if not isinstance(given, MemberDescriptorType) and callable(given):
            given = given()
        view = getattr(given, "__objclass__", None)
        if isinstance(given, MemberDescriptorType) and isinstance(view, type) and issubclass(view, Aggregate):
            rule = rules_of(view).get(given.__name__)
            if rule is not None and rule.kind == "fold":
                return cls(view, given.__name__)
        raise InvalidDeclaration(
            "rollup(...): expected a number of an aggregate, as rollup(AnswersOf.answers), "
            "or rollup(lambda: AnswersOf.answers) if the aggregate is declared further down",
            model=model, field=name, given=given,
        )  # fmt: skip


class Accesses:
    """Resolves paths within one schema."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._resolving: list[tuple[type, FieldRoute]] = []

    def of_path(self, where: type, field: str, given: Any, model: type) -> Access:
        """The access of a rule's path (`Purchase.quantity`, `within(...)`, `each(...)`), which must start at `model`.

        `where` and `field` are the declaration that has the path, for errors.
        """
        path: Path = path_of(given)
        if not issubclass(model, path.declared_in):
            raise InvalidDeclaration(
                "this path starts at another model; a view by a variant's field is a view of that variant",
                declaration=where,
                field=field,
                model=model,
                path=str(path),
            )
        access = self.of_route(model, path.names)
        if not path.every:
            return access
        return self._each(access, where, field)

    def _each(self, access: Access, where: type, field: str) -> Access:
        elements = self.elements_of(access, where, field)
        if elements is None:
            raise InvalidDeclaration(
                "each(...): expected a list or a set", declaration=where, field=field, type=access.type
            )
        return elements

    def elements_of(self, access: Access, where: type, field: str) -> Access | None:
        """The access of the elements of a list or set; None for anything else."""
        collection = type_of(access.type, self.names, where, field)
        if collection.several is None:
            return None
        inner = collection.several.present.bare
        found = reference_target(collection.several)
        return access._replace(
            type=inner,
            many=True,
            target=found[0] if found else None,
            copy=found[1] if found else None,
            unordered=collection.kind == "set",
        )

    def of_route(self, model: type, route: FieldRoute) -> Access:
        """The access that starts at `model`.

        Raises:
            InvalidDeclaration: there is no such field, or the fields on the way depend on each other in a circle.
        """
        step = (model, route)
        if step in self._resolving:
            circle = [f"{owner.__name__}.{'.'.join(names)}" for owner, names in [*self._resolving, step]]
            raise InvalidDeclaration("these fields depend on each other in a circle", circle=" <- ".join(circle))
        self._resolving.append(step)
        try:
            return self._walk(model, route)
        finally:
            self._resolving.pop()

    def of_end(self, model: type, route: FieldRoute) -> Access:
        """`of_route`, but a copy at the end stands for its reference: a copy never holds a copy."""
        access = self.of_route(model, route)
        return access if access.copy is None or access.many else _reference(access)

    def _walk(self, model: type, route: FieldRoute) -> Access:
        first, *rest = route
        access = self._first(model, first)
        for place, name in enumerate(rest):
            if access.target is not None:
                return self._onwards(model, first, access, tuple(rest[place:]))
            access = self._inside(model, access, name)
        return access

    def _first(self, model: type, name: str) -> Access:
        types = types_of(model, self.names)
        if name not in types:
            raise InvalidDeclaration("there is no such field", model=model, field=name)
        access = _typed(ValuePath(name), types[name])
        default = defaults_of(model)[name]
        if is_rollup(default) and not is_counter(default):
            return access._replace(rank=1 + self._rank_of_group(GroupField.of(model, name, default)))
        return access

    def _rank_of_group(self, found: GroupField) -> int:
        """The greatest rank of what a field of an aggregate depends on: keys, conditions, the ttl, and its own fold."""
        view, rules = found.view, rules_of(found.view)
        model = self.viewed(view)
        needed = {name: rule for name, rule in rules.items() if rule.kind == "key" or name == found.field}
        given = [(name, path) for name, rule in needed.items() for path in (*rule.given_fields, *rule.condition_paths)]
        given += [("where", path) for path in (view.where.paths() if isinstance(view.where, Expression) else ())]
        given += [("ttl", view.ttl.field)] if isinstance(view.ttl, Expiry) else []
        return max((self.of_path(view, name, path, model).rank for name, path in given), default=0)

    def viewed(self, view: type[View[Any]]) -> type[Model[Any] | Aggregate[Any]]:
        """What a view is about: an entity class; of an index, an aggregate too. Raises InvalidDeclaration."""
        given = view.type_arguments[0] if view.type_arguments else None
        name = getattr(given, "__forward_arg__", given)
        found = self.names.get(name) if isinstance(name, str) else given
        if isinstance(found, type) and issubclass(found, Model):
            return found
        if not (isinstance(found, type) and issubclass(found, View)):
            raise InvalidDeclaration("a view names its model: class Recent(Index[Purchase])", view=view, given=given)
        if issubclass(view, (Index, Feed)) and issubclass(found, Aggregate):
            return found
        raise InvalidDeclaration(_OF_ROWS if issubclass(view, (Index, Feed)) else _OF_GROUPS, view=view, given=found)

    def _inside(self, model: type, access: Access, name: str) -> Access:
        """A field of a nested struct."""
        if not (isinstance(access.type, type) and issubclass(access.type, msgspec.Struct)):
            raise InvalidDeclaration(
                "a path goes through structs, copies and references only", model=model, field=name, type=access.type
            )
        types = types_of(access.type, self.names)
        if name not in types:
            raise InvalidDeclaration("there is no such field", model=access.type, field=name)
        found = _typed(access.value.behind(name), types[name])
        return found._replace(optional=access.optional or found.optional, rank=access.rank)

    def _onwards(self, model: type, first: str, access: Access, rest: FieldRoute) -> Access:
        """Through a copy or a reference."""
        assert access.target is not None
        copy = access.copy
        if issubclass(model, Aggregate) and (copy is None or rest != ("ref",)):
            raise InvalidDeclaration(_GROUP_REFERS, aggregate=model, path=".".join((first, *rest)))
        if copy is None or not is_copied(copy, rest[0]):
            if rest == ("ref",) and copy is not None:
                return _reference(access)._replace(stands_for=None)
            return self._hidden(model, access, HiddenRoute(first, access.target, rest))
        source = self.source_route(copy, rest[0])
        far = self.of_route(access.target, source)  # a circle of copies shows here
        shown = _typed(access.value.behind(rest[0]), types_of(copy, self.names)[rest[0]])
        optional = access.optional or copy.missing_ok or copy.on_delete == "clear"
        if shown.target is not None:
            return self._hidden(model, access, HiddenRoute(first, access.target, (*source, *rest[1:])))
        for name in rest[1:]:
            shown = self._inside(copy, shown, name)
        through = HiddenRoute(first, access.target, (*source, *rest[1:]))
        return shown._replace(optional=optional or shown.optional, through=through, rank=far.rank)

    def _hidden(self, model: type, access: Access, hidden: HiddenRoute) -> Access:
        far = self.of_end(hidden.target, hidden.route)
        if far.many:
            raise InvalidDeclaration(
                "a path through another entity ends at a plain value or a reference, never at a list",
                model=model, path=hidden.name,
            )  # fmt: skip
        default = defaults_of(model)[hidden.reference]
        missing_ok = getattr(access.copy or default, "missing_ok", False)
        return Access(
            ValuePath(hidden.name, is_hidden=True),
            far.type,
            access.optional or far.optional or missing_ok,
            far.target,
            hidden=hidden,
            through=hidden,
            stands_for=far.stands_for,
            rank=far.rank,
        )

    def source_route(self, copy: type[Copy[Any]], name: str) -> FieldRoute:
        """From a copy's source to the value that its field `name` takes over."""
        default = defaults_of(copy)[name]
        if isinstance(default, Path):
            if default.every or not issubclass(target_of(copy, self.names), default.declared_in):
                raise InvalidDeclaration(
                    "a copied field is its source's: shown(Question.title), or within(Question.author, Author.name)",
                    declaration=copy, field=name, path=str(default),
                )  # fmt: skip
            return default.names
        if default is not msgspec.NODEFAULT and not isinstance(default, FACTORY):
            raise InvalidDeclaration(
                "a copied field has no default and no rule but shown(...) or within(...)", declaration=copy, field=name
            )
        return (name,)


def _typed(value: ValuePath, given: FieldType) -> Access:
    """The access of a value of this type."""
    target, copy = reference_target(given) or (None, None)
    return Access(value, given.present.bare, given.optional, target, copy)


def _reference(access: Access) -> Access:
    """The reference of a copy in place of the copy."""
    assert access.target is not None
    kind: Any = Ref
    return access._replace(
        value=access.value.behind("ref"), type=kind[access.target], copy=None, stands_for=access.copy
    )
