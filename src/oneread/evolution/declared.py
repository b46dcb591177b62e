"""A declared schema as what is stored can be compared with it.

See "Schema history" of the decisions page.
"""

from __future__ import annotations

import msgspec

from oneread.models.evolving import EvolutionStep
from oneread.models.expressions import Expression
from oneread.models.versions import Description


class Far(msgspec.Struct, frozen=True):
    """A value that an entity holds of another one: what it is called there, and where it is from."""

    path: str
    target: str
    route: str


class DeclaredModel(msgspec.Struct, frozen=True):
    """An entity class as declared.

    Arguments:
        name: in the store.
        kind: the stored name of the model whose table it lives in.
        fields: as described.
        cls: the name of the class.
        keys: the fields of its key, in order.
        blanks: fields that an entity from before may lack: they have a default, or may be None.
        nullable: copies whose fields may be None whatever their type.
        nested: `Class.field` of the fields of nested classes that have a default.
        arrays: nested classes whose elements are arrays.
        promises: of plain references, by field.
        targets: the stored name of the model that each reference and copy refers to, by field.
        copied: values that its copies show.
        hidden: values that it holds out of sight.
        tells: paths of the values that others copy from this kind, in order.
        steps: what it says of its past.
        copy_steps: what the class of each of its copies says, by field.
        was: what `retyped` says a field was, as described, by path: `price`, `buyer.name`.
    """

    name: str
    kind: str
    fields: Description
    cls: str
    keys: tuple[str, ...]
    blanks: frozenset[str] = frozenset()
    nullable: frozenset[str] = frozenset()
    nested: frozenset[str] = frozenset()
    arrays: tuple[str, ...] = ()
    promises: Description = ()
    targets: Description = ()
    copied: tuple[Far, ...] = ()
    hidden: tuple[Far, ...] = ()
    tells: tuple[str, ...] = ()
    steps: tuple[EvolutionStep, ...] = ()
    copy_steps: dict[str, tuple[EvolutionStep, ...]] = {}
    was: dict[str, frozenset[str]] = {}


class DeclaredRule(msgspec.Struct, frozen=True):
    """One rule of a view: its words, with room for the path and its type between, and the way to the value.

    Arguments:
        name: of the view's field.
        before, after: words of the rule, in front of the path and behind its type.
        path: of the field, as written; empty for a count of entities.
        way: (stored name of a model, path) from reference to reference; the last one is the value.
    """

    name: str
    before: tuple[str, ...]
    path: str
    after: tuple[str, ...]
    way: Description = ()


class DeclaredView(msgspec.Struct, frozen=True):
    """A view as declared.

    Arguments:
        name: in the store.
        kind: the stored name of the model whose table it is about.
        model: the stored name of the entity class that it is about.
        fields: as described.
        hidden: the stored names of its least and greatest fields.
        rules: what `fields` is made of.
        condition: its `where`.
        conditions: the ways to the values that the condition reads, by path.
        options: the class options that its rows depend on.
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
    """What the store keeps of a rule, were its path called `path` and of the type that stands under it."""
    return " ".join(filter(None, (*rule.before, path, types.get(path, ""), *rule.after)))
