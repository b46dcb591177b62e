"""Hidden copies: the values of sources that an entity keeps in its record for views, and does not show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from oneread.derivations.copies import NO_SOURCE, Reference, Refs
from oneread.derivations.emitted_record import HIDDEN, Record
from oneread.derivations.entity_state import FillInputs
from oneread.models.set_order import order_sets
from oneread.models.shadow import revive

_PLAIN: Final = (bytes,)


class HiddenCopies:
    """The hidden copies of one entity class; false where it has none. `types` are those of the values, by name."""

    def __init__(self, references: Sequence[Reference]) -> None:
        self._references = tuple(each for each in references if each.hidden)
        self.types = {name: type_ for each in self._references for name, _get, type_ in each.hidden}

    def __bool__(self) -> bool:
        return bool(self._references)

    def used_in(self, record: Record) -> dict[str, Any]:
        """The hidden copies that a record holds, by name."""
        values = record.get(HIDDEN)
        if not values or not self.types:
            return {}
        types = self.types
        return {
            name: msgspec.convert(value, types[name], dec_hook=revive)
            for name, value in values.items()
            if name in types
        }

    def recorded(self, used: Mapping[str, Any]) -> Any:
        """Hidden copies as they are in a record."""
        return msgspec.to_builtins({name: order_sets(used.get(name)) for name in self.types}, builtin_types=_PLAIN)

    def used(self, refs: Refs, inputs: FillInputs) -> dict[str, Any]:
        """The hidden copies of an entity by name: as it had them, or of the sources that changed."""
        held = inputs.before.used
        used: dict[str, Any] = {}
        for each in self._references:
            keys = refs[each.name]
            same = keys == each.keys(inputs.before.entity) and all(name in held for name, _get, _type in each.hidden)
            if same and not any(key in inputs.changed for key in keys):
                used.update({name: held.get(name) for name, _get, _type in each.hidden})
            else:
                source = each.narrowed(inputs.sources[keys[0]]) if keys else NO_SOURCE
                used.update(each.hidden_values(source, held if same else None))
        return used
