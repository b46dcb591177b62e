"""What other entities hold on stores that change one row at a time: references to an entity, and unique values.

Whether an entity has what a row of it says is asked of its root row; attempts that would make it true are ended first.
See rules 14 and 19, and "Unique" of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from oneread.errors import NotUnique, OutcomeUnknown
from oneread.plans.plan import Plan
from oneread.store.keys import holder_part
from oneread.store.requests import CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import REMOVED, VALUE, Cell, RowMutation, RowRange, later
from oneread.transactions.claims import ClaimFacts
from oneread.transactions.intents import SeenRow, decode_version, encode_version, read_root
from oneread.transactions.journal import Journal
from oneread.transactions.journal_recovery import PAGE
from oneread.transactions.lost_answers import NOT_COMMITTED, pause_for_answer
from oneread.transactions.root import Root


class RecordedKeys(Protocol):
    """What a root row's record says that its entity has."""

    def pointers(self, key: bytes, root: Root, /) -> Collection[bytes]:
        """The keys in `views` of its back-references and holds."""
        ...

    def claims(self, root: Root, /) -> Collection[bytes]:
        """The keys in `counts` of its unique values."""
        ...

    def covered(self, root: Root, /) -> Collection[int]:
        """What the record is about, whether or not the entity has any of it: the same for all commits of a program."""
        ...

    def group(self, key: bytes, /) -> bytes:
        """The key of the root row of its entity group, which commits compare and set."""
        ...


def _never(owner: bytes) -> Plan[bool]:  # noqa: ARG001 - stands where nothing expires
    yield from ()
    return False


class Holds:
    """Looks whether entities have the references and unique values that rows say they have.

    `expire` lets an entity give up what has expired of it, and says whether there was something.
    """

    def __init__(self, journal: Journal, recorded: RecordedKeys, claim_facts: ClaimFacts) -> None:
        self._journal = journal
        self._recorded = recorded
        self._claim_facts = claim_facts
        self.expire: Callable[[bytes], Plan[bool]] = _never

    def living_holder(self, within: RowRange, made: Mapping[bytes, Root]) -> Plan[bytes | None]:
        """The first entity with a hold in a range; attempts to commit others are ended."""
        rest = within
        while True:
            holds = yield from Scan("views", rest, PAGE)
            for place, row in holds:
                holder = holder_part(place[len(within.start) :])
                if holder in made:
                    is_living = place in self._recorded.pointers(holder, made[holder])
                else:
                    is_living = yield from self.has_pointer(holder, place, row[VALUE].stamp)
                if is_living:
                    return holder
            if len(holds) < PAGE:
                return None
            rest = within.behind(holds[-1][0])

    def has_pointer(self, holder: bytes, place: bytes, stamp: int) -> Plan[bool]:
        """Whether an entity refers as a back-reference or hold says.

        One that does not is removed, once no attempt that put it can be committed any more.
        """
        while True:
            seen, root = yield from self.settled(holder)
            if place in self._recorded.pointers(holder, root):
                return True
            if seen.version >= stamp:
                yield from Mutate("views", [RowMutation(place, {VALUE: Cell(REMOVED, seen.version)})])
                return False
            yield from self._journal.fence(seen, stamp)

    def settled(self, key: bytes) -> Plan[tuple[SeenRow, Root]]:
        """The root row of an entity's group, without intents, and what the entity's own row holds at its version.

        The row of a child is read after its root's (rule G1).
        """
        group = self._recorded.group(key)
        while True:
            seen = yield from self._journal.finished(group)
            if group == key:
                return seen, seen.root
            child = read_root(key, (yield from Read("roots", [key], "dm"))[0]).root
            if child.version <= seen.version:
                return seen, child

    # Unique values.

    def claim(self, claim: bytes, key: bytes, version: int) -> Plan[None]:
        """Takes a unique value for a commit at a version; never given back, but taken over.

        Raises:
            NotUnique: another entity has it.
            Unavailable: too many answers were lost.
        """
        lost = 0
        while True:
            (row,) = yield from Read("counts", [claim], "dm")
            held = None if row is None else row[VALUE].value
            if held is not None:
                owner, since = _owner_of(held)
                if owner == key and since >= version:
                    return
                if owner != key:
                    yield from self._refuse_held(claim, owner, since)
            stamp = later(row, version)
            mutation = RowMutation(claim, {VALUE: Cell(encode_version(version) + key, stamp)})
            try:
                if (yield from CheckAndMutate("counts", VALUE, held, mutation)):
                    return
            except OutcomeUnknown:
                lost += 1
                yield from pause_for_answer(lost, NOT_COMMITTED)

    def _refuse_held(self, claim: bytes, owner: bytes, since: int) -> Plan[None]:
        """Raises NotUnique when the owner of a claim has the value; else ends its attempts to get it."""
        while True:
            seen, root = yield from self.settled(owner)
            if claim in self._recorded.claims(root):
                if (yield from self.expire(owner)):
                    continue
                error = NotUnique(
                    "this value is declared unique, and another entity has it",
                    **self._claim_facts(claim),
                    owner=self._journal.name_of(owner),
                )
                error.holder = owner
                raise error
            if seen.version >= since or (yield from self._journal.fence(seen, since)):
                return


def _owner_of(held: bytes) -> tuple[bytes, int]:
    """Who has a claim, and since which version."""
    return held[8:], decode_version(held[:8])
