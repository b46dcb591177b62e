"""Changes of several entities that are committed together, on a store that changes one row at a time: a page of drafts.

The rows of all are read in one request, what their decisions need in another one. A change that needs more than that is
committed alone. See docs/decisions/0080-pages-of-holders.md and 0102-pages-of-commits.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oneread.plans.effects import Together
from oneread.plans.plan import Plan
from oneread.store.requests import Read
from oneread.store.rows import Row
from oneread.transactions.back_references import taken_by
from oneread.transactions.commit import Change, Decision
from oneread.transactions.drafts import Ready, was_made
from oneread.transactions.intents import SeenRow, read_root, root_row
from oneread.transactions.lost_answers import surely
from oneread.transactions.pipeline import Pipeline
from oneread.transactions.root import next_version, root_at
from oneread.transactions.shown_groups import RowsAndGroups, read_groups


class Alone(Exception):
    """A change needs more than the others of its page: it is committed alone."""


class PageDraft(NamedTuple):
    """A change whose row was read. `wanted` are the other rows that its decision needs, `rows` those that it has."""

    change: Change
    seen: SeenRow
    row: Row | None
    version: int
    wanted: Sequence[bytes]
    rows: RowsAndGroups


def draft_of(pipeline: Pipeline, change: Change, stored: Row | None, now: int) -> PageDraft:
    """A change, with its row as it is stored.

    Raises:
        Alone: the row has intents, or it or one that the decision needs is a child.
    """
    key = change.key
    row = pipeline.laid(key, stored)
    seen = pipeline.journal.leased(read_root(key, row))
    wanted = dict.fromkeys([*change.hints(), *change.links(seen.root)])
    wanted.pop(key, None)
    if seen.intents is not None or any(pipeline.recorded.group(each) != each for each in (key, *wanted)):
        raise Alone
    rows = RowsAndGroups()
    rows.now, rows[key] = now, root_row(row)
    return PageDraft(change, seen, row, next_version(now, seen.version, key), list(wanted), rows)


def read_needed(pipeline: Pipeline, drafts: Sequence[PageDraft]) -> Plan[None]:
    """Reads what decisions need, but for rows whose delete has begun: behind the rows of the changes.

    So a change between the two reads is not missed. One request, and those of groups that are shown.
    """
    wanted = list(dict.fromkeys(key for each in drafts for key in each.wanted))
    rows: dict[bytes, Row | None] = {}
    if wanted:
        read = zip(wanted, (yield from surely(Read("roots", wanted, "dm"))), strict=True)
        rows = {key: root_row(row) for key, row in read if not read_root(key, row).is_going}
    reading: list[Plan[None]] = []
    views = pipeline.views
    for each in drafts:
        each.rows.update({key: rows[key] for key in each.wanted if key in rows})
        groups = each.change.groups(each.seen.root)
        if groups:
            reading.append(read_groups(each.rows, each.change.key, groups, views.shards, views.read_counter))
    if reading:
        yield from Together(reading)


def decide(pipeline: Pipeline, draft: PageDraft, follows: bytes | None = None) -> Ready | None:
    """What a change commits, None for nothing; with `follows` it takes the values of that source.

    Raises:
        Alone: it needs more than was read, or a claim, or others may forbid it.
        OnereadError: as for the change alone.
        Unfollowed: as for the change alone.
    """
    change, seen, rows, taken = draft.change, draft.seen, draft.rows, pipeline.taken
    if any(key not in rows for key in draft.wanted):  # the delete of a source has begun
        raise Alone
    if follows is None:
        if was_made(change, seen):
            return None
        taken.check_followed(change, seen, rows)
    elif taken.has_followed(change, follows, seen, rows):
        return None
    decision = change.decide(seen.root, draft.version, rows)
    if decision.unreferenced or decision.operations.claimed or decision.taken:
        raise Alone
    if decision.root is None:
        if follows is None:
            return None
        # As it is: what was decided on the source's earlier values must not be committed.
        decision = Decision(root_at(seen.root, draft.version))
    used = taken.used(seen, decision.root, rows, taken_by([change], follows))
    return Ready(seen, decision, used, (), {}, known=None if follows else change.known)
