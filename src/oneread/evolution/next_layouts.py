"""The layouts of the next version of a schema: that of today, those behind it, and whether programs of before fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from oneread.errors import SchemaMismatch
from oneread.evolution.compare import Comparison, What
from oneread.evolution.declare import DeclaredModel, DeclaredSchema
from oneread.models.descriptions import Nested, same_type
from oneread.models.versions import StoredLayout, StoredSchema, origins_through

_UNDECLARED: Final = (
    "stored rows hold this field as another type; declare retyped(...) until a backfill has rewritten them"
)

BREAKING: Final[dict[What, str]] = {
    "added": "it is copied, guarded, stamped or a total, needs a value, or has the name of a field that they know",
    "dropped": "they expect it",
    "renamed": "they know it under its old name, by which it is copied or referred to, or which another field has now",
    "retyped": "they write values of its old type",
    "widened": "they cannot read every value that may be stored now",
    "changed": "they keep to what was declared before",
    "reordered": "they keep its values in the old order",
}
"""Why a program that does not know a difference may not write any more."""


def why_breaking(each: Comparison, earlier: Iterable[StoredLayout], *, renew: bool, notify_again: bool) -> list[str]:
    """Why a program that knows the stored layout only would break rows of the new one, or what is derived from them.

    `earlier` are the layouts behind the stored one.
    """
    taken = {origin.of for layout in earlier for origin in layout.origins if origin.of != origin.field}
    taken |= each.renamed_fields()
    found = [
        f"{one.name}{'.' if one.field else ''}{one.field}: {BREAKING[one.what]}"
        for one in each.differences
        if not each.is_compatible(one, taken)
    ]
    if (renew or notify_again) and not found:
        found.append(f"{each.declared.name}: a view or a copy needs values of it that they do not give on")
    return found


def next_layout(number: int, model: DeclaredModel) -> StoredLayout:
    return StoredLayout(number, model.kind, model.fields, model.cls, model.promises, model.targets, model.arrays)


def layout_behind(layout: StoredLayout, step: Comparison, *, renew: bool, notify_again: bool) -> StoredLayout:
    """An older layout after one more change of the schema."""
    return msgspec.structs.replace(
        layout,
        origins=origins_through(layout.origins, step.origins.values()),
        renew=layout.renew or renew,
        notify_again=layout.notify_again or notify_again,
    )


def undeclared(stored: StoredSchema, declared: DeclaredSchema) -> list[tuple[str, str, str]]:
    """(model, field, type) for each conversion that stored rows need and the schema no longer declares."""
    missing: list[tuple[str, str, str]] = []
    for model in declared.models:
        nested = Nested(model.nested, frozenset(model.arrays))
        for layout in stored.older.get(model.name, ()):
            missing.extend(
                (model.name, origin.field, str(was))
                for origin in layout.origins
                for was in origin.was
                if not any(same_type(was, each, nested) for each in model.was.get(origin.field, ()))
            )
    return missing


def refuse_undeclared(stored: StoredSchema, declared: DeclaredSchema) -> None:
    """Raises SchemaMismatch where the schema lacks a conversion without which stored rows cannot be read."""
    for model, field, was in undeclared(stored, declared)[:1]:
        raise SchemaMismatch(_UNDECLARED, model=model, field=field, was=was)
