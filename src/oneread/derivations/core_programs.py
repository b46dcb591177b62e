"""Programs for the core: the operations of a class as a table of bytes that compiled code runs.

A class has one if the core knows all that follows from saving an entity of it. For every other, and whenever the core
stops at something that it does not know, Python decides the whole commit; so nothing has to be here. The numbers of
operations, types and items are those of core.h of oneread-native. See docs/design/native.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from oneread.derivations.access import ValuePath
from oneread.derivations.copies import Reference
from oneread.derivations.emitted_record import SUMS, form_of, view_of
from oneread.derivations.entity_groups import CHILD_OF
from oneread.derivations.entity_type import EntityType
from oneread.derivations.operations import (
    CompiledCondition,
    Element,
    FindPlace,
    KeyBytes,
    Operation,
    SkipUnless,
    TakeSpread,
    TakeValue,
)
from oneread.derivations.rollups import Rollup, ShownAggregate
from oneread.derivations.row_operations import (
    AddToGroup,
    MakeAmounts,
    MakeExtreme,
    OwnKey,
    PutExtreme,
    PutRow,
    ShownItem,
    ShownReference,
    ShownValue,
    Slot,
)
from oneread.derivations.rules import BucketSize
from oneread.models.expiry import ExpiryRule
from oneread.models.layout import Layout
from oneread.models.registry import EntityKind
from oneread.models.set_order import has_one_form
from oneread.store.limits import VALUES_BYTES

DocumentPath: TypeAlias = tuple[int, ...]
"""Where a document has a value: the place of a field, and of elements of arrays within."""

_ELEMENT, _REFERENCE, _PLACE, _ROW, _AMOUNTS, _SUM, _EXTREME, _EXTREMUM, _END, _SPREAD, _SKIP = range(1, 12)
_OWN_KEY, _VALUE, _COPY_REFERRING, _REF_REFERRING = range(1, 5)
_SLOTS: Final = {"one": 1, "present": 2, "whole": 3, "exact": 3}
_TYPES: Final[Mapping[type, int]] = {
    str: 1, int: 2, Decimal: 3, datetime: 4, bool: 5, UUID: 6, date: 7, bytes: 8, float: 9,
}  # fmt: skip
_BUCKETS: Final[Mapping[BucketSize | None, int]] = {
    None: 0, "minute": 1, "hour": 2, "day": 3, "week": 4, "month": 5, "year": 6,
}  # fmt: skip
_DESCENDING, _IN_DIGITS, _HASHED, _FRAMED = 1, 2, 4, 8
_NO_FIELD: Final = 0xFF
_UNKNOWN_PLACE: Final = 0xFF
_MOST_RANK: Final = 0xFE
_FOLLOWS_SOURCES, _FOLLOWS_GROUPS = 1, 2
_MOST_PARTS: Final = 8
"""Of a key, in a row that follows its source."""
_NONES: Final = {None: 0, "first": 0x01, "last": 0xFE}
_FOUND: Final = 0
"""The register of the place that a view has found."""
_pack: Final = msgspec.msgpack.Encoder().encode


class _Operation(NamedTuple):
    """One operation of the table, as `take_operation` of program.c reads it."""

    code: int
    made: int = 0
    """The register that it makes."""
    used: int = 0
    second: int = 0
    kind: int = 0
    """The type of a value."""
    flag: int = 0
    none: int = 0
    """The byte in place of a value that is absent."""
    nones: int = 0
    place: int = 0
    """Of its token or reference."""
    most: int = 0
    path: DocumentPath = ()
    order: DocumentPath = ()
    rest: Sequence[Any] = ()
    """Items that it shows, or registers."""
    bucket: int = 0


class _UnknownToCoreError(Exception):
    """Something that follows from an entity is Python's alone."""


class CoreProgram(NamedTuple):
    """The program of an entity class, and the conditions of which it is given those that hold."""

    table: bytes
    conditions: tuple[Callable[[Any], bool], ...]

    def holding(self, entity: Any) -> int | None:
        """A bit for each condition that holds; None where one cannot be asked."""
        if not self.conditions:
            return 0
        found = 0
        try:
            for place, holds in enumerate(self.conditions):
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
        """The tables of classes whose entities may follow one of this: holders of copies, and what shows groups."""
        found = self._followers.get(cls)
        if found is None:
            kind, showing = self._types[cls].kind, self._showing(cls)
            following = [each for each, of in self._types.items() if each in showing or _copies(of, kind)]
            programs = [self[each] for each in following]
            found = self._followers[cls] = tuple([each.table for each in programs if each is not None])
        return found

    def _showing(self, cls: type) -> set[type]:
        """The classes that show groups which an entity is in, and those that show theirs."""
        found, waiting = set[type](), [cls]
        while waiting:
            kinds = {kind.prefix for shown in self._types[waiting.pop()].shown for kind in shown.kinds}
            further = {each for each, of in self._types.items() if of.kind.prefix in kinds} - found
            found |= further
            waiting += further
        return found

    def __missing__(self, cls: type) -> CoreProgram | None:
        found = self[cls] = self._made(self._types[cls])
        return found

    def _made(self, entity_type: EntityType) -> CoreProgram | None:
        if entity_type.hidden or entity_type.has_expiring_rows:
            return None
        try:
            return _Table(entity_type, self._types, self._expiries).program()
        except _UnknownToCoreError:
            return None


def _copies(entity_type: EntityType, kind: EntityKind) -> bool:
    return any(each.kind is kind and each.copy is not None for each in entity_type.references)


def _path_in(layout: Layout[Any], value: ValuePath) -> DocumentPath:
    """Where documents of a layout have a value."""
    if value.is_hidden:
        raise _UnknownToCoreError(value)
    fields, path = layout.fields, list[int]()
    for name in (value.name, *value.steps):
        place = next((at for at, each in enumerate(fields) if each.name == name), None)
        if place is None:
            raise _UnknownToCoreError(value)
        path.append(place)
        fields = fields[place].fields
    return tuple(path)


def _number_of(kind: Any) -> int:
    """The number of a type whose values are in keys."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        kinds = {type(each.value) for each in kind}
        kind = kinds.pop() if len(kinds) == 1 else None
    if kind not in _TYPES:
        raise _UnknownToCoreError(kind)
    return _TYPES[kind]


def _key_types(kind: EntityKind) -> list[int]:
    """The types of the parts of a key; none where the core does not make such keys."""
    found = [_TYPES.get(each.type, 0) for each in kind.codec.elements]
    return found if all(found) and len(found) <= _MOST_PARTS else []


class _Table:
    """Writes the table of one entity class."""

    def __init__(
        self, entity_type: EntityType, types: Mapping[type, EntityType], expiries: Mapping[bytes, ExpiryRule]
    ) -> None:
        self._of = entity_type
        self._layout = entity_type.layout
        self._types = types
        self._expiries = expiries
        self._registers: dict[object, int] = {"found": _FOUND}
        self._conditions: dict[str, CompiledCondition] = {}
        self._tokens = {token: at for at, token in enumerate(entity_type.emitters.order())}
        self._places = {each.name: at for at, each in enumerate(entity_type.references)}

    def program(self) -> CoreProgram:
        table = self.packed()
        return CoreProgram(table, tuple([each.test for each in self._conditions.values()]))

    def packed(self) -> bytes:
        of = self._of
        operations = [*self._operations()]
        shown = {token: at for at, each in enumerate(of.shown, start=1) for token in each.tokens}
        tokens = [(each, int(form_of(each) == SUMS), view_of(each), shown.get(each, 0)) for each in self._tokens]
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
                _key_types(of.kind),
            )
        )

    def _is_held(self) -> bool:
        """Whether an entity may forbid that one of this kind is deleted."""
        return any(reference.kind is self._of.kind for each in self._types.values() for reference in each.holding)

    def _follows(self) -> int:
        """What the core may let an entity follow."""
        of = self._of
        if of.layout.has_check or self._conditions:
            return 0
        return _FOLLOWS_GROUPS | (_FOLLOWS_SOURCES if of.is_plain else 0)

    def _shown(self, shown: ShownAggregate) -> tuple[Any, ...]:
        """An aggregate whose groups are shown, and the kinds of the entities that show them."""
        sums, *_extrema = shown.tokens
        is_known = shown.indexed is None and not shown.extrema and shown.rank <= _MOST_RANK
        kinds = [(kind.prefix, kind.spread) for kind in shown.kinds]
        return self._tokens[sums], int(is_known), min(shown.rank, _MOST_RANK), kinds

    def _total(self, total: Rollup) -> tuple[Any, ...]:
        """A field that shows a number of a group, and the number's place in the group's row."""
        (field,) = self._path(ValuePath(total.field))
        declared, number, shown = self._layout.fields[field].type, total.number, total.shown
        if number is None or not isinstance(shown, ShownAggregate):
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
        return _path_in(entity_type.layout, ValuePath(field)), rule.after

    def _own_key(self) -> Iterator[DocumentPath]:
        for each in self._of.kind.fields:
            (place,) = _path_in(self._layout, ValuePath(each.name))
            if each.target is None:
                yield (place,)
            else:
                yield from ((place, 0, part) for part in range(len(each.elements)))

    def _reference(self, reference: Reference) -> tuple[Any, ...]:
        target = reference.access.target
        if reference.many or target is None:
            raise _UnknownToCoreError(reference.name)
        source = self._types[target].layout
        is_root = reference.name == CHILD_OF
        routes = [route for _name, route in reference.routes]
        return (
            *((_NO_FIELD,) if is_root else self._path(ValuePath(reference.name))),
            int(reference.copy is not None),
            int(reference.tracked),
            int(reference.on_delete == "refuse"),
            reference.kind.start,
            source.prefix,
            reference.selection if reference.tracked else b"",
            [self._route(source, route) for route in routes],
            int(reference.on_delete == "delete"),
            self._expiry(self._types[target]),
            reference.kind.prefix,
            reference.kind.spread,
            _key_types(reference.kind),
            b"".join(self._accepted(reference)),
        )

    def _accepted(self, reference: Reference) -> Iterator[bytes]:
        """The layouts of the entities to which a field may refer."""
        for cls, each in self._types.items():
            if each.kind is reference.kind and reference.accepts(cls):
                yield each.layout.prefix

    def _route(self, layout: Layout[Any], route: str) -> DocumentPath:
        """The place of a copied value in its source; none for the route of what only refers."""
        if not route:
            return ()
        name, *steps = route.split(".")
        path = _path_in(layout, ValuePath(name, tuple(steps)))
        shape = layout.fields[path[0]]
        for place in path[1:]:
            shape = shape.fields[place]
        if shape.kind not in ("plain", "ref") or shape.sets:
            raise _UnknownToCoreError(route)
        return path

    def _selections(self) -> Iterator[tuple[bytes, list[DocumentPath]]]:
        copied = self._of.copied
        if copied is None:
            return
        if copied.may_be_awaited(None):
            raise _UnknownToCoreError(self._of.cls)
        for name, routes in copied.selections.items():
            yield name, [self._route(self._layout, route) if self._has(route) else () for route in routes]

    def _has(self, route: str) -> bool:
        """Whether entities of the class have a copied value; it may be that of a variant."""
        return route.split(".", 1)[0] in [each.name for each in self._layout.fields]

    # Operations.

    def _operations(self) -> Iterator[_Operation]:
        for program in self._of.emitters.programs():
            if program.is_repeated:
                raise _UnknownToCoreError(program.view)
            for each in (*program.once, *program.rows):
                yield self._written(each)
            yield _Operation(_END)

    def _written(self, operation: Operation) -> _Operation:
        write = _WRITERS.get(type(operation))
        if write is None:
            raise _UnknownToCoreError(operation)
        return write(self, operation)

    def _register(self, what: object) -> int:
        """The register of what several operations may need."""
        return self._registers.setdefault(what, len(self._registers))

    def _path(self, value: ValuePath) -> DocumentPath:
        return _path_in(self._layout, value)

    def take_value(self, operation: TakeValue) -> _Operation:
        element = operation.element
        rule = element.rule
        written = _Operation(
            _ELEMENT,
            made=self._register(element.signature),
            flag=_DESCENDING if rule.descending else 0,
            none=_NONES[rule.none],
            nones=len(element.elements),
        )
        if element.of != "value":
            return written._replace(code=_REFERENCE, place=self._referring(element))
        path, kind = self._path(element.value), element.elements[0].type
        if rule.hashed:
            written = written._replace(flag=written.flag | _HASHED)
            kind = self._declared_type(path)
        return written._replace(kind=_number_of(kind), path=path, bucket=_BUCKETS[rule.size])

    def _declared_type(self, path: DocumentPath) -> type:
        """The type of the values of a field."""
        place, *further = path
        if further:
            raise _UnknownToCoreError(path)
        kind: type = self._layout.fields[place].type.present.bare
        return kind

    def _condition(self, condition: CompiledCondition | None) -> int:
        """The number of a condition, from 1; 0 for none. It is asked of the entity before that is filled."""
        if condition is None:
            return 0
        for path in condition.expression.paths():
            name = path.names[0]
            (field,) = self._path(ValuePath(name))
            if self._role(name) or self._layout.fields[field].kind not in ("plain", "ref"):
                raise _UnknownToCoreError(condition)
        self._conditions.setdefault(condition.signature, condition)
        return 1 + list(self._conditions).index(condition.signature)

    def skip_unless(self, operation: SkipUnless) -> _Operation:
        return _Operation(_SKIP, second=self._condition(operation.condition))

    def take_spread(self, operation: TakeSpread) -> _Operation:
        return _Operation(_SPREAD, made=self._register("spread"), most=operation.ranges)

    def _referring(self, element: Element) -> int:
        """The place of the reference whose key an element has."""
        if element.value.is_hidden or element.value.steps not in ((), ("ref",)):
            raise _UnknownToCoreError(element)
        return self._places[element.value.name]

    def find_place(self, operation: FindPlace) -> _Operation:
        parts = [self._part(each) for each in operation.parts]
        return _Operation(_PLACE, made=_FOUND, most=operation.most or 0, rest=parts)

    def _part(self, part: KeyBytes) -> int:
        if isinstance(part, TakeSpread):
            return self._register("spread")
        if not isinstance(part, TakeValue):
            raise _UnknownToCoreError(part)
        return self._register(part.element.signature)

    def put_row(self, operation: PutRow) -> _Operation:
        if operation.ends_in_expiry or operation.most is not None:
            raise _UnknownToCoreError(operation)
        shows = [self._item(each) for each in operation.shows]
        flag = _FRAMED if operation.is_framed else 0
        return _Operation(_ROW, used=_FOUND, flag=flag, place=self._tokens[operation.token], rest=shows)

    def _item(self, item: ShownItem) -> tuple[int, DocumentPath, int]:
        if isinstance(item, OwnKey):
            return _OWN_KEY, (), 0
        if item.value is None:
            raise _UnknownToCoreError(item)
        path = self._path(item.value)
        if isinstance(item, ShownReference):
            return _COPY_REFERRING if item.is_copy else _REF_REFERRING, path, item.fields
        return _VALUE, path, _BUCKETS[item.bucket] if isinstance(item, ShownValue) else 0

    def make_amounts(self, operation: MakeAmounts) -> _Operation:
        return _Operation(_AMOUNTS, made=self._amounts(operation), rest=[self._slot(each) for each in operation.slots])

    def _amounts(self, operation: MakeAmounts) -> int:
        """The register of amounts; equal conditions have one signature."""
        slots = [(each.of, each.value, each.condition and each.condition.signature) for each in operation.slots]
        return self._register(("amounts", *slots))

    def _slot(self, slot: Slot) -> tuple[int, DocumentPath, int]:
        kind = _SLOTS.get(slot.of)
        if kind is None:
            raise _UnknownToCoreError(slot)
        # What is always 1 needs no value; the first field is there in any case.
        return kind, (0,) if slot.value is None else self._path(slot.value), self._condition(slot.condition)

    def add_to_group(self, operation: AddToGroup) -> _Operation:
        amounts = self._amounts(operation.amounts)
        return _Operation(_SUM, used=_FOUND, second=amounts, place=self._tokens[operation.token])

    def _extreme(self, operation: MakeExtreme) -> int:
        condition = operation.condition and operation.condition.signature
        return self._register((operation.word, operation.value, operation.order, condition))

    def make_extreme(self, operation: MakeExtreme) -> _Operation:
        if operation.word not in ("least", "greatest"):
            raise _UnknownToCoreError(operation)
        (element,) = operation.codec.elements
        flag = _DESCENDING if element.descending else 0
        if not has_one_form(element.type):
            flag |= _IN_DIGITS
        return _Operation(
            _EXTREME,
            made=self._extreme(operation),
            second=self._condition(operation.condition),
            kind=_number_of(element.type),
            flag=flag,
            path=self._path(operation.value),
            order=self._path(operation.order),
        )

    def put_extreme(self, operation: PutExtreme) -> _Operation:
        return _Operation(
            _EXTREMUM,
            used=_FOUND,
            second=self._extreme(operation.extreme),
            place=self._tokens[operation.token],
            most=VALUES_BYTES,
        )


_WRITERS: Final[dict[type, Callable[[_Table, Any], _Operation]]] = {
    AddToGroup: _Table.add_to_group,
    FindPlace: _Table.find_place,
    MakeAmounts: _Table.make_amounts,
    MakeExtreme: _Table.make_extreme,
    PutExtreme: _Table.put_extreme,
    PutRow: _Table.put_row,
    SkipUnless: _Table.skip_unless,
    TakeSpread: _Table.take_spread,
    TakeValue: _Table.take_value,
}
