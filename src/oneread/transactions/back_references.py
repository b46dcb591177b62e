"""Back-references as commits on stores that change one row at a time see them: what an entity takes of whom."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from oneread.store.keys import source_part
from oneread.store.requests import Mutate
from oneread.store.rows import VALUE, Cell, Row, RowMutation
from oneread.transactions import outbox
from oneread.transactions.commit import Change
from oneread.transactions.copy_cells import CopyCells
from oneread.transactions.holds import RecordedKeys
from oneread.transactions.intents import SeenRow, decode_version
from oneread.transactions.outbox import is_group_root
from oneread.transactions.root import BODY, VERSION, Root
from oneread.transactions.shown_groups import RowsAndGroups


def refers(pointers: Collection[bytes], source: bytes) -> bool:
    """Whether one of these is a back-reference to a source."""
    start = outbox.holders_of(source).start
    return any(each.startswith(start) for each in pointers)


def taken_sources(key: bytes, pointers: Iterable[bytes]) -> set[bytes]:
    """The sources and selections that the back-references of an entity name."""
    start, stop = len(outbox.BACK_REFERENCES), -len(key)
    return {each[start:stop] for each in pointers if each.startswith(outbox.BACK_REFERENCES)}


def taken_by(changes: Iterable[Change], follows: bytes | None) -> Callable[[bytes, Row], bool]:
    """Says of which sources changes take the values again, where the reference to them is the same."""
    takes_all = all(each.takes_all for each in changes)
    return lambda source, row: source == follows or (takes_all and BODY in row)


def put_pointers(places: Sequence[bytes], version: int) -> Mutate:
    return Mutate("views", [put_cell(each, VALUE, outbox.PRESENT, version) for each in places])


def put_cell(key: bytes, column: bytes, value: bytes, stamp: int) -> RowMutation:
    return RowMutation(key, {column: Cell(value, stamp)})


class Unfollowed(Exception):
    """The entity has not followed deleted sources, and this attempt would move its back-references to them."""

    def __init__(self, pointers: Sequence[tuple[bytes, bytes]]) -> None:
        super().__init__(pointers)
        self.pointers = pointers


class TakenValues:
    """Which versions of their sources the copies of an entity are of, by its back-references."""

    def __init__(self, recorded: RecordedKeys, cells: CopyCells) -> None:
        self._recorded = recorded
        self._cells = cells

    def check_followed(self, change: Change, seen: SeenRow, sources: RowsAndGroups) -> None:
        """Raises Unfollowed where a back-reference to a source moves: it is under another selection of fields now.

        What follows the source may have seen neither place. Where a program of other declarations wrote the entity,
        this one takes all values of the source, by a commit before this one; and those of a deleted one, which no
        other change takes.
        """
        before, after = {*self._recorded.pointers(seen.key, seen.root)}, {*change.pointers(seen.root)}
        added = {source_part(each) for each in taken_sources(seen.key, after - before)}
        moved = set() if change.takes_all else added & self._left(seen, before - after).keys()
        deleted = [each for each in added if (row := sources.get(each)) is not None and BODY not in row]
        moved.update(each for each in deleted if not self._has_seen_delete(change, each, seen, sources))
        left = [(source, place) for source in moved for place in before if refers([place], source)]
        if left:
            raise Unfollowed(left)

    def has_followed(self, change: Change, source: bytes, seen: SeenRow, sources: Mapping[bytes, Row | None]) -> bool:
        """Whether a holder has the values that a source has now, and by the selections that this program declares."""
        return all(self._are_newest(change, source, seen, sources))

    def _has_seen_delete(
        self, change: Change, source: bytes, seen: SeenRow, sources: Mapping[bytes, Row | None]
    ) -> bool:
        """Whether a holder was committed with what a deleted source has left, by any selection.

        One that was made after the delete takes none of the last values of its source, whatever is declared later.
        """
        return any(self._are_newest(change, source, seen, sources))

    def _are_newest(
        self, change: Change, source: bytes, seen: SeenRow, sources: Mapping[bytes, Row | None]
    ) -> Iterable[bool]:
        """Of each back-reference to a source, whether the holder's values are of the version that the source has."""
        row = sources[source]
        if row is None:
            return [True]
        places = {*self._recorded.pointers(seen.key, seen.root), *change.pointers(seen.root)}
        found = [each for each in taken_sources(seen.key, places) if source_part(each) == source]
        return [seen.used.get(each, -1) >= decode_version(row[VERSION].value) for each in found]

    def _left(self, seen: SeenRow, pointers: Iterable[bytes]) -> dict[bytes, int]:
        """The sources of back-references by selections that only other programs declare, with the versions used."""
        found = taken_sources(seen.key, pointers)
        return {source_part(each): seen.used.get(each, 0) for each in found if not self._cells.declares(each, seen.key)}

    def used(
        self, seen: SeenRow, root: Root | None, sources: RowsAndGroups, takes: Callable[[bytes, Row], bool]
    ) -> dict[bytes, int]:
        """The versions of the sources that an entity's copies were taken from, by source and selection.

        With them the changes of the groups that it shows. `takes` says of which sources the values were taken again
        though the reference is the same. A new reference takes those of its source; one that another program wrote
        under another selection keeps what it had.
        """
        assert root is not None, "a decision that changes nothing is not written"
        recorded = {*self._recorded.pointers(seen.key, seen.root)}, {*self._recorded.pointers(seen.key, root)}
        before, after = (taken_sources(seen.key, each) for each in recorded)
        left = self._left(seen, recorded[0] - recorded[1])
        used: dict[bytes, int] = {}
        for each in after:
            source = source_part(each)
            row = sources.get(source)
            is_new = each not in before and source not in left
            if row is not None and (is_new or takes(source, row)):
                used[each] = decode_version(row[VERSION].value)
            else:
                used[each] = seen.used.get(each, left.get(source, 0))
        if root.body is not None:  # rule R4
            used |= {key: writes for key, writes in seen.used.items() if is_group_root(key)}
            used |= sources.shown.get(seen.key, {})
        return used
