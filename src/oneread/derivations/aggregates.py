"""Aggregates: counts and exact sums by group, and the least and greatest values.

Counts and sums are deltas on one row for each group; a mean is divided on read. Least and greatest have a hidden index
each, so the next one takes over when the entity that had the value changes. See docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from oneread.derivations.access import Access
from oneread.derivations.derivation import (
    CompiledView,
    Compiling,
    Keyspace,
    LocalFind,
    RowForm,
    key_paths,
    key_values,
    owner_offset,
)
from oneread.derivations.emitted_record import ROWS, SUMS, short_hash
from oneread.derivations.indexes import check_type, compile_where, copy_shown
from oneread.derivations.keyed import Emit, ViewKey
from oneread.derivations.rules import Rule, rules_of
from oneread.derivations.views import Aggregate, View
from oneread.encoding.codec import Codec
from oneread.encoding.ranges import prefix_range
from oneread.errors import InvalidDeclaration, InvalidKey, InvalidValue, LimitExceeded, shown
from oneread.models.paths import Path, path_of
from oneread.models.references import Copy, ref_class
from oneread.models.registry import EntityKind, element
from oneread.models.set_order import has_one_form
from oneread.models.types import Names, field_types, unwrap
from oneread.models.wide import pack_wide, unpack_wide
from oneread.plans.effects import Together
from oneread.plans.plan import Plan
from oneread.store.engine import LocalReads
from oneread.store.keys import row_part
from oneread.store.limits import VALUES_BYTES
from oneread.store.requests import Found, Read
from oneread.store.rows import Row, RowRange, Table
from oneread.transactions.deltas import Number, decode_amounts, digits_of, exact_number, plain
from oneread.transactions.unit_of_work import VALUE, GroupNumbers, first_row

MEAN_DIGITS: Final = 28
_EXTREMA: Final = ("least", "greatest")

_MEAN = Context(prec=MEAN_DIGITS)
_MEAN_TYPES: Final[dict[type, type]] = {int: Decimal, Decimal: Decimal, float: float, timedelta: timedelta}
_MICROSECOND: Final = timedelta(microseconds=1)


class Slot(NamedTuple):
    """One number of a group's row: the expression of the amount that an entity contributes, None for nothing."""

    code: str
    is_int: bool


class Extremum(NamedTuple):
    """One least or greatest: a hidden index of rows (group, value, source key)."""

    field: str
    prefix: bytes
    descending: bool
    access: Access
    codec: Codec

    @property
    def token(self) -> bytes:
        return ROWS + self.prefix

    def scope(self, place: int) -> dict[str, Any]:
        """The functions and values that `lines` and `row_lines` use, for the hidden index with this number."""
        packed = _packed if has_one_form(self.access.type) else _packed_in_digits
        return {f"extreme{place}": self.codec.encode, f"packed{place}": packed, f"X{place}": self.prefix}

    def lines(self, place: int) -> list[str]:
        """The statements that make the value's key, row and digest; views of one entity share them in `made`."""
        name = repr(f"{self.access.code} {'greatest' if self.descending else 'least'}")
        return [
            f"x{place} = made.get({name})",
            f"if x{place} is None:",
            f"    value = {self.access.code}",
            f"    x{place} = () if value is None else (extreme{place}((value,)), *packed{place}(value))",
            f"    made[{name}] = x{place}",
            f"extrema{place} = record[TOKENS[{place + 1}]] = []",
        ]

    def row_lines(self, place: int) -> list[str]:
        """The statements that add the row of one group."""
        return [
            f"if x{place}:",
            f"    element, doc, digest = x{place}",
            f"    if len(found) + len(element) > {VALUES_BYTES}: refuse_long({self.field!r})",
            "    place = found + element + suffix",
            f"    extrema{place}.append([place, digest])",
            f"    shown[X{place} + place] = doc",
        ]


class Folded(NamedTuple):
    """How a field of the aggregate is read from the numbers."""

    field: str
    read: Callable[[list[Number]], Any]


class AggregateView:
    """One aggregate, compiled; `compiling.prefixes` are those of the hidden indexes."""

    table: Table = "counts"
    can_find = True
    groups: CompiledView | None = None
    parts: tuple[type[View[Any]], ...] = ()
    decode_rows: Callable[[list[bytes]], list[Any]] | None = None

    def __init__(self, cls: type[Aggregate[Any]], compiling: Compiling) -> None:
        model, prefix, prefixes, accesses = compiling.model, compiling.prefix, compiling.prefixes, compiling.accesses
        self.cls = cls
        self.model = model
        self.prefix = prefix
        if hasattr(cls, "unique"):
            raise InvalidDeclaration("unique is for an index; an aggregate has one row a group", view=cls)
        self._rules = rules_of(cls)
        self._accesses = accesses
        self._types = field_types(cls, accesses.names)
        self.key = ViewKey(
            cls,
            model,
            {name: rule for name, rule in self._rules.items() if rule.kind == "key"},
            accesses,
            compiling.kinds,
        )
        self._copies = {part.field: copy_shown(cls, part.field, accesses.names) for part in self.key.parts}
        self.referring = frozenset(field for field, copy in self._copies.items() if copy is not None)
        for part in self.key.parts:
            check_type(cls, part.field, self._types[part.field], part.access, optional=part.rule.none is not None)
            if part.rule.descending or part.rule.hashed:
                raise InvalidDeclaration(
                    "an aggregate groups by(...) and bucket(...); its groups are in ascending order",
                    view=cls,
                    field=part.field,
                )
        self._slots: dict[str, Slot] = {"contributions": Slot("1", is_int=True)}
        self.folded: list[Folded] = []
        self.extrema: list[Extremum] = []
        self._probed: list[tuple[str, Access, Callable[[Any], object]]] = []
        for name, rule in self._rules.items():
            if rule.kind != "key":
                self._fold(name, rule, prefixes)
        if not self.folded and not self.extrema:
            raise InvalidDeclaration("an aggregate needs a fold: count(), total(...), mean(...), ...", view=cls)
        self._decoders = {
            each.prefix: msgspec.msgpack.Decoder(tuple[each.access.type]).decode  # type: ignore[name-defined]
            for each in self.extrema
        }
        self.tokens: tuple[bytes, ...] = (SUMS + prefix, *(each.token for each in self.extrema))
        self.width = len(self._slots)
        self.emit: Emit = self._emitter()

    def _fold(self, name: str, rule: Rule, prefixes: Mapping[str, bytes]) -> None:
        if rule.fold is None:
            raise InvalidDeclaration("an aggregate has no shown fields; declare an Index", view=self.cls, field=name)
        if rule.field is None:
            self.folded.append(Folded(name, _number(0)))
            return
        access = self._accesses.of_path(self.cls, name, rule.field, self.model)
        if access.many:
            raise InvalidDeclaration("a fold cannot take a list", view=self.cls, field=name)
        if rule.fold in _EXTREMA:
            self._extremum(name, rule, access, prefixes[name])
        elif rule.fold == "count":
            place = self._slot(f"values of {path_of(rule.field)}", _presence(access))
            self.folded.append(Folded(name, _number(place)))
        else:
            self._sum(name, rule, access)

    def _slot(self, name: str, slot: Slot) -> int:
        """The place of a number in the row; folds of one field share it."""
        self._slots.setdefault(name, slot)
        return list(self._slots).index(name)

    def _sum(self, name: str, rule: Rule, access: Access) -> None:
        kind = access.type
        if kind not in (int, float, Decimal, timedelta):
            raise InvalidDeclaration(
                "only int, float, Decimal and timedelta can be summed", view=self.cls, field=name, type=kind
            )
        if kind in (Decimal, float):
            self._probed.append((name, access, lambda value: digits_of(exact_number(value))))
        place = self._slot(f"sum of {path_of(rule.field)}", _amount(access))
        if rule.fold == "total":
            self.folded.append(Folded(name, _total(place, _BACK[kind])))
            return
        values = self._slot(f"values of {path_of(rule.field)}", _presence(access))
        self.folded.append(Folded(name, _mean(place, values, _MEANS[kind])))

    def _extremum(self, name: str, rule: Rule, access: Access, prefix: bytes) -> None:
        is_greatest = rule.fold == "greatest"
        codec = Codec((element(name, access.type, self.cls, descending=is_greatest),))
        self._probed.append((name, access, lambda value: codec.encode((value,))))
        self.extrema.append(Extremum(name, prefix, is_greatest, access, codec))

    def _emitter(self) -> Emit:
        """Generates the function that adds the entity's contribution to each of its groups."""
        scope = _SCOPE | {"PREFIX": self.prefix, "TOKENS": self.tokens}
        scope |= {"refuse": self._refuse, "refuse_long": self._refuse_long}
        before = [*self._amounts_lines(), "sums = record[TOKENS[0]] = []"]
        each = ["sums.append([found, recorded])", "deltas.append((PREFIX + found, amounts, 1))"]
        for place, extremum in enumerate(self.extrema):
            scope |= extremum.scope(place)
            before += extremum.lines(place)
            each += extremum.row_lines(place)
        return self.key.emitter(scope, compile_where(self.cls, self.model, self._accesses), before, each)

    def _amounts_lines(self) -> list[str]:
        """The statements that make the amounts, as numbers and as the record keeps them; views share them in `made`."""
        slots = list(self._slots.values())
        amounts = f"({', '.join(slot.code for slot in slots)},)"
        recorded = [f"amounts[{at}]" if slot.is_int else f"text(amounts[{at}])" for at, slot in enumerate(slots)]
        return [
            f"both = made.get({amounts!r})",
            "if both is None:",
            "    try:",
            f"        amounts = {amounts}",
            f"        both = made[{amounts!r}] = amounts, [{', '.join(recorded)}]",
            "    except LimitExceeded as error: refuse(error)",
            "amounts, recorded = both",
        ]

    def _refuse(self, error: LimitExceeded) -> NoReturn:
        raise InvalidValue(error.message, model=self.model.__name__, view=self.cls.__name__, **error.facts) from error

    def _refuse_long(self, field: str) -> NoReturn:
        raise InvalidKey(
            "the values of a group and its extremum are too long together",
            view=self.cls,
            field=field,
            limit=VALUES_BYTES,
        )

    def row_of(self, group: bytes, numbers: GroupNumbers, extrema: Sequence[Extremum]) -> Any:
        """The row of the group with this key, of the numbers that were read; other least and greatest are None."""
        found: dict[str, Any] = dict.fromkeys([each.field for each in self.extrema])
        for each, packed in zip(extrema, numbers.extrema, strict=True):
            found[each.field] = None if packed is None else self.decode_extremum(each, packed)
        return self.make_row(self.key.codec.decode(group), decode_amounts(numbers.sums), found)

    def make_row(self, group: tuple[Any, ...], numbers: list[Number], extrema: Mapping[str, Any]) -> Any:
        """The row as the user sees it; `group` are the key's values, `numbers` are empty for an empty group."""
        fields: dict[str, Any] = dict(extrema)
        start = 0
        for part in self.key.parts:
            values = group[start : start + part.width]
            start += part.width
            fields[part.field] = _as_declared(part.access, self._copies[part.field], values)
        for each in self.folded:
            fields[each.field] = self._read_number(each, numbers)
        return self.cls(**fields)

    def decode_extremum(self, extremum: Extremum, packed: bytes) -> Any:
        """Decodes the value of a row of a hidden index."""
        try:
            return self._decoders[extremum.prefix](packed)[0]
        except msgspec.MsgspecError:  # an int beyond 64 bits
            return msgspec.convert(unpack_wide(packed), tuple[extremum.access.type])[0]  # type: ignore[name-defined]

    def _named_extremum(self, extremum: Extremum, packed: bytes) -> Mapping[str, Any]:
        return {extremum.field: self.decode_extremum(extremum, packed)}

    def reader(self, field: str, extrema: Sequence[str]) -> Callable[[GroupNumbers], Any]:
        """The function from the numbers of a group to one field; `extrema` are the fields whose first rows are read."""
        for each in self.folded:
            if each.field == field:
                return lambda numbers: self._read_number(each, decode_amounts(numbers.sums))
        (found,) = (each for each in self.extrema if each.field == field)
        place = extrema.index(field)

        def read(numbers: GroupNumbers) -> Any:
            packed = numbers.extrema[place]
            return None if packed is None else self.decode_extremum(found, packed)

        return read

    def _read_number(self, folded: Folded, numbers: list[Number]) -> Any:
        try:
            return folded.read(numbers)
        except OverflowError as error:
            raise LimitExceeded(
                "the sum of this group is too large for a timedelta", view=self.cls, field=folded.field
            ) from error

    def range_of(self, extremum: Extremum, group: bytes) -> RowRange:
        """The rows of a hidden index that belong to one group; the first has its least or greatest value."""
        start, stop = prefix_range(extremum.prefix + group)
        return RowRange(start, stop or b"")

    def keyspaces(self, kind: EntityKind) -> tuple[Keyspace, ...]:
        name, values, codec = self.cls.__name__, key_values(self.key), self.key.codec
        groups = Keyspace(self.prefix, "counts", name, kind, values, width=self.width, numbers=tuple(self._slots))
        extrema = [
            Keyspace(
                each.prefix, "views", f"{name}.{each.field}", kind, values, owner_offset(codec, each.codec),
                undigested=True, fields=partial(self._named_extremum, each),
            )
            for each in self.extrema
        ]  # fmt: skip
        return groups, *extrema

    def probed_values(self) -> Iterable[tuple[str, Access, Callable[[Any], object]]]:
        return [*((part.field, part.access, part.check()) for part in self.key.parts), *self._probed]

    def find_many(self, wanted: Sequence[tuple[Any, ...]]) -> Plan[list[Any]]:
        groups = [self.key.codec.encode(values) for values in wanted]
        counts: Plan[Any] = _counts([self.prefix + group for group in groups])
        if not self.extrema:
            numbers = yield from counts
            return [self.make_row(values, each, {}) for values, each in zip(wanted, numbers, strict=True)]
        extremes = [self._extreme(each, group) for group in groups for each in self.extrema]
        numbers, *found = yield from Together([counts, *extremes])
        width, names = len(self.extrema), [each.field for each in self.extrema]
        return [
            self.make_row(values, each, dict(zip(names, found[place * width : (place + 1) * width], strict=True)))
            for place, (values, each) in enumerate(zip(wanted, numbers, strict=True))
        ]

    def _extreme(self, extremum: Extremum, group: bytes) -> Plan[Any]:
        """Reads the least or greatest value of a group: that of the first row of its hidden index."""
        found = yield from first_row("views", self.range_of(extremum, group))
        return None if found is None else self.decode_extremum(extremum, found[1][VALUE].value)

    def local_find(self, engine: LocalReads) -> LocalFind | None:
        prefix, encode, point, column = self.prefix, self.key.codec.encode, engine.point, engine.column

        def find(values: tuple[Any, ...]) -> tuple[Any, int, int]:
            group = encode(values)
            cell = point("counts", prefix + group, VALUE)
            rows, size, packed = 1, 0, None
            if cell is not None:
                packed = cell.value
                size = len(packed)
            extrema: dict[str, Any] = {}
            for each in self.extrema:
                found = column("views", self.range_of(each, group), 1, VALUE)
                extrema[each.field] = None
                for key, value in found:
                    extrema[each.field] = self.decode_extremum(each, value)
                    rows += 1
                    size += len(key) + len(value)
            return self.make_row(values, decode_amounts(packed), extrema), rows, size

        return find

    def show(self, found: Sequence[Found]) -> Plan[list[Any]]:
        groups = [row_part(key) for key, _row in found]
        wanted = [self._extreme(each, group) for group in groups for each in self.extrema]
        values = (yield from Together(wanted)) if wanted else []
        width, names = len(self.extrema), [each.field for each in self.extrema]
        return [
            self.make_row(
                self.key.codec.decode(group),
                amounts_in(row),
                dict(zip(names, values[place * width : (place + 1) * width], strict=True)),
            )
            for place, (group, (_key, row)) in enumerate(zip(groups, found, strict=True))
        ]

    def explain_find(self, place: bytes) -> list[str]:
        group = shown(key_values(self.key)(place))
        name = self.cls.__name__
        return [
            f"read counts {name}{group}",
            *(f"scan views for the first row of {name}.{each.field}{group}" for each in self.extrema),
        ]

    def forms(self) -> tuple[RowForm, ...]:
        name, place, folds = self.cls.__name__, key_paths(self.key), self._rules
        summed = frozenset(
            path_of(rule.field).names
            for rule in folds.values()
            if rule.kind == "fold" and rule.field is not None and rule.fold not in _EXTREMA
        )
        groups = RowForm(
            name, "group", "group", "groups", "counts", place, summed, "numbers",
            found="read", paged="rows", numbers=tuple(_numbers_of(folds)),
        )  # fmt: skip
        extrema = [(each, path_of(folds[each.field].field)) for each in self.extrema]
        return (
            groups,
            *(
                RowForm(
                    f"{name}.{each.field}",
                    "extremum rows",
                    "extremum",
                    "extremum",
                    "views",
                    place | {path.names},
                    frozenset(),
                    "value",
                    found="scan",
                    paged="each",
                    ends=(each.access.type, path),
                )
                for each, path in extrema
            ),
        )


def check_folds(view: type[Aggregate[Any]], names: Names) -> None:
    """Checks that the fields of folds are annotated with what their folds return."""
    types = field_types(view, names)
    for name, rule in rules_of(view).items():
        if rule.kind == "fold":
            _check_fold(view, name, rule, types[name], names)


def keyspace_fields(view: type[Aggregate[Any]]) -> list[str]:
    """The fields of least(...) and greatest(...): each has a hidden index."""
    return [name for name, rule in rules_of(view).items() if rule.fold in _EXTREMA]


def _check_fold(view: type, name: str, rule: Rule, annotation: object, names: Names) -> None:
    bare, optional, _metadata = unwrap(annotation)
    if rule.fold == "count" and (bare is not int or optional):
        raise InvalidDeclaration("count(): expected int", view=view, field=name, type=bare)
    if rule.fold in ("mean", "least", "greatest") and not optional:
        raise InvalidDeclaration("the value of an empty group is None: declare it as `| None`", view=view, field=name)
    if rule.fold == "mean":
        source = _type_at(path_of(rule.field).steps[-1], names)
        if source in _MEAN_TYPES and bare is not _MEAN_TYPES[source]:
            raise InvalidDeclaration(
                "the mean of this field has another type",
                view=view,
                field=name,
                declared=bare,
                mean=_MEAN_TYPES[source],
            )


def _type_at(step: tuple[type, str], names: Names) -> Any:
    """The bare type of a field; None if the path is wrong, which is refused elsewhere."""
    cls, name = step
    annotation = field_types(cls, names).get(name)
    return None if annotation is None else unwrap(annotation).bare


def amounts_in(row: Row | None) -> list[Number]:
    """The numbers of a group's row."""
    return decode_amounts(None if row is None else row[VALUE].value)


def _counts(keys: list[bytes]) -> Plan[list[list[Number]]]:
    rows = yield from Read("counts", keys)
    return [amounts_in(row) for row in rows]


def _numbers_of(folds: Mapping[str, Rule]) -> Iterator[Path | None]:
    """The numbers of a group's row besides the contributions: a sum, and a number of values, for each field."""
    known: set[tuple[str, Path]] = set()
    for rule in folds.values():
        if rule.kind != "fold" or rule.field is None or rule.fold in _EXTREMA:
            continue
        path = path_of(rule.field)
        for what, is_needed in (("values", rule.fold in ("count", "mean")), ("sum", rule.fold in ("total", "mean"))):
            if is_needed and (what, path) not in known:
                known.add((what, path))
                yield path if what == "sum" else None


def _as_declared(access: Access, copy: type[Copy[Any]] | None, values: tuple[Any, ...]) -> Any:
    if access.target is None:
        return values[0]
    if values[0] is None:
        return None
    return copy.of(*values) if copy is not None else ref_class(access.target)(values)


def _number(place: int) -> Callable[[list[Number]], Any]:
    return lambda numbers: numbers[place] if numbers else 0


def _total(place: int, back: Callable[[Number], Any]) -> Callable[[list[Number]], Any]:
    return lambda numbers: back(numbers[place] if numbers else 0)


def _mean(place: int, values: int, divided: Callable[[Number, Number], Any]) -> Callable[[list[Number]], Any]:
    return lambda numbers: divided(numbers[place], numbers[values]) if numbers and numbers[values] else None


def _presence(access: Access) -> Slot:
    return Slot(f"(None if {access.code} is None else 1)" if access.optional else "1", is_int=True)


def _amount(access: Access) -> Slot:
    if access.type is int:
        return Slot(access.code, is_int=True)
    if access.type is timedelta:
        return Slot(f"(None if (x := {access.code}) is None else x // microsecond)", is_int=True)
    return Slot(f"(None if (x := {access.code}) is None else exact(x))", is_int=False)


_pack: Final = msgspec.msgpack.Encoder(uuid_format="bytes").encode


def _packed(value: object) -> tuple[bytes, bytes]:
    """A value as a row of a hidden index holds it, and what the record keeps of it: nothing, the row's key has it."""
    try:
        return _pack((value,)), b""
    except OverflowError:
        return pack_wide((value,)), b""


def _packed_in_digits(value: object) -> tuple[bytes, bytes]:
    """`_packed` for types whose equal values have one key but several forms, as 1.0 and 1.00, or 0.0 and -0.0."""
    doc, _nothing = _packed(value)
    return doc, short_hash(doc)


_SCOPE: Final[dict[str, Any]] = {
    "exact": exact_number,
    "text": digits_of,
    "microsecond": _MICROSECOND,
    "LimitExceeded": LimitExceeded,
}

_BACK: Final[dict[type, Callable[[Number], Any]]] = {
    int: lambda number: number,
    Decimal: plain,
    float: lambda number: float(plain(number)),
    timedelta: lambda number: timedelta(microseconds=int(number)),
}

_MEANS: Final[dict[type, Callable[[Number, Number], Any]]] = {
    int: lambda total, values: plain(_MEAN.divide(Decimal(total), Decimal(values))),
    Decimal: lambda total, values: plain(_MEAN.divide(Decimal(total), Decimal(values))),
    float: lambda total, values: float(plain(_MEAN.divide(Decimal(total), Decimal(values)))),
    timedelta: lambda total, values: timedelta(microseconds=round(Fraction(int(total), int(values)))),
}
