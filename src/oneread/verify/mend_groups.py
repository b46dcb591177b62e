"""Mending of what shows groups, on a store that changes one row at a time: totals of entities, indexes over groups.

An entity takes the numbers of its groups by a commit, as after each change of them, whatever it says to have taken. A
group's root row is committed with the index rows that its numbers make. Both read the row first, then the group (rule
R2). See docs/decisions/0105-totals-verified-one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from oneread.errors import Conflict
from oneread.plans.effects import Now
from oneread.plans.in_time import in_time
from oneread.plans.plan import Plan
from oneread.store.requests import Read
from oneread.store.rows import Row
from oneread.transactions import outbox
from oneread.transactions.derived_writes import Group
from oneread.transactions.feed_tasks import noted
from oneread.transactions.grace import OPERATION
from oneread.transactions.intents import Intents, read_root
from oneread.transactions.outbox import group_of_root, group_root
from oneread.transactions.root import BODY, EMITTED, next_version
from oneread.transactions.shown_groups import (
    RowsAndGroups,
    decode_listed,
    encode_listed,
    listed_digests,
    read_groups,
)
from oneread.verify.keyspace import DAMAGED, shown_of
from oneread.verify.logical_scanner import is_settled
from oneread.verify.report import Finding
from oneread.verify.rewrite import ATTEMPTS, RowRewriter, seen_row, written_by_commits


class GroupMender(RowRewriter):
    """Mends totals and index rows."""

    def show_again(self, owner: bytes) -> Plan[bool]:
        """Gives an entity the numbers of all groups that it shows, with everything that follows from them.

        Raises:
            PartRefused: the entity refuses a number.
        """
        (row,) = yield from self._scanner.read("roots", [owner])
        body = None if row is None else row.get(BODY)
        if body is None:
            return True
        entity_type = self._catalog.entity_types[self._catalog.layouts_at(owner).class_of(body.value)]
        groups = entity_type.groups(owner, None)
        yield from self._committer.totals.show_again(owner, groups)
        keys = [outbox.aside_key(group_root(each.key), owner) for each in groups if each.counter is None]
        for key, before in zip(keys, (yield from Read("system", keys, "dm")), strict=True):
            yield from self._committer.copies.end_aside(key, before)
        return True

    def list_again(self, root: bytes, findings: Sequence[Finding]) -> Plan[bool]:
        """Commits the root row of a group with the index rows of its numbers, and makes the rows so.

        Raises:
            Conflict: others commit it all the time.
        """
        named = [each.fault.key for each in findings if each.fault.table == "views"]
        group = self._committer.totals.group_at(group_of_root(root))
        if group is None or group.indexes is None:
            return False
        for _ in range(ATTEMPTS):
            (stored,) = yield from self._scanner.read_stored("roots", [root])
            stored = stored or {}
            if not is_settled(stored):
                yield from self._committer.journal.finish(read_root(root, stored))
                continue
            attempt = self._list(root, group, stored, named)
            done = yield from in_time(attempt, self._committer.journal.clock, OPERATION)
            if done is not False:
                return done is True
        raise Conflict("others change this group all the time; try again", group=self._catalog.name_of(root))

    def _list(self, root: bytes, group: Group, stored: Row, named: Sequence[bytes]) -> Plan[bool | None]:
        """One attempt; False where another commit came first, None where the numbers cannot be shown."""
        assert group.indexes is not None, "asked only of listed groups"
        numbers = RowsAndGroups()
        try:
            listed = group._replace(extrema=tuple(group.indexes.extrema(group.key)))
            yield from read_groups(numbers, root, [listed], self._committer.views.shards)
            shown = group.indexes.rows(group.key, numbers.groups[group.key])
        except DAMAGED:
            return None
        places = sorted({*shown, *named, *_listed(stored)})
        there = yield from self._scanner.read_stored("views", places)
        stamps = [cell.stamp for row in (stored, *there) for cell in written_by_commits(row)]
        version = next_version((yield from Now()), max([0, *stamps]))
        yield from self._strip(places, there)
        puts = {
            place: shown[place]
            for place, row in zip(places, there, strict=True)
            if place in shown and (row is None or shown_of(row) != shown[place])
        }
        gone = [place for place, row in zip(places, there, strict=True) if place not in shown and row]
        intents = noted(Intents(version, puts, gone), self._committer.views.feeds)
        seen = seen_row(root, stored)._replace(used=numbers.shown[root])
        made = replace(seen.root, version=version, body=None, emitted=encode_listed(listed_digests(shown)), own=0)
        return (yield from self._swap(stored, seen, made, intents))


def _listed(stored: Row) -> Sequence[bytes]:
    """The index rows that a root row says to have; none where it cannot be read."""
    try:
        return list(decode_listed(stored[EMITTED].value if EMITTED in stored else None))
    except DAMAGED:
        return ()
