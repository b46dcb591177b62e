"""The operations of a class in its table for the core, where each is a tuple of numbers and of places in documents.

The numbers are those of core.h of oneread-native. See docs/design/native.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from oneread.derivations.access import ValuePath
from oneread.derivations.core_values import (
    ASKED,
    CoreCondition,
    DocumentPath,
    UnknownToCoreError,
    condition_in,
    number_of,
    path_in,
)
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
    ViewProgram,
)
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
from oneread.models.set_order import has_one_form
from oneread.models.shadow import FieldShape
from oneread.store.limits import VALUES_BYTES

_ELEMENT, _REFERENCE, _PLACE, _ROW, _AMOUNTS, _SUM, _EXTREME, _EXTREMUM, _END = range(1, 10)
_SPREAD, _SKIP, _EXPIRY, _KEY_OF, _EACH, _REPEAT, _CLAIM = range(10, 17)
_OWN_KEY, _VALUE, _COPY_REFERRING, _REF_REFERRING = range(1, 5)
_SLOTS: Final = {"one": 1, "present": 2, "whole": 3, "exact": 3}
_BUCKETS: Final[Mapping[BucketSize | None, int]] = {
    None: 0, "minute": 1, "hour": 2, "day": 3, "week": 4, "month": 5, "year": 6,
}  # fmt: skip
_DESCENDING, _IN_DIGITS, _HASHED, _IN_DOCUMENT, _WITH_EXPIRY, _FRAMED = 1, 2, 4, 8, 16, 32
_THE_ELEMENT: Final = 0xFF
"""In place of a field: the element of a list that a row is for."""
_NONES: Final = {None: 0, "first": 0x01, "last": 0xFE}
_FOUND: Final = 0
"""The register of the place that a view has found."""
_EACH_ELEMENT: Final = "each"
"""What has the bytes of the element of a list in its register."""


class CoreOperation(NamedTuple):
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


class CoreOperations:
    """Writes the operations of views, and what they name: the conditions, and those that Python is asked.

    What they are about has these fields; `order` are the tokens in the order of a record. An entity also has references
    and, behind its fields, hidden copies; Python may be asked of the fields that are `given`.
    """

    def __init__(
        self,
        fields: Sequence[FieldShape],
        order: Iterable[int],
        references: Iterable[str] = (),
        hidden: Iterable[str] = (),
        given: AbstractSet[str] = frozenset(),
    ) -> None:
        self._fields = fields
        self.tokens = {token: at for at, token in enumerate(order)}
        """The places of tokens."""
        self._registers: dict[object, int] = {"found": _FOUND}
        self._hidden_places = {name: at for at, name in enumerate(hidden, start=len(fields))}
        self._places = {name: at for at, name in enumerate(references)}
        self._given = given
        self.conditions: dict[str, CoreCondition] = {}
        self.asked: dict[int, Callable[[Any], bool]] = {}
        """What Python is asked, by the place of its condition."""

    def write(self, programs: Iterable[ViewProgram]) -> Iterator[CoreOperation]:
        """All operations, in the order in which they are done."""
        for program in programs:
            yield from [self._written(each) for each in program.once]
            if program.is_repeated:
                yield CoreOperation(_REPEAT, made=self._registers[_EACH_ELEMENT])
            yield from [self._written(each) for each in program.rows]
            yield CoreOperation(_END)

    def _written(self, operation: Operation) -> CoreOperation:
        write = _WRITERS.get(type(operation))
        if write is None:
            raise UnknownToCoreError(operation)
        return write(self, operation)

    def _register(self, what: object) -> int:
        """The register of what several operations may need."""
        return self._registers.setdefault(what, len(self._registers))

    def path(self, value: ValuePath) -> DocumentPath:
        """Where documents have a value; a hidden copy is behind the fields."""
        if not value.is_hidden:
            return path_in(self._fields, value)
        if value.steps and value.steps != ("ref",):
            raise UnknownToCoreError(value)
        return (self._hidden_places[value.name],)

    def take_value(self, operation: TakeValue) -> CoreOperation:
        element, rule = operation.element, operation.element.rule
        if element.of == "value":
            written = self._element(element)._replace(code=_ELEMENT)
        elif element.value.is_hidden or element.value.name not in self._places:
            written = self._element(element)._replace(code=_KEY_OF)
        else:
            flag = _DESCENDING if rule.descending else 0
            written = CoreOperation(_REFERENCE, flag=flag, place=self._referring(element))
        made = self._register(element.signature)
        return written._replace(made=made, none=_NONES[rule.none], nones=len(element.elements))

    def take_each(self, operation: TakeEach) -> CoreOperation:
        made = self._register(_EACH_ELEMENT)
        return self._element(operation.element)._replace(code=_EACH, made=made, second=int(operation.is_unordered))

    def _element(self, element: Element) -> CoreOperation:
        """What makes the bytes of a value, or of the key behind a reference, which has the types of its parts."""
        rule = element.rule
        flag = _DESCENDING if rule.descending else 0
        path = self.path(element.value)
        if element.of != "value":
            types = [number_of(each.type) for each in element.elements]
            return CoreOperation(0, flag=flag, path=path, rest=types)
        kind = element.elements[0].type
        if rule.hashed:
            flag |= _HASHED
            kind = self._declared_type(path)
        return CoreOperation(0, kind=number_of(kind), flag=flag, path=path, bucket=_BUCKETS[rule.size])

    def _declared_type(self, path: DocumentPath) -> type:
        """The type of the values of a field; hidden copies, whose places are behind them, have none here."""
        place, *further = path
        if further or place >= len(self._fields):
            raise UnknownToCoreError(path)
        kind: type = self._fields[place].type.present.bare
        return kind

    def _condition(self, condition: CompiledCondition | None) -> int:
        """The number of a condition, from 1; 0 for none."""
        if condition is None:
            return 0
        if condition.signature not in self.conditions:
            self.conditions[condition.signature] = self._compared(condition)
        return 1 + list(self.conditions).index(condition.signature)

    def _compared(self, condition: CompiledCondition) -> CoreCondition:
        """A condition that the core decides; else one that Python is asked of the entity before that is filled."""
        try:
            return condition_in(self._fields, condition.expression)
        except UnknownToCoreError:
            if not self._given >= {path.names[0] for path in condition.expression.paths()}:
                raise
            self.asked[len(self.conditions)] = condition.test
            return CoreCondition(ASKED)

    def skip_unless(self, operation: SkipUnless) -> CoreOperation:
        return CoreOperation(_SKIP, second=self._condition(operation.condition))

    def skip_expired(self, operation: SkipExpired | FirstExpiry) -> CoreOperation:
        return CoreOperation(_EXPIRY, rest=[(self.path(each.since), each.rule.after) for each in operation.ends])

    def take_spread(self, operation: TakeSpread) -> CoreOperation:
        return CoreOperation(_SPREAD, made=self._register("spread"), most=operation.ranges)

    def _referring(self, element: Element) -> int:
        """The place of the reference whose key an element has."""
        if element.value.steps not in ((), ("ref",)):
            raise UnknownToCoreError(element)
        return self._places[element.value.name]

    def find_place(self, operation: FindPlace) -> CoreOperation:
        parts = [self._part(each) for each in operation.parts]
        return CoreOperation(_PLACE, made=_FOUND, most=operation.most or 0, rest=parts)

    def _part(self, part: KeyBytes) -> int:
        if isinstance(part, TakeSpread):
            return self._register("spread")
        if isinstance(part, TakeEach):
            return self._registers[_EACH_ELEMENT]
        if not isinstance(part, TakeValue):
            raise UnknownToCoreError(part)
        return self._register(part.element.signature)

    def put_row(self, operation: PutRow) -> CoreOperation:
        shows = [self._item(each) for each in operation.shows]
        flag = (_WITH_EXPIRY if operation.ends_in_expiry else 0) | (_FRAMED if operation.is_framed else 0)
        place, most = self.tokens[operation.token], operation.most or 0
        return CoreOperation(_ROW, used=_FOUND, flag=flag, place=place, most=most, rest=shows)

    def put_claim(self, operation: PutClaim) -> CoreOperation:
        present = [(_VALUE, self.path(each), 0) for each in operation.values]
        return CoreOperation(_CLAIM, used=_FOUND, place=self.tokens[operation.token], rest=present)

    def _item(self, item: ShownItem) -> tuple[int, DocumentPath, int]:
        if isinstance(item, OwnKey):
            return _OWN_KEY, (), 0
        path = (_THE_ELEMENT,) if item.value is None else self.path(item.value)
        if isinstance(item, ShownReference):
            return _COPY_REFERRING if item.is_copy else _REF_REFERRING, path, item.fields
        return _VALUE, path, _BUCKETS[item.bucket] if isinstance(item, ShownValue) else 0

    def make_amounts(self, operation: MakeAmounts) -> CoreOperation:
        slots = [self._slot(each) for each in operation.slots]
        return CoreOperation(_AMOUNTS, made=self._amounts(operation), rest=slots)

    def _amounts(self, operation: MakeAmounts) -> int:
        """The register of amounts; equal conditions have one signature."""
        slots = [(each.of, each.value, each.condition and each.condition.signature) for each in operation.slots]
        return self._register(("amounts", *slots))

    def _slot(self, slot: Slot) -> tuple[int, DocumentPath, int]:
        kind = _SLOTS.get(slot.of)
        if kind is None:
            raise UnknownToCoreError(slot)
        # What is always 1 needs no value; the first field is there in any case.
        return kind, (0,) if slot.value is None else self.path(slot.value), self._condition(slot.condition)

    def add_to_group(self, operation: AddToGroup) -> CoreOperation:
        amounts = self._amounts(operation.amounts)
        return CoreOperation(_SUM, used=_FOUND, second=amounts, place=self.tokens[operation.token])

    def _extreme(self, operation: MakeExtreme) -> int:
        condition = operation.condition and operation.condition.signature
        return self._register((operation.word, operation.value, operation.order, condition))

    def make_extreme(self, operation: MakeExtreme) -> CoreOperation:
        (element,) = operation.codec.elements
        flag = _DESCENDING if element.descending else 0
        if operation.word == "newest":
            flag |= _IN_DOCUMENT
        elif operation.word not in ("least", "greatest"):
            raise UnknownToCoreError(operation)
        elif not has_one_form(element.type):
            flag |= _IN_DIGITS
        return CoreOperation(
            _EXTREME,
            made=self._extreme(operation),
            second=self._condition(operation.condition),
            kind=number_of(element.type),
            flag=flag,
            path=self.path(operation.value),
            order=self.path(operation.order),
        )

    def put_extreme(self, operation: PutExtreme) -> CoreOperation:
        return CoreOperation(
            _EXTREMUM,
            used=_FOUND,
            second=self._extreme(operation.extreme),
            place=self.tokens[operation.token],
            most=VALUES_BYTES,
        )


_WRITERS: Final[dict[type, Callable[[CoreOperations, Any], CoreOperation]]] = {
    AddToGroup: CoreOperations.add_to_group,
    FindPlace: CoreOperations.find_place,
    FirstExpiry: CoreOperations.skip_expired,
    MakeAmounts: CoreOperations.make_amounts,
    MakeExtreme: CoreOperations.make_extreme,
    PutClaim: CoreOperations.put_claim,
    PutExtreme: CoreOperations.put_extreme,
    PutRow: CoreOperations.put_row,
    SkipExpired: CoreOperations.skip_expired,
    SkipUnless: CoreOperations.skip_unless,
    TakeEach: CoreOperations.take_each,
    TakeSpread: CoreOperations.take_spread,
    TakeValue: CoreOperations.take_value,
}
