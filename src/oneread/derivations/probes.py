"""Probes: whether the views and copies of other entities can hold the new values of a source.

Holders follow their source later, perhaps in a task, when no caller is left to refuse a name that is too long for an
index or breaks a constraint of a copy. So a source checks its new values in its own commit. See "Limits are
engine-independent and checked before the write" of the API page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from oneread.derivations.access import Accesses, HiddenRoute
from oneread.derivations.copies import Getter, Reference, Source, compile_getter
from oneread.errors import InvalidValue, OnereadError
from oneread.models.layout import Layout
from oneread.models.model import Model
from oneread.models.references import Copy
from oneread.models.registry import root_model


class Probe(NamedTuple):
    """One field of a view or copy class that holds a value of a source."""

    holder: type
    field: str
    get: Getter
    check: Callable[[Any], object]
    """Raises an OnereadError for a value that the field cannot hold."""


class Probes:
    """The probes of a schema, by source."""

    def __init__(self, accesses: Accesses) -> None:
        self._accesses = accesses
        self._by_model: dict[type, list[tuple[type, Probe]]] = {}

    def add_value(self, through: HiddenRoute, holder: type, field: str, check: Callable[[Any], object]) -> None:
        """Adds a view's field whose value comes from another entity, and the entities on the way to it."""
        access = self._accesses.of_end(through.target, through.route)
        self._add(through.target, Probe(holder, field, compile_getter(access.code), check))
        if access.through is not None:
            self.add_value(access.through, holder, field, check)

    def add_copy(self, reference: Reference, copy: type[Copy[Any]], layout: Layout[Any]) -> None:
        """Adds a copy class, which may have constraints of its own."""

        def get(entity: Model[Any], used: Mapping[str, Any]) -> Any:
            return reference.filled_copy(copy.of(*reference.kind.parts(entity)), Source(entity, used, existed=True))

        assert reference.access.target is not None
        self._add(reference.access.target, Probe(copy, "", get, layout.validated))

    def _add(self, model: type[Model[Any]], probe: Probe) -> None:
        self._by_model.setdefault(root_model(model), []).append((model, probe))

    def check(self, model: type, entity: Model[Any], used: Mapping[str, Any]) -> None:
        """Checks an entity's values against every field that holds one of them.

        Raises:
            InvalidValue: a value does not fit; `holder` and `field` name the field.
        """
        for source, probe in self._by_model.get(model, ()):
            value = probe.get(entity, used) if isinstance(entity, source) else None
            if value is None:
                continue
            try:
                probe.check(value)
            except OnereadError as error:
                raise InvalidValue(
                    "a copy of this value in another entity cannot hold the new value",
                    model=type(entity).__name__,
                    holder=probe.holder,
                    field=error.facts.get("field", probe.field),
                    reason=str(error),
                ) from error
