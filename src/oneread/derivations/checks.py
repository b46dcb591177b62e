"""Checks of declarations that need no store: options, markers, and types.

Type checkers find most of these mistakes; without one, they are raised when the schema is built. See "Two kinds of
mistakes, two moments" of the API page.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from inspect import ismemberdescriptor
from typing import Any, Final, get_args, get_origin
from uuid import UUID

from oneread.derivations.copies import DELETED_OR_MISSING
from oneread.derivations.derivation import kind_of_view
from oneread.derivations.expiry import check_model_ttl, check_other_ttl
from oneread.derivations.rules import BucketSize, FeedJoin, NonePlace, Rule, rules_of
from oneread.derivations.storable import check_storable
from oneread.derivations.views import Aggregate, Feed, Index, View
from oneread.errors import InvalidDeclaration
from oneread.models.condition_checks import refuse_declared
from oneread.models.evolving import Renamed, Retyped
from oneread.models.expiry import Expiry
from oneread.models.expressions import Expression, FieldExpression
from oneread.models.fields import Marker, defaults_of
from oneread.models.metadata import ANOTHER_FIELD, describes_field
from oneread.models.model import Model, key_names
from oneread.models.paths import Path, path_of
from oneread.models.personal import Personal
from oneread.models.references import Copy, Ref
from oneread.models.registry import root_model
from oneread.models.types import FieldType, Names, field_types, types_of, unwrap
from oneread.models.variants import discriminator_of
from oneread.store.limits import MOST_SPREAD

_MADE: Final[dict[str, tuple[type, str]]] = {
    "generated": (
        UUID,
        "GENERATED makes a UUID, id: Key[UUID] = GENERATED; or numbers children, number: Key[int] = GENERATED",
    ),
    "created": (datetime, "CREATED is an instant: made_at: datetime = CREATED"),
    "updated": (datetime, "UPDATED is an instant: changed_at: datetime = UPDATED"),
}


_OF_VIEWS: Final = (Rule, FeedJoin, Path, Expression, FieldExpression, Expiry, Renamed, Retyped)
_RULE_IN_A_MODEL: Final = (
    "a rule is of a view: a model's field has a value as its default; declare the rule in a view of this model, "
    "`class Newest(Index[Post]): made_at: datetime = newest(Post.made_at)`"
)

_REFERS: Final = "a field that refers is not personal: the fields of what it refers to are, so write Personal() there"
_NO_PLACEHOLDER: Final = (
    "Personal(...) takes a function that makes a placeholder of a number, Personal(lambda number: f'name {number}'), "
    "or nothing"
)

_SHORTEST_WATCH: Final = timedelta(seconds=1)
_LONGEST_WATCH: Final = timedelta(days=366)


def check_options(cls: Any) -> None:
    """Checks the class options of a model or view."""
    _check_spread(cls)
    right, wrong = ("watched", "logged") if issubclass(cls, View) else ("logged", "watched")
    if type(vars(cls).get(wrong)) is timedelta:
        raise InvalidDeclaration(
            f"a model is logged, a view is watched: write {right} = timedelta(...)", declaration=cls
        )
    if issubclass(cls, View) and type(cls.costly) is not bool:
        raise InvalidDeclaration("costly: expected True or False", declaration=cls, given=cls.costly)
    if type(cls.max_limit) is not int or cls.max_limit < 1:
        raise InvalidDeclaration("max_limit: expected the rows of the largest page, at least 1", declaration=cls)
    if cls.stored_as is not None and (type(cls.stored_as) is not str or not cls.stored_as):
        raise InvalidDeclaration(
            "stored_as: expected a name, as stored_as = 'Purchase'", declaration=cls, given=cls.stored_as
        )


def _check_spread(cls: Any) -> None:
    given = getattr(cls, "spread", 1)
    if not issubclass(cls, (Model, Index)):
        if "spread" in vars(cls) and type(given) is int:
            raise InvalidDeclaration(
                "only models and indexes are spread; an aggregate has shards: shards = 8", declaration=cls, spread=given
            )
        return
    if type(given) is not int or not 1 <= given <= MOST_SPREAD:
        raise InvalidDeclaration(
            "spread: expected the number of ranges that the rows are in, 1 to 100", declaration=cls, spread=given
        )
    if issubclass(cls, Model) and given != root_model(cls).spread:
        raise InvalidDeclaration("a variant is spread as its model is; leave spread to the model", variant=cls)


def check_model(model: type[Model[Any]], names: Names) -> None:
    """Checks a model's options, its markers, and the fields that a variant declares again."""
    check_options(model)
    types = field_types(model, names)
    for each in types_of(model, names).values():
        check_storable(each)
        _check_personal(model, each)
    for name, default in defaults_of(model).items():
        _check_default(model, name, default)
        if isinstance(default, Marker):
            _check_marker(model, name, default, unwrap(types[name]).bare)
            _check_rollup(default, types_of(model, names)[name])
    check_model_ttl(model, names)
    _check_kept(model, "logged", "timedelta(days=7)")
    discriminator_of(model)  # refuses a field that is called like it
    root = root_model(model)
    if model is root:
        return
    if model.logged != root.logged:
        raise InvalidDeclaration("a variant is logged with its model; leave logged to the model", variant=model)
    if key_names(model) != key_names(root):
        raise InvalidDeclaration(
            "a variant has the key of its model; leave Key[...] to the model", variant=model, model=root
        )
    for name, annotation in field_types(root, names).items():
        if _plain(types[name]) != _plain(annotation):
            raise InvalidDeclaration(
                "a variant keeps the types of its model's fields; choose another name", variant=model, field=name
            )


def _check_personal(model: type, given: FieldType) -> None:
    for each in given.walk():
        found = [one for layer in each.layers for one in layer if isinstance(one, Personal)]
        if found and any(inner.kind in ("reference", "copy") for inner in each.walk()):
            raise InvalidDeclaration(_REFERS, model=model, field=given.field)
        if any(one.placeholder is not None and not callable(one.placeholder) for one in found):
            raise InvalidDeclaration(_NO_PLACEHOLDER, model=model, field=given.field)


def _check_default(model: type, name: str, default: object) -> None:
    """Refuses what is written behind a field of other declarations, and would be the value of an entity's field."""
    if isinstance(default, _OF_VIEWS) or ismemberdescriptor(default):
        raise InvalidDeclaration(_RULE_IN_A_MODEL, model=model, field=name, default=default)
    if describes_field(default):
        raise InvalidDeclaration(ANOTHER_FIELD, model=model, field=name, default=default)


def _plain(annotation: object) -> tuple[Any, bool]:
    found = unwrap(annotation)
    return found.bare, found.optional


def _check_marker(model: type, name: str, marker: Marker, bare: object) -> None:
    if marker.what == "generated" and bare is int and name in key_names(model):
        return  # the number of a child, see entity_groups
    if marker.what in _MADE:
        kind, text = _MADE[marker.what]
        if bare is not kind:
            raise InvalidDeclaration(text, model=model, field=name, type=bare)
    elif marker.what == "reference":
        if isinstance(bare, type) and issubclass(bare, Copy):
            raise InvalidDeclaration(
                "options of a copy belong in its class: on_delete = ..., missing_ok = ...",
                model=model, field=name, copy=bare,
            )  # fmt: skip
        if not any(get_origin(each) is Ref or each is Ref for each in (bare, *get_args(bare))):
            raise InvalidDeclaration(
                "reference(...) is for fields that refer: Ref[Tag], or a list of them", model=model, field=name
            )
        if marker.on_delete not in ("keep", "refuse", "delete"):
            raise InvalidDeclaration(
                "on_delete of a reference: expected keep, refuse or delete; only a copy can clear",
                model=model, field=name, on_delete=marker.on_delete,
            )  # fmt: skip
        if marker.on_delete == "delete" and marker.missing_ok:
            raise InvalidDeclaration(DELETED_OR_MISSING, model=model, field=name)


def _check_rollup(marker: Marker, given: FieldType) -> None:
    if marker.what == "rollup" and any(each.kind == "reference" for each in given.walk()):
        raise InvalidDeclaration(
            "a rollup shows no references, which entities keep themselves: read the group, or an index over groups",
            model=given.owner, field=given.field,
        )  # fmt: skip


def check_view(view: type[View[Any]], names: Names) -> None:
    """Checks a view's options, rules and condition."""
    check_options(view)
    if hasattr(view, "evolution") and "evolution" not in view.__struct_fields__:
        raise InvalidDeclaration(
            "a view has no `evolution`: its rows hold no names, so a field that is called otherwise keeps them; "
            "declare renamed(...) and retyped(...) in the model or the Copy",
            view=view,
        )
    for name, rule in rules_of(view).items():
        _check_words(view, name, rule)
    if not issubclass(view, Index):
        if not issubclass(view, Aggregate):
            check_other_ttl(view)
        if issubclass(view, (Aggregate, Feed)) and getattr(view, "unique", False):
            raise InvalidDeclaration("only an index is unique; leave this option out", view=view)
    _check_watched(view)
    kind_of_view(view).check(view, names)
    if isinstance(view.where, Expression):
        refuse_declared(view, view.where, names)
    for rule in rules_of(view).values():
        if isinstance(rule.where, Expression):
            refuse_declared(view, rule.where, names)


def _check_watched(view: type[View[Any]]) -> None:
    _check_kept(view, "watched", "timedelta(hours=1)")
    if view.watched is not None and not kind_of_view(view).can_be_watched:
        raise InvalidDeclaration(
            "this kind of view has no rows that change by themselves; watch an index over it", view=view
        )


def _check_kept(declaration: type, option: str, example: str) -> None:
    """Refuses what is not a time for which changes are kept."""
    given: Any = getattr(declaration, option)
    if given is not None and (type(given) is not timedelta or not _SHORTEST_WATCH <= given <= _LONGEST_WATCH):
        raise InvalidDeclaration(
            f"{option}: expected how long changes are kept, from a second to 366 days: {option} = {example}",
            declaration=declaration, given=given,
        )  # fmt: skip


def _check_words(view: type, name: str, rule: Rule) -> None:
    for word, known in ((rule.none, get_args(NonePlace)), (rule.size, get_args(BucketSize))):
        if word is not None and word not in known:
            raise InvalidDeclaration("unknown word in a rule", view=view, field=name, given=word, known=known)
    if rule.kind == "shown" and path_of(rule.field).every:
        raise InvalidDeclaration(
            "a row shows the whole list: shown(Post.tags); each(...) is for by(...)", view=view, field=name
        )
