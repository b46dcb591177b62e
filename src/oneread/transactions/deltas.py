"""Deltas: exact sums of the contributions of many entities to one row.

A row is one msgpack array of numbers, the first of which counts the contributions: the row of an empty group is
removed. Sums are exact: ints of any size, and Decimals (a float counts as the Decimal equal to it), added in a context
that traps rounding. See "Deltas" of the commit protocol and docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from oneread.errors import Corrupt, LimitExceeded
from oneread.store.rows import UNDECODABLE

T = TypeVar("T")

Number: TypeAlias = "int | Decimal"

MAGNITUDE: Final = 1200
"""Largest absolute decimal exponent of a number that may be summed.

Covers every float, and bounds the digits of a sum.
"""

_EXACT = Context(prec=2 * MAGNITUDE + 100, Emax=999_999, Emin=-999_999, traps=[Inexact, Overflow, InvalidOperation])
_add_exactly: Final = _EXACT.add
_ONE: Final = Decimal(1)
_BIG: Final = 1
_INT64: Final = 1 << 63
_LEAST, _MOST = -_INT64, _INT64 - 1


def exact_number(number: Any) -> Number | None:
    """The number that is summed for a value. Raises LimitExceeded for one without exact sums."""
    kind = type(number)
    if kind is int or number is None:
        return number  # type: ignore[no-any-return]
    decimal = number if kind is Decimal else Decimal(number)
    if not (decimal.is_finite() and -MAGNITUDE <= decimal.adjusted() <= MAGNITUDE):
        raise LimitExceeded("cannot sum this number: expected a finite one within 1e-1200 ... 1e1200", value=number)
    return decimal


def digits_of(number: Number | None) -> str | None:
    """A Decimal as the record stores it. Raises LimitExceeded for more than 1,200 digits."""
    if number is None:
        return None
    digits = str(number)
    if len(digits) > MAGNITUDE:
        raise LimitExceeded("cannot sum this number: it has more than 1,200 digits", digits=len(digits))
    return digits


def plain(number: Number) -> Decimal:
    """A sum in canonical form: no trailing zeros in a fraction, no -0, no exponent."""
    decimal = Decimal(number)
    if not decimal.is_finite():
        raise Corrupt("this counts row has a NaN or an infinity; repair the store", number=decimal)
    if not decimal:
        return Decimal(0)
    shortest = decimal.normalize(_EXACT)
    return shortest.quantize(_ONE, context=_EXACT) if "E+" in str(shortest) else shortest  # 1E+2


def negated(number: Number) -> Number:
    """The number with its sign changed, without rounding."""
    return -number if type(number) is int else _EXACT.minus(number)


def _to_wire(number: Number | None) -> Any:
    if type(number) is int:
        return msgspec.msgpack.Ext(_BIG, number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True))
    return None if number is None else str(number)


def _from_ext(code: int, data: memoryview) -> int:
    if code != _BIG:
        raise Corrupt("this counts row has an unknown extension type; repair the store", code=code)
    return int.from_bytes(data, "big", signed=True)


def wire_decoder(kind: type[T]) -> Callable[[bytes], T]:
    """A decoder of msgpack with numbers as `to_wire` makes them."""
    return msgspec.msgpack.Decoder(kind, ext_hook=_from_ext).decode


_encode = msgspec.msgpack.Encoder().encode
_decode = wire_decoder(list[Any])
_decode_wire = msgspec.msgpack.Decoder(list[Any]).decode


def to_wire(amounts: Sequence[Number | None]) -> list[Any]:
    """Numbers as msgpack can store them: Decimals become text, ints beyond 64 bits an extension."""
    return [number if type(number) is int and -_INT64 <= number < _INT64 else _to_wire(number) for number in amounts]


def from_wire(amounts: Sequence[Any]) -> list[Number | None]:
    """The numbers of what `to_wire` made, after msgpack."""
    return [number if type(number) is int else _from_wire(number) for number in amounts]


def _from_wire(number: Any) -> Number | None:
    if type(number) is str:
        return Decimal(number)
    if type(number) is msgspec.msgpack.Ext:
        return _from_ext(number.code, memoryview(number.data))
    return number  # type: ignore[no-any-return]


def decode_amounts(data: bytes | None) -> list[Number]:
    """The numbers of a counts row; an absent row is the empty list."""
    if data is None:
        return []
    try:
        wire = _decode(data)
        found = from_wire(wire)
    except (*UNDECODABLE, InvalidOperation, ValueError) as error:
        raise Corrupt("this counts row is unreadable; repair the store") from error
    if None in wire:  # not `in found`: a Decimal takes long to find that it is not None
        return [0 if number is None else number for number in found]
    return found  # type: ignore[return-value]


def encode_amounts(amounts: Sequence[Number]) -> bytes:
    """The bytes of a counts row."""
    return _encode(to_wire(amounts))


def add_to_row(data: bytes | None, amounts: Sequence[Number], *, is_part: bool = False) -> bytes | None:
    """The new value of a counts row to which amounts are added; None when no entity contributes any more.

    One row of a group that has several may say that as many entities left as others say came: with `is_part` it is
    None when all numbers are 0.
    """
    total = to_wire(amounts) if data is None else _add_to_row(data, amounts)
    return _encode(total) if total and (total[0] or (is_part and any(from_wire(total)))) else None


def _add_to_row(data: bytes, amounts: Sequence[Number]) -> list[Any]:
    """The numbers of a counts row with amounts added, as msgpack stores them; only those that change are parsed."""
    try:
        wire = _decode_wire(data)
        if len(wire) < len(amounts):
            wire += [0] * (len(amounts) - len(wire))
        for place, number in enumerate(amounts):
            here = wire[place]
            if type(number) is int and type(here) is int:
                total = here + number
                wire[place] = total if _LEAST <= total <= _MOST else _to_wire(total)
            elif type(number) is Decimal and type(here) is str:
                wire[place] = str(_add_exactly(Decimal(here), number))
            elif type(number) is int and number == 0 and here is not None:
                continue
            else:
                old = _from_wire(here)
                wire[place] = to_wire([_sum(0 if old is None else old, number)])[0]
    except (*UNDECODABLE, InvalidOperation, ValueError) as error:
        raise Corrupt("this counts row is unreadable; repair the store") from error
    if len(wire) > len(amounts) and None in wire:
        return [0 if number is None else number for number in wire]
    return wire


def _sum(here: Number, number: Number) -> Number:
    return here + number if type(here) is int is type(number) else _EXACT.add(here, number)


def _added(onto: list[Number], amounts: Sequence[Number | None], sign: int) -> list[Number]:
    """Amounts with others added (sign 1) or subtracted (sign -1): `onto` itself, or new ones if it has none."""
    if not onto and sign < 0:
        return [
            0 if number is None else -number if type(number) is int else _EXACT.subtract(0, number)
            for number in amounts
        ]
    if not onto:
        for number in amounts:  # not `None in amounts`: a Decimal takes long to find that it is not None
            if number is None:
                break
        else:
            return list(amounts)  # type: ignore[arg-type]
    _add(onto, amounts, sign)
    return onto


def difference(before: Sequence[Any], after: Sequence[Any]) -> list[Number]:
    """What turns the amounts of one contribution into those of another, both as the record has them; equal ones are 0.

    They are as many.
    """
    return [0 if was == now else _difference(was, now) for was, now in zip(before, after, strict=True)]


def _difference(before: Any, after: Any) -> Number:
    was, now = _number(before), _number(after)
    return now - was if type(was) is int is type(now) else _EXACT.add(_EXACT.subtract(0, was), now)


def _number(wire: Any) -> Number:
    number = wire if type(wire) is int else _from_wire(wire)
    return 0 if number is None else number


def _add(onto: list[Number], amounts: Sequence[Number | None], sign: int) -> None:
    """Adds (sign 1) or subtracts (sign -1) amounts; None adds nothing."""
    if len(onto) < len(amounts):
        onto.extend([0] * (len(amounts) - len(onto)))
    for place, number in enumerate(amounts):
        if number is not None:
            if sign < 0:
                number = negated(number)  # noqa: PLW2901 - the number is what is added
            onto[place] = _sum(onto[place], number)


class Delta:
    """What one unit of work adds to one counts row, in the order of the row's numbers; None adds nothing."""

    __slots__ = ("amounts",)

    def __init__(self) -> None:
        self.amounts: list[Number] = []

    def add(self, amounts: Sequence[Number | None], sign: int) -> None:
        """Adds (sign 1) or subtracts (sign -1) a contribution."""
        self.amounts = _added(self.amounts, amounts, sign)

    def copy(self) -> Delta:
        """A copy that can be added to by itself."""
        other = Delta()
        other.amounts = list(self.amounts)
        return other

    def onto(self, data: bytes | None) -> bytes | None:
        """The row's new value, as `add_to_row`."""
        return add_to_row(data, self.amounts)


def amounts_by_row(contributions: Iterable[tuple[bytes, Sequence[Number | None], int]]) -> dict[bytes, list[Number]]:
    """What contributions (row, amounts, sign) add to each counts row; a row to which they add 0 is left out."""
    found: dict[bytes, list[Number]] = {}
    for key, amounts, sign in contributions:
        found[key] = _added(found.get(key) or [], amounts, sign)
    return {key: amounts for key, amounts in found.items() if any(amounts)}
