"""Named counters in a dict: what the oracle knows of them. Entities show a counter at once."""

from __future__ import annotations

import re
from typing import Any, Final

from oneread.models.fields import defaults_of, is_counter
from oneread.models.registry import key_fields
from oneread.models.types import Names

_PLACE: Final = re.compile(r"{([^}]*)}")


def counter_name(text: str, cls: type, key: tuple[Any, ...], names: Names) -> str:
    """The name of the counter that an entity with this key shows."""
    parts = [part.name for each in key_fields(cls, names) for part in each.elements]
    return _PLACE.sub(lambda found: str(key[parts.index(found[1])]), text)


class NaiveCounters:
    """Counters by name, and the tokens that were counted."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.values: dict[str, int] = {}
        self._tokens: set[tuple[str, str]] = set()
        self._markers: dict[type, dict[str, Any]] = {}

    def add(self, name: str, amount: int, once: str | None) -> None:
        """Adds, once for each token."""
        if (name, once) in self._tokens:
            return
        if once is not None:
            self._tokens.add((name, once))
        self.values[name] = self.values.get(name, 0) + amount

    def delete(self, name: str) -> None:
        """Deletes a counter; its tokens stay counted."""
        self.values.pop(name, None)

    def shown_by(self, cls: type, key: tuple[Any, ...]) -> dict[str, int]:
        """What the fields of an entity with this key show that show counters."""
        markers = self._markers.get(cls)
        if markers is None:
            markers = {name: default for name, default in defaults_of(cls).items() if is_counter(default)}
            self._markers[cls] = markers
        if not markers:
            return {}
        names = {name: counter_name(each.group.text, cls, key, self._names) for name, each in markers.items()}
        return {field: self.values.get(name, 0) for field, name in names.items()}
