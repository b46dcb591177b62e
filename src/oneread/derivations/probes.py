"""Probes: whether the views and copies of others can hold what an entity is about to tell them.

A carrier follows its source later, perhaps in a task, when nobody is there to be told that a name is too long for an
index or breaks a constraint of the copy: so the source is asked at its own commit, whenever it has something new to
tell. See "Limits are engine-independent and checked before the write" of the API page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from oneread.derivations.access import Accesses, HiddenRoute
from oneread.derivations.copies import Getter, Reference, Source, compiled
from oneread.errors import InvalidValue, OnereadError
from oneread.models.layout import Layout
from oneread.models.model import Model
from oneread.models.references import Copy


class Probe(NamedTuple):
    """One place that holds a value of a source.

    Arguments:
        holder: the view or copy class.
        field: its field.
        get: the value, from the source.
        check: raises an OnereadError for a value that the place cannot hold.
    """

    holder: type
    field: str
    get: Getter
    check: Callable[[Any], object]


class Probes:
    """The probes of a schema, by source."""

    def __init__(self, accesses: Accesses) -> None:
        self._accesses = accesses
        self._by_model: dict[type, list[Probe]] = {}

    def add_value(self, through: HiddenRoute, holder: type, field: str, check: Callable[[Any], object]) -> None:
        """A view holds a value that comes from another entity, or from one further on."""
        access = self._accesses.of_route(through.target, through.route)
        self._of(through.target).append(Probe(holder, field, compiled(access.code), check))
        if access.through is not None:
            self.add_value(access.through, holder, field, check)

    def add_copy(self, reference: Reference, copy: type[Copy[Any]], layout: Layout[Any]) -> None:
        """A carrier holds a copy, whose class may have constraints of its own."""

        def get(entity: Any, used: Mapping[str, Any]) -> Any:
            return reference.filled(copy.of(*reference.kind.parts(entity)), Source(entity, used, existed=True))

        self._of(reference.kind.cls).append(Probe(copy, "", get, layout.validated))

    def _of(self, model: type[Model[Any]]) -> list[Probe]:
        return self._by_model.setdefault(model, [])

    def check(self, model: type, entity: Any, used: Mapping[str, Any]) -> None:
        """Asks every place that holds a value of this entity.

        Raises:
            InvalidValue: one of them cannot hold it; `holder` and `field` name it.
        """
        for probe in self._by_model.get(model, ()):
            value = probe.get(entity, used)
            if value is None:
                continue
            try:
                probe.check(value)
            except OnereadError as error:
                raise InvalidValue(
                    "others hold a copy of this value, and cannot hold the new one",
                    model=type(entity).__name__,
                    holder=probe.holder,
                    field=error.facts.get("field", probe.field),
                    reason=str(error),
                ) from error
