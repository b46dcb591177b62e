"""Erasing: the change that deletes an entity without last values, whatever refers to it.

Holders of its copies follow as they follow any delete, and what they follow are empty values. The row says that it was
erased, so that nothing restores it. See docs/decisions/0157-erasing.md.
"""

from __future__ import annotations

from oneread.derivations.changes import Delete, Reemit
from oneread.derivations.copies import ERASED
from oneread.derivations.decisions import deletion
from oneread.derivations.emitted_record import LAST_VALUES, Record, encode_record, record_diff
from oneread.transactions.commit import NO_CHANGE, CommittedRows, Decision
from oneread.transactions.root import Root


def is_erased(record: Record) -> bool:
    """Whether the record of a deleted entity says that it was erased."""
    return ERASED in (record.get(LAST_VALUES) or {})


class Rewrite(Reemit):
    """Commits a living entity again even where nothing changes, so that its document has its copies as they are."""

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        found = super().decide(seen, version, sources)
        if found.root is not None or seen.body is None:
            return found
        return Decision(Root(version, seen.body, seen.emitted, seen.own))


class Erase(Delete):
    """Deletes an entity, or removes the last values of one that was deleted; one that never was is noted as erased."""

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        attempt = self._attempt(seen, version)
        before = attempt.before
        if before.entity is not None:
            if not isinstance(before.entity, self._model):
                return NO_CHANGE
            self.written.version = version
            return deletion(self._catalog, self.key, attempt, sources, erases=True)
        if is_erased(before.record) or (not before.record and self._catalog.taken_number(self.key) is not None):
            return NO_CHANGE  # a child that never was would take a number of its group
        self.written.version = version
        entity_type = self._catalog.any_type_of(self.key)
        record = entity_type.erased_record(self._model, before.record.get(LAST_VALUES) or {})
        return Decision(
            Root(version, None, encode_record(record)),
            record_diff(self.key, before.record, record, {}),
            entity_type.copied is not None and bool(before.record),
            groups=entity_type.touched(before.record, record),
        )
