"""What the follower of a move does to one entity of the target: it takes the state that the source has by now.

Unlike a dump that is loaded, the target may have a later or an earlier state of it, or another one of what it refers
to. Entities keep their own versions, whatever the clock of the follower shows.
"""

from __future__ import annotations

import msgspec

from oneread.derivations import emitted_record
from oneread.derivations.catalog import Catalog
from oneread.derivations.decisions import CommitAttempt, deletion
from oneread.derivations.emitted_record import LAST_VALUES, record_diff
from oneread.derivations.erasing import is_erased
from oneread.transactions.commit import NO_CHANGE, CommittedRows, Decision
from oneread.transactions.root import Root
from oneread.transfer.load import DumpReader
from oneread.transfer.restore import RestoreTombstone


class MovedTombstone(RestoreTombstone):
    """Deletes what was deleted in the source, with the last values that it had there."""

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        if seen.body is None and not (self._version and seen.version):
            return super().decide(seen, version, sources) if self._version else NO_CHANGE
        kept = self._version if seen.version < self._version else version
        before = self._catalog.state(self.key, seen)
        if seen.body is None and seen.emitted is not None and before.record.get(LAST_VALUES, {}) == self._last:
            return super().decide(seen, version, sources)
        self.written.version = kept
        if not self._version:  # purged in the source, with its last values
            found = deletion(self._catalog, self.key, CommitAttempt(seen, before, kept, kept), sources)
            return msgspec.structs.replace(found, root=self._root(found.root, seen), unreferenced=[])
        entity_type = self._catalog.any_type_of(self.key)
        record = entity_type.empty_record()
        if self._last:
            record[LAST_VALUES] = dict(self._last)
        return Decision(
            self._root(Root(kept, None, emitted_record.encode_record(record)), seen),
            record_diff(self.key, before.record, record, {}),
            entity_type.fans_out(before, record) or is_erased(record) != is_erased(before.record),
            groups=entity_type.touched(before.record, record),
            taken=self._numbers,
        )

    def _root(self, deleted: Root | None, seen: Root) -> Root:
        """The row, whose removed body is as old as in the source: the entity may come again with its own version.

        Where one row is changed at a time the newest stamp wins.
        """
        assert deleted is not None, "a delete changes the row"
        return msgspec.structs.replace(deleted, own=max(self._version, seen.own + 1))


class MovedReader(DumpReader):
    """Makes changes of lines of a dump."""

    _always = True
    _of_deleted = MovedTombstone


def purged(catalog: Catalog, key: bytes) -> MovedTombstone:
    """Deletes what the source has no row of."""
    return MovedTombstone(catalog, key, 0, {})
