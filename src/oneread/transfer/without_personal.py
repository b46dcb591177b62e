"""Dumps without personal data: placeholders stand in place of personal values, and counters are left out.

See "Without personal data" of docs/formats/dumps.md.
"""

from __future__ import annotations

from typing import Any

from oneread.derivations.emitted_record import HIDDEN
from oneread.derivations.entity_type import EntityType
from oneread.models.registry import EntityKind
from oneread.transfer.csv_dump import CsvDump
from oneread.transfer.dump import Dump
from oneread.transfer.placeholders import Placeholders


class DumpWithoutPersonal(Dump):
    """One dump as JSON lines. Tombstones have no last values: what a deleted entity was, is about a person, too."""

    _has_counters = False

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._placeholders = Placeholders(self._catalog)

    def _given(self, entity_type: EntityType, entity: Any, used: Any) -> tuple[Any, Any]:
        if used:
            hidden = entity_type.hidden
            used = hidden.recorded(self._placeholders.hidden(entity_type.cls, hidden.used_in({HIDDEN: used})))
        return self._placeholders.entity(entity), used

    def _given_tombstone(self, kind: EntityKind, key: bytes, last: Any) -> tuple[tuple[Any, ...], Any]:  # noqa: ARG002
        return self._placeholders.key(kind, kind.parts_of(key)), None


class CsvDumpWithoutPersonal(CsvDump):
    """One dump as CSV."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._placeholders = Placeholders(self._catalog)

    def _given(self, entity: object) -> object:
        return self._placeholders.entity(entity)
