"""Mending on a store that changes one row at a time: by a compare-and-set of each entity and each sum.

Derived rows are written again behind a commit of the entity's root row, which changes nothing of it: as its intents, at
its new version, so that they win over what is there, and recovery does what is left. A sum gains what it is off by
where its row is as it was judged. An entity's own fields never change. See
docs/decisions/0104-verify-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from msgspec.structs import replace

from oneread.derivations import emitted_record
from oneread.derivations.emitted_record import COPIED, REFERENCES
from oneread.errors import Conflict, OutcomeUnknown, StaleCopies
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.progress import Fault
from oneread.store.keys import kind_part, source_part
from oneread.store.requests import ABSENT, CheckAndMutate, Mutate, Scan
from oneread.store.rows import REMOVED, VALUE, WRITES, Cell, Row, RowMutation, Table
from oneread.transactions import outbox
from oneread.transactions.change_log import entries_from, last_entry, number_cell, owning_log, row_by_entries
from oneread.transactions.copy_cells import COPY_CELL
from oneread.transactions.deltas import Delta, Number, amounts_by_row, decode_amounts, encode_amounts
from oneread.transactions.feed_tasks import noted
from oneread.transactions.group_shards import SHARDS
from oneread.transactions.intents import USED, USED_BY_CELLS, ChildRow, Intents, encode_version, read_root
from oneread.transactions.journal import TOKENS, has_unreadable_tokens, new_commit
from oneread.transactions.journal_commits import RowCommitter
from oneread.transactions.lost_answers import pause_for_answer
from oneread.transactions.outbox import is_group_root
from oneread.transactions.refusals import PartRefused
from oneread.transactions.root import BODY, EMITTED, VERSION, Root, next_version
from oneread.transactions.sequences import counted, without_unreadable
from oneread.transactions.system_commits import REPAIRED
from oneread.verify.expected import ExpectedRows, RowReader, deleted_record, recorded_in
from oneread.verify.feed_mend import RowFeedMender
from oneread.verify.keyspace import StoreKeyspaces, amounts_of, shown_of
from oneread.verify.logical_scanner import SYSTEM_RANGES, LogicalScanner, is_settled
from oneread.verify.mend import is_of_model, is_stray, record_again, stale_copies, stale_total, taken_back
from oneread.verify.mend_groups import GroupMender
from oneread.verify.report import Finding
from oneread.verify.rewrite import ATTEMPTS, RowRewriter, seen_row, written_by_commits

_OURS: Final = (VALUE, SHARDS)


class _Held(NamedTuple):
    """An entity as it is stored, with the root row of its group; `row` is what it says."""

    group: bytes
    stored: Row
    own: Row
    row: Row
    expected: ExpectedRows


class RowMender(RowRewriter):
    """Mends findings of one store, each by itself."""

    def __init__(self, keyspaces: StoreKeyspaces, scanner: LogicalScanner, committer: RowCommitter) -> None:
        super().__init__(keyspaces, scanner, committer)
        self._reader = RowReader(keyspaces, scanner)
        self._groups = GroupMender(keyspaces, scanner, committer)
        self._feeds = RowFeedMender(keyspaces, scanner, committer.views.feeds, self._commit_above)

    def batches(self, todo: Sequence[Finding]) -> Iterator[list[Finding]]:
        """What is wrong with one entity or group, or one row of none, each."""
        for _owner, group in groupby(sorted(todo, key=_of_one), _of_one):
            yield list(group)

    def mend(self, findings: Sequence[Finding]) -> Plan[list[bool]]:
        """Mends such a batch: whether each is right now, which is the same for all of them.

        Raises:
            OnereadError: the store refused it, or answered no more: what is left is found by the next verification.
        """
        return [(yield from self._mend(findings))] * len(findings)

    def _mend(self, findings: Sequence[Finding]) -> Plan[bool]:
        yield from self._committer.journal.renew_lease()
        first = findings[0]
        view = first.fault.view
        if first.fault.table == "system":
            return (yield from self._mend_system(first))
        if first.state is not None:
            return (yield from self._correct_group(first))
        if is_group_root(first.owner):
            return (yield from self._groups.list_again(first.owner, findings))
        if self._feeds.mends(first):
            return (yield from self._feeds.mend(first))
        if view == "stray" or kind_part(first.owner) not in self._reader.kinds:
            return (yield from self._delete([(each.fault.table, each.fault.key) for each in findings]))
        return (yield from self._mend_entity(first.owner, findings))

    def _mend_entity(self, owner: bytes, findings: Sequence[Finding]) -> Plan[bool]:
        """Does all that can be done for an entity; then raises StaleCopies if it refused a part of that."""
        first, lacking = findings[0], list[bytes]()
        if any(each.fault.view == "commit" for each in findings):
            lacking = yield from self._drop_unreadable(owner)
        steps = [self._follow_source(first, source) for source in lacking]
        others = [each for each in findings if each.fault.view not in ("total", "commit")]
        if others:
            steps.append(self._write_again(owner, others))
        if any(each.fault.view == "total" for each in findings):
            steps.append(self._show_again(first))
        steps += [self._follow_source(each, each.source) for each in findings if each.fault.view == "copy"]
        right, refusal = True, None
        for step in steps:
            try:
                right = (yield from step) and right
            except StaleCopies as error:
                refusal = error
        if refusal is not None:
            raise refusal
        return right

    def drop(self, fault: Fault) -> Plan[bool]:
        """Removes a row of no model, or deletes an entity that cannot be read, if that is still so; whether it did.

        What its record lists goes with it, and its holders follow by a task.
        """
        yield from self._committer.journal.renew_lease()
        (row,) = yield from self._scanner.read_stored(fault.table, [fault.key])
        if row is None:
            return False
        if not is_of_model(self._keyspaces, fault):
            is_left = is_stray(self._keyspaces, fault, row, SYSTEM_RANGES)
            return is_left and (yield from self._delete([(fault.table, fault.key)]))
        for _ in range(ATTEMPTS):
            held = yield from self._hold(fault.key)
            if held is None or not held.expected.is_lost:
                return False
            if (yield from self._commit_delete(fault.key, held)):
                return True
        raise Conflict("others change this entity all the time; try again", key=self._catalog.name_of(fault.key))

    def _commit_delete(self, key: bytes, held: _Held) -> Plan[bool]:
        """Deletes an entity; False where another commit came first."""
        record = held.row.get(EMITTED)
        entity_type = self._catalog.any_type_of(key)
        deleted = deleted_record(entity_type, record)
        taken = taken_back(key, record)
        stamps = [cell.stamp for row in (held.stored, held.own) for cell in written_by_commits(row)]
        version, groups = (
            next_version((yield from Now()), max(stamps), key),
            entity_type.touched(recorded_in(record), deleted),
        )
        seen, emitted = seen_row(held.group, held.stored), emitted_record.encode_record(deleted)
        is_child = key != held.group
        children = [ChildRow(key, None, emitted, 0, {}, fans_out=True)] if is_child else []
        shards, amounts = self._committer.views.shards, amounts_by_row(taken.deltas)
        deltas = {shards.row_of(group, held.group): encode_amounts(each) for group, each in amounts.items()}
        intents = Intents(
            version, {}, taken.deletes, deltas, not is_child, children=children, groups=[each.key for each in groups]
        )
        root = replace(seen.root, version=version) if is_child else Root(version, None, emitted)
        intents = noted(intents, self._committer.views.feeds, b"" if is_child else key)
        return (yield from self._swap(held.stored, seen, root, intents))

    # What an entity says.

    def _write_again(self, owner: bytes, findings: Sequence[Finding]) -> Plan[bool]:
        """Commits an entity as it is, and writes what is wrong of its rows behind that."""
        places = [each.fault.key for each in findings if each.fault.table == "views"]
        claims = [each.fault.key for each in findings if each.fault.table == "counts"]
        held = yield from self._commit_again(owner, places)
        if held is None:  # no commit has made this entity
            derived: list[tuple[Table, bytes]] = [
                (each.fault.table, each.fault.key) for each in findings if each.fault.table != "roots"
            ]
            return (yield from self._delete(derived))
        if not _can_commit(held):
            return False
        for claim in claims:
            yield from self._claim(owner, claim, is_wanted=claim in held.expected.writes.claimed)
        return True

    def _commit_above(self, owner: bytes, place: bytes, above: int) -> Plan[bool]:
        """Commits an entity as it is, with a row of it, at a version above a stamp."""
        held = yield from self._commit_again(owner, [place], above)
        return held is not None and _can_commit(held)

    def _commit_again(self, owner: bytes, places: Sequence[bytes], above: int = 0) -> Plan[_Held | None]:
        """Commits an entity as it is, if it can be; what it was. None for one that no commit has made."""
        for _ in range(ATTEMPTS):
            held = yield from self._hold(owner)
            if held is None or not _can_commit(held) or (yield from self._commit(owner, held, places, above)):
                return held
        raise Conflict("others change this entity all the time; try again", key=self._catalog.name_of(owner))

    def _hold(self, owner: bytes) -> Plan[_Held | None]:
        """An entity, with everything that its group's last commit wrote."""
        group = self._committer.pipeline.recorded.group(owner)
        (stored,) = yield from self._scanner.read_stored("roots", [group])
        if stored and not is_settled(stored) and VERSION in stored:
            yield from self._committer.journal.finish(read_root(group, stored))
            (stored,) = yield from self._scanner.read_stored("roots", [group])
        own = stored
        if owner != group:
            (own,) = yield from self._scanner.read_stored("roots", [owner])
        row = self._scanner.meaning_of_root(owner, own)
        if not own or not row:
            return None
        return _Held(group, stored or {}, own, row, (yield from self._reader.expected_rows(owner, row)))

    def _commit(self, owner: bytes, held: _Held, places: Sequence[bytes], above: int) -> Plan[bool]:
        """One commit of an entity, at a version above a stamp; False where another one came first."""
        there = yield from self._scanner.read_stored("views", places)
        stamps = [cell.stamp for row in (held.stored, held.own, *there) for cell in written_by_commits(row)]
        version = next_version((yield from Now()), max(above, *stamps), owner)
        yield from self._strip(places, there)
        seen = seen_row(held.group, held.stored)
        root, intents = self._again(owner, held, places, replace(seen.root, version=version))
        return (yield from self._swap(held.stored, seen, root, intents, self._counts(owner, held, version)))

    def _again(self, owner: bytes, held: _Held, places: Sequence[bytes], root: Root) -> tuple[Root, Intents]:
        """The root row of the group with this entity as it is, and what is to be written behind it."""
        version = root.version
        puts = held.expected.writes.puts
        removed = [place for place in places if place not in puts]
        record, body = self._record(owner, held), held.row.get(BODY)
        fans_out = recorded_in(held.row.get(EMITTED)).get(COPIED) != recorded_in(Cell(record, 0)).get(COPIED)
        own = seen_row(owner, held.own)
        children: list[ChildRow] = []
        value, since = (None, 0) if body is None else (body.value, min(body.stamp, version))
        if owner == held.group:
            root = Root(version, value, record, since)
        else:
            children = [ChildRow(owner, value, record, since, dict(own.used), fans_out)]
        task = fans_out and not children
        shown = {place: puts[place] for place in places if place in puts}
        intents = Intents(version, shown, removed, task=task, children=children)
        return root, noted(intents, self._committer.views.feeds, b"" if children else owner)

    def _record(self, owner: bytes, held: _Held) -> bytes:
        """What the entity emits; of one that cannot be read, what its record says."""
        made = record_again(self._keyspaces, owner, held.row, held.expected)
        if made is not None:
            return emitted_record.encode_record(made)
        return held.row[EMITTED].value if EMITTED in held.row else b""

    def _counts(self, owner: bytes, held: _Held, version: int) -> Row:
        """The counts of the group's sequences that are behind the number of this entity, or cannot be read."""
        readable = without_unreadable(held.stored)
        counts = {column: Cell(bytes(8), version) for column in held.stored if column not in readable}
        taken = self._catalog.taken_number(owner)
        return counts if taken is None else counts | counted(readable, taken, version)

    def _claim(self, owner: bytes, claim: bytes, *, is_wanted: bool) -> Plan[None]:
        """Takes a unique value for an entity that has it, as a commit does; removes a claim of no entity first."""
        (row,) = yield from self._scanner.read("counts", [claim])
        holder = None if row is None else shown_of(row)
        if row is not None and self._keyspaces.owner_of("counts", claim, holder) is None:
            yield from self._delete([("counts", claim)])
        if is_wanted:
            (stored,) = yield from self._scanner.read_stored("roots", [self._committer.pipeline.recorded.group(owner)])
            assert stored is not None, "it was committed just now"
            yield from self._committer.pipeline.holds.claim(claim, owner, stored[VERSION].stamp)

    def _drop_unreadable(self, owner: bytes) -> Plan[list[bytes]]:
        """Removes cells of commits that cannot be read; returns the sources whose values are to be taken again.

        What was still to be written has faults of its own: all that follows from the entity is compared.
        """
        (row,) = yield from self._scanner.read_stored("roots", [owner])
        row = row or {}
        gone = {column: row[column].stamp for column in self._scanner.unreadable(owner, row)}
        if gone:
            yield from Mutate("roots", [RowMutation(owner, deletes=gone)])
        if not any(column in (USED, USED_BY_CELLS) or column.startswith(COPY_CELL) for column in gone):
            return []
        return list(dict.fromkeys(map(source_part, recorded_in(row.get(EMITTED)).get(REFERENCES, []))))

    def _follow_source(self, finding: Finding, source: bytes) -> Plan[bool]:
        """Gives a holder a source's values, with every derived row that follows from them."""
        try:
            yield from self._committer.copies.take_again(source, finding.owner)
        except PartRefused as refused:
            reason = f"{type(refused.error).__name__}: {outbox.text_of(refused.error)}"
            raise stale_copies(finding, self._catalog.name_of(source), reason) from refused.error
        return True

    def _show_again(self, finding: Finding) -> Plan[bool]:
        """Gives an entity the numbers of all groups that it shows."""
        try:
            return (yield from self._groups.show_again(finding.owner))
        except PartRefused as refused:
            raise stale_total(finding, refused.error) from refused.error

    # Groups.

    def _correct_group(self, finding: Finding) -> Plan[bool]:
        """Adds to a group what it was off by, which commits leave as it is.

        A row that cannot be right by itself gets what the others lack, where it is as it was judged.
        """
        key = finding.fault.key
        keyspace = self._keyspaces.keyspace_of("counts", key)
        assert keyspace is not None, "a group that was judged"
        assert finding.state is not None, "as above"
        rows, lacking = dict(finding.state), Delta()
        lacking.add(list(finding.amounts) or [0] * keyspace.width, 1)
        bad = [place for place, row in rows.items() if _amounts(row, keyspace.width) is None]
        if len(bad) > 1:
            return (yield from self._delete([("counts", place) for place in bad]))
        for row in rows.values():
            lacking.add(_amounts(row, keyspace.width) or [], -1)
        target = bad[0] if bad else next(iter(rows), key)
        if not bad:
            return (yield from self._add_to_sum(target, rows.get(target, {}), lacking.amounts))
        return (yield from self._put_sum(target, rows[target], lacking.amounts, (yield from new_commit())))

    def _add_to_sum(self, target: bytes, judged: Row, amounts: Sequence[Number]) -> Plan[bool]:
        """Adds to one row of a group, once; False where another repair came first, or others change it all the time."""
        repair, lost = (yield from new_commit()), 0
        for _ in range(ATTEMPTS):
            row = (yield from self._scanner.read("counts", [target]))[0] or {}
            if REPAIRED in row and row[REPAIRED].value == repair:
                return True
            if row.get(REPAIRED) != judged.get(REPAIRED):
                return False
            total = Delta()
            total.add(decode_amounts(row[VALUE].value) if VALUE in row else [], 1)
            total.add(amounts, 1)
            try:
                if (yield from self._put_sum(target, row, total.amounts, repair)):
                    return True
            except OutcomeUnknown:
                lost += 1
                yield from pause_for_answer(lost)
        return False

    def _put_sum(self, target: bytes, row: Row, amounts: Sequence[Number], repair: bytes) -> Plan[bool]:
        """Replaces the amounts of one row of a group where it is as it was read; whether it did."""
        stamps = [cell.stamp + 1 for column, cell in row.items() if column in (VALUE, WRITES)]
        stamp = max([(yield from Now()), *stamps])
        gone = {column: cell.stamp for column, cell in row.items() if column.startswith(b"d:") and column not in _OURS}
        if has_unreadable_tokens(row):
            gone[TOKENS] = row[TOKENS].stamp
        value = encode_amounts(amounts) if any(amounts) else REMOVED
        puts = {
            VALUE: Cell(value, stamp),
            WRITES: Cell(encode_version(stamp), stamp),
            REPAIRED: Cell(repair, stamp),
        }
        expected = row[WRITES].value if WRITES in row else ABSENT
        return (yield from CheckAndMutate("counts", WRITES, expected, RowMutation(target, puts, gone)))

    # Rows of system.

    def _mend_system(self, finding: Finding) -> Plan[bool]:
        if finding.fault.view == "change log":
            return (yield from self._mend_log(finding.fault.key))
        return (yield from self._restart_task(finding))

    def _mend_log(self, key: bytes) -> Plan[bool]:
        """Makes the row of a change log from its last entry; removes an entry that cannot be read."""
        log = owning_log(key)
        if key != log:
            return (yield from self._delete([("system", key)]))
        (row,) = yield from self._scanner.read_stored("system", [log])
        last = yield from Scan("system", entries_from(log, 0), 1, reverse=True)
        made = row_by_entries(row, last, (yield from Now()))
        if made is None:
            return True
        cell, before = number_cell(last_entry(log, made)), (row or {}).get(VALUE)
        if before is None:
            return (yield from CheckAndMutate("system", VALUE, ABSENT, RowMutation(log, {VALUE: cell})))
        newest = Cell(cell.value, max(cell.stamp, before.stamp))
        return (yield from CheckAndMutate("system", VALUE, before.value, RowMutation(log, {VALUE: newest})))

    def _restart_task(self, finding: Finding) -> Plan[bool]:
        """Deletes a task that cannot be done, and begins that of its source again where there is such an entity."""
        source = finding.owner
        if is_group_root(source):
            yield from self._committer.retry_aside(source, b"")
            return (yield from self._scanner.read("system", [finding.fault.key])) == [None]
        yield from self._delete([("system", finding.fault.key)])
        if outbox.kind_of(source) == outbox.FOLLOW:
            yield from self._committer.copies.restart(source or b"\x00")
        return True


def _of_one(finding: Finding) -> tuple[bool, str, bytes]:
    """What is mended at once: sums last, for what is wrong with entities comes first."""
    fault = finding.fault
    is_of_entity = bool(finding.owner) and fault.table != "system" and fault.view != "stray"
    if is_of_entity:
        return False, "roots", finding.owner
    return finding.state is not None, fault.table, fault.key


def _can_commit(held: _Held) -> bool:
    return held.expected.is_known and is_settled(held.stored)


def _amounts(row: Row, width: int) -> list[Number] | None:
    """What one row of a group adds; None where it cannot be right by itself."""
    if has_unreadable_tokens(row):
        return None
    said = {column: cell for column, cell in row.items() if column.startswith(b"d:") and column != SHARDS}
    if not said:
        return []
    amounts = amounts_of(said)
    return amounts if amounts is not None and len(amounts) == width and any(amounts) else None
