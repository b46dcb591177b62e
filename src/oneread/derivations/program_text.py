"""The program of a class as text for people. See docs/decisions/0163-programs-of-operations.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from oneread.derivations.copies import Reference
from oneread.derivations.entity_type import EntityType
from oneread.derivations.operations import ProgramWords, Statements

_ONLY_PYTHON: Final = "its view writes Python statements of its own, which nothing else runs"


class ExplainedProgram(msgspec.Struct, frozen=True):
    """What follows in its views from an entity of one class, as the operations that are run for each write of it.

    Arguments:
        model: the class.
        filled: what is taken of other entities and groups before the operations run, a line for each field.
        views: the operations of each view, by its name and in the order in which they run. A value that several need is
            made once, `s0`, by the first that needs it.
        in_python: the views of which some operations are Python statements of their own.
    """

    model: str
    filled: tuple[str, ...]
    views: dict[str, tuple[str, ...]]
    in_python: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [self.model, *(f"  {line}" for line in self.filled)]
        for view, operations in self.views.items():
            lines += [view, *(f"  {line}" for line in operations)]
        return "\n".join([*lines, *(f"note: {view}: {_ONLY_PYTHON}" for view in self.in_python)])


def explained_program(entity_type: EntityType) -> ExplainedProgram:
    """The program of an entity class."""
    views: dict[str, tuple[str, ...]] = {}
    in_python: list[str] = []
    words = ProgramWords(entity_type.emitters.encoded)
    for program in entity_type.emitters.programs():
        words.lines = []
        program.describe(words)
        name = program.view.__name__
        views[name] = tuple(words.lines)
        if any(isinstance(each, Statements) for each in (*program.once, *program.rows)):
            in_python.append(name)
    return ExplainedProgram(entity_type.cls.__name__, tuple(_filled(entity_type)), views, tuple(in_python))


def _filled(entity_type: EntityType) -> Iterator[str]:
    """What is filled in before anything is emitted."""
    for each in entity_type.references:
        yield f"{each.name} refers to {_target(each)}"
    for total in entity_type.rollups:
        number = total.number
        of = "counter" if number is None else f"{number.view.__name__}.{number.field}"
        yield f"{total.field} shows {of}"


def _target(reference: Reference) -> str:
    """What a reference refers to, and what is taken of it."""
    shown = [f"{name} of its {route}" if name != route else name for name, route in reference.routes]
    hidden = [f"{each.name} for views" for each in reference.hidden]
    parts = [f"{'each ' if reference.many else ''}{reference.kind.cls.__name__}"]
    if shown or hidden:
        parts.append(f"and takes {', '.join([*shown, *hidden])}")
    if reference.missing_ok:
        parts.append("which may be missing")
    return ", ".join(parts)
