"""Views that replace another one: reads of either are answered by one of the two, as rows of the view that was asked.

`replaces = Home` in a view; a view that is edited in place replaces its own former generation. Both are written; which
of them answers is decided when a program reads: see `database.sides`. See
docs/decisions/0141-a-view-replaces-another.md and docs/decisions/0147-a-view-edited-in-place.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from oneread.derivations.derivation import CompiledView, kind_of_view
from oneread.derivations.keyed import KeyRule
from oneread.derivations.views import Feed, View
from oneread.encoding.codegen import function
from oneread.errors import InvalidDeclaration
from oneread.models.fingerprints import describe
from oneread.models.model import Model
from oneread.models.references import ref_class
from oneread.models.types import Named
from oneread.models.versions import Type


class AtOnce(msgspec.Struct, frozen=True):
    """The class option `replaces` of a view that answers as soon as it is built."""

    view: Any


def at_once(view: Any) -> AtOnce:
    """What `replaces` of a view is that answers in the place of another once it is built.

    `replaces = at_once(OldHome)` in the class of the new view.

    Until then reads of both are answered by the former view, from then on by the new one, in every program that
    declares both, without a restart.
    """
    return AtOnce(view)


class Replacing(NamedTuple):
    """A view and the one that it replaces."""

    old: CompiledView
    new: CompiledView
    shared: int
    """The first elements of the key that both have: a query that names more of them is answered by the view asked."""
    shows_all: bool
    """Whether rows of the former view have all that rows of the new one show."""

    @property
    def is_launched(self) -> bool:
        """Whether a launch by percent decides which of the two answers, once both can."""
        return self.new.cls.replaces is not None and not isinstance(self.new.cls.replaces, AtOnce)

    def side(self, cls: type) -> CompiledView:
        """The one of the two that has this class."""
        return self.new if cls is self.new.cls else self.old


def replaced_views(views: Mapping[type, CompiledView], names: Named) -> dict[type, Replacing]:
    """Each of two views of which one replaces the other; raises InvalidDeclaration where the two do not fit."""
    found: dict[type, Replacing] = {}
    for cls, view in views.items():
        option: Any = view.cls.replaces
        if option is None:
            continue
        given = option.view if isinstance(option, AtOnce) else option
        old = views.get(given) if isinstance(given, type) else None
        if old is None:
            raise InvalidDeclaration(
                "replaces: expected another view of the schema, as replaces = at_once(OldHome)", view=cls, given=given
            )
        for each in (cls, given):
            if each in found or each is view.cls is given:
                raise InvalidDeclaration("a view replaces one other, and is not replaced itself", view=cls, twice=each)
        found[cls] = found[given] = _compared(old, view, names)
    for view in [each for each in views.values() if each.cls.former_of is not None]:
        now = views[view.cls.former_of]
        shared = sum(each.width for each in _shared_parts(view, now))
        found[now.cls] = Replacing(view, now, shared, shows_all=True)
    return found


def _compared(old: CompiledView, new: CompiledView, names: Named) -> Replacing:
    facts = {"view": new.cls, "replaces": old.cls}
    if kind_of_view(old.cls) is not kind_of_view(new.cls) or old.can_find != new.can_find:
        raise InvalidDeclaration("a view replaces one of its own kind: an index, an aggregate or a feed", **facts)
    if (old.model, old.groups) != (new.model, new.groups):
        raise InvalidDeclaration("a view replaces one of the same model or aggregate", **facts)
    if getattr(old.cls, "marks", False) or getattr(new.cls, "marks", False):
        raise InvalidDeclaration("marks are of one feed: a feed with marks is not replaced, and replaces none", **facts)
    shown, wanted = _fields(new.cls, names), _fields(old.cls, names)
    for name, type_ in wanted.items():
        if name not in shown:
            raise InvalidDeclaration("a view shows what the one shows that it replaces", **facts, lacks=name)
        if shown[name] != type_:
            raise InvalidDeclaration(
                "a field has the type that it has in the view that is replaced", **facts, field=name,
                declared=str(shown[name]), expected=str(type_),
            )  # fmt: skip
    shared = _shared_parts(old, new)
    needed = old.key.parts if old.can_find else old.key.parts[:-1] if issubclass(old.cls, Feed) else ()
    if len(shared) < len(needed) or (old.can_find and len(old.key.parts) != len(new.key.parts)):
        raise InvalidDeclaration(
            "a view is found by the key of the one that it replaces: the same rules first, in the same order", **facts,
            key=[each.field for each in old.key.parts],
        )  # fmt: skip
    return Replacing(old, new, sum(each.width for each in shared), shown == wanted)


def _fields(view: type[View[Any]], names: Named) -> dict[str, Type]:
    return {name: type_ for name, type_, _default in describe(view, names)}


def _shared_parts(old: CompiledView, new: CompiledView) -> list[KeyRule]:
    """The first rules of both keys that take the same arguments."""
    shared: list[KeyRule] = []
    for one, other in zip(old.key.parts, new.key.parts, strict=False):
        rules = [(each.field, each.rule.size, each.rule.hashed, each.width) for each in (one, other)]
        if rules[0] != rules[1]:
            break
        shared.append(one)
    return shared


def converter(asked: type[View[Any]]) -> Callable[[Any], Any]:
    """From a row of the other view to a row of the one that was asked, by the names of fields.

    A group of a former generation of an aggregate is referred to as the same group of that aggregate.
    """
    of: Any = asked.type_arguments[0]
    scope: dict[str, Any] = {"asked": asked}
    values = {name: f"row.{name}" for name in asked.__struct_fields__}
    if "source" in values and isinstance(of, type) and not issubclass(of, Model):
        scope["refer"] = ref_class(of)
        values["source"] = "refer(row.source.key)"
    given = ", ".join(f"{name}={value}" for name, value in values.items())
    made: Callable[[Any], Any] = function("convert", "row", [f"return asked({given})"], scope)
    return made
