"""Types as the schema row describes them, parsed, and whether values of a stored type can be read as a declared one.

A type is *widened* when every element of a document that the old type allows is one of the new type with the same
meaning: `str` to `str | None`, a constraint loosened, one more member of an Enum or Literal, one more field with a
default in a nested class. Nothing else is: int does not widen to float, because a float cannot hold every int. See
"Schema history" of the decisions page and docs/explanation/schema-evolution.md.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from oneread.errors import Corrupt
from oneread.models.versions import Description

_TOKEN: Final = re.compile(
    r"""\s*(?:
    (?P<text>[bB]?(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))
    |(?P<number>[-+]?(?:\d[\w.]*(?:(?<=[eE])[-+]\d+)?|inf|nan))
    |(?P<name>\.\.\.|[^\W\d]\w*)
    |(?P<mark>[\[\](){}|,:=<>.]|.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_IMPLIED_BY: Final[Mapping[str, tuple[tuple[str, Callable[[Any, Any], bool]], ...]]] = {
    "le": (("le", operator.le), ("lt", operator.le)),
    "lt": (("lt", operator.le), ("le", operator.lt)),
    "ge": (("ge", operator.ge), ("gt", operator.ge)),
    "gt": (("gt", operator.ge), ("ge", operator.gt)),
    "max_length": (("max_length", operator.le),),
    "min_length": (("min_length", operator.ge),),
    "multiple_of": (("multiple_of", lambda before, after: after != 0 and before % after == 0),),
}
"""The limits that imply another one, and how their values must compare."""

T = TypeVar("T")

_LITERALS: Final = ("str", "int")
"""Types that a Literal of their values widens to."""


class Type(msgspec.Struct, frozen=True):
    """A described type; its name is `|` for a union, whose alternatives are the arguments.

    `fields` is None for a class that is not spelled out, `values` for a type that is neither an Enum nor a Literal.
    """

    name: str
    arguments: tuple[Type, ...] = ()
    fields: tuple[tuple[str, Type], ...] | None = None
    values: tuple[str, ...] | None = None
    limits: tuple[tuple[str, str], ...] = ()


class Nested(msgspec.Struct, frozen=True):
    """What descriptions lack about classes used as types.

    `defaults` holds `Class.field` of each nested field that may be left out, `arrays` the classes stored as arrays,
    whose fields are found by place, and `aliases` the stored names of models by class name, present and former.
    """

    defaults: frozenset[str] = frozenset()
    arrays: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = {}


def parsed(text: str) -> Type:
    """Parses a description's text.

    Raises:
        Corrupt: no release of oneread wrote this text.
    """
    reader = _TypeParser(text)
    found = reader.alternatives()
    reader.end()
    return found


class _TypeParser:
    """A reader of one text, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [
            (str(each.lastgroup), each.group(each.lastgroup or 0)) for each in _TOKEN.finditer(text.strip())
        ]
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self) -> tuple[str, str]:
        if self._at == len(self._tokens):
            self._fail()
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, mark: str) -> None:
        if self._take()[1] != mark:
            self._fail()

    def _fail(self) -> None:
        raise Corrupt("the store's description of a type cannot be read", text=self._text)

    def end(self) -> None:
        """Raises Corrupt unless everything has been read."""
        if self._at != len(self._tokens):
            self._fail()

    def alternatives(self) -> Type:
        found = [self._one()]
        while self._peek() == "|":
            self._take()
            found.append(self._one())
        return found[0] if len(found) == 1 else Type("|", tuple(found))

    def _one(self) -> Type:
        group, name = self._take()
        if group != "name":
            self._fail()
        while self._peek() == ".":
            self._take()
            name = f"{name}.{self._take()[1]}"
        if name == "Literal":
            return Type(name, values=tuple(self._values("[", "]")))
        made = Type(name)
        if self._peek() == "{":
            made = Type(name, fields=tuple(self._several("{", "}", lambda: self._named(":", self.alternatives))))
        elif self._peek() == "[":
            made = Type(name, tuple(self._several("[", "]", self.alternatives)))
        return self._limited(made)

    def _limited(self, made: Type) -> Type:
        """Adds what follows a type in parentheses: the values of an Enum, constraints, or both."""
        while self._peek() == "(":
            is_limit = self._at + 2 < len(self._tokens) and self._tokens[self._at + 2][1] == "="
            if is_limit:
                limits = self._several("(", ")", lambda: self._named("=", lambda: self._value(")")))
                made = msgspec.structs.replace(made, limits=(*made.limits, *limits))
            else:
                made = msgspec.structs.replace(made, values=tuple(self._values("(", ")")))
        return made

    def _several(self, opening: str, closing: str, read: Callable[[], T]) -> Iterator[T]:
        """What is between two marks, with commas in between."""
        self._expect(opening)
        while self._peek() != closing:
            yield read()
            if self._peek() != closing:
                self._expect(",")
        self._expect(closing)

    def _values(self, opening: str, closing: str) -> Iterator[str]:
        return self._several(opening, closing, lambda: self._value(closing))

    def _named(self, mark: str, read: Callable[[], T]) -> tuple[str, T]:
        name = self._take()[1]
        self._expect(mark)
        return name, read()

    def _value(self, closing: str) -> str:
        """Everything up to the next comma or the closing mark, with what is in brackets."""
        parts, depth = [], 0
        while depth or self._peek() not in (",", closing):
            group, word = self._take()
            depth += (word in ("(", "[", "{")) - (word in (")", "]", "}")) if group == "mark" else 0
            parts.append(word)
        return "".join(parts)


class Types:
    """The types of one description by field; a class is spelled out where it first occurs."""

    def __init__(self, fields: Iterable[tuple[str, str]], nested: Nested) -> None:
        self.nested = nested
        self._spelled: dict[str, Type] = {}
        self.by_name: dict[str, Type] = {}
        for name, text in fields:
            found = self.by_name[name] = parsed(text)
            self._collect(found)

    def _collect(self, found: Type) -> None:
        if found.fields is not None or (found.values is not None and found.name != "Literal"):
            self._spelled.setdefault(found.name, msgspec.structs.replace(found, limits=()))
        for each in (*found.arguments, *(inner for _name, inner in found.fields or ())):
            self._collect(each)

    def spelled_out(self, given: Type) -> Type:
        """The type with the fields or values of its class."""
        known = self._spelled.get(given.name)
        if known is None or given.arguments or given.fields is not None or given.values is not None:
            return given
        return msgspec.structs.replace(known, limits=given.limits)

    def model(self, given: Type) -> str:
        """The stored name of a model that is referred to."""
        return self.nested.aliases.get(given.name, given.name)


def widens(old: Types, before: Type, new: Types, after: Type) -> bool:
    """Whether everything of the type `before` in one description can be read as the type `after` in another."""
    return _Widening(old, new).fits(before, after)


class _Widening:
    def __init__(self, old: Types, new: Types) -> None:
        self._old = old
        self._new = new
        self._open: set[tuple[str, str]] = set()

    def fits(self, before: Type, after: Type) -> bool:
        before, after = self._old.spelled_out(before), self._new.spelled_out(after)
        if before.name == "|":
            return all(self.fits(each, after) for each in before.arguments)
        if after.name == "|":
            return any(self.fits(before, each) for each in after.arguments)
        if "Ref" in (before.name, after.name):
            old, new = map(self._old.model, before.arguments), map(self._new.model, after.arguments)
            return before.name == after.name and [*old] == [*new]
        return _loosened(dict(before.limits), dict(after.limits)) and self._fits_bare(before, after)

    def _fits_bare(self, before: Type, after: Type) -> bool:
        """The same without constraints and alternatives."""
        if before.fields is not None and after.fields is not None:
            return self._class(before, after)
        if before.values is not None:
            return self._member(before, after)
        return (
            before.name == after.name
            and (before.fields is None) == (after.fields is None)
            and after.values is None
            and len(before.arguments) == len(after.arguments)
            and all(self.fits(*pair) for pair in zip(before.arguments, after.arguments, strict=True))
        )

    def _member(self, before: Type, after: Type) -> bool:
        """Compares Enums and Literals."""
        assert before.values is not None
        if after.values is not None:
            return (before.name == "Literal") == (after.name == "Literal") and set(before.values) <= set(after.values)
        return (
            before.name == "Literal"
            and after.name in _LITERALS
            and not after.limits
            and all(type(_literal(value)).__name__ == after.name for value in before.values)
        )

    def _class(self, before: Type, after: Type) -> bool:
        """Compares classes field by field: by name, or by place."""
        pair = before.name, after.name
        if pair in self._open:
            return True
        self._open.add(pair)
        assert before.fields is not None
        assert after.fields is not None
        old, new = dict(before.fields), dict(after.fields)
        by_place = after.name in self._new.nested.arrays
        if by_place != (before.name in self._old.nested.arrays):
            return False
        if by_place and [*old] != [*new][: len(old)]:
            return False
        added = [f"{after.name}.{name}" for name in new if name not in old]
        return (
            all(name in new and self.fits(each, new[name]) for name, each in old.items())
            and set(added) <= self._new.nested.defaults
        )


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


def _loosened(before: dict[str, str], after: dict[str, str]) -> bool:
    return all(_follows(before, name, limit) for name, limit in after.items())


def _follows(before: dict[str, str], name: str, limit: str) -> bool:
    """Whether the limits `before` imply this one."""
    if before.get(name) == limit:
        return True
    wanted = _number(limit)
    if wanted is None:
        return False
    known = ((_number(before.get(each, "")), holds) for each, holds in _IMPLIED_BY.get(name, ()))
    return any(value is not None and holds(value, wanted) for value, holds in known)


def _number(text: str) -> Any:
    value = _literal(text)
    return value if isinstance(value, (int, float)) else None


class DescribedField(NamedTuple):
    """A field of a described class; `inner` are the texts of a copy's fields."""

    text: str
    type: Type
    inner: dict[str, str]

    @property
    def copy(self) -> Type | None:
        """The copy, without `| None`; only copies have `on_delete`."""
        bare = self.type.arguments[0] if self.type.name == "|" else self.type
        return bare if any(name == "on_delete" for name, _value in bare.limits) else None

    @property
    def optional(self) -> bool:
        return self.type.name == "None" or any(each.name == "None" for each in self.type.arguments)


def fields_of(description: Description) -> dict[str, DescribedField]:
    """The fields of a description, in order."""
    found: dict[str, DescribedField] = {}
    for name, text in description:
        top, _, inner = name.partition(".")
        if inner:
            found[top].inner[inner] = text
        else:
            found[name] = DescribedField(text, parsed(text), {})
    return found


def same_type(one: str, other: str, nested: Nested) -> bool:
    """Whether two texts describe the same type, names of classes apart."""
    first, second = Types([("", one)], nested), Types([("", other)], nested)
    ends = first.by_name[""], second.by_name[""]
    return widens(first, ends[0], second, ends[1]) and widens(second, ends[1], first, ends[0])
