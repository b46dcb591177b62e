"""The operations that put rows: index rows and unique values, the numbers of groups, the rows of extrema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

from oneread.derivations.access import ValuePath
from oneread.derivations.emission_code import EmissionCode, Shared
from oneread.derivations.operations import CompiledCondition, ProgramWords, RefuseLong
from oneread.derivations.rules import BucketSize
from oneread.encoding.codec import Codec
from oneread.encoding.codegen import indented
from oneread.errors import LimitExceeded
from oneread.models.expiry import EXPIRY_BYTES
from oneread.store.limits import VALUES_BYTES

PackedValue: TypeAlias = tuple[bytes, "bytes | int"]
"""What a row of an extremum holds, and what the record keeps of that."""

PackValue: TypeAlias = Callable[[Any], PackedValue]


# The rows of indexes.


class OwnKey(NamedTuple):
    """A row's own entity."""

    code: str = "(k,)"

    def __str__(self) -> str:
        return "own key"


class ShownValue(NamedTuple):
    """A plain value in a row; `value` is None for the element of each(...)."""

    value: ValuePath | None
    holds_sets: bool = False
    bucket: BucketSize | None = None

    @property
    def code(self) -> str:
        value = _value_code(self.value)
        if self.bucket is not None:
            return f"(None if (v := {value}) is None else start_{self.bucket}(in_utc(v)))"
        return f"in_order({value})" if self.holds_sets else value

    def __str__(self) -> str:
        return f"{_value_text(self.value)}{'' if self.bucket is None else f' bucket {self.bucket}'}"


class ShownReference(NamedTuple):
    """A copy that only refers, or a reference: the copy's fields are empty, or would have to follow their source."""

    value: ValuePath | None
    is_copy: bool
    """The entity has a copy there, and not a reference."""
    fields: int
    """How many fields the copy in the row has."""

    @property
    def code(self) -> str:
        reference = "v.ref" if self.is_copy else "v"
        return f"(None if (v := {_value_code(self.value)}) is None else ({reference}, False, {'None, ' * self.fields}))"

    def __str__(self) -> str:
        return f"{_value_text(self.value)} only referring"


class ShownCopy(NamedTuple):
    """A copy in a row, with its fields; those that hold sets are put in order."""

    value: ValuePath
    fields: tuple[tuple[str, bool], ...]

    @property
    def code(self) -> str:
        fields = ["c.ref", "c.deleted", *[f"in_order(c.{name})" if sets else f"c.{name}" for name, sets in self.fields]]
        return f"(None if (c := {self.value.code}) is None else ({', '.join(fields)}))"

    def __str__(self) -> str:
        return f"{self.value} copied"


def _value_code(value: ValuePath | None) -> str:
    return "m" if value is None else value.code


def _value_text(value: ValuePath | None) -> str:
    return "m" if value is None else str(value)


ShownItem: TypeAlias = OwnKey | ShownValue | ShownReference | ShownCopy


class PutRow(NamedTuple):
    """Puts an index row: what it shows, as a document."""

    token: int
    prefix: bytes
    shows: tuple[ShownItem, ...]
    pack: Callable[[tuple[Any, ...]], bytes]
    pack_wide: Callable[[tuple[Any, ...]], bytes]
    """Where `pack` raises OverflowError, for an int beyond 64 bits."""
    ends_in_expiry: bool
    most: int | None
    """The limit of the place and the key of a group together; None where each has its own."""
    refuse_long: RefuseLong
    is_framed: bool
    """The document is in parts, behind their lengths: the row of an item, or a membership, of a feed."""

    def lines(self, code: EmissionCode) -> list[str]:
        row = ", ".join(each.code for each in self.shows)
        lines = [
            f"row = ({row},)",
            f"try: doc = {code.name('pack', self.pack)}(row)",
            f"except OverflowError: doc = {code.name('wide', self.pack_wide)}(row)",
            *([f"doc += until.to_bytes({EXPIRY_BYTES}, 'big')"] if self.ends_in_expiry else []),
            "place = found + suffix",
        ]
        if self.most is not None:
            lines.append(f"if len(place) > {self.most}: {code.name('refuse', self.refuse_long)}(len(place))")
        return [*lines, code.adds(self.token, "found, hashed(doc)"), f"shown[{self.prefix!r} + place] = doc"]

    def describe(self, words: ProgramWords) -> None:
        end = " and until" if self.ends_in_expiry else ""
        limit = "" if self.most is None else f", at most {self.most} bytes"
        shows = ", ".join(map(str, self.shows))
        framed = " framed" if self.is_framed else ""
        words.add(f"ROW token {self.token} at {self.prefix.hex()} found own{limit} shows {shows}{framed}{end}")


class PutClaim(NamedTuple):
    """Claims the place as a unique value, where none of these is None."""

    token: int
    prefix: bytes
    values: tuple[ValuePath, ...]

    def lines(self, code: EmissionCode) -> list[str]:
        claimed = code.contributions(self.token)
        present = " and ".join(f"{each.code} is not None" for each in self.values)
        return [
            f"if {present}:",
            *indented([f"{claimed}.append(found)", f"claims.append({self.prefix!r} + found)"]),
        ]

    def describe(self, words: ProgramWords) -> None:
        present = ", ".join(map(str, self.values))
        words.add(f"CLAIM token {self.token} at {self.prefix.hex()} found unless None in {present}")


# The numbers of groups.


RegisterOf: TypeAlias = Callable[[CompiledCondition], str]
"""The register that says whether a condition holds."""


class Slot(NamedTuple):
    """One number of a group's row, and what an entity contributes to it; nothing where the condition does not hold."""

    of: Literal["one", "present", "whole", "microseconds", "exact"]
    """1; 1 unless the value is None; the int; a timedelta's microseconds; a Decimal or float, exactly."""
    value: ValuePath | None = None
    condition: CompiledCondition | None = None

    @property
    def is_int(self) -> bool:
        return self.of != "exact"

    def code(self, register_of: RegisterOf) -> str:
        """The expression of the amount, None for nothing."""
        if self.condition is None:
            return self._amount()
        return f"({self._amount()} if {register_of(self.condition)} else None)"

    def _amount(self) -> str:
        if self.value is None:
            return "1"
        value = self.value.code
        match self.of:
            case "one":
                return "1"
            case "present":
                return f"(None if {value} is None else 1)"
            case "whole":
                return value
            case "microseconds":
                return f"(None if (x := {value}) is None else x // microsecond)"
            case "exact":
                return f"(None if (x := {value}) is None else exact(x))"

    def named(self, words: ProgramWords) -> str:
        amount = "1" if self.value is None else str(self.value) if self.of == "whole" else f"{self.of} {self.value}"
        return amount if self.condition is None else f"{amount} if {self.condition.named(words)}"


class MakeAmounts(NamedTuple):
    """Makes the amounts that an entity contributes to a group, as numbers and as the record keeps them."""

    slots: tuple[Slot, ...]
    refuse: Callable[[LimitExceeded], NoReturn]

    def lines(self, code: EmissionCode) -> list[str]:
        holds = [each.register(code).lines for each in self._conditions()]
        made = self._register(code)
        lines = [line for each in (*holds, made.lines) for line in each]
        return [*lines, f"amounts, recorded = {made.variable}"]

    def _conditions(self) -> list[CompiledCondition]:
        """Each condition once."""
        found = [slot.condition for slot in self.slots if slot.condition is not None]
        return list({each.signature: each for each in found}.values())

    def _amounts(self, register_of: RegisterOf) -> str:
        return f"({', '.join(each.code(register_of) for each in self.slots)},)"

    def _register(self, code: EmissionCode) -> Shared:
        amounts = self._amounts(lambda condition: condition.register(code).variable)
        recorded = [f"amounts[{at}]" if slot.is_int else f"text(amounts[{at}])" for at, slot in enumerate(self.slots)]
        refuse = code.name("refuse", self.refuse)
        return code.shared(
            amounts,
            lambda variable: [
                "try:",
                f"    amounts = {amounts}",
                f"    {variable} = amounts, [{', '.join(recorded)}]",
                f"except LimitExceeded as error: {refuse}(error)",
            ],
        )

    def describe(self, words: ProgramWords) -> None:
        for each in self._conditions():
            each.named(words)
        self.named(words)

    def named(self, words: ProgramWords) -> str:
        amounts = ", ".join(each.named(words) for each in self.slots)
        return words.made(self._amounts(lambda condition: condition.named(words)), f"AMOUNTS {amounts}")


class AddToGroup(NamedTuple):
    """Adds the amounts to the numbers of the group."""

    token: int
    prefix: bytes
    amounts: MakeAmounts

    def lines(self, code: EmissionCode) -> list[str]:
        return [
            code.adds(self.token, "found, recorded"),
            f"deltas.append(({self.prefix!r} + found, amounts, 1))",
        ]

    def describe(self, words: ProgramWords) -> None:
        words.add(f"SUM token {self.token} at {self.prefix.hex()} found adds {self.amounts.named(words)}")


class MakeExtreme(NamedTuple):
    """Makes the row of an extremum: the element of its key that orders, what it holds, and what the record keeps."""

    word: str
    """Extrema of one word, value and order hold the same values in the same order."""
    value: ValuePath
    order: ValuePath
    codec: Codec
    """Of the value that orders."""
    pack: PackValue
    condition: CompiledCondition | None

    @property
    def _signature(self) -> str:
        signature = f"{self.word} {self.value.code} by {self.order.code}"
        return signature if self.condition is None else f"{signature} where {self.condition.signature}"

    def lines(self, code: EmissionCode) -> list[str]:
        holds = [] if self.condition is None else self.condition.register(code).lines
        return [*holds, *self.register(code).lines]

    def register(self, code: EmissionCode) -> Shared:
        """The register of the row; empty where the entity has none."""
        order, absent = "value", "value is None"
        if self.order != self.value:
            order, absent = "at", f"value is None or (at := {self.order.code}) is None"
        if self.condition is not None:
            absent = f"not {self.condition.register(code).variable} or {absent}"
        encode, pack = code.name("extreme", self.codec.encode), code.name("packed", self.pack)
        return code.shared(
            self._signature,
            lambda variable: [
                f"value = {self.value.code}",
                f"{variable} = () if {absent} else ({encode}(({order},)), *{pack}(value))",
            ],
        )

    def describe(self, words: ProgramWords) -> None:
        self.named(words)

    def named(self, words: ProgramWords) -> str:
        by = "" if self.order == self.value else f" by {self.order}"
        where = "" if self.condition is None else f" if {self.condition.named(words)}"
        return words.made(self._signature, f"EXTREME {self.word} {self.value}{by}{where}")


class PutExtreme(NamedTuple):
    """Puts the row of an extremum behind the place of its group, if the entity has one."""

    token: int
    prefix: bytes
    field: str
    extreme: MakeExtreme
    refuse_long: RefuseLong

    def lines(self, code: EmissionCode) -> list[str]:
        made, refuse_long = self.extreme.register(code).variable, code.name("refuse_long", self.refuse_long)
        row = [
            f"element, doc, kept = {made}",
            f"if len(found) + len(element) > {VALUES_BYTES}: {refuse_long}({self.field!r})",
            "place = found + element",
            code.adds(self.token, "place, kept"),
            f"shown[{self.prefix!r} + place + suffix] = doc",
        ]
        return [f"if {made}:", *indented(row)]

    def describe(self, words: ProgramWords) -> None:
        words.add(f"EXTREMUM token {self.token} at {self.prefix.hex()} found own shows {self.extreme.named(words)}")
