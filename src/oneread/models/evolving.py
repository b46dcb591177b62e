"""Evolution steps of a class: fields that had another name or another type.

A class keeps its steps while a store may hold rows written before them; `oneread migrate status` reports that. See
docs/explanation/schema-evolution.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from oneread.errors import InvalidDeclaration


class Renamed(msgspec.Struct, frozen=True):
    """A field that had another name."""

    name: str
    to: str


class Retyped(msgspec.Struct, frozen=True):
    """A field that had another type, and the function that converts its old values."""

    name: str
    was: Any
    by: Callable[[Any], Any]


EvolutionStep: TypeAlias = Renamed | Retyped


def renamed(name: str, *, to: str) -> Renamed:
    """Declares that the field `to` was called `name`: `evolution = (renamed("name", to="title"),)` in a Model or Copy.

    Arguments:
        name: its name in older rows.
        to: its present name, or the next one when it was renamed again.
    """
    return Renamed(name, to)


def retyped(name: str, *, was: Any, by: Callable[[Any], Any]) -> Retyped:
    """Declares a field's former type: `evolution = (retyped("price", was=int, by=Decimal),)` in a Model or Copy.

    Arguments:
        name: the field's present name.
        was: the type it had, as it was declared.
        by: converts an old value to the type that followed. Called on each read of an older row, so it must be quick,
            deterministic, and accept every value that may be stored.
    """
    return Retyped(name, was, by)


def steps_of(cls: type) -> tuple[EvolutionStep, ...]:
    """The evolution steps of a class, those of its bases first.

    Raises:
        InvalidDeclaration: `evolution` is not a tuple of `renamed(...)` and `retyped(...)`, or contradicts itself.
    """
    found: list[EvolutionStep] = []
    for base in reversed(cls.__mro__):
        given = vars(base).get("evolution", ())
        if not isinstance(given, tuple):
            raise InvalidDeclaration(
                "evolution is a tuple: evolution = (renamed('name', to='title'),)", declaration=cls, given=type(given)
            )
        found.extend(given)
    for each in found:
        _check_step(cls, each)
    _check_chains(cls, found)
    return tuple(found)


def _check_step(cls: type, step: object) -> None:
    if not isinstance(step, Renamed | Retyped):
        raise InvalidDeclaration("evolution holds renamed(...) and retyped(...)", declaration=cls, given=step)
    names = (step.name, step.to) if isinstance(step, Renamed) else (step.name,)
    if not all(type(name) is str and name for name in names):
        raise InvalidDeclaration("a field's name is a text that is not empty", declaration=cls, given=names)
    if isinstance(step, Retyped) and not callable(step.by):
        raise InvalidDeclaration("`by` is a function of one value", declaration=cls, field=step.name, given=step.by)


def _check_chains(cls: type, steps: Iterable[EvolutionStep]) -> None:
    renames = [each for each in steps if isinstance(each, Renamed)]
    names = [each.name for each in renames]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidDeclaration(
            "a field is renamed twice; continue the chain from the new name", declaration=cls, fields=twice
        )
    further = {each.name: each.to for each in renames}
    for name in names:
        seen = {name}
        while (name := further.get(name, "")) and name not in seen:
            seen.add(name)
        if name:
            raise InvalidDeclaration("these renamings form a circle", declaration=cls, field=name)


def latest_names(steps: Iterable[EvolutionStep], stored: Iterable[str], declared: Iterable[str]) -> dict[str, str]:
    """Declared names by stored name, without dropped fields.

    A renaming applies where the stored name leads to a declared one that is not stored yet; the others are done. Of two
    that lead to the same name, the one with fewer steps applies.
    """
    further = {each.name: each.to for each in steps if isinstance(each, Renamed)}
    known, wanted = tuple(stored), set(declared)
    nearest: dict[str, tuple[int, str]] = {}
    for name in known:
        target, distance = name, 0
        while target in further:
            target, distance = further[target], distance + 1
        if distance and target in wanted and target not in known:
            nearest[target] = min(nearest.get(target, (distance, name)), (distance, name))
    moved = {name: target for target, (_distance, name) in nearest.items()}
    return moved | {name: name for name in known if name in wanted and name not in moved}
