"""The key of a view: which values of an entity it holds, in which order, and which entities are in the view at all.

Knows rules, accesses and codecs. Must not know what a row shows or sums. The function that takes an entity's values is
generated, one statement a rule. The law is "Semantics" of the decisions page and docs/formats/keys.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from oneread.derivations.access import Access, Accesses
from oneread.derivations.rules import Rule, Size
from oneread.encoding import ordered
from oneread.encoding.codec import Codec, Element
from oneread.encoding.values import digest
from oneread.errors import InvalidDeclaration, InvalidKey
from oneread.models.model import Model
from oneread.models.references import Ref
from oneread.models.registry import KEY_BYTES, Kind, element

VALUES_BYTES: Final = 300
"""Longest values of one view row together: with the view's prefix and the source's key it stays below 511 bytes."""

Values = tuple[Any, ...]


def month_start(at: datetime) -> datetime:
    return at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _week_start(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=at.weekday())


STARTS: Final[dict[Size, Callable[[datetime], datetime]]] = {
    "minute": lambda at: at.replace(second=0, microsecond=0),
    "hour": lambda at: at.replace(minute=0, second=0, microsecond=0),
    "day": lambda at: at.replace(hour=0, minute=0, second=0, microsecond=0),
    "week": _week_start,
    "month": month_start,
    "year": lambda at: month_start(at).replace(month=1),
}
"""The start of the bucket that an instant in UTC lies in."""


class Part(NamedTuple):
    """One key rule: the elements it fills."""

    field: str
    rule: Rule
    access: Access
    elements: tuple[Element, ...]
    kind: Kind | None
    """What a reference refers to."""

    @property
    def width(self) -> int:
        return len(self.elements)

    @property
    def signature(self) -> str:
        """What tells the part's bytes from those of others: parts of two views with one signature have the same."""
        rule = self.rule
        return f"{self.access.code} {rule.descending:d} {rule.none} {rule.hashed:d} {rule.size}"

    def value_code(self, value: str, place: int) -> str:
        """The expression of what a plain value becomes in the key; `value` is not None."""
        if self.rule.hashed:
            return f"digest(whole(({value},)))"
        return value if self.rule.size is None else f"start{place}({value}.astimezone(UTC))"

    def elements_code(self, value: str, place: int) -> str:
        """The expression of the tuple of this part's elements."""
        if self.kind is None:
            code = f"({self.value_code(value, place)},)"
            return code if self.rule.none is None else f"((None,) if {value} is None else {code})"
        key = f"{value}.ref.key" if self.access.copy is not None else f"{value}.key"
        return key if self.rule.none is None else f"((None,) * {self.width} if {value} is None else {key})"

    def check(self) -> Callable[[Any], object]:
        """What raises for a value that this part cannot hold."""
        scope: dict[str, Any] = {"digest": digest, "whole": ordered.encode, "UTC": UTC}
        scope["encode"] = Codec(self.elements, max_length=KEY_BYTES).encode
        if self.rule.size is not None:
            scope["start0"] = STARTS[self.rule.size]
        code = f"encode({self.elements_code('v', 0)})"
        text = f"lambda all: [{code} for v in all]" if self.access.many else f"lambda v: {code}"
        made: Callable[[Any], object] = eval(text, scope)  # noqa: S307 - generated
        return made

    def taken(self, rest: list[Any]) -> Values:
        """Takes this part's argument from the front of `rest`, as values of its elements."""
        first = rest[0]
        if self.kind is not None:
            ref = getattr(first, "ref", first)
            if not isinstance(ref, Ref):
                taken = tuple(rest[: self.width])
                del rest[: self.width]
                return taken
            del rest[0]
            return ref.key
        del rest[0]
        if first is None:
            return (None,)
        if self.rule.hashed:
            return (digest(ordered.encode((first,))),)
        if self.rule.size is not None and isinstance(first, datetime) and first.tzinfo is not None:
            return (STARTS[self.rule.size](first.astimezone(UTC)),)
        return (first,)


class ViewKey:
    """The key rules of one view.

    Arguments:
        view: the declaration, for errors.
        model: whose entities it is about.
        rules: its key rules, in order.
    """

    def __init__(
        self,
        view: type,
        model: type[Model[Any]],
        rules: Mapping[str, Rule],
        accesses: Accesses,
        kinds: Mapping[type, Kind],
    ) -> None:
        self.view = view
        self.parts = tuple(_part(view, model, field, rule, accesses, kinds) for field, rule in rules.items())
        if sum(part.access.many for part in self.parts) > 1:
            raise InvalidDeclaration("a view takes each(...) of one list at most", view=view)
        self.codec = Codec(tuple(each for part in self.parts for each in part.elements), max_length=VALUES_BYTES)
        self.rows: Callable[[Any, Mapping[str, Any], dict[str, bytes]], list[tuple[bytes, Any]]] = self._generated()

    def _generated(self) -> Callable[[Any, Mapping[str, Any], dict[str, bytes]], list[tuple[bytes, Any]]]:
        """The function from (entity, hidden copies, elements encoded so far) to (encoded values, element of each(...)).

        One pair for each row; none for an entity that is not in the view. Views of one entity share what is encoded:
        a customer's key or an instant that stands in three of them is encoded once.
        """
        scope: dict[str, Any] = {"digest": digest, "whole": ordered.encode, "UTC": UTC, "check": self._check}
        lines = ["def rows(e, u, c):"]
        encoded: list[str] = []
        loop = ""
        for place, part in enumerate(self.parts):
            scope[f"encode{place}"] = Codec(part.elements, max_length=KEY_BYTES).encode
            if part.rule.size is not None:
                scope[f"start{place}"] = STARTS[part.rule.size]
            value = f"v{place}"
            if part.access.many:
                lines += [f"    {value} = {part.access.code}", f"    if {value} is None: return []"]
                loop = f"for m in dict.fromkeys({value}) if m is not None"
                encoded.append(f"encode{place}({part.elements_code('m', place)})")
                continue
            lines += [f"    b{place} = c.get({part.signature!r})", f"    if b{place} is None:"]
            lines.append(f"        {value} = {part.access.code}")
            if part.rule.none is None:
                lines.append(f"        if {value} is None: return []")
            found = f"encode{place}({part.elements_code(value, place)})"
            lines.append(f"        b{place} = c[{part.signature!r}] = {found}")
            encoded.append(f"b{place}")
        joined = " + ".join(encoded) or "b''"
        pair = f"(check({joined}), m)" if len(self.parts) > 1 else f"({joined}, m)"
        lines.append(
            f"    return [{pair} {loop}]"
            if loop.startswith("for")
            else f"    return [{pair.replace(', m)', ', None)')}]"
        )
        exec("\n".join(lines), scope)  # noqa: S102 - the text holds names of declared fields only
        made: Callable[[Any, Mapping[str, Any], dict[str, bytes]], list[tuple[bytes, Any]]] = scope["rows"]
        return made

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

        References give their key's parts, hashed values their digest.
        """
        rest = list(given)
        values: list[Any] = []
        for part in self.parts:
            if rest:
                values.extend(part.taken(rest))
        if rest:
            raise InvalidKey("more values than the key of the view has", view=self.view, given=given)
        return tuple(values)


def _part(
    view: type, model: type[Model[Any]], field: str, rule: Rule, accesses: Accesses, kinds: Mapping[type, Kind]
) -> Part:
    access = accesses.of_path(view, field, rule.field, model)
    if access.target is not None:
        if rule.size or rule.hashed:
            raise InvalidDeclaration("a reference is neither hashed nor put into a time bucket", view=view, field=field)
        kind = kinds.get(access.target)
        if kind is None:
            raise InvalidDeclaration(
                "the model referred to is not in the schema", view=view, field=field, target=access.target
            )
        return Part(
            field,
            rule,
            access,
            tuple(_of_reference(field, part, rule, len(kind.names) == 1) for part in kind.codec.elements),
            kind,
        )
    if rule.hashed:
        return Part(field, rule, access, (Element(field, bytes, none=rule.none),), None)
    if rule.size is not None and access.type is not datetime:
        raise InvalidDeclaration("a time bucket is made of a datetime", view=view, field=field, type=access.type)
    return Part(
        field, rule, access, (element(field, access.type, view, descending=rule.descending, none=rule.none),), None
    )


def _of_reference(field: str, part: Element, rule: Rule, alone: bool) -> Element:  # noqa: FBT001 - says whether the key has one part
    name = field if alone else f"{field}.{part.name}"
    return Element(name, part.type, descending=rule.descending, none=rule.none, max_length=KEY_BYTES)
