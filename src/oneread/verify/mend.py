"""Mending: each fault is looked at again inside a transaction, and put right there.

Writers continue meanwhile: a row that is right by then is left alone. A sum is mended by adding what it is off by,
since commits add exact differences: the error stays the same whatever else is committed. See
docs/decisions/0014-repair-in-place.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from oneread.counters import rows as counters
from oneread.derivations import emitted_record
from oneread.derivations.catalog import Catalog
from oneread.derivations.emitted_record import COPIED, Record
from oneread.errors import Corrupt, LimitExceeded, OnereadError, SchemaMismatch, StaleCopies
from oneread.plans.counted import CountedStore
from oneread.plans.inside import run_plan
from oneread.plans.plan import Plan
from oneread.plans.progress import Fault
from oneread.store.keys import kind_part, view_part
from oneread.store.rows import VALUE, Cell, Row, RowRange, Table
from oneread.transactions import outbox
from oneread.transactions.change_log import owning_log, readable_row
from oneread.transactions.deltas import Delta, Number, decode_amounts, encode_amounts
from oneread.transactions.derived_writes import NO_DERIVED_WRITES, DerivedWrites
from oneread.transactions.job_rows import is_of_queue, job_fault
from oneread.transactions.native import NativeCommitter
from oneread.transactions.refusals import is_of_part, raises_again
from oneread.transactions.root import AHEAD_MILLISECONDS, BODY, EMITTED, VERSION, Root, encode_root, next_version
from oneread.transactions.sequences import counted, keep_sequences, raised, rewritten, without_unreadable
from oneread.transactions.system_rows import FENCE_ROW, RANGES, is_known_row
from oneread.transactions.unit_of_work import UnitOfWork
from oneread.verify.expected import (
    ExpectedRows,
    RowReader,
    StoredEntity,
    deleted_record,
    emit_again,
    has_own_stamp,
    recorded_in,
)
from oneread.verify.feed_entries import EntryMaker
from oneread.verify.feed_rows import FeedRowMender
from oneread.verify.group_rows import GroupRows
from oneread.verify.keyspace import DAMAGED, StoreKeyspaces, amounts_of, shown_of
from oneread.verify.repair import step_of
from oneread.verify.report import Finding
from oneread.verify.scanner import Scanner

BATCH: Final = 100
"""Findings mended in one transaction."""


def stale_copies(finding: Finding, source: object, reason: str) -> StaleCopies:
    """The error of a holder that cannot follow its source."""
    message = "the holder cannot follow its source and is set aside; change the holder or the source"
    return StaleCopies(message, holder=finding.fault.entity, source=source, reason=reason)


def stale_total(finding: Finding, error: Exception) -> StaleCopies:
    """The error of an entity that cannot show the numbers of its groups."""
    message = "the entity cannot show the number of a group; change the entity, or what counts in the group"
    return StaleCopies(message, holder=finding.fault.entity, reason=f"{type(error).__name__}: {outbox.text_of(error)}")


class Mender:
    """Mends findings in transactions. `fence` is the fence row as it was when the keyspaces were read."""

    def __init__(
        self, keyspaces: StoreKeyspaces, scanner: Scanner, committer: NativeCommitter, fence: Row | None
    ) -> None:
        self._keyspaces = keyspaces
        self._catalog: Catalog = keyspaces.catalog
        self._scanner = scanner
        self._committer = committer
        self._fence = fence
        self._reader = RowReader(keyspaces, scanner)
        self._groups = GroupRows(keyspaces, scanner)
        self._entries = EntryMaker(keyspaces.feeds.values(), scanner)
        self._feed_entries = frozenset(feed.prefix for feed in keyspaces.feeds.values())
        self._new_unit = partial(UnitOfWork, name_of=self._catalog.name_of, logs=self._catalog.logged)
        self._feed_rows = FeedRowMender(keyspaces.feeds.values(), scanner, self._new_unit)

    def batches(self, todo: Sequence[Finding]) -> Iterator[list[Finding]]:
        """Batches of findings of one step each: its rows are written before the next step reads."""
        for _order, group in groupby(todo, step_of):
            step = list(group)
            for start in range(0, len(step), BATCH):
                yield step[start : start + BATCH]

    def mend(self, findings: Sequence[Finding]) -> Plan[list[bool]]:
        """Mends several in one transaction: whether each is right now. Raises SchemaMismatch if the schema changed."""
        return self._committer.together(lambda store: self._mend(store, findings))

    def _mend(self, store: CountedStore, findings: Sequence[Finding]) -> list[bool]:
        self._check_schema(store)
        return [self._repair_for(finding)(store, finding) for finding in findings]

    def _check_schema(self, store: CountedStore) -> None:
        (fence,) = store.read("system", [FENCE_ROW])
        if fence != self._fence:
            raise SchemaMismatch("the store's schema has changed while it was repaired; repair it again")

    def drop(self, fault: Fault) -> Plan[bool]:
        """Removes a row that cannot be mended, if that is still so; returns whether it was removed.

        An entity is deleted as `delete` does it: its record says which rows are its, and a task marks copies of it.

        Raises:
            SchemaMismatch: the schema has changed since the keyspaces were read; nothing was written.
        """
        return self._committer.together(partial(self._drop, fault=fault))

    def _drop(self, store: CountedStore, fault: Fault) -> bool:
        self._check_schema(store)
        (row,) = run_plan(store, self._scanner.read(fault.table, [fault.key]))
        if row is None:
            return False
        if is_of_model(self._keyspaces, fault):
            return self._drop_entity(store, fault.key, row)
        return is_stray(self._keyspaces, fault, row) and self._write(store, fault.table, fault.key, None)

    def _drop_entity(self, store: CountedStore, key: bytes, row: Row) -> bool:
        expected = run_plan(store, self._reader.expected_rows(key, row))
        if not expected.is_lost:
            return False
        now = store.now()
        version, entity_type = next_version(now, _newest_stamp(row, now), key), self._catalog.any_type_of(key)
        record = deleted_record(entity_type, row.get(EMITTED))
        unit = self._new_unit(store)
        root = Root(version, None, emitted_record.encode_record(record))
        unit.put("roots", key, keep_sequences(encode_root(root), row))
        taken = taken_back(key, row.get(EMITTED))
        unit.apply(taken, version, key)
        groups = entity_type.touched(recorded_in(row.get(EMITTED)), record) if taken.deltas else []
        for group in groups:
            unit.note_indexed(group)
        outbox.add_task(unit, key, version)
        unit.flush(now)
        self._committer.show_groups(store, groups)
        return True

    def _repair_for(self, finding: Finding) -> Callable[[CountedStore, Finding], bool]:
        fault = finding.fault
        by_view: dict[str, Callable[[CountedStore, Finding], bool]] = {
            "record": self._rewrite_root,
            "version": self._rewrite_root,
            "copy": self._follow_source,
            "total": self._follow_groups,
            "sequence": self._mend_sequence,
            "task": self._restart_task,
            "change log": self._mend_log,
            "stray": lambda store, stray: self._write(store, stray.fault.table, stray.fault.key, None),
        }
        if fault.view in by_view:
            return by_view[fault.view]
        keyspace = self._keyspaces.keyspace_of(fault.table, fault.key)
        if keyspace is not None and keyspace.width:
            return self._correct_group
        if keyspace is not None and keyspace.groups:
            return self._follow_group
        if keyspace is not None and keyspace.is_joined:
            if keyspace.prefix in self._feed_entries:
                return self._join_again
            return lambda store, found: self._feed_rows.mend(store, found.fault.key)
        return self._delete_orphan if fault.kind == "dangling" else self._write_row

    # Root rows.

    def _rewrite_root(self, store: CountedStore, finding: Finding) -> bool:
        """Writes the record that the entity emits, at a new version; adds a task when its holders must follow."""
        key = finding.owner
        (row,) = run_plan(store, self._scanner.read("roots", [key]))
        if not row:
            return False
        expected = run_plan(store, self._reader.expected_rows(key, row))
        if not expected.faults:
            return True
        record, body = record_again(self._keyspaces, key, row, expected), row.get(BODY)
        if record is None:
            return False
        now = store.now()
        version = next_version(now, _newest_stamp(row, now), key)
        emitted = emitted_record.encode_record(record)
        stored, own = (None, 0) if body is None else (body.value, min(body.stamp, version))
        unit = self._new_unit(store)
        unit.put("roots", key, keep_sequences(encode_root(Root(version, stored, emitted, own)), row))
        if recorded_in(row.get(EMITTED)).get(COPIED) != record.get(COPIED):
            outbox.add_task(unit, key, version)
        unit.flush(now)
        return True

    def _mend_sequence(self, store: CountedStore, finding: Finding) -> bool:
        """Raises the sequence in the root's row to the number of an entity; a root without a row gets a tombstone.

        Where the finding is the root's own, counts that cannot be read are removed, and count as 0: each child, deleted
        or not, has a finding of its own, which raises them.
        """
        taken = self._catalog.taken_number(finding.owner)
        root = finding.owner if taken is None else taken.sequence.root
        (row,) = run_plan(store, self._scanner.read("roots", [root]))
        if row == {}:
            return False
        now = store.now()
        new: Row | None
        if row is None:
            if taken is None:
                return True
            record = emitted_record.encode_record(self._catalog.any_type_of(root).empty_record())
            new = encode_root(Root(now, None, record)) | counted(None, taken, now)
        elif taken is not None:
            new = raised(row, taken, now)
        else:
            readable = without_unreadable(row)
            new = rewritten(readable, now)[0] if len(readable) < len(row) else None
        if new is not None:
            unit = self._new_unit(store)
            unit.put("roots", root, new)
            unit.flush(now)
        return True

    def _follow_source(self, store: CountedStore, finding: Finding) -> bool:
        """Gives a holder its source's values, with every derived row that follows from them."""
        refusal = self._committer.follow(store, finding.source, finding.owner)
        if refusal is not None:
            raise stale_copies(finding, self._catalog.name_of(finding.source), f"{refusal.error}: {refusal.message}")
        return True

    def _follow_groups(self, store: CountedStore, finding: Finding) -> bool:
        """Gives an entity the numbers of all groups that it shows, with everything that follows from them."""
        (row,) = run_plan(store, self._scanner.read("roots", [finding.owner]))
        if row is not None and (body := row.get(BODY)) is not None:
            entity_type = self._catalog.entity_types[self._catalog.layouts_at(finding.owner).class_of(body.value)]
            groups = entity_type.groups(finding.owner, None)
            show = partial(self._committer.show_groups, store, groups)
            try:
                show()
            except OnereadError as error:
                if not is_of_part(error):
                    raise
                raise stale_total(finding, error) from error
            except Exception as error:
                if not raises_again(show, error):
                    raise
                raise stale_total(finding, error) from error
        return True

    # Derived rows.

    def _write_row(self, store: CountedStore, finding: Finding) -> bool:
        """Writes a row as its entity emits it; a unique value that another entity rightly has stays."""
        table, key = finding.fault.table, finding.fault.key
        (root,) = run_plan(store, self._scanner.read("roots", [finding.owner]))
        if root is None:
            return True
        expected = run_plan(store, self._reader.expected_rows(finding.owner, root))
        shown = (expected.writes.puts if table == "views" else expected.writes.claimed).get(key)
        if shown is None:
            return expected.is_known
        (row,) = run_plan(store, self._scanner.read(table, [key]))
        found = None if row is None else shown_of(row)
        if found == shown:
            return True
        if expected.entity is None and key in expected.digests:
            return False  # the record has only a digest of the row
        if table == "counts" and found is not None:
            is_owned = run_plan(store, self._reader.is_owned_by(found, key))
            if is_owned is not False:
                return False
        return self._write(store, table, key, {VALUE: Cell(shown, max(cell.stamp for cell in root.values()))})

    def _delete_orphan(self, store: CountedStore, finding: Finding) -> bool:
        """Deletes a derived row unless the entity that it names has it."""
        table, key = finding.fault.table, finding.fault.key
        (row,) = run_plan(store, self._scanner.read(table, [key]))
        owner = None if row is None else self._keyspaces.owner_of(table, key, shown_of(row))
        if row is not None and (owner is None or run_plan(store, self._reader.is_owned_by(owner, key)) is False):
            self._write(store, table, key, None)
        return True

    def _follow_group(self, store: CountedStore, finding: Finding) -> bool:
        """Makes a row of an index over groups what its group says; removes one that no group has."""
        key = finding.fault.key
        expected, is_known = run_plan(store, self._groups.expected_row(key))
        if not is_known:
            return False
        (row,) = run_plan(store, self._scanner.read("views", [key]))
        is_right = row is None if expected is None else row is not None and shown_of(row) == expected[VALUE].value
        return True if is_right else self._write(store, "views", key, expected)

    def _join_again(self, store: CountedStore, finding: Finding) -> bool:
        """Makes an entry of a feed what the items and memberships say; removes one that none shows."""
        key, now = finding.fault.key, store.now()
        (row,) = run_plan(store, self._scanner.read("views", [key]))
        expected = run_plan(store, self._entries.expected(key, row, finding.membership, now))
        is_right = expected is None if row is None else expected is not None and _shows(row) == _shows(expected)
        return True if is_right else self._write(store, "views", key, expected)

    def _write(self, store: CountedStore, table: Table, key: bytes, row: Row | None) -> bool:
        unit = self._new_unit(store)
        if row is None:
            unit.remove(table, key)
        else:
            unit.put(table, key, row)
        unit.write(store.now())
        return True

    def _correct_group(self, store: CountedStore, finding: Finding) -> bool:
        """Adds to a group what it was off by in the snapshot.

        A row that could not be read is replaced by the sum of that snapshot: commits that would have changed it since
        then have failed.
        """
        key = finding.fault.key
        keyspace = self._keyspaces.keyspace_of("counts", key)
        assert keyspace is not None
        (row,) = run_plan(store, self._scanner.read("counts", [key]))
        before, now = _numbers(finding.found), amounts_of(row) if row else []
        if before is None or now is None:
            unchanged = row is not None and shown_of(row) == finding.found
            return self._write_group(store, key, list(finding.amounts), row) if unchanged else False
        error, total = Delta(), Delta()
        error.add(finding.amounts, 1)
        error.add(before, -1)
        total.add(now, 1)
        total.add(error.amounts, 1)
        amounts = total.amounts[: keyspace.width]
        if amounts and type(amounts[0]) is int and amounts[0] < 0:
            return False
        return self._write_group(store, key, amounts, row)

    def _write_group(self, store: CountedStore, key: bytes, amounts: list[Number], row: Row | None) -> bool:
        stamp = store.now()
        if row:
            stamp = max(stamp, *(cell.stamp + 1 for cell in row.values()))
        written: Row | None = {VALUE: Cell(encode_amounts(amounts), stamp)} if amounts and amounts[0] else None
        return self._write(store, "counts", key, written)

    # Rows of system.

    def _mend_log(self, store: CountedStore, finding: Finding) -> bool:
        """Makes the row of a change log from its last entry; removes an entry that cannot be read.

        Those who follow the log from before such an entry read the page again.
        """
        key = finding.fault.key
        if key != owning_log(key):
            return self._write(store, "system", key, None)
        (row,) = run_plan(store, self._scanner.read("system", [key]))
        return self._write(store, "system", key, readable_row(store, key, row, store.now()))

    def _restart_task(self, store: CountedStore, finding: Finding) -> bool:
        """Starts a task again from its beginning, or deletes one whose source was never written."""
        key, source = finding.fault.key, finding.owner
        (root,) = run_plan(store, self._scanner.read("roots", [source or b"\x00"]))
        now = store.now()
        unit = self._new_unit(store)
        unit.remove("system", key)
        if outbox.kind_of(source) == outbox.FEED:
            if self._keyspaces.keyspace_of("views", outbox.feed_row(source)) is not None:
                outbox.add_task(unit, source, now, again=True)
        elif root is not None:
            outbox.add_task(unit, source, now)
        unit.flush(now)
        return True


def is_of_model(keyspaces: StoreKeyspaces, fault: Fault) -> bool:
    """Whether a fault is about the root row of an entity of a model that the program has."""
    return fault.table == "roots" and kind_part(fault.key) in keyspaces.kinds_by_prefix


def is_stray(keyspaces: StoreKeyspaces, fault: Fault, row: Row, ranges: Sequence[RowRange] = RANGES) -> bool:
    """Whether the row of a fault, of no such entity, is one that no program of this release wrote, or of no use."""
    table, key = fault.table, fault.key
    if table == "roots":
        return kind_part(key) not in keyspaces.known_prefixes("roots")
    if table == "counts":  # a damaged counter's
        return view_part(key).startswith(counters.ALL.start) and counters.fault_of(key, row) is not None
    if is_of_queue(key):
        return job_fault(key, row) is not None
    return not is_known_row(key, ranges)


def record_again(keyspaces: StoreKeyspaces, key: bytes, row: Row, expected: ExpectedRows) -> Record | None:
    """The record that an entity emits as it is stored; None where that cannot be read."""
    record = row.get(EMITTED)
    if BODY not in row:
        return deleted_record(keyspaces.catalog.any_type_of(key), record)
    if expected.entity is None:
        return None
    entity_type = keyspaces.catalog.type_of(expected.entity)
    given = StoredEntity(entity_type, expected.entity, expected.refs, expected.hidden)
    return emit_again(keyspaces, key, given, record).record


def _shows(row: Row) -> dict[bytes, bytes]:
    """The values of a row without their stamps."""
    return {column: cell.value for column, cell in row.items()}


def taken_back(key: bytes, record: Cell | None) -> DerivedWrites:
    """The writes that remove what a record lists; none where it cannot be read, since `repair` removes orphans."""
    try:
        return emitted_record.record_diff(key, recorded_in(record), {}, {})
    except DAMAGED:
        return NO_DERIVED_WRITES


def _newest_stamp(row: Row, now: int) -> int:
    """The newest stamp of a root row; when its version cell is damaged, stamps far in the future are damage too."""
    stamps, version = [cell.stamp for cell in row.values()], row.get(VERSION)
    if version is None or not has_own_stamp(version):
        stamps = [stamp for stamp in stamps if stamp <= now + AHEAD_MILLISECONDS]
    return max(stamps, default=0)


def _numbers(shown: bytes | None) -> list[Number] | None:
    """What a group's row showed; an absent row is the empty list, None one that cannot be read."""
    try:
        return decode_amounts(shown)
    except (Corrupt, LimitExceeded, TypeError):
        return None
