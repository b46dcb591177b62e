"""The groups of an aggregate in tables for the core, as indexes list them.

A group is to the program of these indexes what an entity is to that of its views: its fields are the parts of its key,
and numbers of its row. See docs/design/native.md.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, Literal

from oneread.derivations.aggregates import AggregateView
from oneread.derivations.core_operations import CoreOperations
from oneread.derivations.core_values import DocumentPath, UnknownToCoreError, number_of
from oneread.derivations.emitted_record import form_of, view_of
from oneread.derivations.group_indexes import IndexedGroups
from oneread.derivations.keyed import KeyRule
from oneread.models.shadow import FieldShape
from oneread.store.engine import CORE_TYPES

_UNREAD: Final = frozenset([CORE_TYPES[Decimal], CORE_TYPES[float]])
"""The types of elements that the core does not read: several values have one element."""


def listed_in(groups: IndexedGroups) -> tuple[Any, ...] | None:
    """The table of groups that indexes list; None where their rows are Python's."""
    try:
        return _table(groups)
    except UnknownToCoreError:
        return None


def _table(groups: IndexedGroups) -> tuple[Any, ...]:
    aggregate, fields, own = groups.aggregate, list[FieldShape](), list[DocumentPath]()
    numbers = [each for each in aggregate.folded if each.field in groups.named]
    places = [each.whole for each in numbers]
    if None in places or aggregate.referring:
        raise UnknownToCoreError(aggregate.cls)
    for place, part in enumerate(aggregate.key.parts):
        fields.append(_field(aggregate, part.field, "plain" if part.kind is None else "ref"))
        own += [(place,)] if part.kind is None else [(place, 0, each) for each in range(part.width)]
    parts = [(int(each.kind is not None), _types(each)) for each in aggregate.key.parts]
    fields += [_field(aggregate, each.field, "plain") for each in numbers]
    tokens = [(each, form_of(each), view_of(each), 0) for index in groups.indexes for each in index.tokens]
    operations = CoreOperations(fields, [token for token, *_of in tokens])
    written = [*operations.write([each.program() for each in groups.indexes])]
    return parts, places, own, tokens, [*operations.conditions.values()], written


def _field(aggregate: AggregateView, name: str, kind: Literal["plain", "ref"]) -> FieldShape:
    found = aggregate.types[name]
    return FieldShape(name, kind, found, found.optional, found.bare)


def _types(part: KeyRule) -> list[int]:
    found = [number_of(each.type) for each in part.elements]
    if not _UNREAD.isdisjoint(found):
        raise UnknownToCoreError(part.field)
    return found
