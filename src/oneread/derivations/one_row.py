"""What a database on a store that changes one row at a time does not have yet, refused by name at once.

See docs/decisions/0074-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NoReturn

from oneread.derivations.catalog import Catalog
from oneread.derivations.entity_type import EntityType
from oneread.errors import Unsupported

_NO_DECLARATION: Final = (
    "a store that changes one row at a time does not keep this yet; leave it out, or use a store that spans rows"
)
_NO_VERB: Final = "a store that changes one row at a time does not have this verb yet"
_OTHER_STORE: Final = "use a store that spans rows: lmdb:, or memory: without span=row"
_RECOVERED: Final = "drain() and workers finish what other programs left; for more use a store that spans rows"

_INSTEAD: Final[Mapping[str, str]] = {
    "verify": _RECOVERED,
    "repair": _RECOVERED,
    "drop": _RECOVERED,
}


def refuse_verb(verb: str) -> NoReturn:
    """Raises Unsupported, which says what to do instead."""
    raise Unsupported(_NO_VERB, verb=verb, instead=_INSTEAD.get(verb, _OTHER_STORE))


def refuse_unsupported(catalog: Catalog) -> None:
    """Raises Unsupported for the first declaration of a schema that only stores with transactions over rows keep."""
    for declaration, feature in _unsupported(catalog):
        raise Unsupported(_NO_DECLARATION, declaration=declaration, feature=feature)


def _unsupported(catalog: Catalog) -> Iterator[tuple[type, str]]:
    for cls, entity_type in catalog.entity_types.items():
        yield from ((cls, feature) for feature in _of_model(entity_type))
    for cls, view in catalog.views.items():
        if getattr(cls, "large_group", None) is not None:
            yield cls, "large_group"
        if view.groups is not None:
            yield cls, "an index over groups"


def _of_model(entity_type: EntityType) -> Iterator[str]:
    if entity_type.rollups:
        yield "rollup: a total of other entities, or a counter"
