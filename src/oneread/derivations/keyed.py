"""The key of a view: which values of an entity it holds, in which order, and which entities are in the view at all.

What emits a view is generated, one statement a rule. See "Semantics" of the decisions page and docs/formats/keys.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, Union, get_args, get_origin

from oneread.derivations.access import Access, Accesses
from oneread.derivations.emission_code import EmissionCode
from oneread.derivations.rules import BucketSize, Rule
from oneread.derivations.views import Index
from oneread.encoding import ordered
from oneread.encoding.codec import Codec, KeyElement
from oneread.encoding.codegen import function, indented
from oneread.encoding.parts import WRONG_TYPE
from oneread.encoding.values import digest, put_value
from oneread.errors import InvalidDeclaration, InvalidKey, InvalidValue
from oneread.models.references import Ref
from oneread.models.registry import EntityKind, element, elements_behind, key_behind, reference_target
from oneread.models.shadow import Fitting, fitting
from oneread.models.types import Names, type_of
from oneread.store.keys import SPREAD_BYTES, VIEW_BYTES, spread_part
from oneread.store.limits import KEY_BYTES, VALUES_BYTES

KeyValues: TypeAlias = tuple[Any, ...]
"""Of the elements of a key."""


def in_utc(at: datetime) -> datetime:
    """An instant in UTC. Raises InvalidValue where that has no year from 1 to 9999."""
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidValue("expected an instant in the years 1 to 9999 of UTC", value=at) from error


def month_start(at: datetime) -> datetime:
    return at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _week_start(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=at.weekday())


STARTS: Final[dict[BucketSize, Callable[[datetime], datetime]]] = {
    "minute": lambda at: at.replace(second=0, microsecond=0),
    "hour": lambda at: at.replace(minute=0, second=0, microsecond=0),
    "day": lambda at: at.replace(hour=0, minute=0, second=0, microsecond=0),
    "week": _week_start,
    "month": month_start,
    "year": lambda at: month_start(at).replace(month=1),
}
"""The start of the bucket that an instant in UTC belongs to."""

KEY_SCOPE: Final[Mapping[str, object]] = {
    "digest": digest,
    "whole": ordered.encode,
    "in_utc": in_utc,
    **{f"start_{size}": start for size, start in STARTS.items()},
}
"""What the code of key rules calls."""


def signature(code: str, rule: Rule) -> str:
    """Identifies the bytes of a part: parts with one signature have the same bytes."""
    return f"{code} {rule.descending:d} {rule.none} {rule.hashed:d} {rule.size}"


def reference_signature(name: str) -> str:
    """The signature of a reference's key in ascending order: these bytes are also in the key of its root row."""
    return signature(f"e.{name}", Rule("key"))


class KeyRule(NamedTuple):
    """One key rule: the elements it fills."""

    field: str
    rule: Rule
    access: Access
    elements: tuple[KeyElement, ...]
    kind: EntityKind | None
    """What a reference refers to."""
    fit: Fitting | None = None
    """Converts an argument for a hashed value, whose digest does not show its type."""

    @property
    def width(self) -> int:
        return len(self.elements)

    def write(self, place: int, code: EmissionCode) -> tuple[str, list[str]]:
        """The expression of this part's bytes, and the statements before it; they end where it keeps an entity out.

        `m` in the expression is the element of each(...).
        """
        code.use(KEY_SCOPE)
        encode = code.name("encode", Codec(self.elements, max_length=KEY_BYTES).encode)
        return self._element(place, encode) if self.access.many else self._value(place, encode, code)

    def _value(self, place: int, encode: str, code: EmissionCode) -> tuple[str, list[str]]:
        value = f"v{place}"
        absent = [f"if {value} is None: break"] if self.rule.none is None else []
        made = code.element(signature(self.access.code, self.rule), f"{encode}({self._elements_code(value)})")
        return made.variable, [f"{value} = {self.access.code}", *absent, *made.lines]

    def _element(self, place: int, encode: str) -> tuple[str, list[str]]:
        # Two instants of one bucket are one element, so buckets are computed before duplicates go.
        value = f"v{place}"
        element = "m" if self.rule.size is None else self._value_code("m")
        found = f"{encode}({self._elements_code('m')})"
        lines = [
            f"{value} = {self.access.code}",
            f"if {value} is None: break",
            f"several = list(dict.fromkeys([{element} for m in {value} if m is not None]))",
            "if not several: break",
        ]
        if self.access.unordered:
            lines.append(f"several.sort(key=lambda m: {found})")
        return found, lines

    def _value_code(self, value: str) -> str:
        """The expression of what a plain value becomes in the key; `value` is not None."""
        if self.rule.hashed:
            return f"digest(whole(({value},)))"
        return value if self.rule.size is None else f"start_{self.rule.size}(in_utc({value}))"

    def _elements_code(self, value: str) -> str:
        """The expression of the tuple of this part's elements."""
        if self.kind is None:
            code = f"({self._value_code(value)},)"
            return code if self.rule.none is None else f"((None,) if {value} is None else {code})"
        key = f"{value}.ref.key" if self.access.copy is not None else f"{value}.key"
        return key if self.rule.none is None else f"((None,) * {self.width} if {value} is None else {key})"

    def check(self) -> Callable[[Any], object]:
        """The function that raises for a value that this part cannot hold."""
        encode = Codec(self.elements, max_length=KEY_BYTES).encode
        code = f"encode({self._elements_code('v')})"
        lines = [f"return {f'[{code} for v in v]' if self.access.many else code}"]
        return function("check", "v", lines, {**KEY_SCOPE, "encode": encode}, self.field)

    def take_values(self, rest: list[Any]) -> KeyValues:
        """Removes this part's argument from the front of `rest` and returns the values of its elements.

        None means the whole reference, however many parts its key has.

        Raises:
            InvalidKey: a reference is to another model, or has a key of other parts.
        """
        first = rest[0]
        if self.kind is not None and first is not None:
            ref = getattr(first, "ref", first)
            if not isinstance(ref, Ref):
                taken = tuple(rest[: self.width])
                if None in taken:
                    raise InvalidKey("give None for a whole reference, not for a part", field=self.field, given=taken)
                del rest[: self.width]
                return taken
            del rest[0]
            return self._whole(ref)
        del rest[0]
        if first is None:
            return (None,) * self.width
        if self.fit is not None:
            return (digest(put_value(self._fitted(first), self.field)),)
        if self.rule.size is not None and isinstance(first, datetime) and first.tzinfo is not None:
            return (STARTS[self.rule.size](in_utc(first)),)
        return (first,)

    def _whole(self, ref: Ref[Any]) -> KeyValues:
        """The key of a reference, which fills exactly this part's elements."""
        assert self.kind is not None
        return key_behind(ref, self.kind.cls, self.field, self.elements)

    def _fitted(self, given: object) -> Any:
        assert self.fit is not None
        try:
            return self.fit(given)
        except ValueError as error:
            raise InvalidKey(
                WRONG_TYPE, field=self.field, value=given, type=self.access.type, reason=str(error)
            ) from error


class ViewKey:
    """The key rules of one view, all about one model, or each about its own."""

    def __init__(
        self,
        view: type,
        model: type | Mapping[str, type],
        rules: Mapping[str, Rule],
        accesses: Accesses,
        kinds: Mapping[type, EntityKind],
    ) -> None:
        self.view = view
        models = model if isinstance(model, Mapping) else dict.fromkeys(rules, model)
        found = {field: accesses.of_path(view, field, rule.field, models[field]) for field, rule in rules.items()}
        self.parts = tuple(
            _value_rule(view, field, rules[field], access, accesses.names)
            if access.target is None
            else _reference_rule(view, field, rules[field], access, kinds.get(access.target))
            for field, access in found.items()
        )
        _check_arguments(view, self.parts, accesses.names)
        self._has_elements = any(part.access.many for part in self.parts)
        if sum(part.access.many for part in self.parts) > 1:
            raise InvalidDeclaration("a view takes each(...) of one list at most", view=view)
        self.codec = Codec(tuple(each for part in self.parts for each in part.elements), max_length=VALUES_BYTES)
        followers = (*self.parts[1:], None)[: len(self.parts)]
        self._none_may_follow = tuple(each is not None and each.rule.none is not None for each in followers)
        self.plain = self._plain_types()
        rules_of_elements = [part.rule for part in self.parts for _element in part.elements]
        self.hashed = frozenset(place for place, rule in enumerate(rules_of_elements) if rule.hashed)
        self.spread = view.spread if issubclass(view, Index) else 1
        """The ranges that the rows are in."""
        self.spread_bytes = SPREAD_BYTES if self.spread > 1 else 0
        self.start = VIEW_BYTES + self.spread_bytes
        """Where the values begin in the key of a row."""

    def _plain_types(self) -> tuple[tuple[type, ...], ...]:
        """The types of the first 0, 1, ... arguments that `flat` would return as they are."""
        found: list[tuple[type, ...]] = [()]
        for part in self.parts:
            if part.rule.hashed or part.rule.size is not None:
                break
            for each in part.elements:
                found.append((*found[-1], each.type))
        return tuple(found)

    def write(
        self, code: EmissionCode, where: Callable[[Any], bool] | None, before: Sequence[str], each: Sequence[str]
    ) -> None:
        """Adds what emits a view to the code of its entities, around the view's own statements.

        Those `before` run once if the entity is in the view (`where`; None for all), those of `each` for each row with
        `found`, what is between the prefix and the owner's key: the bytes of the key's values, behind the spread byte
        where there is one; and `m`, the element of each(...).
        """
        lines = [] if where is None else [f"if not {code.name('where', where)}(e): break"]
        parts: list[str] = []
        for place, part in enumerate(self.parts):
            found, made = part.write(place, code)
            parts.append(found)
            lines += made
        if self.spread > 1:
            code.use({"spread_part": spread_part})
            lines.append(f"spread = spread_part(suffix, {self.spread})")
            parts.insert(0, "spread")
        rows = [f"found = {' + '.join(parts) or repr(b'')}"]
        if len(self.parts) > 1:
            most = VALUES_BYTES + self.spread_bytes
            rows.append(f"if len(found) > {most}: {code.name('refuse', self._refuse_long)}(found)")
        rows += each
        if self._has_elements:
            rows = ["for m in several:", *indented(rows)]
        code.add_view(self.view, [*lines, *before, *rows])

    def adds(self, contributions: str, added: str) -> str:
        """The statement that adds to the contributions of a token for each row; without each(...) there is one row."""
        return f"{contributions} += {added}" if self._has_elements else f"{contributions} = [{added}]"

    def _refuse_long(self, values: bytes) -> NoReturn:
        raise InvalidKey(
            "the values of a view row are too long together",
            view=self.view,
            fields=[part.field for part in self.parts],
            length=len(values) - self.spread_bytes,
            limit=VALUES_BYTES,
        )

    def flat(self, given: KeyValues) -> KeyValues:
        """Arguments of `get` and `page` as values of elements.

        A reference becomes its key's parts, a hashed value its digest. None for a reference is one value; None for each
        part of its key is accepted too if it cannot mean anything else. One reference to a row of this view is its
        whole key; so is one that does not know its class where the first part of the key is not a reference.
        """
        if len(given) == 1 and isinstance(given[0], Ref) and self._is_row(given[0]):
            given = given[0].key
        values, rest = self._take_values(given, is_by_part=False)
        if rest:
            values, rest = self._take_values(given, is_by_part=True)
        if rest:
            declared = tuple(each.name for each in self.codec.elements)
            raise InvalidKey("more values than the key of the view has", view=self.view, declared=declared, given=given)
        return tuple(values)

    def _is_row(self, ref: Ref[Any]) -> bool:
        if type(ref.key) is not tuple:
            return False
        if ref.refers_to is None:
            return bool(self.parts) and self.parts[0].kind is None
        return ref.refers_to is self.view

    def _take_values(self, given: KeyValues, *, is_by_part: bool) -> tuple[list[Any], list[Any]]:
        """The values of elements, and the remaining arguments; `is_by_part`: None is given for each part of a key."""
        rest = list(given)
        values: list[Any] = []
        for part, may_follow in zip(self.parts, self._none_may_follow, strict=True):
            if not rest:
                break
            is_none = rest[0] is None
            values.extend(part.take_values(rest))
            if is_none and part.width > 1 and (is_by_part or not may_follow):
                further = part.width - 1
                while further and rest and rest[0] is None:
                    del rest[0]
                    further -= 1
        return values, rest


def _reference_rule(view: type, field: str, rule: Rule, access: Access, kind: EntityKind | None) -> KeyRule:
    if rule.size or rule.hashed:
        raise InvalidDeclaration("a reference is neither hashed nor put into a time bucket", view=view, field=field)
    if kind is None:
        raise InvalidDeclaration(
            "the model referred to is not in the schema", view=view, field=field, target=access.target
        )
    elements = elements_behind(field, kind.codec.elements, descending=rule.descending, none=rule.none)
    return KeyRule(field, rule, access, elements, kind)


def _value_rule(view: type, field: str, rule: Rule, access: Access, names: Names) -> KeyRule:
    if rule.hashed:
        fit = fitting(type_of(access.type, names, view, field))
        return KeyRule(field, rule, access, (KeyElement(field, bytes, none=rule.none),), None, fit)
    if rule.size is not None and access.type is not datetime:
        raise InvalidDeclaration("a time bucket is made of a datetime", view=view, field=field, type=access.type)
    made = element(field, access.type, view, descending=rule.descending, none=rule.none)
    return KeyRule(field, rule, access, (made,), None)


def _check_arguments(view: Any, parts: Sequence[KeyRule], names: Names) -> None:
    """Raises InvalidDeclaration for types that are not those of the first fields of a view's key."""
    given = list(view.key_arguments)
    for part in parts:
        if not given:
            return
        if _fits(part, given[0], view, names):
            del given[0]
        elif part.width > 1 and _are_parts(part, given):
            del given[: part.width]
        else:
            raise InvalidDeclaration(
                "this type is not that of the field of the view's key",
                view=view, field=part.field, expected=_expected(part), given=given[0],
            )  # fmt: skip
    if given:
        raise InvalidDeclaration(
            "more types than the key of the view has", view=view, declared=[part.field for part in parts], given=given
        )


def _fits(part: KeyRule, given: Any, view: type, names: Names) -> bool:
    """Whether a type, or each of a union, is that of a field: of one that refers also a reference or a copy."""
    members = get_args(given) if get_origin(given) in (Union, UnionType) else (given,)
    return all(_is_of(part, each, view, names) for each in members)


def _is_of(part: KeyRule, given: Any, view: type, names: Names) -> bool:
    if given in (None, NoneType):
        return part.rule.none is not None
    meant = type_of(given, names, view, part.field)
    found = reference_target(meant)
    if found is not None:
        return found[0] is part.access.target
    return bool(meant.bare == (part.access.type if part.kind is None else part.elements[0].type)) and part.width == 1


def _are_parts(part: KeyRule, given: Sequence[Any]) -> bool:
    """Whether types are those of the key behind a field that refers, one by one."""
    return all(each is element.type for each, element in zip(given, part.elements, strict=False))


def _expected(part: KeyRule) -> list[Any]:
    if part.kind is None:
        return [part.access.type]
    refer: Any = Ref
    copies = [each for each in (part.access.copy, part.access.stands_for) if each is not None]
    return [refer[part.access.target], *copies, *[each.type for each in part.elements]]
