"""Fields that refer to an entity and copy nothing: no row says which entities these are, but an index may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from oneread.derivations.catalog import Catalog
from oneread.derivations.derivation import CompiledView
from oneread.derivations.views import Index, View
from oneread.models.paths import path_of


class PlainReference(NamedTuple):
    """Such a field, as `Membership.group`, and the index by it, if there is one."""

    field: str
    view: type[View[object]] | None

    def __str__(self) -> str:
        found = "no view lists which" if self.view is None else f"{self.view.__name__} lists which"
        return f"{self.field} of entities that refer to it by its key; {found}"


def plain_references(catalog: Catalog, cls: type) -> Iterator[PlainReference]:
    """Those to entities of a class."""
    kind = catalog.kinds[cls]
    for holder, entity_type in catalog.entity_types.items():
        for each in entity_type.references:
            if each.kind is kind and each.on_delete == "keep" and not each.tracked:
                by = next((v for v, view in catalog.views.items() if _begins_with(view, holder, each.name)), None)
                yield PlainReference(f"{holder.__name__}.{each.name}", by)


def _begins_with(view: CompiledView, holder: type, field: str) -> bool:
    """Whether a view is an index of these entities whose key begins with this field."""
    if not issubclass(view.cls, Index) or view.cls.is_added or not issubclass(holder, view.model):
        return False
    return bool(view.key.parts) and path_of(view.key.parts[0].rule.field).names == (field,)
