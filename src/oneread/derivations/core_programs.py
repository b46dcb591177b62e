"""Programs for the core: the operations of a class as a table of bytes that compiled code runs.

A class has one if the core knows all that follows from saving an entity of it. For every other, and whenever the core
stops at something that it does not know, Python decides the whole commit; so nothing has to be here. The numbers of
operations, types and items are those of core.h of oneread-native. See docs/design/native.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from oneread.counters.settings import show_in_settings
from oneread.derivations.access import ValuePath
from oneread.derivations.copies import Reference
from oneread.derivations.core_groups import listed_in
from oneread.derivations.core_operations import CoreOperations
from oneread.derivations.core_values import (
    DocumentPath,
    UnknownToCoreError,
    kept_in,
    key_types,
    path_in,
    route_in,
)
from oneread.derivations.counter_fields import ShownCounter
from oneread.derivations.emitted_record import form_of, view_of
from oneread.derivations.entity_groups import CHILD_OF
from oneread.derivations.entity_type import EntityType
from oneread.derivations.rollups import Rollup, ShownAggregate
from oneread.models.expiry import ExpiryRule
from oneread.models.registry import EntityKind
from oneread.store.keys import entity_part

_NO_FIELD: Final = 0xFF
_UNKNOWN_PLACE: Final = 0xFF
_COUNTER_PLACE: Final = 0xFE
_MOST_RANK: Final = 0xFE
_MAY_FOLLOW, _IS_CHECKED = 1, 2
_OF_SHOWN: Final = show_in_settings(None) or b""
"""The settings of a counter that is shown and has no others."""
_pack: Final = msgspec.msgpack.Encoder().encode


class CoreProgram(NamedTuple):
    """The program of an entity class, and the conditions that Python is asked, by their place among all of them."""

    table: bytes
    asked: tuple[tuple[int, Callable[[Any], bool]], ...]
    counters: tuple[ShownCounter, ...] = ()
    """That its entities show."""

    def counters_of(self, key: bytes) -> tuple[tuple[bytes, bytes, bytes, bytes], ...]:
        """The counters that the entity of a root row shows, as the core is asked."""
        found = [each.group(entity_part(key)).counter for each in self.counters]
        return tuple([(of.settings, of.shards.start, of.shards.stop, _OF_SHOWN) for of in found if of is not None])

    def holding(self, entity: Any) -> int | None:
        """A bit for each condition that is asked and holds; None where one cannot be asked."""
        found = 0
        try:
            for place, holds in self.asked:
                if holds(entity):
                    found |= 1 << place
        except Exception:  # noqa: BLE001 - a value that does not fit, which Python refuses in its own order
            return None
        return found


class CorePrograms(dict[type, "CoreProgram | None"]):
    """The programs of entity classes, each made when it is first asked for; None where Python decides each save.

    `types` are those of all classes, `expiries` when the entities of a kind expire. What follows from rows of feeds and
    of change logs is not in programs: a table of the schema has these.
    """

    def __init__(self, types: Mapping[type, EntityType], expiries: Mapping[bytes, ExpiryRule]) -> None:
        super().__init__()
        self._types = types
        self._expiries = expiries
        self._followers: dict[type, tuple[bytes, ...]] = {}

    def of_followers(self, cls: type) -> tuple[bytes, ...]:
        """The tables of classes whose entities may follow one of this: holders, what shows its groups, and theirs."""
        found = self._followers.get(cls)
        if found is None:
            following = self._following(cls)
            programs = [self[each] for each in self._types if each in following]
            found = self._followers[cls] = tuple([each.table for each in programs if each is not None])
        return found

    def _following(self, cls: type) -> set[type]:
        found, waiting = set[type](), [cls]
        while waiting:
            source = self._types[waiting.pop()]
            shown = {kind.prefix for each in source.shown for kind in each.kinds}
            further = {
                each for each, of in self._types.items() if of.kind.prefix in shown or _copies(of, source.kind)
            } - found
            found |= further
            waiting += further
        return found

    def __missing__(self, cls: type) -> CoreProgram | None:
        found = self[cls] = self._made(self._types[cls])
        return found

    def _made(self, entity_type: EntityType) -> CoreProgram | None:
        try:
            return _Table(entity_type, self._types, self._expiries).program()
        except UnknownToCoreError:
            return None


def _copies(entity_type: EntityType, kind: EntityKind) -> bool:
    return any(each.kind is kind and (each.copy is not None or each.hidden) for each in entity_type.references)


class _Table:
    """Writes the table of one entity class."""

    def __init__(
        self, entity_type: EntityType, types: Mapping[type, EntityType], expiries: Mapping[bytes, ExpiryRule]
    ) -> None:
        self._of = entity_type
        self._layout = entity_type.layout
        self._types = types
        self._expiries = expiries
        fields = self._layout.fields
        self._operations = CoreOperations(
            fields,
            entity_type.emitters.order(),
            [each.name for each in entity_type.references],
            entity_type.hidden.types,
            frozenset([each.name for each in fields if each.kind in ("plain", "ref") and not self._role(each.name)]),
        )

    def program(self) -> CoreProgram:
        table = self.packed()
        counters = [each.shown for each in self._of.rollups if isinstance(each.shown, ShownCounter)]
        return CoreProgram(table, tuple(self._operations.asked.items()), tuple(counters))

    def packed(self) -> bytes:
        of = self._of
        operations = [*self._operations.write(of.emitters.programs())]
        shown = {token: at for at, each in enumerate(of.shown, start=1) for token in each.tokens}
        tokens = [(each, form_of(each), view_of(each), shown.get(each, 0)) for each in self._operations.tokens]
        return _pack(
            (
                self._layout.prefix,
                len(self._layout.fields),
                of.kind.start,
                [*self._own_key()],
                tokens,
                [self._reference(each) for each in of.references],
                int(bool(of.tracked)),
                int(bool(of.holding)),
                int(of.copied is not None),
                [*self._selections()],
                operations,
                int(of.numbered is not None),
                [self._role(each.name) for each in self._layout.fields],
                self._expiry(of),
                of.kind.prefix,
                self._follows(),
                [self._shown(each) for each in of.shown],
                [self._total(each) for each in of.rollups],
                int(self._is_held()),
                of.kind.spread,
                key_types(of.kind),
                [*self._operations.conditions.values()],
                [*self._hidden()],
            )
        )

    def _is_held(self) -> bool:
        """Whether an entity may forbid that one of this kind is deleted."""
        return any(reference.kind is self._of.kind for each in self._types.values() for reference in each.holding)

    def _follows(self) -> int:
        """What the core may let an entity follow, and whether Python looks at it then."""
        if self._operations.asked:
            return 0
        layout = self._of.layout
        return _MAY_FOLLOW | (_IS_CHECKED if layout.has_check or layout.has_limits else 0)

    def _shown(self, shown: ShownAggregate) -> tuple[Any, ...]:
        """An aggregate whose groups are shown, and the kinds of the entities that show them."""
        sums, *_extrema = shown.tokens
        listed = () if shown.indexed is None else listed_in(shown.indexed)
        is_known = listed is not None and not shown.extrema and shown.rank <= _MOST_RANK
        kinds = [(kind.prefix, kind.spread) for kind in shown.kinds]
        return self._operations.tokens[sums], int(is_known), min(shown.rank, _MOST_RANK), kinds, listed or ()

    def _total(self, total: Rollup) -> tuple[Any, ...]:
        """A field that shows a number of a group, and the number's place in the group's row."""
        (field,) = self._operations.path(ValuePath(total.field))
        declared, number, shown = self._layout.fields[field].type, total.number, total.shown
        if isinstance(shown, ShownCounter):
            return field, b"", _COUNTER_PLACE
        if number is None:
            return field, b"", _UNKNOWN_PLACE
        place = shown.whole_number(number.field)
        is_known = place is not None and not shown.extrema and declared.bare is int and not declared.metadata
        return field, shown.key, place if is_known else _UNKNOWN_PLACE

    def _role(self, field: str) -> int:
        """What the store gives a field."""
        of = self._of
        given = [of.defaults.created, of.defaults.updated, [each.field for each in of.rollups]]
        return next((role for role, names in enumerate(given, start=1) if field in names), 0)

    def _expiry(self, entity_type: EntityType) -> tuple[Any, ...]:
        """When an entity of a class expires; nothing where it does not."""
        rule = self._expiries.get(entity_type.kind.prefix)
        if rule is None:
            return ()
        (field,) = rule.path
        return path_in(entity_type.layout.fields, ValuePath(field)), rule.after

    def _own_key(self) -> Iterator[DocumentPath]:
        for each in self._of.kind.fields:
            (place,) = path_in(self._layout.fields, ValuePath(each.name))
            if each.target is None:
                yield (place,)
            else:
                yield from ((place, 0, part) for part in range(len(each.elements)))

    def _reference(self, reference: Reference) -> tuple[Any, ...]:
        target = reference.access.target
        is_pointed = reference.tracked or reference.on_delete == "refuse"
        if target is None or (reference.many and is_pointed):
            raise UnknownToCoreError(reference.name)
        source = self._types[target].layout
        is_root = reference.name == CHILD_OF
        routes = [route for _name, route in reference.routes]
        return (
            *((_NO_FIELD,) if is_root else self._operations.path(ValuePath(reference.name))),
            int(reference.copy is not None),
            int(reference.tracked),
            int(reference.on_delete == "refuse"),
            reference.kind.start,
            source.prefix,
            reference.selection if reference.tracked else b"",
            [route_in(source, route) for route in routes],
            int(reference.on_delete == "delete"),
            self._expiry(self._types[target]),
            reference.kind.prefix,
            reference.kind.spread,
            key_types(reference.kind),
            b"".join(self._accepted(reference)),
            int(reference.many),
        )

    def _accepted(self, reference: Reference) -> Iterator[bytes]:
        """The layouts of the entities to which a field may refer."""
        for cls, each in self._types.items():
            if each.kind is reference.kind and reference.accepts(cls):
                yield each.layout.prefix

    def _selections(self) -> Iterator[tuple[bytes, list[DocumentPath]]]:
        copied = self._of.copied
        if copied is None:
            return
        if copied.may_be_awaited(None):
            raise UnknownToCoreError(self._of.cls)
        for name, routes in copied.selections.items():
            yield name, [route_in(self._layout, route) if self._has(route) else () for route in routes]

    def _has(self, route: str) -> bool:
        """Whether entities of the class have a copied value; it may be that of a variant."""
        return route.split(".", 1)[0] in [each.name for each in self._layout.fields]

    def _hidden(self) -> Iterator[tuple[str, int, DocumentPath]]:
        """The hidden copies: the name, the place of the reference, and where the source has the value."""
        kinds = {cls: each.kind for cls, each in self._types.items()}
        for place, reference in enumerate(self._of.references):
            target = reference.access.target
            for name, _get, _type in reference.hidden:
                route = name.removeprefix(f"{reference.name}.")
                if target is None or reference.name == CHILD_OF:
                    raise UnknownToCoreError(name)
                yield name, place, kept_in(self._types[target].layout, route, kinds)
