"""What a database on a store that changes one row at a time does not have yet, refused by name at once.

See docs/decisions/0074-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oneread.derivations.catalog import Catalog
from oneread.derivations.entity_type import EntityType
from oneread.errors import InvalidDeclaration, Unsupported
from oneread.models.types import types_of

_NO_DECLARATION: Final = (
    "a store that changes one row at a time does not keep this yet; leave it out, or use a store that spans rows"
)


def refuse_unsupported(catalog: Catalog) -> None:
    """Raises Unsupported for the first declaration of a schema that only stores with transactions over rows keep."""
    for declaration, feature in _unsupported(catalog):
        raise Unsupported(_NO_DECLARATION, declaration=declaration, feature=feature)


def _unsupported(catalog: Catalog) -> Iterator[tuple[type, str]]:
    for cls, entity_type in catalog.entity_types.items():
        yield from ((cls, feature) for feature in _of_model(catalog, entity_type))


def _of_model(catalog: Catalog, entity_type: EntityType) -> Iterator[str]:
    for field in _constrained_totals(catalog, entity_type):
        yield f"rollup: a total with a constraint, which cannot refuse a commit that was made: {field}"


def refuse_unportable(catalog: Catalog) -> None:
    """Raises InvalidDeclaration for what a store that changes one row at a time can never promise."""
    for cls, entity_type in catalog.entity_types.items():
        for field in _constrained_totals(catalog, entity_type):
            raise InvalidDeclaration(
                "with portable=True a total has no constraint: a store that changes one row at a time has made the"
                " commit that would break it; leave the constraint out, or check the total where it is used",
                model=cls, field=field,
            )  # fmt: skip


def _constrained_totals(catalog: Catalog, entity_type: EntityType) -> Iterator[str]:
    types = types_of(entity_type.cls, catalog.names)
    for each in entity_type.rollups:
        if types[each.field].metadata:
            yield each.field
