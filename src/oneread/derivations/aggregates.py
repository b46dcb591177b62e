"""Aggregates: counts and exact sums by group, and the least, greatest and newest values.

Counts and sums are deltas on one row for each group; a mean is divided on read. The others are extrema, which have a
hidden index each. See docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple, NoReturn

from oneread.derivations.access import Access, FieldRoute
from oneread.derivations.derivation import (
    CompiledView,
    Compiling,
    Keyspace,
    LocalFind,
    RowDecoder,
    RowForm,
    key_paths,
    key_values,
    owner_offset,
)
from oneread.derivations.emitted_record import SUMS, view_token
from oneread.derivations.expiry import own_expiry
from oneread.derivations.extrema import EXTREMA, Extremum, Fold, check_newest, compile_least_or_greatest, compile_newest
from oneread.derivations.indexes import check_type, compile_condition, compile_where
from oneread.derivations.keyed import ViewKey
from oneread.derivations.operations import CompiledCondition, ExpiresAt, Operation, SkipExpired, ViewProgram
from oneread.derivations.row_operations import AddToGroup, MakeAmounts, PutExtreme, Slot
from oneread.derivations.rules import Rule, rules_of
from oneread.derivations.shown_rows import copy_shown
from oneread.derivations.views import Aggregate, View
from oneread.encoding.codegen import function
from oneread.errors import InvalidDeclaration, InvalidKey, InvalidValue, LimitExceeded, shown
from oneread.models.expressions import Expression
from oneread.models.paths import Path, path_of
from oneread.models.references import Ref, maker_of_referring, ref_class
from oneread.models.registry import EntityKind
from oneread.models.types import FieldType, Names, field_types, types_of, unwrap
from oneread.plans.effects import Together
from oneread.plans.plan import Plan
from oneread.store.engine import FirstUnder, LocalReads
from oneread.store.keys import VIEW_BYTES, row_part
from oneread.store.limits import VALUES_BYTES
from oneread.store.requests import Found
from oneread.store.rows import VALUE, Row, Table
from oneread.transactions.deltas import Number, decode_amounts, digits_of, exact_number, plain
from oneread.transactions.first_rows import first_values
from oneread.transactions.group_shards import MOST_SHARDS, read_groups
from oneread.transactions.root_rows import GroupNumbers

MEAN_DIGITS: Final = 28

_MEAN = Context(prec=MEAN_DIGITS)
_MEAN_TYPES: Final[dict[type, type]] = {int: Decimal, Decimal: Decimal, float: float, timedelta: timedelta}


class Folded(NamedTuple):
    """How a field of the aggregate is read from the numbers."""

    field: str
    read: Callable[[list[Number]], Any]
    whole: int | None = None
    """The place of the whole number that the field is, 0 for an empty group; None where it is made of more."""


def _check_options(cls: type[Aggregate[Any]]) -> None:
    if hasattr(cls, "unique"):
        raise InvalidDeclaration("unique is for an index; an aggregate has one row a group", view=cls)
    if type(cls.shards) is not int or not 0 < cls.shards <= MOST_SHARDS:
        raise InvalidDeclaration(
            "shards: expected a number of rows", view=cls, shards=cls.shards, least=1, most=MOST_SHARDS
        )


class AggregateView:
    """One aggregate, compiled; `compiling.prefixes` are those of the hidden indexes."""

    table: Table = "counts"
    can_find = True
    groups: CompiledView | None = None
    parts: tuple[type[View[Any]], ...] = ()
    merged: tuple[bytes, ...] = ()
    has_expiries = False
    make_row: Callable[[tuple[Any, ...], list[Number], Mapping[str, Any]], Any]
    """The row as the user sees it, of the key's values, the numbers (none for an empty group) and the extrema."""
    row_decoder: RowDecoder | None = None

    def __init__(self, cls: type[Aggregate[Any]], compiling: Compiling) -> None:
        model, prefix, prefixes, accesses = compiling.model, compiling.prefix, compiling.prefixes, compiling.accesses
        self.cls = cls
        self.model = model
        self.prefix = prefix
        _check_options(cls)
        self.shards = min(cls.shards, compiling.most_shards)
        """The rows of each group."""
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
        self._check_key()
        self._slots: dict[tuple[str, str], Slot] = {("contributions", ""): Slot("one")}
        """By what they are and the signature of their condition."""
        self.folded: list[Folded] = []
        self.extrema: list[Extremum] = []
        self._probed: list[tuple[str, Access, Callable[[Any], object]]] = []
        for name, rule in self._rules.items():
            if rule.kind != "key":
                self._fold(name, rule, prefixes)
        if not self.folded and not self.extrema:
            raise InvalidDeclaration("an aggregate needs a fold: count(), total(...), mean(...), ...", view=cls)
        self.tokens: tuple[int, ...] = (view_token(SUMS, prefix), *(each.token for each in self.extrema))
        self.width = len(self._slots)
        self._where = compile_where(cls, model, accesses)
        self._expiry = own_expiry(cls)
        self.make_row = self._maker()

    @property
    def types(self) -> Mapping[str, FieldType]:
        """Of the fields of its rows."""
        return types_of(self.cls, self._accesses.names)

    def _check_key(self) -> None:
        for part in self.key.parts:
            check_type(self.cls, part.field, self._types[part.field], part.access, optional=part.rule.none is not None)
            if part.rule.descending or part.rule.hashed:
                raise InvalidDeclaration(
                    "an aggregate groups by(...) and bucket(...); its groups are in ascending order",
                    view=self.cls,
                    field=part.field,
                )

    def _fold(self, name: str, rule: Rule, prefixes: Mapping[str, bytes]) -> None:
        if rule.fold is None:
            raise InvalidDeclaration("an aggregate has no shown fields; declare an Index", view=self.cls, field=name)
        condition = self._condition(name, rule)
        if rule.field is None:
            place = 0 if condition is None else self._slot("entities", Slot("one"), condition)
            self.folded.append(Folded(name, _number(place), place))
            return
        access = self._accesses.of_path(self.cls, name, rule.field, self.model)
        if access.many:
            raise InvalidDeclaration("a fold cannot take a list", view=self.cls, field=name)
        if rule.fold in EXTREMA:
            self._extremum(
                Fold(self.cls, name, rule, prefixes[name], key_paths(self.key), self._types[name], condition), access
            )
        elif rule.fold == "count":
            place = self._slot(f"values of {path_of(rule.field)}", _presence(access), condition)
            self.folded.append(Folded(name, _number(place), place))
        else:
            self._sum(name, rule, access, condition)

    def _condition(self, name: str, rule: Rule) -> CompiledCondition | None:
        """Which entities of a group a number is folded from; None for all."""
        if rule.where is None:
            return None
        return compile_condition(self.cls, name, rule.where, self.model, self._accesses)

    def _slot(self, name: str, slot: Slot, condition: CompiledCondition | None) -> int:
        """The place of a number in the row; folds of one field and one condition share it."""
        place = (name, "" if condition is None else condition.signature)
        self._slots.setdefault(place, slot._replace(condition=condition))
        return list(self._slots).index(place)

    def _sum(self, name: str, rule: Rule, access: Access, condition: CompiledCondition | None) -> None:
        kind = access.type
        if kind not in (int, float, Decimal, timedelta):
            raise InvalidDeclaration(
                "only int, float, Decimal and timedelta can be summed", view=self.cls, field=name, type=kind
            )
        if kind in (Decimal, float):
            self._probed.append((name, access, lambda value: digits_of(exact_number(value))))
        place = self._slot(f"sum of {path_of(rule.field)}", _amount(access), condition)
        if rule.fold == "total":
            self.folded.append(Folded(name, _total(place, _BACK[kind]), place if kind is int else None))
            return
        values = self._slot(f"values of {path_of(rule.field)}", _presence(access), condition)
        self.folded.append(Folded(name, _mean(place, values, _MEANS[kind])))

    def _extremum(self, fold: Fold, access: Access) -> None:
        if fold.rule.by is None:
            made = compile_least_or_greatest(fold, access)
        else:
            by = self._accesses.of_path(self.cls, fold.field, fold.rule.by, self.model)
            made = compile_newest(fold, access, by, self._accesses.names)
        self._probed += made.checks()
        self.extrema.append(made)

    def program(self) -> ViewProgram:
        amounts = MakeAmounts(tuple(self._slots.values()), self._refuse)
        extremes = [each.operation for each in self.extrema]
        once: list[Operation] = [amounts, *extremes]
        if self._expiry is not None:
            since = self._accesses.of_route(self.model, self._expiry.path).value
            once.insert(0, SkipExpired((ExpiresAt(self._expiry, since),)))
        rows: list[Operation] = [AddToGroup(self.tokens[0], self.prefix, amounts)]
        for each, extreme in zip(self.extrema, extremes, strict=True):
            rows.append(PutExtreme(each.token, each.prefix, each.field, extreme, self._refuse_long))
        return self.key.program(self._where, once, rows)

    def _refuse(self, error: LimitExceeded) -> NoReturn:
        raise InvalidValue(error.message, model=self.model.__name__, view=self.cls.__name__, **error.facts) from error

    def _refuse_long(self, field: str) -> NoReturn:
        raise InvalidKey(
            "the values of a group and its extremum are too long together",
            view=self.cls,
            field=field,
            limit=VALUES_BYTES,
        )

    def group_row(self, key: bytes) -> bytes:
        """The first row of a group, from any of its rows in `counts`."""
        return key[: self.key.codec.decode_prefix(key, VIEW_BYTES)[1]]

    def row_of(self, group: bytes, numbers: GroupNumbers, extrema: Sequence[Extremum]) -> Any:
        """The row of the group with this key, of the numbers that were read; other extrema are those of none."""
        found: dict[str, Any] = {each.field: each.read(()) for each in self.extrema}
        found |= {each.field: each.read(values) for each, values in zip(extrema, numbers.extrema, strict=True)}
        return self.make_row(self.key.codec.decode(group), decode_amounts(numbers.sums), found)

    def _maker(self) -> Callable[[tuple[Any, ...], list[Number], Mapping[str, Any]], Any]:
        """Generates the function that makes the row as the user sees it."""
        scope: dict[str, Any] = {"CLS": self.cls, "Ref": Ref, "refuse": self._refuse_numbers}
        fields: list[str] = []
        start = 0
        for place, part in enumerate(self.key.parts):
            copy, value = self._copies[part.field], f"group[{start}]"
            if part.access.target is not None:
                scope[f"ref{place}"] = Ref if copy is not None else ref_class(part.access.target)
                scope[f"copy{place}"] = None if copy is None else maker_of_referring(copy)
                found = f"ref{place}(group[{start}:{start + part.width}])"
                value = f"None if {value} is None else {found if copy is None else f'copy{place}({found})'}"
            fields.append(f"{part.field}={value}")
            start += part.width
        for place, each in enumerate(self.folded):
            scope[f"read{place}"] = each.read
            fields.append(f"{each.field}=read{place}(numbers)")
        fields += [f"{each.field}=extrema[{each.field!r}]" for each in self.extrema]
        lines = [
            f"try: return CLS({', '.join(fields)})",
            "except OverflowError: refuse(numbers)",
        ]
        return function("make", "group, numbers, extrema", lines, scope, self.cls.__qualname__)

    def _refuse_numbers(self, numbers: list[Number]) -> None:
        """Raises LimitExceeded for the field that cannot show its number."""
        for each in self.folded:
            self._read_number(each, numbers)

    def reader(self, field: str, extrema: Sequence[str]) -> Callable[[GroupNumbers], Any]:
        """The function from the numbers of a group to one field; `extrema` are the fields whose first rows are read."""
        for each in self.folded:
            if each.field == field:
                return lambda numbers: self._read_number(each, decode_amounts(numbers.sums))
        (found,) = (each for each in self.extrema if each.field == field)
        place = extrema.index(field)
        return lambda numbers: found.read(numbers.extrema[place])

    def whole_number(self, field: str) -> int | None:
        """The place in a group's row of the whole number that a field is; None for one that is made of more."""
        return next((each.whole for each in self.folded if each.field == field), None)

    def _read_number(self, folded: Folded, numbers: list[Number]) -> Any:
        try:
            return folded.read(numbers)
        except OverflowError as error:
            raise LimitExceeded(
                "the sum of this group is too large for a timedelta", view=self.cls, field=folded.field
            ) from error

    def keyspaces(self, kind: EntityKind) -> tuple[Keyspace, ...]:
        name, values = self.cls.__name__, key_values(self.key)
        numbers = tuple(
            what if slot.condition is None else f"{what} where {slot.condition}"
            for (what, _condition), slot in self._slots.items()
        )
        groups = Keyspace(self.prefix, "counts", name, kind, values, width=self.width, numbers=numbers)
        extrema = [
            Keyspace(
                each.prefix, "views", f"{name}.{each.field}", kind, values, owner_offset(self.key, each.codec),
                fields=each.named,
            )
            for each in self.extrema
        ]  # fmt: skip
        return groups, *extrema

    def probed_values(self) -> Iterable[tuple[str, Access, Callable[[Any], object]]]:
        return [*((part.field, part.access, part.check()) for part in self.key.parts), *self._probed]

    def find_many(self, wanted: Sequence[tuple[Any, ...]]) -> Plan[list[Any]]:
        groups = [self.key.codec.encode(values) for values in wanted]
        counts: Plan[Any] = _counts([self.prefix + group for group in groups], self.shards)
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
        """Reads one extremum of a group."""
        return extremum.read((yield from first_values(extremum.first_rows(group))))

    def local_find(self, engine: LocalReads) -> LocalFind | None:
        prefix, encode, together, make = self.prefix, self.key.codec.encode, engine.together, self.make_row
        hidden = [(each.field, each.prefix, each.most, each.read) for each in self.extrema]

        def find(values: tuple[Any, ...]) -> tuple[Any, int, int]:
            group = encode(values)
            firsts: list[FirstUnder] = [("views", behind + group, most) for _field, behind, most, _read in hidden]
            packed, found = together("counts", prefix + group, VALUE, firsts)
            rows, size = 1, 0 if packed is None else len(packed)
            extrema: dict[str, Any] = {}
            for (field, _behind, _most, read), (keys, first) in zip(hidden, found, strict=True):
                extrema[field] = read(first)
                rows += len(first)
                size += sum(map(len, keys)) + sum(map(len, first))
            return make(values, decode_amounts(packed), extrema), rows, size

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
            *(f"scan views for the first {_rows(each.most)} of {name}.{each.field}{group}" for each in self.extrema),
        ]

    def forms(self) -> tuple[RowForm, ...]:
        folds = self._rules
        summed = frozenset(
            path_of(rule.field).names
            for rule in folds.values()
            if rule.kind == "fold" and rule.field is not None and rule.fold not in EXTREMA
        )
        groups = RowForm(
            self.cls.__name__, "group", "group", "groups", "counts", key_paths(self.key), summed, "numbers",
            found="read", paged="rows", numbers=tuple(_numbers_of(folds)), shards=self.shards,
            where=self._deciding(rule for rule in folds.values() if rule.fold not in EXTREMA),
        )  # fmt: skip
        rules = [folds[each.field] for each in self.extrema]
        return groups, *(
            each.form._replace(where=self._deciding([rule])) for each, rule in zip(self.extrema, rules, strict=True)
        )

    def _deciding(self, rules: Iterable[Rule]) -> frozenset[FieldRoute]:
        """The paths that decide whether an entity counts for these rules: those of conditions and of the ttl."""
        paths = [path.names for rule in rules for path in rule.condition_paths]
        return frozenset(paths if self._expiry is None else [*paths, self._expiry.path])


def check_folds(view: type[Aggregate[Any]], names: Names) -> None:
    """Checks that the fields of folds are annotated with what their folds return."""
    types = field_types(view, names)
    for name, rule in rules_of(view).items():
        if rule.kind == "fold":
            _check_fold(view, name, rule, types[name], names)


def keyspace_fields(view: type[Aggregate[Any]]) -> list[str]:
    """The fields of extrema: each has a hidden index."""
    return [name for name, rule in rules_of(view).items() if rule.fold in EXTREMA]


def _check_fold(view: type, name: str, rule: Rule, annotation: object, names: Names) -> None:
    bare, optional, _metadata = unwrap(annotation)
    if rule.fold != "count" and rule.field is None:
        raise InvalidDeclaration("this fold takes a field: total(Purchase.quantity)", view=view, field=name)
    if rule.fold == "count" and (bare is not int or optional):
        raise InvalidDeclaration("count(): expected int", view=view, field=name, type=bare)
    if rule.fold == "newest_values":
        check_newest(view, name, rule)
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


def _counts(keys: list[bytes], shards: int) -> Plan[list[list[Number]]]:
    rows = yield from read_groups(keys, shards)
    return [amounts_in(row) for row in rows]


def _numbers_of(folds: Mapping[str, Rule]) -> Iterator[Path | None]:
    """The numbers of a group's row besides the contributions.

    A sum, and a number of values or entities, for each field and condition.
    """
    known: set[tuple[str, Path | None, Expression | None]] = {("values", None, None)}
    for rule in folds.values():
        if rule.kind != "fold" or rule.fold in EXTREMA:
            continue
        path = None if rule.field is None else path_of(rule.field)
        for what, is_needed in (("values", rule.fold in ("count", "mean")), ("sum", rule.fold in ("total", "mean"))):
            if is_needed and (what, path, rule.where) not in known:
                known.add((what, path, rule.where))
                yield path if what == "sum" else None


def _rows(count: int) -> str:
    return "row" if count == 1 else f"{count} rows"


def _number(place: int) -> Callable[[list[Number]], Any]:
    return lambda numbers: numbers[place] if numbers else 0


def _total(place: int, back: Callable[[Number], Any]) -> Callable[[list[Number]], Any]:
    return lambda numbers: back(numbers[place] if numbers else 0)


def _mean(place: int, values: int, divided: Callable[[Number, Number], Any]) -> Callable[[list[Number]], Any]:
    return lambda numbers: divided(numbers[place], numbers[values]) if numbers and numbers[values] else None


def _presence(access: Access) -> Slot:
    return Slot("present", access.value) if access.optional else Slot("one")


def _amount(access: Access) -> Slot:
    of: Literal["whole", "microseconds", "exact"] = "exact"
    if access.type is int:
        of = "whole"
    elif access.type is timedelta:
        of = "microseconds"
    return Slot(of, access.value)


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
