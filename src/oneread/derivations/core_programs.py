"""Programs for the core: the operations of a class as a table of bytes that compiled code runs.

A class has one if the core knows all that follows from saving an entity of it. For every other, and whenever the core
stops at something that it does not know, Python decides the whole commit; so nothing has to be here. The numbers of
operations, types and items are those of core.h of oneread-native. See docs/design/native.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from oneread.counters.settings import show_in_settings
from oneread.derivations.access import ValuePath
from oneread.derivations.copies import Reference
from oneread.derivations.core_values import (
    ASKED,
    CoreCondition,
    DocumentPath,
    UnknownToCoreError,
    condition_in,
    kept_in,
    key_types,
    number_of,
    path_in,
    route_in,
)
from oneread.derivations.counter_fields import ShownCounter
from oneread.derivations.emitted_record import form_of, view_of
from oneread.derivations.entity_groups import CHILD_OF
from oneread.derivations.entity_type import EntityType
from oneread.derivations.operations import (
    CompiledCondition,
    Element,
    FindPlace,
    FirstExpiry,
    KeyBytes,
    Operation,
    SkipExpired,
    SkipUnless,
    TakeEach,
    TakeSpread,
    TakeValue,
)
from oneread.derivations.rollups import Rollup, ShownAggregate
from oneread.derivations.row_operations import (
    AddToGroup,
    MakeAmounts,
    MakeExtreme,
    OwnKey,
    PutClaim,
    PutExtreme,
    PutRow,
    ShownItem,
    ShownReference,
    ShownValue,
    Slot,
)
from oneread.derivations.rules import BucketSize
from oneread.models.expiry import ExpiryRule
from oneread.models.registry import EntityKind
from oneread.models.set_order import has_one_form
from oneread.store.keys import entity_part
from oneread.store.limits import VALUES_BYTES

_ELEMENT, _REFERENCE, _PLACE, _ROW, _AMOUNTS, _SUM, _EXTREME, _EXTREMUM, _END = range(1, 10)
_SPREAD, _SKIP, _EXPIRY, _KEY_OF, _EACH, _REPEAT, _CLAIM = range(10, 17)
_OWN_KEY, _VALUE, _COPY_REFERRING, _REF_REFERRING = range(1, 5)
_SLOTS: Final = {"one": 1, "present": 2, "whole": 3, "exact": 3}
_BUCKETS: Final[Mapping[BucketSize | None, int]] = {
    None: 0, "minute": 1, "hour": 2, "day": 3, "week": 4, "month": 5, "year": 6,
}  # fmt: skip
_DESCENDING, _IN_DIGITS, _HASHED, _IN_DOCUMENT, _WITH_EXPIRY, _FRAMED = 1, 2, 4, 8, 16, 32
_NO_FIELD: Final = 0xFF
_UNKNOWN_PLACE: Final = 0xFF
_COUNTER_PLACE: Final = 0xFE
_THE_ELEMENT: Final = 0xFF
"""In place of a field: the element of a list that a row is for."""
_MOST_RANK: Final = 0xFE
_MAY_FOLLOW, _IS_CHECKED = 1, 2
_NONES: Final = {None: 0, "first": 0x01, "last": 0xFE}
_FOUND: Final = 0
"""The register of the place that a view has found."""
_EACH_ELEMENT: Final = "each"
"""What has the bytes of the element of a list in its register."""
_OF_SHOWN: Final = show_in_settings(None) or b""
"""The settings of a counter that is shown and has no others."""
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
        if not self.asked:
            return 0
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
        self._registers: dict[object, int] = {"found": _FOUND}
        self._conditions: dict[str, CoreCondition] = {}
        self._asked: dict[int, Callable[[Any], bool]] = {}
        self._tokens = {token: at for at, token in enumerate(entity_type.emitters.order())}
        self._hidden_places = {name: len(self._layout.fields) + at for at, name in enumerate(entity_type.hidden.types)}
        """Of hidden copies, behind the fields."""
        self._places = {each.name: at for at, each in enumerate(entity_type.references)}

    def program(self) -> CoreProgram:
        table = self.packed()
        counters = [each.shown for each in self._of.rollups if isinstance(each.shown, ShownCounter)]
        return CoreProgram(table, tuple(self._asked.items()), tuple(counters))

    def packed(self) -> bytes:
        of = self._of
        operations = [*self._operations()]
        shown = {token: at for at, each in enumerate(of.shown, start=1) for token in each.tokens}
        tokens = [(each, form_of(each), view_of(each), shown.get(each, 0)) for each in self._tokens]
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
                [*self._conditions.values()],
                [*self._hidden()],
            )
        )

    def _is_held(self) -> bool:
        """Whether an entity may forbid that one of this kind is deleted."""
        return any(reference.kind is self._of.kind for each in self._types.values() for reference in each.holding)

    def _follows(self) -> int:
        """What the core may let an entity follow, and whether Python looks at it then."""
        if self._asked:
            return 0
        layout = self._of.layout
        return _MAY_FOLLOW | (_IS_CHECKED if layout.has_check or layout.has_limits else 0)

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
        return path_in(entity_type.layout, ValuePath(field)), rule.after

    def _own_key(self) -> Iterator[DocumentPath]:
        for each in self._of.kind.fields:
            (place,) = path_in(self._layout, ValuePath(each.name))
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
            *((_NO_FIELD,) if is_root else self._path(ValuePath(reference.name))),
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

    # Operations.

    def _operations(self) -> Iterator[_Operation]:
        for program in self._of.emitters.programs():
            yield from [self._written(each) for each in program.once]
            if program.is_repeated:
                yield _Operation(_REPEAT, made=self._registers[_EACH_ELEMENT])
            yield from [self._written(each) for each in program.rows]
            yield _Operation(_END)

    def _written(self, operation: Operation) -> _Operation:
        write = _WRITERS.get(type(operation))
        if write is None:
            raise UnknownToCoreError(operation)
        return write(self, operation)

    def _register(self, what: object) -> int:
        """The register of what several operations may need."""
        return self._registers.setdefault(what, len(self._registers))

    def _path(self, value: ValuePath) -> DocumentPath:
        if not value.is_hidden:
            return path_in(self._layout, value)
        if value.steps and value.steps != ("ref",):
            raise UnknownToCoreError(value)
        return (self._hidden_places[value.name],)

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

    def take_value(self, operation: TakeValue) -> _Operation:
        element, rule = operation.element, operation.element.rule
        if element.of == "value":
            written = self._element(element)._replace(code=_ELEMENT)
        elif element.value.is_hidden:
            written = self._element(element)._replace(code=_KEY_OF)
        else:
            flag = _DESCENDING if rule.descending else 0
            written = _Operation(_REFERENCE, flag=flag, place=self._referring(element))
        made = self._register(element.signature)
        return written._replace(made=made, none=_NONES[rule.none], nones=len(element.elements))

    def take_each(self, operation: TakeEach) -> _Operation:
        made = self._register(_EACH_ELEMENT)
        return self._element(operation.element)._replace(code=_EACH, made=made, second=int(operation.is_unordered))

    def _element(self, element: Element) -> _Operation:
        """What makes the bytes of a value, or of the key behind a reference, which has the types of its parts."""
        rule = element.rule
        flag = _DESCENDING if rule.descending else 0
        path = self._path(element.value)
        if element.of != "value":
            types = [number_of(each.type) for each in element.elements]
            return _Operation(0, flag=flag, path=path, rest=types)
        kind = element.elements[0].type
        if rule.hashed:
            flag |= _HASHED
            kind = self._declared_type(path)
        return _Operation(0, kind=number_of(kind), flag=flag, path=path, bucket=_BUCKETS[rule.size])

    def _declared_type(self, path: DocumentPath) -> type:
        """The type of the values of a field; hidden copies, whose places are behind them, have none here."""
        place, *further = path
        if further or place >= len(self._layout.fields):
            raise UnknownToCoreError(path)
        kind: type = self._layout.fields[place].type.present.bare
        return kind

    def _condition(self, condition: CompiledCondition | None) -> int:
        """The number of a condition, from 1; 0 for none."""
        if condition is None:
            return 0
        if condition.signature not in self._conditions:
            self._conditions[condition.signature] = self._compared(condition)
        return 1 + list(self._conditions).index(condition.signature)

    def _compared(self, condition: CompiledCondition) -> CoreCondition:
        """A condition that the core decides; else one that Python is asked of the entity before that is filled."""
        try:
            return condition_in(self._layout, condition.expression)
        except UnknownToCoreError:
            for path in condition.expression.paths():
                name = path.names[0]
                (field,) = self._path(ValuePath(name))
                if self._role(name) or self._layout.fields[field].kind not in ("plain", "ref"):
                    raise
            self._asked[len(self._conditions)] = condition.test
            return CoreCondition(ASKED)

    def skip_unless(self, operation: SkipUnless) -> _Operation:
        return _Operation(_SKIP, second=self._condition(operation.condition))

    def skip_expired(self, operation: SkipExpired | FirstExpiry) -> _Operation:
        return _Operation(_EXPIRY, rest=[(self._path(each.since), each.rule.after) for each in operation.ends])

    def take_spread(self, operation: TakeSpread) -> _Operation:
        return _Operation(_SPREAD, made=self._register("spread"), most=operation.ranges)

    def _referring(self, element: Element) -> int:
        """The place of the reference whose key an element has."""
        if element.value.steps not in ((), ("ref",)):
            raise UnknownToCoreError(element)
        return self._places[element.value.name]

    def find_place(self, operation: FindPlace) -> _Operation:
        parts = [self._part(each) for each in operation.parts]
        return _Operation(_PLACE, made=_FOUND, most=operation.most or 0, rest=parts)

    def _part(self, part: KeyBytes) -> int:
        if isinstance(part, TakeSpread):
            return self._register("spread")
        if isinstance(part, TakeEach):
            return self._registers[_EACH_ELEMENT]
        if not isinstance(part, TakeValue):
            raise UnknownToCoreError(part)
        return self._register(part.element.signature)

    def put_row(self, operation: PutRow) -> _Operation:
        if operation.most is not None:
            raise UnknownToCoreError(operation)
        shows = [self._item(each) for each in operation.shows]
        flag = (_WITH_EXPIRY if operation.ends_in_expiry else 0) | (_FRAMED if operation.is_framed else 0)
        return _Operation(_ROW, used=_FOUND, flag=flag, place=self._tokens[operation.token], rest=shows)

    def put_claim(self, operation: PutClaim) -> _Operation:
        present = [(_VALUE, self._path(each), 0) for each in operation.values]
        return _Operation(_CLAIM, used=_FOUND, place=self._tokens[operation.token], rest=present)

    def _item(self, item: ShownItem) -> tuple[int, DocumentPath, int]:
        if isinstance(item, OwnKey):
            return _OWN_KEY, (), 0
        path = (_THE_ELEMENT,) if item.value is None else self._path(item.value)
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
            raise UnknownToCoreError(slot)
        # What is always 1 needs no value; the first field is there in any case.
        return kind, (0,) if slot.value is None else self._path(slot.value), self._condition(slot.condition)

    def add_to_group(self, operation: AddToGroup) -> _Operation:
        amounts = self._amounts(operation.amounts)
        return _Operation(_SUM, used=_FOUND, second=amounts, place=self._tokens[operation.token])

    def _extreme(self, operation: MakeExtreme) -> int:
        condition = operation.condition and operation.condition.signature
        return self._register((operation.word, operation.value, operation.order, condition))

    def make_extreme(self, operation: MakeExtreme) -> _Operation:
        (element,) = operation.codec.elements
        flag = _DESCENDING if element.descending else 0
        if operation.word == "newest":
            flag |= _IN_DOCUMENT
        elif operation.word not in ("least", "greatest"):
            raise UnknownToCoreError(operation)
        elif not has_one_form(element.type):
            flag |= _IN_DIGITS
        return _Operation(
            _EXTREME,
            made=self._extreme(operation),
            second=self._condition(operation.condition),
            kind=number_of(element.type),
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
    FirstExpiry: _Table.skip_expired,
    MakeAmounts: _Table.make_amounts,
    MakeExtreme: _Table.make_extreme,
    PutClaim: _Table.put_claim,
    PutExtreme: _Table.put_extreme,
    PutRow: _Table.put_row,
    SkipExpired: _Table.skip_expired,
    SkipUnless: _Table.skip_unless,
    TakeEach: _Table.take_each,
    TakeSpread: _Table.take_spread,
    TakeValue: _Table.take_value,
}
