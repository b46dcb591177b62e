"""A declared schema as what is stored can be compared with it.

See "Schema history" of the decisions page.
"""

from __future__ import annotations

import msgspec

from oneread.models.evolving import EvolutionStep
from oneread.models.expressions import Expression
from oneread.models.versions import Description


class Far(msgspec.Struct, frozen=True):
    """A value that an entity holds of another one: its path in the holder, and the source's model and path."""

    path: str
    target: str
    route: str


class DeclaredModel(msgspec.Struct, frozen=True):
    """An entity class as declared; `name`, `kind` and `targets` are stored names, types are described as text.

    `blanks` are fields that a stored entity may lack: they have a default, or may be None. `addable` are those of them
    that a program which does not know them can leave alone: plain values and references without a guard. `nullable`
    are copies whose fields may be None whatever their type. `nested` holds `Class.field` of the fields of nested
    classes that have a default, `arrays` the nested classes stored as arrays. `copied` are shown and `hidden` are
    hidden copies;
    `copied_from` are paths of the values that holders copy from this kind. `steps`, `copy_steps` and `was` are the
    declared renamings and former types, of the class, of its copies by field, and by path.
    """

    name: str
    kind: str
    fields: Description
    cls: str
    keys: tuple[str, ...]
    blanks: frozenset[str] = frozenset()
    addable: frozenset[str] = frozenset()
    nullable: frozenset[str] = frozenset()
    nested: frozenset[str] = frozenset()
    arrays: tuple[str, ...] = ()
    promises: Description = ()
    targets: Description = ()
    copied: tuple[Far, ...] = ()
    hidden: tuple[Far, ...] = ()
    copied_from: tuple[str, ...] = ()
    steps: tuple[EvolutionStep, ...] = ()
    copy_steps: dict[str, tuple[EvolutionStep, ...]] = {}
    was: dict[str, frozenset[str]] = {}


class DeclaredRule(msgspec.Struct, frozen=True):
    """One rule of a view: the words `before` its path and `after` its type, and the way to the value.

    `path` is empty for a count of entities; `way` holds (stored name of a model, path) for each reference on the way,
    and the value last.
    """

    name: str
    before: tuple[str, ...]
    path: str
    after: tuple[str, ...]
    way: Description = ()


class DeclaredView(msgspec.Struct, frozen=True):
    """A view as declared; `name`, `kind` and `model` are stored names.

    `hidden` are the stored names of its least and greatest fields, `condition` is its `where`, `conditions` are the
    ways to the values that the condition reads, by path, and `options` the class options that its rows depend on.
    """

    name: str
    kind: str
    model: str
    fields: Description
    hidden: tuple[str, ...] = ()
    rules: tuple[DeclaredRule, ...] = ()
    condition: Expression | None = None
    conditions: dict[str, Description] = {}
    options: Description = ()


class DeclaredSchema(msgspec.Struct, frozen=True):
    """A whole schema as declared, and the digest that its version is found by."""

    models: tuple[DeclaredModel, ...]
    views: tuple[DeclaredView, ...]
    digest: bytes


def rule_text(rule: DeclaredRule, path: str, types: dict[str, str]) -> str:
    """A rule as the store describes it, with this path and its type from `types`."""
    return " ".join(filter(None, (*rule.before, path, types.get(path, ""), *rule.after)))
