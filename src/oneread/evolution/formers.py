"""Former views: what programs of the newest schema write although they do not declare it.

A view that was edited in place is answered by its former generation until it is built: the stored schema keeps that one
under the name of the view and its number, `Home~3`. A view that is not declared any more is read by older programs. See
docs/decisions/0147-a-view-edited-in-place.md and 0158-changes-that-cut-off.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from oneread.evolution.declare import DeclaredView
from oneread.models.versions import StoredRule, StoredRules, StoredView, ViewState

_UNSTORED: Final = "the rules of its former generation are not in the store"
_NOT_BUILT: Final = "its former generation is not built either"
_NOT_COMPLETE: Final = "it is not built"
_UNKEPT: Final = "its rules are not in the store"
_OTHER_FIELDS: Final = "a field that it takes is changed as well"
_PAIRED: Final = "it replaces a view, or is replaced"
NAME_TAKEN: Final = "another view has the name that its former generation would have"
OTHER_MODEL: Final = "it is about another model, or another aggregate"
EMPTY: Final = "the store has no entities of its model"


def former_name(views: Mapping[str, StoredView], name: str) -> str:
    """The stored name of the former generation of a view; empty if it has none."""
    return next((former for former, view in views.items() if view.former_of == name), "")


def view_of_former(views: Mapping[str, StoredView], name: str) -> str:
    """The view of whose former generation this is a keyspace; empty for what is of no former generation."""
    return next((view.former_of for former, view in views.items() if view.former_of and _is_of(name, former)), "")


def former_of_part(views: Mapping[str, StoredView], owner: str) -> str:
    """What the former generation of a view is called, or of an index that the schema adds to a view; empty for none."""
    found, (view, _, part) = former_name(views, owner), owner.rpartition(".")
    former = "" if found or not view else former_name(views, view)
    return f"{former}.{part}" if former else found


def keyspaces_of(views: Mapping[str, StoredView], name: str) -> list[str]:
    """The stored names of a view's keyspaces and of what the schema adds to it, its own first."""
    return [name, *(each for each in views if each != name and _is_of(each, name))]


def _is_of(name: str, former: str) -> bool:
    return name == former or name.startswith(f"{former}.")


def rows_of_formers(views: Mapping[str, StoredView], kind: str) -> int:
    """The rows that former generations take of an entity, without the elements of lists and the entries of feeds."""
    found: list[str] = []
    for name, view in views.items():
        if (view.former_of or view.undeclared) and view.rules is not None:
            rows = keyspaces_of(views, name)
            is_feed = view.rules.feed is not None
            found += (
                [each for each in rows if each.startswith((f"{name}.items", f"{name}.members"))] if is_feed else rows
            )
            found += [name] if view.rules.unique else []
    return sum(views[each].kind == kind for each in found)


def moved_name(view: DeclaredView, generation: int) -> str:
    """What this generation of a view is called once the view has another one."""
    return f"{view.name}~{generation}"


def next_view(number: tuple[int, int], state: ViewState, name: str, view: DeclaredView, watched: int) -> StoredView:
    """A keyspace of a view with a number and generation; the rules are with the view's own one."""
    rules = view.stored if name == view.name else None
    return StoredView(*number, state, view.kind, view.fields, view.model, watched, rules)


def why_not_served(former: StoredView, view: DeclaredView, is_changed: Callable[[str, str], bool]) -> str:
    """Why a former generation cannot answer in a view's place; empty if it can.

    `is_changed` says of a model and a path whether values there are others than they were, or called otherwise.
    """
    if former.rules is None or view.stored is None:
        return _UNSTORED
    if former.state != "readable":
        return _NOT_BUILT
    if view.is_paired:
        return _PAIRED
    if any(is_changed(model, path) for model, path in steps_of_rules(former.rules)):
        return "a field that its former generation takes is changed as well"
    keys = [[rule.found_by for rule in each.key] for each in (former.rules, view.stored)]
    if view.is_marked and keys[0] != keys[1]:
        return "its marks are places in another order"
    return _why_another(former.rules, view.stored)


def why_not_kept(known: StoredView, is_changed: Callable[[str, str], bool]) -> str:
    """Why a view that is not declared any more cannot be written for older programs; empty if it can.

    `is_changed` is as for former generations.
    """
    if known.rules is None or (known.watched and not known.rules.watched):
        return _UNKEPT
    if known.state != "readable":
        return _NOT_COMPLETE
    return _OTHER_FIELDS if any(is_changed(model, path) for model, path in steps_of_rules(known.rules)) else ""


def steps_of_rules(rules: StoredRules) -> Iterator[tuple[str, str]]:
    """(model, path) of each value that rules read, and of each reference on the way to it."""
    for way in (*(way for rule in rules.rules for way in (*rule.ways, *rule.conditions)), *rules.conditions):
        yield from way


def _why_another(before: StoredRules, after: StoredRules) -> str:
    """Why rows by the rules before cannot stand for rows by those after."""
    if before.kind != after.kind or before.unique != after.unique:
        return "it is another kind of view"
    if before.model_ttl != after.model_ttl:
        return "its model has another ttl"
    keys: list[list[object]] = [[rule.found_by for rule in each.key] for each in (before, after)]
    if after.kind == "feed":
        keys = [[rule.found_by for rule in each.key if not rule.descending] for each in (before, after)]
    if (after.unique or after.kind != "index") and keys[0] != keys[1]:
        return "it is found by another key"
    claims = [(rules.where, rules.key, rules.ttl) for rules in (before, after)]
    if after.unique and claims[0] != claims[1]:
        return "its former generation would claim other values"
    known = {rule.name: rule for rule in before.rules}
    return next(filter(None, (_why_another_field(known.get(rule.name), rule) for rule in after.rules)), "")


def _why_another_field(before: StoredRule | None, after: StoredRule) -> str:
    if before is None:
        return f"its former generation has no {after.name}"
    fits = before.value_type == after.value_type and (after.is_optional or not before.is_optional)
    return "" if fits else f"{after.name} was {before.type}"
