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
        self.many = any(part.access.many for part in self.parts)
        self.rows: Callable[[Any, Mapping[str, Any]], list[Values]] = self._generated()

    def _generated(self) -> Callable[[Any, Mapping[str, Any]], list[Values]]:
        """The function from (entity, hidden copies) to the values of each of its rows.

        None for an entity that is not in the view.
        """
        scope: dict[str, Any] = {"digest": digest, "whole": ordered.encode, "UTC": UTC}
        lines = ["def rows(e, u):"]
        shown: list[str] = []
        loop = ""
        for place, part in enumerate(self.parts):
            value, name = f"v{place}", "m" if part.access.many else f"v{place}"
            lines.append(f"    {value} = {part.access.code}")
            if part.access.many:
                lines.append(f"    if {value} is None: return []")
                loop = f" for m in dict.fromkeys({value}) if m is not None"
            elif part.rule.none is None:
                lines.append(f"    if {value} is None: return []")
            if part.rule.size is not None:
                scope[f"start{place}"] = STARTS[part.rule.size]
            shown.append(_element_code(part, name, place))
        lines.append(f"    return [({', '.join(shown)}{',' if shown else ''}){loop}]")
        exec("\n".join(lines), scope)  # noqa: S102 - the text holds names of declared fields only
        made: Callable[[Any, Mapping[str, Any]], list[Values]] = scope["rows"]
        return made

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


def _element_code(part: Part, name: str, place: int) -> str:
    if part.kind is not None:
        dotted = f"{name}.ref.key" if part.access.copy is not None else f"{name}.key"
        if part.rule.none is not None:
            return f"*((None,) * {part.width} if {name} is None else {dotted})"
        return f"*{dotted}"
    if part.rule.hashed:
        code = f"digest(whole(({name},)))"
    elif part.rule.size is not None:
        code = f"start{place}({name}.astimezone(UTC))"
    else:
        return name
    return code if part.rule.none is None else f"(None if {name} is None else {code})"
