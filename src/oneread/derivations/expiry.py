"""The class option `ttl`: its checks, and the indexes by which a sweep finds what has expired.

An expiry index is an index like others, which the schema adds for each `ttl`: entities in the order of the field that
their expiry is counted from. So verify, repair, backfill, costs and evolution know it. See docs/explanation/expiry.md
and docs/decisions/0053-expiry.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import MemberDescriptorType, new_class
from typing import Any, ClassVar, Final, Generic, TypeVar

from oneread.derivations.access import Accesses
from oneread.derivations.rules import oldest
from oneread.derivations.views import Aggregate, Index, View
from oneread.errors import InvalidDeclaration, perhaps
from oneread.models.expiry import Expiry, ExpiryRule, rule_of
from oneread.models.model import Model, stored_name
from oneread.models.paths import Path, path_of
from oneread.models.registry import root_model
from oneread.models.types import Names, types_of
from oneread.models.versions import Description

V = TypeVar("V", bound=Model[*tuple[Any, ...]])

_LEAST: Final = timedelta(milliseconds=1)
_PART: Final = "expiry"
"""What an expiry index is called, behind the name of what it lists."""
_WRITE_MODEL: Final = (
    'ttl: expected when an entity expires: ttl = expires("expires_at"), or '
    'expires("made_at", after=timedelta(days=30)), with the name of a field'
)
_WRITE_VIEW: Final = (
    "ttl: expected when a row, or what an entity contributes, expires, by a field of the model or within(...): "
    "ttl = expires(Post.made_at, after=timedelta(days=7))"
)
_OF_GROUPS: Final = (
    "an index over groups has no ttl: its rows follow from the numbers of groups, which no commit changes as time "
    "passes; give the aggregate the ttl, and a group goes with the last of its entities; or order the index by the "
    "instant, and page it with since="
)
_OWN_INSTANT: Final = (
    "the ttl of a unique index is counted from a field of the entity itself, as a unique value is its own: a copied "
    "instant that moves could bring back a value which another entity has taken since, with no caller to refuse it to"
)


class ExpiryIndex(Index[V], Generic[V], frozen=True):
    """The base class of expiry indexes; `lists` is the model or the view that has the ttl."""

    is_added: ClassVar[bool] = True
    lists_expired: ClassVar[bool] = True
    lists: ClassVar[type]


def check_model_ttl(model: type[Model[Any]], names: Names) -> None:
    """Raises InvalidDeclaration for a wrong `ttl` of a model."""
    root: Any = root_model(model)
    if model.ttl is not root.ttl:
        raise InvalidDeclaration("a variant expires as its model does; leave ttl to the model", variant=model)
    given: Any = root.ttl
    if model is not root or given is None:
        return
    if not isinstance(given, Expiry) or not isinstance(given.field, str):
        raise InvalidDeclaration(_WRITE_MODEL, model=model, ttl=given)
    types = types_of(model, names)
    if given.field not in types:
        near = perhaps(given.field, types)
        raise InvalidDeclaration("ttl: the model has no such field", declaration=model, field=given.field, **near)
    _check_time(model, given, given.field, types[given.field].present.bare)


def check_view_ttl(view: type[Index[Any] | Aggregate[Any]], model: type[Any], names: Names) -> None:
    """Raises InvalidDeclaration for a wrong `ttl` of an index or aggregate of this model, or of groups."""
    given: Any = view.ttl
    if given is None:
        return
    if not issubclass(model, Model):
        raise InvalidDeclaration(_OF_GROUPS, view=view, aggregate=model)
    if issubclass(view, Aggregate) and _PART in view.__struct_fields__:
        raise InvalidDeclaration(
            f"the index by which a sweep finds what has expired is called `{_PART}`; call this field otherwise",
            view=view, field=_PART,
        )  # fmt: skip
    if not isinstance(given, Expiry) or not isinstance(given.field, (MemberDescriptorType, Path)):
        raise InvalidDeclaration(_WRITE_VIEW, view=view, ttl=given)
    path = path_of(given.field)
    if not issubclass(model, path.declared_in):
        raise InvalidDeclaration(
            "the field of a ttl is one of the view's model", view=view, model=model, field=str(path)
        )
    access = Accesses(names).of_path(view, "ttl", path, model)
    if issubclass(view, Index) and view.unique and (access.through is not None or access.rank):
        raise InvalidDeclaration(_OWN_INSTANT, view=view, field=str(path))
    _check_time(view, given, str(path), list[access.type] if access.many else access.type)  # type: ignore[name-defined]


def _check_time(declaration: type, given: Expiry, field: str, found: object) -> None:
    """Refuses a field that is not a time, and a life that is not a positive one."""
    if found is not datetime:
        raise InvalidDeclaration(
            "ttl: expected a field of the type datetime, or datetime | None",
            declaration=declaration, field=field, type=found,
        )  # fmt: skip
    if given.after is None:
        return
    if type(given.after) is not timedelta:
        raise InvalidDeclaration(
            "ttl: expected after=timedelta(...), as expires(..., after=timedelta(days=30))",
            declaration=declaration, after=given.after,
        )  # fmt: skip
    if given.after < _LEAST:
        raise InvalidDeclaration(
            "ttl: expected a life of at least a millisecond; leave `after` out where the field is the instant of "
            "expiry itself",
            declaration=declaration, after=given.after,
        )  # fmt: skip


def check_other_ttl(view: type[View[Any]]) -> None:
    """Raises InvalidDeclaration for a `ttl` of a view that is neither an index nor an aggregate."""
    if getattr(view, "ttl", None) is not None and "ttl" not in view.__struct_fields__:
        raise InvalidDeclaration(
            "only models, indexes and aggregates have a ttl; the entries of a feed leave it by expires_after, and with "
            "their items",
            view=view,
        )


def model_expiry(model: type[Any]) -> ExpiryRule | None:
    """When the entities of a class expire; None if they do not."""
    given = root_model(model).ttl
    return None if given is None else rule_of(given)


def own_expiry(view: type[View[Any]]) -> ExpiryRule | None:
    """When the rows of a view, or contributions to groups, leave it by its own ttl; None if it has none.

    Those of its expiry index leave with them, so that an entity is not found again.
    """
    source: Any = view.lists if issubclass(view, ExpiryIndex) else view
    given = source.ttl if issubclass(source, (Index, Aggregate)) else None
    return None if given is None else rule_of(given)


def row_expiries(view: type[View[Any]], model: type[Any]) -> tuple[ExpiryRule, ...]:
    """The rules of which the first ends a row of an index of this model, where its rows hold their expiry."""
    if not issubclass(view, Index) or view.lists_expired or not issubclass(model, Model):
        return ()
    found = (model_expiry(model), own_expiry(view))
    return tuple(each for each in found if each is not None)


def has_expiring_rows(view: type[View[Any]], model: type[Any]) -> bool:
    """Whether rows of a view, or contributions to groups, leave it although their entities are stored."""
    return bool(row_expiries(view, model)) or own_expiry(view) is not None


def expiry_options(view: type[View[Any]], model: type[Any]) -> Description:
    """What the store keeps of the ttls that the rows of a view depend on."""
    if issubclass(view, Aggregate):
        own = own_expiry(view)
        return () if own is None else (("ttl", str(own)),)
    rules = (expiry_of(view),) if issubclass(view, ExpiryIndex) else row_expiries(view, model)
    return tuple(("ttl", str(each)) for each in rules)


def expiry_of(view: type[View[Any]]) -> ExpiryRule:
    """When what an expiry index lists expires."""
    return rule_of(expiry_lists(view).ttl)


def expiry_lists(view: type[View[Any]]) -> Any:
    """The model or view of which an expiry index lists what expires."""
    assert issubclass(view, ExpiryIndex), "asked only of expiry indexes"
    return view.lists


def expiry_indexes(
    models: Iterable[type[Model[Any]]], views: Mapping[type[View[Any]], type[Any]]
) -> tuple[type[ExpiryIndex[Any]], ...]:
    """The expiry index of each model and view with a ttl; `views` say which model each is about."""
    found = [_index_of(model, model, None) for model in models if model is root_model(model) and model.ttl is not None]
    having = [(view, model) for view, model in views.items() if issubclass(view, (Index, Aggregate)) and view.ttl]
    return (*found, *(_index_of(view, model, view.where) for view, model in having))


def _index_of(lists: Any, model: type[Model[Any]], where: Any) -> type[ExpiryIndex[Any]]:
    since = lists.ttl.field
    name = f"{stored_name(lists)}.{_PART}"

    def declare(space: dict[str, Any]) -> None:
        space |= {
            "__module__": lists.__module__,
            "__annotations__": {"since": datetime},
            "__doc__": f"{lists.__name__} in the order in which it expires.",
            "since": oldest(getattr(model, since) if isinstance(since, str) else since),
            "stored_as": name,
            "spread": 1 if issubclass(lists, Aggregate) else lists.spread,
            "where": where,
            "lists": lists,
        }

    return new_class(f"{lists.__name__}.{_PART}", (ExpiryIndex[model],), {}, declare)  # type: ignore[valid-type]
