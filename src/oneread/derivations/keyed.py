"""The key of a view: which values of an entity it holds, in which order, and which entities are in the view at all.

The function that emits a view is generated, one statement a rule. See "Semantics" of the decisions page and
docs/formats/keys.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

from oneread.derivations.access import Access, Accesses
from oneread.derivations.emitted_record import Emission
from oneread.derivations.rules import BucketSize, Rule
from oneread.encoding import ordered
from oneread.encoding.codec import Codec, Element
from oneread.encoding.codegen import function, indented
from oneread.encoding.parts import WRONG_TYPE
from oneread.encoding.values import digest, put_value
from oneread.errors import InvalidDeclaration, InvalidKey, InvalidValue
from oneread.models.fitting import Fitting, fitting
from oneread.models.model import Model
from oneread.models.references import Ref
from oneread.models.registry import EntityKind, element
from oneread.store.limits import KEY_BYTES, VALUES_BYTES

Values = tuple[Any, ...]

Emit: TypeAlias = Callable[[Any, Mapping[str, Any], tuple[Any, ...], bytes, Emission], None]
"""`Derivation.emit`."""


def in_utc(at: datetime) -> datetime:
    """An instant in UTC. Raises InvalidValue where that has no year from 1 to 9999."""
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidValue("an instant lies in the years 1 to 9999 of UTC", value=at) from error


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
"""The start of the bucket that an instant in UTC lies in."""


def signature(code: str, rule: Rule) -> str:
    """What tells a part's bytes, made of the value of `code`, from those of others."""
    return f"{code} {rule.descending:d} {rule.none} {rule.hashed:d} {rule.size}"


def reference_signature(name: str) -> str:
    """The signature of a reference's key in ascending order: the bytes that stand in the key of its commit row, too."""
    return signature(f"e.{name}", Rule("key"))


class KeyRule(NamedTuple):
    """One key rule: the elements it fills."""

    field: str
    rule: Rule
    access: Access
    elements: tuple[Element, ...]
    kind: EntityKind | None
    """What a reference refers to."""
    fit: Fitting | None = None
    """What takes an argument for a hashed value, whose digest does not show its type."""

    @property
    def width(self) -> int:
        return len(self.elements)

    @property
    def signature(self) -> str:
        """Parts of two views with one signature have the same bytes."""
        return signature(self.access.code, self.rule)

    def value_code(self, value: str, place: int) -> str:
        """The expression of what a plain value becomes in the key; `value` is not None."""
        if self.rule.hashed:
            return f"digest(whole(({value},)))"
        return value if self.rule.size is None else f"start{place}(in_utc({value}))"

    def elements_code(self, value: str, place: int) -> str:
        """The expression of the tuple of this part's elements."""
        if self.kind is None:
            code = f"({self.value_code(value, place)},)"
            return code if self.rule.none is None else f"((None,) if {value} is None else {code})"
        key = f"{value}.ref.key" if self.access.copy is not None else f"{value}.key"
        return key if self.rule.none is None else f"((None,) * {self.width} if {value} is None else {key})"

    def check(self) -> Callable[[Any], object]:
        """What raises for a value that this part cannot hold."""
        scope: dict[str, Any] = {"digest": digest, "whole": ordered.encode, "in_utc": in_utc}
        scope["encode"] = Codec(self.elements, max_length=KEY_BYTES).encode
        if self.rule.size is not None:
            scope["start0"] = STARTS[self.rule.size]
        code = f"encode({self.elements_code('v', 0)})"
        return function("check", "v", [f"return {f'[{code} for v in v]' if self.access.many else code}"], scope)

    def taken(self, rest: list[Any]) -> Values:
        """Takes this part's argument from the front of `rest`, as values of its elements.

        None stands for the whole reference, however many parts its key has.
        """
        first = rest[0]
        if self.kind is not None and first is not None:
            ref = getattr(first, "ref", first)
            if not isinstance(ref, Ref):
                taken = tuple(rest[: self.width])
                if None in taken:
                    raise InvalidKey("None stands for a whole reference, not for a part", field=self.field, given=taken)
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

    def _whole(self, ref: Ref[Any]) -> Values:
        """The key of a reference, which fills all of this part's elements and no other's."""
        if type(ref.key) is not tuple or len(ref.key) != self.width:
            raise InvalidKey(
                "the reference has a key of other parts than the model referred to",
                field=self.field, given=ref, parts=[each.name for each in self.elements],
            )  # fmt: skip
        return ref.key

    def _fitted(self, given: Any) -> Any:
        assert self.fit is not None
        try:
            return self.fit(given)
        except ValueError as error:
            raise InvalidKey(
                WRONG_TYPE, field=self.field, value=given, type=self.access.type, reason=str(error)
            ) from error


class ViewKey:
    """The key rules of one view."""

    def __init__(
        self,
        view: type,
        model: type[Model[Any]],
        rules: Mapping[str, Rule],
        accesses: Accesses,
        kinds: Mapping[type, EntityKind],
    ) -> None:
        self.view = view
        self.parts = tuple(_part(view, model, field, rule, accesses, kinds) for field, rule in rules.items())
        if sum(part.access.many for part in self.parts) > 1:
            raise InvalidDeclaration("a view takes each(...) of one list at most", view=view)
        self.codec = Codec(tuple(each for part in self.parts for each in part.elements), max_length=VALUES_BYTES)
        followers = (*self.parts[1:], None)[: len(self.parts)]
        self._none_may_follow = tuple(each is not None and each.rule.none is not None for each in followers)
        rules_of_elements = [part.rule for part in self.parts for _element in part.elements]
        self.hashed = frozenset(place for place, rule in enumerate(rules_of_elements) if rule.hashed)

    def function(
        self, scope: dict[str, Any], where: Callable[[Any], bool] | None, before: Sequence[str], each: Sequence[str]
    ) -> Emit:
        """The function that emits a view: it makes the key's bytes, and what the view makes of them.

        Arguments:
            scope: what the view's statements call.
            where: which entities are in the view; None for all.
            before: the view's statements that run once, when the entity is in the view.
            each: those that run for each row; `found` is the values' bytes, `m` the element of each(...).

        The statements see `e` (the entity), `u` (its hidden copies), `k` (its key's parts), `suffix` (its key) and
        `into`. Views of one entity share what they make in `made`: a customer's key or an instant that stands in three
        of them is encoded once.
        """
        space: dict[str, Any] = scope | {
            "digest": digest,
            "whole": ordered.encode,
            "in_utc": in_utc,
            "check": self._check,
            "where": where,
        }
        lines = [] if where is None else ["if not where(e): return"]
        lines.append("record, shown, deltas, claims, made = into")
        encoded: list[str] = []
        loop = ""
        for place, part in enumerate(self.parts):
            space[f"encode{place}"] = Codec(part.elements, max_length=KEY_BYTES).encode
            if part.rule.size is not None:
                space[f"start{place}"] = STARTS[part.rule.size]
            if part.access.many:
                lines += [f"v{place} = {part.access.code}", f"if v{place} is None: return"]
                given = f"[m for m in v{place} if m is not None]"
                if part.rule.size is not None:  # two instants of one bucket are one element
                    given = f"[{part.value_code('m', place)} for m in v{place} if m is not None]"
                lines += [f"several = list(dict.fromkeys({given}))", "if not several: return"]
                if part.access.unordered:
                    lines.append(f"several.sort(key=lambda m: encode{place}({part.elements_code('m', place)}))")
                loop = "for m in several:"
                encoded.append(f"encode{place}({part.elements_code('m', place)})")
            else:
                lines += _shared_lines(part, place)
                encoded.append(f"b{place}")
        joined = " + ".join(encoded) or "b''"
        body = [f"found = {f'check({joined})' if len(self.parts) > 1 else joined}", *each]
        if loop:
            body = [loop, *indented(body)]
        return function("emit", "e, u, k, suffix, into", [*lines, *before, *body], space, self.view.__qualname__)

    def _check(self, values: bytes) -> bytes:
        if len(values) > VALUES_BYTES:
            raise InvalidKey(
                "the values of a view row are too long together",
                view=self.view,
                fields=[part.field for part in self.parts],
                length=len(values),
                limit=VALUES_BYTES,
            )
        return values

    def flat(self, given: Values) -> Values:
        """Arguments of `get` and `page` as values of elements.

        References give their key's parts, hashed values their digest. None for a reference is one value; None for each
        part of its key is understood as well where it can mean nothing else.
        """
        values, rest = self._taken(given, spelled=False)
        if rest:
            values, rest = self._taken(given, spelled=True)
        if rest:
            raise InvalidKey("more values than the key of the view has", view=self.view, given=given)
        return tuple(values)

    def _taken(self, given: Values, *, spelled: bool) -> tuple[list[Any], list[Any]]:
        """The values of elements, and what is left of the arguments; `spelled` says that None is given by part."""
        rest = list(given)
        values: list[Any] = []
        for part, may_follow in zip(self.parts, self._none_may_follow, strict=True):
            if not rest:
                break
            is_none = rest[0] is None
            values.extend(part.taken(rest))
            if is_none and part.width > 1 and (spelled or not may_follow):
                further = part.width - 1
                while further and rest and rest[0] is None:
                    del rest[0]
                    further -= 1
        return values, rest


def _shared_lines(part: KeyRule, place: int) -> list[str]:
    """The statements that find or make the bytes of one part, or leave when the entity is not in the view."""
    absent = [f"if v{place} is None: return"] if part.rule.none is None else []
    return [
        f"b{place} = made.get({part.signature!r})",
        f"if b{place} is None:",
        *indented([f"v{place} = {part.access.code}", *absent]),
        f"    b{place} = made[{part.signature!r}] = encode{place}({part.elements_code(f'v{place}', place)})",
    ]


def _part(
    view: type, model: type[Model[Any]], field: str, rule: Rule, accesses: Accesses, kinds: Mapping[type, EntityKind]
) -> KeyRule:
    access = accesses.of_path(view, field, rule.field, model)
    if access.target is not None:
        if rule.size or rule.hashed:
            raise InvalidDeclaration("a reference is neither hashed nor put into a time bucket", view=view, field=field)
        kind = kinds.get(access.target)
        if kind is None:
            raise InvalidDeclaration(
                "the model referred to is not in the schema", view=view, field=field, target=access.target
            )
        return KeyRule(
            field,
            rule,
            access,
            tuple(_of_reference(field, part, rule, len(kind.names) == 1) for part in kind.codec.elements),
            kind,
        )
    if rule.hashed:
        fit = fitting(access.type, view, field, accesses.names)
        return KeyRule(field, rule, access, (Element(field, bytes, none=rule.none),), None, fit)
    if rule.size is not None and access.type is not datetime:
        raise InvalidDeclaration("a time bucket is made of a datetime", view=view, field=field, type=access.type)
    return KeyRule(
        field, rule, access, (element(field, access.type, view, descending=rule.descending, none=rule.none),), None
    )


def _of_reference(field: str, part: Element, rule: Rule, alone: bool) -> Element:  # noqa: FBT001 - says whether the key has one part
    name = field if alone else f"{field}.{part.name}"
    return Element(name, part.type, descending=rule.descending, none=rule.none, max_length=KEY_BYTES)
