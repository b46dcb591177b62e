"""Expressions: conditions on an entity that can be read, hashed and priced, which a lambda cannot.

`field(Purchase.quantity) > 0` is one, and `&`, `|` and `~` join them. A relation to a missing value is false, and so is
the opposite relation: only `~` negates. See "Semantics" of the decisions page. `field(Purchase.quantity).to(2)` is a
change of a field.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NoReturn, Protocol, TypeAlias, TypeVar, overload

import msgspec

from oneread.encoding.ordered import encode
from oneread.errors import InvalidDeclaration, InvalidKey, InvalidValue, UsageError
from oneread.models.paths import Path, getter, path_of
from oneread.models.references import Ref

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Added = TypeVar("Added", int, float, str, bytes)
Contained = TypeVar("Contained")
Test: TypeAlias = Callable[[Any], bool]

_COMPARISONS: Final = ("==", "!=", "<", "<=", ">", ">=")
_RELATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "one_of": lambda value, values: value in values,
    "starts_with": lambda value, prefix: value.startswith(prefix),
    "contains": operator.contains,
    "is_not_none": lambda _value, _operand: True,
}
_NO_TRUTH: Final = "a condition is not true or false by itself: join conditions with & | ~, not and, or, not, 0 < x < 9"
_NO_OPERAND: Final = "not a value to compare with; write a number, text, bytes, instant, UUID, Enum or Ref"


class Expression(msgspec.Struct, frozen=True):
    """A condition on an entity."""

    def __and__(self, other: Expression) -> Expression:
        return Joined("and", (*_parts(self, "and"), *_parts(other, "and")))

    def __or__(self, other: Expression) -> Expression:
        return Joined("or", (*_parts(self, "or"), *_parts(other, "or")))

    def __invert__(self) -> Expression:
        return Negated(self)

    def __bool__(self) -> NoReturn:
        raise UsageError(_NO_TRUTH, condition=self)

    def test(self, entity: object) -> bool:
        """Whether the condition holds for an entity; to test many, `compile` once.

        Raises:
            InvalidValue: the field's value cannot be in this relation to the operand.
        """
        return compile(self)(entity)

    def paths(self) -> tuple[Path, ...]:
        """The paths it reads, in the order they are written."""
        raise NotImplementedError

    def canonical(self) -> bytes:
        """Bytes that are the same for the same condition, in every process and release."""
        raise NotImplementedError

    def compiled(self) -> Test:
        """The condition as a closure that may raise TypeError; `compile` translates that."""
        raise NotImplementedError


def compile(expression: Expression) -> Test:  # noqa: A001 - it compiles an expression as re.compile does a pattern
    """The condition as one fast function of an entity."""
    holds = expression.compiled()

    def test(entity: Any) -> bool:
        try:
            return holds(entity)
        except (TypeError, AttributeError) as error:
            reason = str(error)
            raise InvalidValue(
                "a condition does not apply to this value", condition=expression, reason=reason
            ) from error

    return test


class Condition(Expression, frozen=True):
    """A relation between a field and an operand."""

    path: Path
    relation: str
    operand: Any = None

    def paths(self) -> tuple[Path, ...]:
        return (self.path,)

    def canonical(self) -> bytes:
        names = (_stored_name(self.path.declared_in), *self.path.names)
        return _framed(b"field", encode((self.relation,)), encode(names), _operand_bytes(self.relation, self.operand))

    def compiled(self) -> Test:
        read, operand = getter(self.path), self.operand
        if self.relation == "is_none":
            return lambda entity: read(entity) is None
        related = _RELATIONS[self.relation]

        def test(entity: Any) -> bool:
            value = read(entity)
            return value is not None and bool(related(value, operand))

        return test

    def __repr__(self) -> str:
        subject = f"field({self.path!r})"
        if self.relation in _COMPARISONS:
            return f"({subject} {self.relation} {self.operand!r})"
        if self.relation == "one_of":
            return f"{subject}.one_of({', '.join(map(repr, self.operand))})"
        shown = "" if self.operand is None else repr(self.operand)
        return f"{subject}.{self.relation}({shown})"


class Joined(Expression, frozen=True):
    """All of several conditions, or at least one of them."""

    how: Literal["and", "or"]
    parts: tuple[Expression, ...]

    def paths(self) -> tuple[Path, ...]:
        return tuple(path for part in self.parts for path in part.paths())

    def canonical(self) -> bytes:
        return _framed(self.how.encode(), *(part.canonical() for part in self.parts))

    def compiled(self) -> Test:
        tests = tuple(part.compiled() for part in self.parts)
        if len(tests) == 2:  # noqa: PLR2004  the common case has no loop
            first, second = tests
            if self.how == "and":
                return lambda entity: first(entity) and second(entity)
            return lambda entity: first(entity) or second(entity)
        joined = all if self.how == "and" else any
        return lambda entity: joined(test(entity) for test in tests)

    def __repr__(self) -> str:
        return f"({(' & ' if self.how == 'and' else ' | ').join(map(repr, self.parts))})"


class Negated(Expression, frozen=True):
    """The opposite of a condition; true where the condition is false because a value is missing."""

    condition: Expression

    def paths(self) -> tuple[Path, ...]:
        return self.condition.paths()

    def canonical(self) -> bytes:
        return _framed(b"not", self.condition.canonical())

    def compiled(self) -> Test:
        test = self.condition.compiled()
        return lambda entity: not test(entity)

    def __repr__(self) -> str:
        return f"~{self.condition!r}"


class FieldChange(msgspec.Struct, frozen=True):
    """A change of a field, for `patch` and `upsert`: `field(Purchase.quantity).to(2)`."""

    path: Path
    verb: Literal["to", "add", "append", "remove"]
    argument: Any

    def __repr__(self) -> str:
        return f"field({self.path!r}).{self.verb}({self.argument!r})"


Collected: TypeAlias = list[Contained] | set[Contained] | frozenset[Contained] | tuple[Contained, ...]


class FieldOf(Protocol[T_co]):
    """A field for values of a type, also where the field's own type is narrower."""

    @property
    def _path(self) -> Path: ...
    def _value(self) -> T_co: ...


class FieldExpression(Generic[T]):
    """A field in a condition, to be compared or tested, or one that a patch changes."""

    __slots__ = ("_path",)
    __hash__ = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]  == makes a condition here

    def __init__(self, path: Path) -> None:
        self._path = path

    if TYPE_CHECKING:

        def _value(self) -> T: ...

    def __eq__(self, other: T) -> Condition:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return _condition(self._path, "==", other)

    def __ne__(self, other: T) -> Condition:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return _condition(self._path, "!=", other)

    def __lt__(self, other: T) -> Condition:
        return _condition(self._path, "<", other)

    def __le__(self, other: T) -> Condition:
        return _condition(self._path, "<=", other)

    def __gt__(self, other: T) -> Condition:
        return _condition(self._path, ">", other)

    def __ge__(self, other: T) -> Condition:
        return _condition(self._path, ">=", other)

    def is_none(self) -> Condition:
        """It is None, or its copy is."""
        return Condition(self._path, "is_none")

    def is_not_none(self) -> Condition:
        """It is not None."""
        return Condition(self._path, "is_not_none")

    def one_of(self, first: T, *others: T) -> Condition:
        """It equals one of these."""
        return _condition(self._path, "one_of", (first, *others))

    def starts_with(self: FieldOf[str | None], prefix: str) -> Condition:
        """The text begins with this."""
        return _condition(self._path, "starts_with", prefix)

    @overload
    def contains(self: FieldOf[str | None], element: str) -> Condition: ...
    @overload
    def contains(
        self: FieldOf[list[Contained] | set[Contained] | frozenset[Contained] | None], element: Contained
    ) -> Condition: ...
    def contains(self: FieldOf[Any], element: Any) -> Condition:
        """The list or set has this element, or the text this text in it."""
        return _condition(self._path, "contains", element)

    def to(self, value: T) -> FieldChange:
        """A patch sets the field to this."""
        return FieldChange(self._path, "to", value)

    @overload
    def add(self: FieldOf[date | timedelta | None], amount: timedelta) -> FieldChange: ...
    @overload
    def add(self: FieldOf[Decimal | None], amount: Decimal | int) -> FieldChange: ...
    @overload
    def add(self: FieldOf[Added | None], amount: Added) -> FieldChange: ...
    def add(self: FieldOf[Any], amount: Any) -> FieldChange:
        """A patch adds this to the stored value, as `oneread.add` does."""
        return FieldChange(self._path, "add", amount)

    def append(self: FieldOf[Collected[Contained] | None], element: Contained) -> FieldChange:
        """A patch adds this element to the stored list (at its end), set or tuple."""
        return FieldChange(self._path, "append", element)

    def remove(self: FieldOf[Collected[Contained] | None], element: Contained) -> FieldChange:
        """A patch removes every element that equals this one."""
        return FieldChange(self._path, "remove", element)

    def __bool__(self) -> NoReturn:
        raise UsageError(_NO_TRUTH, condition=self)

    def __repr__(self) -> str:
        return f"field({self._path!r})"


def field(of: T) -> FieldExpression[T]:
    """A field of an entity in a condition or a patch: `where=field(Purchase.quantity) > 0`.

    Through a copy: `field(within(Purchase.buyer, Buyer.country)) == "France"`. What a patch changes, with the type that
    a type checker knows: `db.patch(Purchase, "537626", 1, field(Purchase.quantity).to(2))`.

    Raises:
        InvalidDeclaration: this is not a field.
    """
    path = path_of(of)
    if path.every:
        raise InvalidDeclaration(
            "a condition is on the whole collection; write field(Post.tags).contains(...)", field=path
        )
    return FieldExpression(path)


def rerouted(expression: Expression, names: Mapping[str, str]) -> Expression:
    """The same condition on other paths: dotted path to dotted path of as many steps."""
    if isinstance(expression, Joined):
        return Joined(expression.how, tuple(rerouted(part, names) for part in expression.parts))
    if isinstance(expression, Negated):
        return Negated(rerouted(expression.condition, names))
    assert isinstance(expression, Condition)
    path = ".".join(expression.path.names)
    steps = zip(expression.path.steps, names.get(path, path).split("."), strict=True)
    return Condition(Path(tuple((cls, name) for (cls, _), name in steps)), expression.relation, expression.operand)


def _parts(expression: object, how: str) -> tuple[Expression, ...]:
    """The conditions to join, those of an expression that is joined the same way, so that chains stay flat."""
    if isinstance(expression, Joined) and expression.how == how:
        return expression.parts
    if not isinstance(expression, Expression):
        raise InvalidDeclaration("only conditions can be joined; write field(Purchase.quantity) > 0", given=expression)
    return (expression,)


def _condition(path: Path, relation: str, operand: Any) -> Condition:
    if operand is None or (relation == "one_of" and None in operand):
        raise InvalidDeclaration("nothing compares with None; write .is_none() or .is_not_none()", field=path)
    try:
        _operand_bytes(relation, operand)
    except InvalidKey as error:
        raise InvalidDeclaration(_NO_OPERAND, field=path, relation=relation, operand=operand) from error
    return Condition(path, relation, operand)


def _operand_bytes(relation: str, operand: Any) -> bytes:
    if relation == "one_of":  # neither order nor repetition makes another condition
        return _framed(b"", *sorted({_operand_bytes("", value) for value in operand}))
    return encode((operand.key if isinstance(operand, Ref) else operand,))


def _framed(name: bytes, *parts: bytes) -> bytes:
    """A name and parts, each after its length, so that no two lists of parts have the same bytes."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in (name, *parts))


def _stored_name(cls: type) -> str:
    return str(getattr(cls, "stored_as", None) or cls.__name__)
