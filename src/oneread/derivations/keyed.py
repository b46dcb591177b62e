"""The key of a view: which values of an entity it holds, in which order, and which entities are in the view at all.

What emits a view is generated, one statement a rule. See "Semantics" of the decisions page and docs/formats/keys.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias, Union, get_args, get_origin

from oneread.derivations.access import Access, Accesses, ValuePath
from oneread.derivations.buckets import STARTS, in_utc
from oneread.derivations.emission_code import SCOPE
from oneread.derivations.operations import (
    CompiledCondition,
    Element,
    FindPlace,
    KeyBytes,
    Operation,
    SkipUnless,
    TakeEach,
    TakeSpread,
    TakeValue,
    ViewProgram,
)
from oneread.derivations.rules import Rule
from oneread.derivations.views import Index
from oneread.encoding.codec import Codec, KeyElement
from oneread.encoding.codegen import function
from oneread.encoding.parts import WRONG_TYPE
from oneread.encoding.values import digest, put_value
from oneread.errors import InvalidDeclaration, InvalidKey
from oneread.models.references import Ref
from oneread.models.registry import EntityKind, element, elements_behind, key_behind, reference_target
from oneread.models.shadow import Fitting, fitting
from oneread.models.types import Names, type_of
from oneread.store.keys import SPREAD_BYTES, VIEW_BYTES
from oneread.store.limits import KEY_BYTES, VALUES_BYTES

KeyValues: TypeAlias = tuple[Any, ...]
"""Of the elements of a key."""


def reference_signature(name: str) -> str:
    """The signature of a reference's key in ascending order: these bytes are also in the key of its root row."""
    return Element(ValuePath(name), Rule("key"), (), "reference").signature


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

    @property
    def element(self) -> Element:
        """What the part is made of."""
        of: Literal["value", "reference", "copy"] = "value"
        if self.kind is not None:
            of = "reference" if self.access.copy is None else "copy"
        return Element(self.access.value, self.rule, self.elements, of)

    def operation(self, place: int) -> KeyBytes:
        """The operation that makes the part; it is the one at this place of the key."""
        if self.access.many:
            return TakeEach(place, self.element, self.access.unordered)
        return TakeValue(place, self.element)

    def check(self) -> Callable[[Any], object]:
        """The function that raises for a value that this part cannot hold."""
        encode = Codec(self.elements, max_length=KEY_BYTES).encode
        code = f"encode({self.element.values_code('v')})"
        lines = [f"return {f'[{code} for v in v]' if self.access.many else code}"]
        return function("check", "v", lines, {**SCOPE, "encode": encode}, self.field)

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

    def program(
        self,
        where: CompiledCondition | None,
        once: Sequence[Operation],
        rows: Sequence[Operation],
    ) -> ViewProgram:
        """The program of the view: its key's operations around the view's own.

        Those of `once` run if the entity is in the view (`where`; None for all), those of `rows` for each row, with
        `found`, what is between the prefix and the owner's key: the bytes of the key's values, behind the spread byte
        where there is one; and `m`, the element of each(...).
        """
        parts = [part.operation(place) for place, part in enumerate(self.parts)]
        spread = [TakeSpread(self.spread)] if self.spread > 1 else []
        most = VALUES_BYTES + self.spread_bytes if len(self.parts) > 1 else None
        return ViewProgram(
            self.view,
            (*([] if where is None else [SkipUnless(where)]), *parts, *spread, *once),
            (FindPlace((*spread, *parts), most, self._refuse_long), *rows),
            is_repeated=self._has_elements,
        )

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
