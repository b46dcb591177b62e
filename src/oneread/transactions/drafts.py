"""What an attempt to commit has: an entity group as it was read, what was decided on it, and what is to be written.

For stores that change one row at a time. The rows of children are in the intents of their root, at its version. So a
decision reads the root first, then the children: one above the root's version means that another commit came between.
See rules G1 to G3 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from oneread.errors import NotUnique
from oneread.store.rows import Cell, Row, RowMutation
from oneread.transactions.commit import NO_JOBS, Basis, Change, Decision
from oneread.transactions.derived_writes import DerivedWrites
from oneread.transactions.intents import (
    REMEMBERED,
    ChildRow,
    Intents,
    SeenRow,
    encode_version,
    read_root,
    root_row,
)
from oneread.transactions.known_commits import KnownCommit
from oneread.transactions.root import NO_ROOT, VERSION, Root, encode_root, next_version, root_at
from oneread.transactions.sequences import counted, keep_sequences, last_number
from oneread.transactions.shown_groups import RowsAndGroups

_TAKEN: Final = "this value is declared unique, and two entities of this commit want it"


class LostRace(Exception):
    """Another commit of the same row, or one of a row that it depends on, came first: everything is read again."""


class Finished(LostRace):
    """The row had intents, which are applied now."""


class CommitRequest:
    """What one commit of an entity group is to do.

    With a `basis` the changes were decided before. With `follows` the one change takes the values of that source.
    `has_caught_up` is true once the entities have followed the deleted sources whose back-references they move, or
    were set aside; `tasks` are what that has left. `jobs` are rows of `system` that follow from the commit.
    """

    def __init__(
        self,
        changes: Sequence[Change],
        basis: Basis | None = None,
        follows: bytes | None = None,
        jobs: Mapping[bytes, bytes] = NO_JOBS,
    ) -> None:
        self.changes = changes
        self.basis = basis
        self.follows = follows
        self.jobs = jobs
        self.has_caught_up = follows is not None
        self.tasks: list[bytes] = []


class GroupPart(NamedTuple):
    """What a commit of an entity group writes beside its root's entity.

    `pointers` are the back-references and holds of children to their root, `numbers` the cells of sequences.
    """

    children: Sequence[ChildRow] = ()
    pointers: Mapping[bytes, bytes] = MappingProxyType({})
    numbers: Mapping[bytes, Cell] = MappingProxyType({})


class Ready(NamedTuple):
    """A decision that can be committed; `sums` are rows of `counts` that were read already."""

    seen: SeenRow
    decision: Decision
    used: Mapping[bytes, int]
    markers: Sequence[int]
    sums: Mapping[bytes, Row | None]
    group: GroupPart = GroupPart()
    known: KnownCommit | None = None
    jobs: Mapping[bytes, bytes] = NO_JOBS


class Prepared(NamedTuple):
    """What a commit writes into its own row: `intents` are in `cells` too.

    `announced` is what is to be said before of the groups that it adds to.
    """

    root: Root
    intents: Intents
    cells: Row
    commit: bytes
    announced: Sequence[RowMutation] = ()


class GroupDraft:
    """An entity group as one commit would make it: its rows as they were read, and what was decided on them.

    `rows` are all root rows that decisions may need, those of sources outside of the group too, as they are by now;
    `made` is what those of the group hold by now. `stored` are the rows of the group as they were read, `sums` rows of
    `counts`. `markers` are the versions of the markers that were put, `put` the back-references and holds; None for
    what is not to be committed.
    """

    def __init__(self, seen: SeenRow, row: Row | None, now: int) -> None:
        self.seen = seen
        self.version = next_version(now, seen.version, seen.key)
        self.rows = RowsAndGroups()
        self.rows.now = now
        self.markers: Sequence[int] = ()
        self.put: set[bytes] | None = None
        self.sums: dict[bytes, Row | None] = {}
        self.stored: dict[bytes, SeenRow] = {}
        self.made: dict[bytes, Root] = {}
        self.numbers: Row = {}
        self.decided: list[tuple[bytes, Decision]] = []
        self._places: dict[bytes, tuple[int, int]] = {}
        """Of each row, which decision on it was the first and which the last."""
        self._found: dict[bytes, Row | None] = {}
        self._add(seen, root_row(row))

    def _add(self, seen: SeenRow, row: Row | None) -> None:
        self.stored[seen.key], self.made[seen.key] = seen, seen.root
        self._found[seen.key] = self.rows[seen.key] = row

    def add_child(self, key: bytes, row: Row | None) -> None:
        """A child as it was read, after the root.

        Raises:
            LostRace: it is of a later commit than the root.
        """
        child = read_root(key, row)
        if child.version > self.seen.version:
            raise LostRace
        self._add(child, root_row(row))

    def take_numbers(self, changes: Iterable[Change], name_of: Callable[[bytes], object]) -> None:
        """Gives the changes that wait for one the next numbers. No row was ever put there: none is read."""
        last: dict[bytes, int] = {}
        for change in changes:
            sequence = change.sequence
            if sequence is not None:
                if sequence.kind not in last:
                    last[sequence.kind] = last_number(self.rows[sequence.root], sequence, name_of)
                last[sequence.kind] += 1
                change.take_number(last[sequence.kind])
                if change.key not in self.stored:
                    self.add_child(change.key, None)

    def root_of(self, change: Change) -> Root:
        """What the row of a change holds by now."""
        return self.made.get(change.key, NO_ROOT)

    def decide(self, change: Change) -> None:
        """Decides a change; the next one finds what it makes."""
        decision = change.decide(self.root_of(change), self.version, self.rows)
        if decision.root is not None:
            self._note(change.key, decision, decision.root)
        for taken in decision.taken:
            row = self.rows[self.seen.key]
            if row is not None:
                cells = counted(row, taken, self.version)
                self.rows[self.seen.key] = row | cells
                self.numbers.update(cells)

    def write_again(self, key: bytes) -> None:
        """Decides to commit an entity as it is: it ends attempts that have taken other values of its sources."""
        root = root_at(self.made[key], self.version)
        self._note(key, Decision(root), root)

    def _note(self, key: bytes, decision: Decision, root: Root) -> None:
        place = len(self.decided)
        self._places[key] = (self._places.get(key, (place, place))[0], place)
        self.decided.append((key, decision))
        self.rows.changed.add(key)
        row, before = encode_root(root), self.rows[key]
        self.made[key] = root
        self.rows[key] = row if before is None else keep_sequences(row, before)
        self.rows.made.pop(key, None)

    def is_decided_since(self, key: bytes, other: bytes) -> bool:
        """Whether another row was decided after the first decision on this one; it itself was, too."""
        return key in self._places and other in self._places and self._places[key][0] <= self._places[other][1]

    def over(self, marked: SeenRow) -> GroupDraft:
        """The group's rows with nothing decided, over the root as a delete that begins has marked it.

        The mark has ended this attempt to others (rules 3 and 14): sources and groups are read again, where something
        is made of them, behind back-references of the version that is next.
        """
        again = GroupDraft(marked, None, self.rows.now)
        again.markers, again.put, again.sums = self.markers, set(), self.sums
        if all(self.made[key].body is None for key, _decision in self.decided):
            again.rows.update(self.rows)
            again.rows.groups, again.rows.shown = self.rows.groups, self.rows.shown
        for key, seen in self.stored.items():
            again._add(seen, self._found[key])
        row = self._found[marked.key]
        version = Cell(encode_version(marked.version), marked.version)
        again._add(marked, None if row is None else row | {VERSION: version})
        return again

    def close(self) -> Root:
        """What the root's row holds after this commit, which raises its version, whichever rows of the group change."""
        key, held = self.seen.key, self.made[self.seen.key]
        root = held if held.version == self.version else root_at(held, self.version)
        row = self.rows[key]
        if row is not None:
            self.rows[key] = row | {VERSION: Cell(encode_version(self.version), self.version)}
        return root

    def operations(self) -> DerivedWrites:
        """What all decisions together write. Raises NotUnique where two entities want one unique value."""
        if len(self.decided) == 1:
            return self.decided[0][1].operations
        views: dict[bytes, bytes | None] = {}
        whole = DerivedWrites({}, [], [], {}, {})
        for _key, decision in self.decided:
            made = decision.operations
            views.update(dict.fromkeys(made.deletes))
            views.update(made.puts)
            whole.deltas.extend(made.deltas)
            for claim, owner in made.released.items():
                if whole.claimed.get(claim) == owner:
                    del whole.claimed[claim]
            for claim, owner in made.claimed.items():
                if whole.claimed.setdefault(claim, owner) != owner:
                    error = NotUnique(_TAKEN)
                    error.holder = whole.claimed[claim]
                    raise error
        for key, value in views.items():
            if value is None:
                whole.deletes.append(key)
            else:
                whole.puts[key] = value
        return whole


def was_made(change: Change, seen: SeenRow) -> bool:
    """Whether a program before this one has made a change. Raises Conflict where that cannot be seen."""
    return change.known is not None and change.known.was_made(seen.history, REMEMBERED)
