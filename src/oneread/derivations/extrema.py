"""Extrema: the folds of an aggregate that show the first rows of a hidden index: least, greatest and newest values.

A hidden index has one row for each entity with a value, so the next one takes over when an entity changes or goes. See
docs/formats/rows.md and docs/decisions/0058-newest-values.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from oneread.derivations.access import Access, FieldRoute
from oneread.derivations.derivation import RowForm
from oneread.derivations.emitted_record import ROWS, SAID_BY_KEY, short_hash, view_token
from oneread.derivations.operations import CompiledCondition
from oneread.derivations.row_operations import MakeExtreme, PackedValue, PackValue
from oneread.derivations.rules import Rule
from oneread.encoding.codec import Codec
from oneread.errors import Corrupt, InvalidDeclaration, InvalidValue
from oneread.models.layout import Layout
from oneread.models.paths import path_of
from oneread.models.prepare import prepare_type
from oneread.models.registry import element
from oneread.models.set_order import has_one_form, order_sets
from oneread.models.types import Names, type_of, unwrap
from oneread.models.wide import pack_wide, unpack_wide
from oneread.store.limits import MOST_NEWEST, NEWEST_BYTES
from oneread.store.rows import UNDECODABLE, RowRange
from oneread.transactions.first_rows import FirstRows

EXTREMA: Final = ("least", "greatest", "newest_values")
"""The words of the folds that have a hidden index each."""

_NO_INSTANT: Final = "newest_values(..., by=Membership.joined_at): expected the field of an instant"

_pack: Final = msgspec.msgpack.Encoder(uuid_format="bytes").encode


class Fold(NamedTuple):
    """A rule as an extremum is compiled of it."""

    view: type
    field: str
    rule: Rule
    prefix: bytes
    """Of the hidden index."""
    place: frozenset[FieldRoute]
    """The paths that the key of the group depends on."""
    type: Any
    """Of the field, as declared."""
    condition: CompiledCondition | None = None
    """Which entities have a row."""


class Extremum(NamedTuple):
    """One fold with its hidden index of rows (group, value that orders, source key)."""

    field: str
    prefix: bytes
    most: int
    """How many of a group's first rows the field shows."""
    codec: Codec
    """Of the value that orders."""
    order: Access
    value: Access
    """What a row holds; of a least or greatest it is what orders."""
    word: str
    """Of the fold."""
    pack: PackValue
    decode: Callable[[bytes], Any]
    """From what a row holds to the value."""
    read: Callable[[Sequence[bytes]], Any]
    """From what the first rows of a group hold to the field; they are none for an empty group."""
    form: RowForm
    condition: CompiledCondition | None

    @property
    def token(self) -> int:
        return view_token(ROWS, self.prefix)

    def first_rows(self, group: bytes) -> FirstRows:
        """The rows that the field of one group shows."""
        return FirstRows(RowRange.under(self.prefix + group), self.most)

    def named(self, packed: bytes) -> Mapping[str, Any]:
        """What one row holds, by field, for people."""
        return {self.field: self.decode(packed)}

    def checks(self) -> list[tuple[str, Access, Callable[[Any], object]]]:
        """The checks of new values, as `CompiledView.probed_values` gives them."""

        def encode(value: Any) -> bytes:
            return self.codec.encode((value,))

        ordering = (self.field, self.order, encode)
        return [ordering] if self.order is self.value else [ordering, (self.field, self.value, self.pack)]

    @property
    def operation(self) -> MakeExtreme:
        """What makes the row of an entity."""
        return MakeExtreme(self.word, self.value.value, self.order.value, self.codec, self.pack, self.condition)


def _read_wide(value: bytes, of: Any) -> Any:
    try:
        return msgspec.convert(unpack_wide(value), of)
    except (*UNDECODABLE, ValueError, TypeError) as error:
        raise Corrupt("a least or greatest value of a group cannot be read; run `oneread repair`") from error


def compile_least_or_greatest(fold: Fold, access: Access) -> Extremum:
    """Compiles `least(...)` or `greatest(...)` of the value that `access` reaches."""
    path, is_greatest = path_of(fold.rule.field), fold.rule.fold == "greatest"
    codec = Codec((element(fold.field, access.type, fold.view, descending=is_greatest),))
    decode_plain = msgspec.msgpack.Decoder(prepare_type(access.type)).decode

    def read(values: Sequence[bytes]) -> Any:
        if not values:
            return None
        try:
            return decode_plain(values[0])
        except UNDECODABLE:  # an int beyond 64 bits, or damaged
            return _read_wide(values[0], access.type)

    def decode(packed: bytes) -> Any:
        return read((packed,))

    form = RowForm(
        f"{fold.view.__name__}.{fold.field}", "extremum rows", "extremum", "extremum", "views",
        fold.place | {path.names}, frozenset(), "value", found="scan", paged="each", ends=(access.type, path),
    )  # fmt: skip
    return Extremum(
        fold.field, fold.prefix, 1, codec, access, access, "greatest" if is_greatest else "least",
        _packed if has_one_form(access.type) else _packed_in_digits, decode, read, form, fold.condition,
    )  # fmt: skip


def compile_newest(fold: Fold, access: Access, by: Access, names: Names) -> Extremum:
    """Compiles `newest_values(...)` of the values that `access` reaches, in the order of the instants at `by`.

    Raises:
        InvalidDeclaration: the values are copies, or of another type than declared.
    """
    rule, value_path, path = fold.rule, path_of(fold.rule.field), path_of(fold.rule.by)
    _check_newest(fold, access, by, names)
    codec = Codec((element(fold.field, datetime, fold.view, descending=True),))
    holder = msgspec.defstruct("NewestValue", [("value", access.type)], frozen=True, module=__name__)
    layout: Layout[Any] = Layout(holder, None, names=names)
    arrange = order_sets if type_of(access.type, names).holds_sets else None

    def pack(value: Any) -> PackedValue:
        row = (value if arrange is None else arrange(value),)
        try:
            doc = _pack(row)
        except OverflowError:
            doc = layout.wide_prefix + pack_wide(row)
        if len(doc) > NEWEST_BYTES:
            raise InvalidValue(
                "a value that an aggregate keeps with newest_values(...) is too long",
                view=fold.view.__name__, field=fold.field, length=len(doc), limit=NEWEST_BYTES,
            )  # fmt: skip
        return doc, short_hash(doc)

    def decode(packed: bytes) -> Any:
        return layout.decode(packed).value

    def read(values: Sequence[bytes]) -> list[Any]:
        return [each.value for each in layout.decode_many(values)]

    form = RowForm(
        f"{fold.view.__name__}.{fold.field}", "rows of newest values", "newest values", "newest values", "views",
        fold.place | {path.names}, frozenset({value_path.names}), "short value", found="scan", paged="each",
        ends=(datetime, value_path), first=rule.most,
    )  # fmt: skip
    return Extremum(
        fold.field, fold.prefix, rule.most, codec, by, access, "newest", pack,
        decode, read, form, fold.condition,
    )  # fmt: skip


def check_newest(view: type, field: str, rule: Rule) -> None:
    """Raises InvalidDeclaration unless newest values have an order, and are as many as an index row can show."""
    if rule.by is None:
        raise InvalidDeclaration(_NO_INSTANT, view=view, field=field)
    if type(rule.most) is not int or not 1 <= rule.most <= MOST_NEWEST:
        raise InvalidDeclaration(
            f"newest_values(..., most=3): expected a whole number from 1 to {MOST_NEWEST}",
            view=view, field=field, most=rule.most,
        )  # fmt: skip


def _check_newest(fold: Fold, access: Access, by: Access, names: Names) -> None:
    facts = {"view": fold.view, "field": fold.field}
    if by.many or by.type is not datetime:
        raise InvalidDeclaration(_NO_INSTANT, type=by.type, **facts)
    if access.copy is not None or access.stands_for is not None:
        raise InvalidDeclaration(
            "newest values are never copies: take the reference, or one of the fields, as "
            "newest_values(within(Membership.member, MemberCopy.name), ...)",
            path=str(path_of(fold.rule.field)), **facts,
        )  # fmt: skip
    bare, optional, _metadata = unwrap(fold.type)
    declared = type_of(bare, names)
    elements = declared.several if declared.cls is list else None
    if elements is None or optional or elements.optional or elements.bare != access.type:
        raise InvalidDeclaration(
            "newest_values(...) gives a list of the field's values, without None; that of an empty group is empty",
            declared=fold.type, values=access.type, **facts,
        )  # fmt: skip


def _packed(value: object) -> PackedValue:
    """A value as a row of a hidden index holds it, of which the record keeps nothing: the row's key says it."""
    try:
        return _pack(value), SAID_BY_KEY
    except OverflowError:
        return pack_wide(value), SAID_BY_KEY


def _packed_in_digits(value: object) -> PackedValue:
    """`_packed` for types whose equal values have one key but several forms, as 1.0 and 1.00, or 0.0 and -0.0.

    The key says the form that most values have. Of others the record keeps a digest.
    """
    doc = _pack(value)
    is_usual = _is_shortest(str(value)) if isinstance(value, Decimal) else isinstance(value, float) and bool(value)
    return doc, SAID_BY_KEY if is_usual else short_hash(doc)


def _is_shortest(digits: str) -> bool:
    """Whether a Decimal's digits have no exponent, no sign of zero, and no zeros at the end of a fraction."""
    if "." in digits:
        return "1" <= digits[-1] <= "9" and "E" not in digits and "e" not in digits
    return digits != "-0" and digits.removeprefix("-").isdigit()
