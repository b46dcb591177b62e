"""Mending: one fault after the other is looked at again inside a transaction, and put right there.

Writers go on meanwhile: what is no fault any more is left alone. A sum is mended by adding what it was off by, because
commits add exact differences, so what it is off by stays the same whatever else is committed. See
docs/decisions/0014-repair-in-place.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oneread.derivations import emitted_record
from oneread.derivations.catalog import Catalog
from oneread.derivations.emitted_record import COPIED, LAST_VALUES, Record
from oneread.errors import Corrupt, LimitExceeded, SchemaMismatch, StaleCopies
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.store.requests import Read
from oneread.store.rows import Cell, Row, Table
from oneread.transactions import outbox
from oneread.transactions.commit import Committer
from oneread.transactions.deltas import Delta, Number, decode_amounts, encode_amounts
from oneread.transactions.root import AHEAD_MILLISECONDS, BODY, EMITTED, VERSION, Root, encode_root, next_version
from oneread.transactions.system_rows import FENCE_ROW
from oneread.transactions.unit_of_work import VALUE, UnitOfWork
from oneread.verify.digest_pass import RowReader, amounts_of
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.report import Finding, shown_of
from oneread.verify.scanner import Scanner


class Mender:
    """Mends findings, inside `Committer.together`.

    Arguments:
        ground: the store.
        walk: reads.
        committer: of the database.
        fence: the fence row as it was when the ground was looked at.
    """

    def __init__(self, keyspaces: StoreKeyspaces, scanner: Scanner, committer: Committer, fence: Row | None) -> None:
        self._keyspaces = keyspaces
        self._catalog: Catalog = keyspaces.catalog
        self._scanner = scanner
        self._committer = committer
        self._fence = fence
        self._hearing = RowReader(keyspaces, scanner)

    def mend(self, findings: Sequence[Finding]) -> Plan[list[bool]]:
        """Mends several, in one transaction; says for each whether it is right now.

        Raises:
            SchemaMismatch: the schema has changed since the ground was looked at; nothing was written.
        """
        (fence,) = yield from Read("system", [FENCE_ROW])
        if fence != self._fence:
            raise SchemaMismatch("the store's schema has changed while it was repaired; repair it again")
        done: list[bool] = []
        for finding in findings:
            right = yield from self._repair_for(finding)(finding)
            done.append(right)
        return done

    def _repair_for(self, finding: Finding) -> Callable[[Finding], Plan[bool]]:
        fault = finding.fault
        named = {"record": self._entity, "version": self._entity, "copy": self._copy, "task": self._task}
        if fault.view in named:
            return named[fault.view]
        if fault.view == "stray":
            return self._remove
        place = self._keyspaces.keyspace_of(fault.table, fault.key)
        if place is not None and place.width:
            return self._group
        return self._dangling if fault.kind == "dangling" else self._row

    # Commit rows.

    def _entity(self, finding: Finding) -> Plan[bool]:
        """Lets a commit row remember what its entity tells, at a new version; whoever copies from it is told again."""
        key = finding.owner
        (row,) = yield from self._scanner.read("roots", [key])
        if not row:
            return False
        said = yield from self._hearing.expected_rows(key, row)
        if not said.flaws:
            return True
        body, told = row.get(BODY), _record(row)
        entity_type = self._catalog.any_type_of(key)
        if body is None:
            record = entity_type.empty_record()
            if isinstance(told.get(LAST_VALUES), dict):
                record[LAST_VALUES] = told[LAST_VALUES]
        elif said.entity is None:
            return False
        else:
            entity_type = self._catalog.type_of(said.entity)
            record = entity_type.emission(said.entity, said.used, key, said.refs).record
        now = yield from Now()
        version = next_version(now, _seen(row, now))
        unit = UnitOfWork(self._catalog.name_of)
        unit.put(
            "roots",
            key,
            encode_root(Root(version, None if body is None else body.value, emitted_record.encode_record(record))),
        )
        if told.get(COPIED) != record.get(COPIED):
            outbox.add_task(unit, key, version)
        yield from unit.flush(now)
        return True

    def _copy(self, finding: Finding) -> Plan[bool]:
        """Gives a carrier what its source says now, with everything that follows from it."""
        refusal = yield from self._committer.follow(finding.source, finding.owner)
        if refusal is not None:
            raise StaleCopies(
                "the holder cannot follow its source and is set aside; change the holder or the source",
                holder=finding.fault.entity,
                source=self._catalog.name_of(finding.source),
                reason=f"{refusal.error}: {refusal.message}",
            )
        return True

    # Derived rows.

    def _row(self, finding: Finding) -> Plan[bool]:
        """Lets a row stand as its entity says; a taken value that another one rightly has is left."""
        table, key = finding.fault.table, finding.fault.key
        (root,) = yield from self._scanner.read("roots", [finding.owner])
        if root is None:
            return True
        said = yield from self._hearing.expected_rows(finding.owner, root)
        shown = (said.operations.puts if table == "views" else said.operations.claimed).get(key)
        if shown is None:
            return said.trusted
        (row,) = yield from self._scanner.read(table, [key])
        found = None if row is None else shown_of(row)
        if self._keyspaces.as_made_now(table, key, found) == shown:
            return True
        if said.entity is None and key in said.digests:
            return False  # the record knows only a digest of what the row shows
        if table == "counts" and found is not None and (yield from self._hearing.is_owned_by(found, key)) is not False:
            return False
        return (yield from self._write(table, key, {VALUE: Cell(shown, max(cell.stamp for cell in root.values()))}))

    def _dangling(self, finding: Finding) -> Plan[bool]:
        """Takes a row away that nobody says is his."""
        table, key = finding.fault.table, finding.fault.key
        (row,) = yield from self._scanner.read(table, [key])
        owner = None if row is None else self._keyspaces.owner_of(table, key, shown_of(row))
        if row is not None and (owner is None or (yield from self._hearing.is_owned_by(owner, key)) is False):
            yield from self._write(table, key, None)
        return True

    def _remove(self, finding: Finding) -> Plan[bool]:
        """Takes a row away that belongs to no view."""
        return (yield from self._write(finding.fault.table, finding.fault.key, None))

    def _write(self, table: Table, key: bytes, row: Row | None) -> Plan[bool]:
        unit = UnitOfWork(self._catalog.name_of)
        if row is None:
            unit.remove(table, key)
        else:
            unit.put(table, key, row)
        yield from unit.write()
        return True

    def _group(self, finding: Finding) -> Plan[bool]:
        """Adds to a group what it was off by in the snapshot.

        A row that could not be read is stated anew: whoever would have changed it since has failed.
        """
        key = finding.fault.key
        place = self._keyspaces.places[b"c" + key[:4]]
        (row,) = yield from self._scanner.read("counts", [key])
        before, now = _numbers(finding.found), amounts_of(row) if row else []
        if before is None or now is None:
            unchanged = row is not None and shown_of(row) == finding.found
            return (yield from self._state(key, list(finding.amounts), row)) if unchanged else False
        off, total = Delta(), Delta()
        off.add(finding.amounts, 1)
        off.add(before, -1)
        total.add(now, 1)
        total.add(off.amounts, 1)
        amounts = total.amounts[: place.width]
        if amounts and type(amounts[0]) is int and amounts[0] < 0:
            return False
        return (yield from self._state(key, amounts, row))

    def _state(self, key: bytes, amounts: list[Number], row: Row | None) -> Plan[bool]:
        stamp = yield from Now()
        if row:
            stamp = max(stamp, *(cell.stamp + 1 for cell in row.values()))
        changed: Row | None = {VALUE: Cell(encode_amounts(amounts), stamp)} if amounts and amounts[0] else None
        return (yield from self._write("counts", key, changed))

    # The outbox.

    def _task(self, finding: Finding) -> Plan[bool]:
        """Starts a task again from the first carrier, or takes away one whose source there never was."""
        key, source = finding.fault.key, finding.owner
        (root,) = yield from self._scanner.read("roots", [source or b"\x00"])
        now = yield from Now()
        unit = UnitOfWork(self._catalog.name_of)
        unit.remove("system", key)
        if root is not None:
            outbox.add_task(unit, source, now)
        yield from unit.flush(now)
        return True


def _seen(row: Row, now: int) -> int:
    """The newest stamp of a commit row; where the version belies its own, stamps far ahead are a part of the damage."""
    stamps, version = [cell.stamp for cell in row.values()], row.get(VERSION)
    if version is None or version.value != version.stamp.to_bytes(8, "big"):
        stamps = [stamp for stamp in stamps if stamp <= now + AHEAD_MILLISECONDS]
    return max(stamps, default=0)


def _record(row: Row) -> Record:
    cell = row.get(EMITTED)
    try:
        return emitted_record.decode_record(None if cell is None else cell.value)
    except Corrupt:
        return {}


def _numbers(shown: bytes | None) -> list[Number] | None:
    """What a group's row showed; an absent row is the empty list, None one that cannot be read."""
    try:
        return decode_amounts(shown)
    except (Corrupt, LimitExceeded, TypeError):
        return None
