"""Entity groups: children refer to their root by the parts of their own key.

A child is a holder of its root like others: a reference that needs no field, is new only with the child, and forbids
that the root is deleted. See "Children of a group" of the decisions page, rules G1 to G4 of the commit protocol and
docs/decisions/0051-entity-groups-and-sequences.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from oneread.derivations.access import NO_VALUE, Access
from oneread.derivations.copies import Reference, Source
from oneread.errors import InvalidDeclaration, MissingReference
from oneread.models.fields import GENERATED, defaults_of
from oneread.models.model import Model
from oneread.models.registry import EntityKind, root_model

CHILD_OF: Final = "child_of"
"""The name of the reference, which no field can have."""

_NOT_A_ROOT: Final = "child_of: expected a model of the schema that is not a variant, and not a child itself"


class RootReference(Reference, frozen=True, kw_only=True):
    """The reference of a child to its root."""

    child: EntityKind

    def root_parts(self, entity: object) -> tuple[Any, ...]:
        """The parts of the root's key that are in the child's."""
        parts = self.child.parts(entity)
        return tuple([parts[place] for place in self.child.root_places])

    def write_keys(self, variable: str, scope: dict[str, object]) -> list[str]:
        """Statements that ask `keys`: there is no field that refers."""
        scope[f"keys_{variable}"] = self.keys
        return [f"{variable} = keys_{variable}(e)"]

    def keys(self, entity: object) -> list[bytes]:
        """The root's key."""
        if entity is None:
            return []
        try:
            return [self.kind.key(self.root_parts(entity))]
        except AttributeError:  # of the stand-in for a dumped entity, which has its copies only
            return []

    def refuse_missing(self, entity: Model[Any], source: Source) -> None:  # noqa: ARG002 - as of other references
        """Raises MissingReference: an entity group has a root."""
        key = dict(zip(self.kind.names, self.root_parts(entity), strict=True))
        raise MissingReference(
            "the root of this child does not exist; save it before, or in the same transaction",
            model=type(entity).__name__, root=self.kind.cls, key=key,
        )  # fmt: skip


def root_reference(cls: type[Model[Any]], kinds: Mapping[type, EntityKind]) -> dict[str, Reference]:
    """The reference of the children of a class to their root, by its name; none for other classes.

    Raises:
        InvalidDeclaration: the class cannot be a child of what it names.
    """
    root: Any = kinds[cls].child_of
    if cls.child_of is not root_model(cls).child_of:
        raise InvalidDeclaration("a variant is in the group of its model; leave child_of to it", variant=cls)
    if root is None:
        return {}
    if root not in kinds or root is not root_model(root) or root.child_of is not None:
        raise InvalidDeclaration(_NOT_A_ROOT, model=cls, child_of=root)
    kind, own = kinds[root], kinds[cls]
    if not own.root_places:
        raise InvalidDeclaration(
            "the key of a child refers to its root, or contains the parts of its key by the same names and types",
            model=cls, root=root, key=_types_of(own), needed=_types_of(kind), write=f"Key[Ref[{root.__name__}]]",
        )  # fmt: skip
    defaults = defaults_of(cls)
    made = [name for name in (own.names[place] for place in own.root_places) if defaults.get(name) == GENERATED]
    if made:
        raise InvalidDeclaration("a child names its root, so this part is not generated", model=cls, fields=made)
    access = Access(NO_VALUE, type(None), optional=False, target=root)
    return {CHILD_OF: RootReference(CHILD_OF, kind, access, missing_ok=False, on_delete="refuse", child=own)}


def _types_of(kind: EntityKind) -> dict[str, type]:
    return {each.name: each.type for each in kind.codec.elements}


def numbered_field(cls: type[Model[Any]], kind: EntityKind) -> str | None:
    """The part of the key that a sequence gives: `number: Key[int] = GENERATED`.

    Raises:
        InvalidDeclaration: there are several, or the entities are in no entity group.
    """
    defaults = defaults_of(cls)
    plain = [each for each in kind.fields if each.target is None]
    names = [each.name for each in plain if each.elements[0].type is int and defaults[each.name] == GENERATED]
    if not names:
        return None
    if len(names) > 1:
        raise InvalidDeclaration("a key has one number of a sequence", model=cls, fields=names)
    if cls.child_of is None:
        raise InvalidDeclaration(
            "a number is the next one of an entity group: declare `child_of = ...`, or make the key a UUID",
            model=cls, field=names[0],
        )  # fmt: skip
    return names[0]
