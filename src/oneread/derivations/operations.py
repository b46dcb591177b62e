"""The operations of a program: what follows from an entity in its views, as data.

A view gives operations, a class's program is those of all its views (`program`). The Python statements of an operation
are what it means: one function of them runs everywhere. Whatever else runs a program knows operations by their classes,
and leaves one that it does not know to Python. What several views need, an element of a key or the amounts of a group,
is made once, by the first of them, in a register of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, TypeAlias

from oneread.derivations.access import ValuePath
from oneread.derivations.emission_code import EmissionCode, Shared
from oneread.derivations.rules import Rule
from oneread.encoding.codec import KeyElement
from oneread.encoding.codegen import indented
from oneread.models.expiry import NEVER, ExpiryRule
from oneread.models.expressions import Expression

RefuseLong: TypeAlias = Callable[[Any], NoReturn]
"""Raises the error of a view whose key is too long, given what is."""


class ProgramWords:
    """A program for people, while it is written: a line for each operation, and for each register that is made."""

    def __init__(self, encoded: Iterable[str] = ()) -> None:
        self.lines: list[str] = []
        self._encoded = frozenset(encoded)
        self.registers: dict[str, str] = {}
        """By signature: the variables of the function's text."""

    def add(self, line: str) -> None:
        self.lines.append(line)

    def made(self, signature: str, what: str) -> str:
        """The register of what has this signature; says what it is where the first operation needs it."""
        known = self.registers.get(signature)
        if known is None:
            known = self.registers[signature] = f"s{len(self.registers)}"
            self.add(f"{known} = {what}")
        return known

    def is_encoded(self, signature: str) -> bool:
        """Whether an element of a key is in the key of a root row, which is known before."""
        return signature in self._encoded


class Operation(Protocol):
    """One operation of a view's program."""

    def lines(self, code: EmissionCode, /) -> list[str]:
        """Its Python statements; a `break` says that the entity is not in the view."""
        ...

    def describe(self, words: ProgramWords, /) -> None:
        """Adds its lines for people."""
        ...


class KeyBytes(Operation, Protocol):
    """An operation that makes bytes of the key of a view's rows."""

    def found(self, code: EmissionCode, /) -> str:
        """The expression of these bytes, behind the operation's statements."""
        ...

    def named(self, words: ProgramWords, /) -> str:
        """What these bytes are called, for people."""
        ...


class ViewProgram(NamedTuple):
    """What a view does with an entity."""

    view: type
    once: tuple[Operation, ...]
    """In this order, unless one of them says that the entity is not in the view."""
    rows: tuple[Operation, ...] = ()
    """For each row, behind those."""
    is_repeated: bool = False
    """An entity has a row for each element of `TakeEach`, otherwise one."""

    def add_to(self, code: EmissionCode) -> None:
        """Adds the view's statements to those of a class."""
        once = [line for each in self.once for line in each.lines(code)]
        with code.rows(is_repeated=self.is_repeated):
            rows = [line for each in self.rows for line in each.lines(code)]
        if self.is_repeated:
            rows = ["for m in several:", *indented(rows)]
        code.add_view(self.view, [*once, *rows])

    def describe(self, words: ProgramWords) -> None:
        """Adds the view's lines for people."""
        for each in (*self.once, *self.rows):
            each.describe(words)


class Statements(NamedTuple):
    """Python statements that a view writes itself; nothing but Python runs a program that has some."""

    write: Callable[[EmissionCode], Sequence[str]]

    def lines(self, code: EmissionCode) -> list[str]:
        return list(self.write(code))

    def describe(self, words: ProgramWords) -> None:
        words.add("PYTHON")


# Which entities are in a view.


class CompiledCondition(NamedTuple):
    """A condition of a view, or of a number of an aggregate; equal ones hold for the same entities."""

    expression: Expression
    test: Callable[[Any], bool]

    @property
    def signature(self) -> str:
        return self.expression.canonical().hex()

    def register(self, code: EmissionCode) -> Shared:
        """The register that says whether it holds for the entity."""
        return code.shared(
            f"where {self.signature}", lambda variable: [f"{variable} = {code.name('holds', self.test)}(e)"]
        )

    def named(self, words: ProgramWords) -> str:
        return words.made(f"where {self.signature}", f"HOLDS {self}")

    def __str__(self) -> str:
        return repr(self.expression)


class SkipUnless(NamedTuple):
    """The entity is in the view only where a condition holds."""

    condition: CompiledCondition

    def lines(self, code: EmissionCode) -> list[str]:
        return [f"if not {code.name('where', self.condition.test)}(e): break"]

    def describe(self, words: ProgramWords) -> None:
        words.add(f"SKIP_UNLESS {self.condition}")


class ExpiresAt(NamedTuple):
    """When an entity leaves a view."""

    rule: ExpiryRule
    since: ValuePath

    def code(self, code: EmissionCode) -> str:
        """The expression of the instant, in milliseconds since 1970."""
        return f"{code.name('until', self.rule.until)}({self.since.code})"

    def __str__(self) -> str:
        return f"{self.since} + {self.rule.after} us"


class SkipExpired(NamedTuple):
    """The entity is in the view only before the first of these instants."""

    ends: tuple[ExpiresAt, ...]

    def lines(self, code: EmissionCode) -> list[str]:
        return [f"if {each.code(code)} <= now: break" for each in self.ends]

    def describe(self, words: ProgramWords) -> None:
        words.add(f"SKIP_EXPIRED {', '.join(map(str, self.ends))}")


class FirstExpiry(NamedTuple):
    """The first of these instants, in which rows end; the entity is in the view only before it."""

    ends: tuple[ExpiresAt, ...]

    def lines(self, code: EmissionCode) -> list[str]:
        ends = [each.code(code) for each in self.ends]
        return [f"until = min({', '.join(ends)}, {NEVER})", "if until <= now: break"]

    def describe(self, words: ProgramWords) -> None:
        words.add(f"until = FIRST_EXPIRY {', '.join(map(str, self.ends))}")


# The keys of rows.


class Element(NamedTuple):
    """The bytes of one value in a key: of a plain value, or of the key behind a reference or a copy."""

    value: ValuePath
    rule: Rule
    elements: tuple[KeyElement, ...]
    of: Literal["value", "reference", "copy"] = "value"

    @property
    def signature(self) -> str:
        """Elements with one signature have the same bytes."""
        rule = self.rule
        return f"{self.value.code} {rule.descending:d} {rule.none} {rule.hashed:d} {rule.size}"

    def value_code(self, value: str) -> str:
        """The expression of what a plain value becomes in the key; `value` is not None."""
        if self.rule.hashed:
            return f"digest(whole(({value},)))"
        return value if self.rule.size is None else f"start_{self.rule.size}(in_utc({value}))"

    def values_code(self, value: str) -> str:
        """The expression of the tuple of values that are encoded."""
        may_be_none = self.rule.none is not None
        if self.of == "value":
            code = f"({self.value_code(value)},)"
            return f"((None,) if {value} is None else {code})" if may_be_none else code
        key = f"{value}.ref.key" if self.of == "copy" else f"{value}.key"
        return f"((None,) * {len(self.elements)} if {value} is None else {key})" if may_be_none else key

    def encode_code(self, code: EmissionCode, value: str) -> str:
        """The expression of the bytes of a value."""
        return f"{code.encoder(self.elements)}({self.values_code(value)})"

    def register(self, code: EmissionCode, value: str) -> Shared:
        """The register of the bytes; `value` is the variable of the value."""
        known = code.encoded.get(self.signature)
        return code.shared(self.signature, lambda variable: [f"{variable} = {known or self.encode_code(code, value)}"])

    def named(self, words: ProgramWords) -> str:
        word = "REFERENCE" if words.is_encoded(self.signature) else "ELEMENT"
        return words.made(self.signature, f"{word} {self}")

    def __str__(self) -> str:
        rule = self.rule
        return " ".join(
            [
                str(self.value),
                *[each.type.__name__ for each in self.elements],
                *([f"bucket {rule.size}"] if rule.size else []),
                *(["hashed"] if rule.hashed else []),
                *(["descending"] if rule.descending else []),
                *([f"None {rule.none}"] if rule.none else []),
            ]
        )


class TakeValue(NamedTuple):
    """A part of the key that is one value of the entity; without it the entity is not in the view, unless declared."""

    place: int
    element: Element

    def lines(self, code: EmissionCode) -> list[str]:
        value = f"v{self.place}"
        absent = [f"if {value} is None: break"] if self.element.rule.none is None else []
        return [f"{value} = {self.element.value.code}", *absent, *self._register(code).lines]

    def _register(self, code: EmissionCode) -> Shared:
        return self.element.register(code, f"v{self.place}")

    def found(self, code: EmissionCode) -> str:
        return self._register(code).variable

    def describe(self, words: ProgramWords) -> None:
        if self.element.rule.none is None:
            words.add(f"SKIP_NONE {self.element.value}")
        self.named(words)

    def named(self, words: ProgramWords) -> str:
        return self.element.named(words)


class TakeEach(NamedTuple):
    """The part of the key that is each element of a list or set, once; without any the entity is not in the view."""

    place: int
    element: Element
    is_unordered: bool

    def lines(self, code: EmissionCode) -> list[str]:
        # Two instants of one bucket are one element, so buckets are computed before duplicates go.
        value, rule = f"v{self.place}", self.element.rule
        element = "m" if rule.size is None else self.element.value_code("m")
        lines = [
            f"{value} = {self.element.value.code}",
            f"if {value} is None: break",
            f"several = list(dict.fromkeys([{element} for m in {value} if m is not None]))",
            "if not several: break",
        ]
        if self.is_unordered:
            lines.append(f"several.sort(key=lambda m: {self.found(code)})")
        return lines

    def found(self, code: EmissionCode) -> str:
        return self.element.encode_code(code, "m")

    def describe(self, words: ProgramWords) -> None:
        words.add(f"m = EACH {self.element}{' in order' if self.is_unordered else ''}")

    def named(self, _words: ProgramWords) -> str:
        return "m"


class TakeSpread(NamedTuple):
    """The byte in front of the key of a view whose rows are spread over ranges."""

    ranges: int

    def lines(self, _code: EmissionCode) -> list[str]:
        return [f"spread = spread_part(suffix, {self.ranges})"]

    def found(self, _code: EmissionCode) -> str:
        return "spread"

    def describe(self, words: ProgramWords) -> None:
        words.add(f"spread = SPREAD {self.ranges}")

    def named(self, _words: ProgramWords) -> str:
        return "spread"


class FindPlace(NamedTuple):
    """Where a row is: the bytes between the prefix of the view and the entity's own key."""

    parts: tuple[KeyBytes, ...]
    most: int | None
    """The limit of these bytes; None where each part has its own."""
    refuse_long: RefuseLong

    def lines(self, code: EmissionCode) -> list[str]:
        found = [f"found = {' + '.join(each.found(code) for each in self.parts) or repr(b'')}"]
        if self.most is None:
            return found
        return [*found, f"if len(found) > {self.most}: {code.name('refuse', self.refuse_long)}(found)"]

    def describe(self, words: ProgramWords) -> None:
        limit = "" if self.most is None else f", at most {self.most} bytes"
        words.add(f"found = PLACE {' + '.join(each.named(words) for each in self.parts) or 'empty'}{limit}")
