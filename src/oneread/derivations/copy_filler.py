"""Filling: the copies of an entity get what their sources have, and its other references must refer to something.

See rule 4 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oneread.derivations.copies import Reference, Refs
from oneread.derivations.entity_state import FillInputs
from oneread.models.model import Model
from oneread.models.references import Copy


class CopyFiller:
    """Fills the copies of entities of one class."""

    def __init__(self, cls: type[Model[Any]], references: Sequence[Reference]) -> None:
        self._cls = cls
        self._copies = tuple(each for each in references if each.copy is not None)
        self._plain = tuple(each for each in references if each.copy is None)

    def fill(self, key: bytes, entity: Model[Any], refs: Refs, inputs: FillInputs) -> dict[str, Copy[Any]]:
        """The copies that are not as given. Raises MissingReference for a new reference to nothing."""
        filled: dict[str, Copy[Any]] = {}
        for each in self._copies:
            keys = refs[each.name]
            if keys:
                copy = self._fill_copy(each, entity, keys[0], inputs)
                if keys[0] == key:
                    copy = self._own_copy(each, entity, copy, inputs)
                if copy is not getattr(entity, each.name):
                    filled[each.name] = copy
        for each in self._plain:
            self._check(each, entity, refs[each.name], inputs)
        return filled

    def fill_lacking(self, refs: Refs, inputs: FillInputs) -> dict[str, Copy[Any]]:
        """The copies of a stored entity that lack values."""
        before = inputs.before
        return {
            each.name: self._fill_copy(each, before.entity, refs[each.name][0], inputs)
            for each in self._copies
            if each.name in before.unfilled and refs[each.name]
        }

    def _fill_copy(self, reference: Reference, entity: Model[Any], key: bytes, inputs: FillInputs) -> Copy[Any]:
        before, given = inputs.before, getattr(entity, reference.name)
        if before.entity is not None:
            old: Any = getattr(before.entity, reference.name, None)
            if type(old) is reference.access.copy and (old is given or reference.kind.key(old.ref.key) == key):
                is_stale = key in inputs.changed or reference.name in before.unfilled
                return reference.updated_copy(old, reference.narrowed(inputs.sources[key])) if is_stale else old
        source = inputs.sources[key]
        if type(source.entity) is not reference.access.target:
            source = reference.narrowed(source)
        if source.entity is not None and not source.expired:
            return reference.fill(given.ref, source.entity, source.used)
        reference.refuse_missing(entity, source)
        return reference.filled_copy(given, source)

    def _own_copy(self, reference: Reference, entity: Model[Any], copy: Copy[Any], inputs: FillInputs) -> Copy[Any]:
        """The copy of an entity that copies itself, of what is written; what it copies from others follows later."""
        is_new = inputs.before.entity is None or not reference.accepts(self._cls)
        if is_new or any("." in route for _name, route in reference.routes):
            return copy
        return reference.fill(copy.ref, entity, {})

    def _check(self, reference: Reference, entity: Model[Any], keys: list[bytes], inputs: FillInputs) -> None:
        before = inputs.before
        known = () if reference.name in before.unfilled else reference.keys(before.entity)
        for key in keys:
            if key in known:
                continue
            source = reference.narrowed(inputs.sources[key])
            if source.entity is None or source.expired:
                reference.refuse_missing(entity, source)
