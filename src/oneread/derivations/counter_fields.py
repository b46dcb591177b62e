"""Fields in which entities show named counters: which counter an entity shows, and which entities show a counter.

The counter's name is made of the entity's key, so nothing is stored that leads from one to the other. See
docs/explanation/counters.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from oneread.counters.copying import CounterSources
from oneread.counters.rows import (
    SETTINGS,
    mark_key,
    name_key,
    shards_of,
    sums_of_amounts,
)
from oneread.counters.settings import show_in_settings
from oneread.errors import InvalidDeclaration, OnereadError
from oneread.models.fields import CounterName, Marker
from oneread.models.registry import EntityKind
from oneread.transactions.derived_writes import CounterRows, Group
from oneread.transactions.root_rows import GroupNumbers

_PLACE: Final = re.compile(r"\{([^{}]*)\}")
_FORMS: Final[dict[Any, str]] = {int: "-?[0-9]+", UUID: "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", str: ".*"}
"""By the type of a key's part: its text in a name."""
_READ: Final[dict[Any, Any]] = {int: int, UUID: UUID, str: str}
_LONGEST: Final = 100
_MOST_SECONDS: Final = 86_400


class NamePattern:
    """The names of counters that the entities of one kind show: `views:{number}`. Raises InvalidDeclaration."""

    def __init__(self, text: object, kind: EntityKind, cls: type, field: str) -> None:
        facts: dict[str, object] = {"model": cls, "field": field, "counter": text}
        if type(text) is not str:
            raise InvalidDeclaration('a counter is named by text: counter("views:{number}")', **facts)
        literals, places = _PLACE.split(text)[::2], _PLACE.findall(text)
        types = {each.name: each.type for each in kind.codec.elements}
        if any("{" in each or "}" in each for each in literals) or sorted(places) != sorted(types):
            raise InvalidDeclaration(
                'the name of a counter has each part of the key once, in braces: counter("views:{number}")',
                key=kind.names, **facts,
            )  # fmt: skip
        if not 0 < len(literals[0].encode()) <= _LONGEST:
            raise InvalidDeclaration(
                "the name of a counter that a field shows begins with text, of 1 to 100 bytes", **facts
            )
        unfit = [name for name, type_ in types.items() if type_ not in _FORMS or (type_ is str and name != places[-1])]
        if unfit:
            raise InvalidDeclaration(
                "the name of a counter that a field shows is made of ints, UUIDs and, in the last place, text",
                unfit=unfit, **facts,
            )  # fmt: skip
        if any(not between or between[0].isalnum() or between[0] == "-" for between in literals[1:-1]):
            raise InvalidDeclaration(
                "text stands between the parts of a counter's name, and begins with neither digit, letter nor dash",
                **facts,
            )
        if literals[-1] and types[places[-1]] is str:
            raise InvalidDeclaration("text of a key ends the name of a counter", **facts)
        self.text = text
        self._kind = kind
        self._literals, self._order = literals, [kind.names.index(name) for name in places]
        self._types = [types[name] for name in places]
        forms = [f"({_FORMS[each]})" for each in self._types]
        joined = [
            re.escape(literals[0]),
            *(form + re.escape(rest) for form, rest in zip(forms, literals[1:], strict=True)),
        ]
        self._match = re.compile("".join(joined), re.DOTALL).fullmatch

    def name_of(self, parts: Sequence[Any]) -> str:
        """The name of the counter that the entity with this key shows."""
        texts = [str(parts[place]) for place in self._order]
        return self._literals[0] + "".join([a + b for a, b in zip(texts, self._literals[1:], strict=True)])

    def suffix_of(self, name: str) -> bytes | None:
        """The key of the entity that shows a counter; None if none of this kind can."""
        found = self._match(name)
        if found is None:
            return None
        try:
            given = [_READ[each](text) for each, text in zip(self._types, found.groups(), strict=True)]
            parts = tuple([given[self._order.index(place)] for place in range(len(given))])
            return self._kind.suffix(parts) if self.name_of(parts) == name else None
        except (OnereadError, ValueError):  # no key has such a part
            return None


class ShownCounter:
    """The counters that the entities of one kind show in one field, copied within `every` seconds."""

    rank = 0

    def __init__(self, pattern: NamePattern, kind: EntityKind, every: float) -> None:
        self.name = pattern.text
        self.every = every
        self.kind = kind
        self._pattern = pattern

    def name_of(self, parts: Sequence[Any]) -> str:
        """The name of the counter that the entity with this key shows."""
        return self._pattern.name_of(parts)

    @classmethod
    def of(cls, model: type, field: str, marker: Marker, kind: EntityKind) -> ShownCounter:
        """What the field `field = rollup(counter(...))` means. Raises InvalidDeclaration."""
        given: CounterName = marker.group
        if type(marker.every) not in (int, float) or not 1 <= marker.every <= _MOST_SECONDS:
            raise InvalidDeclaration(
                "every= says within how many seconds a counter is shown, 1 to 86,400",
                model=model, field=field, every=marker.every,
            )  # fmt: skip
        return cls(NamePattern(given.text, kind, model, field), kind, marker.every)

    def key_of(self, suffix: bytes) -> bytes:
        """What names the numbers of the counter that the entity with this key shows."""
        return shards_of(self._counter(suffix)).start

    def group(self, suffix: bytes) -> Group:
        """The counter of the entity with this key."""
        name = self._counter(suffix)
        rows = CounterRows(shards_of(name), SETTINGS + name, mark_key(name), show_in_settings)
        return Group(rows.shards.start, self.rank, (), (self.kind.root_of(suffix),), counter=rows)

    def name_for(self, parts: Sequence[Any]) -> str:
        """The name of the counter that the entity with this key shows."""
        return self._pattern.name_of(parts)

    def group_named(self, name: str) -> Group | None:
        """A counter as the entities of this kind show it; None if none can."""
        suffix = self._pattern.suffix_of(name)
        return None if suffix is None else self.group(suffix)

    def _counter(self, suffix: bytes) -> bytes:
        return name_key(self.name_for(self.kind.codec.decode(suffix)))

    def value(self, numbers: GroupNumbers) -> int:
        """The value of the counter."""
        return sums_of_amounts(numbers.sums).value


class ShownCounters(CounterSources):
    """All counters that the entities of a schema show."""

    def __init__(self, shown: Sequence[ShownCounter]) -> None:
        self._shown = tuple(shown)

    def __bool__(self) -> bool:
        return bool(self._shown)

    def groups(self, name: str) -> list[Group]:
        return [group for each in self._shown if (group := each.group_named(name)) is not None]

    def __iter__(self) -> Iterator[ShownCounter]:
        return iter(self._shown)

    def every(self, name: str) -> float:
        return min((each.every for each in self._shown if each.group_named(name) is not None), default=0.0)

    @property
    def soonest(self) -> float:
        return min((each.every for each in self._shown), default=float("inf"))
