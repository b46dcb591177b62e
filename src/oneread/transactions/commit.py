"""The contract of commits: what one commit asks for, and what every committer does with it.

A committer is chosen by what the store can do. `native` is that of engines whose transactions span rows: one commit is
one engine transaction. A committer for engines that change one row at a time takes the same changes: it asks a change
for its links before it puts back-references, and keeps the derived writes of the decision as an intent in the root
row. `Committer` is what both can do: code for one kind of store has the class or the protocol of that kind. See rules
1-8 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from oneread.errors import OnereadError
from oneread.plans.counted import CountedStore
from oneread.plans.plan import Plan
from oneread.store.engine import NeededRow, SavedEntity, SaveQuestion
from oneread.store.rows import Cell, EntityRow, Row, RowRange, Table
from oneread.transactions.change_log import NO_LOGS, LoggedAs
from oneread.transactions.copy_cells import NO_CELLS, CopyCells
from oneread.transactions.derived_writes import DerivedWrites, Group
from oneread.transactions.moves import MoveRow
from oneread.transactions.root import Root
from oneread.transactions.root_rows import RowCache
from oneread.transactions.sequences import NumberSequence, TakenNumber
from oneread.transactions.system_rows import Swap
from oneread.transactions.unit_of_work import ViewFollower

if TYPE_CHECKING:
    from oneread.transactions.known_commits import KnownCommit

T = TypeVar("T")

CommittedRows: TypeAlias = RowCache
"""Root rows by key: those that a change named as hints or links are there."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What one commit does, as data.

    `root` is the new root row, None to leave it as it is. With `fans_out` the holders of copies must follow, but for
    those of `unchanged` selections. Each range of `unreferenced`, in `views`, must be empty at the end, else
    StillReferenced. The entities and indexes that show one of `groups` must follow its new numbers. The sequences of
    `taken` continue behind their numbers, in the same commit.
    """

    root: Root | None
    operations: DerivedWrites = DerivedWrites()
    fans_out: bool = False
    unchanged: Sequence[bytes] = ()
    unreferenced: Sequence[RowRange] = ()
    groups: Sequence[Group] = ()
    taken: Sequence[TakenNumber] = ()


NO_CHANGE: Final = Decision(None)


class Change(Protocol):
    """One wanted change of one root row."""

    @property
    def key(self) -> bytes:
        """The root row's key; incomplete while the entity waits for a number."""
        ...

    @property
    def sequence(self) -> NumberSequence | None:
        """The sequence that gives the entity its number; None if it has one, or needs none.

        The row of the group's root is among the hints.
        """
        ...

    known: KnownCommit | None
    """The id of its commit where that is known, on a store that changes one row at a time."""
    least_version: int
    """What the row's version must not be below after it: that of the entity's own fields, if it comes with one."""

    def take_number(self, number: int) -> None:
        """Takes the next number of the sequence: the key is complete. After a lost race there may be another."""
        ...

    @property
    def likely_derives(self) -> bool:
        """Whether rows that follow from the entity change as a rule, or it is new: so a marker is put in advance."""
        ...

    @property
    def takes_all(self) -> bool:
        """Whether it takes the values of all sources that exist again, also where the reference is the same."""
        ...

    def pointers(self, seen: Root | None) -> Iterable[bytes]:
        """Keys in `views` of the back-references and holds that the entity will have.

        None for `seen` asks for those that are known before anything is read; later all of them.
        """
        ...

    def likely_sums(self, now: int) -> Iterable[bytes]:
        """Keys in `counts` of sums that the entity will add to, as far as its own fields say; `now` is the clock."""
        ...

    def hints(self) -> Iterable[bytes]:
        """Root rows that will probably be needed, known before anything is read."""
        ...

    def links(self, seen: Root) -> Iterable[bytes]:
        """Root rows that the decision needs, now that the row has been read."""
        ...

    def groups(self, seen: Root) -> Sequence[Group]:
        """Groups whose numbers the decision needs, now that the row has been read."""
        ...

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        """The decision, from rows alone. `version` is what the row gets when it is written.

        May be asked again after a lost race.
        """
        ...

    def question(self, seen: Callable[[bytes], Root]) -> SaveQuestion | None:
        """What compiled code may decide in place of `decide`; None where it does not know what follows.

        `seen` reads a root row. Raises what the user's function raises that makes an entity from that before.
        """
        ...

    def take_saved(self, saved: SavedEntity) -> bool:
        """Takes what was decided of its question; False where `decide` has to be asked all the same.

        Raises what `decide` raises.
        """
        ...

    def followed(self, root: Root) -> None:
        """Takes note that the row was committed again in the same transaction, because its source changed."""
        ...


class PlainChange:
    """The part of a `Change` that says nothing in advance: what most changes share."""

    known: KnownCommit | None = None
    least_version = 0

    @property
    def likely_derives(self) -> bool:
        return False

    @property
    def takes_all(self) -> bool:
        return False

    def question(self, seen: Callable[[bytes], Root]) -> SaveQuestion | None:  # noqa: ARG002 - part of the contract
        return None

    def take_saved(self, saved: SavedEntity) -> bool:
        """Only a save has a question."""
        raise AssertionError(saved)

    def take_number(self, number: int) -> None:
        """Only a save without a number waits for one."""
        raise AssertionError(number)

    def pointers(self, seen: Root | None) -> Iterable[bytes]:  # noqa: ARG002 - part of the contract
        return ()

    def likely_sums(self, now: int) -> Iterable[bytes]:  # noqa: ARG002 - part of the contract
        return ()

    def hints(self) -> Iterable[bytes]:
        return ()

    def links(self, seen: Root) -> Iterable[bytes]:  # noqa: ARG002 - part of the contract
        return ()


class PlainFollowers(Protocol):
    """Decides for holders of one source from which nothing follows but rows of indexes."""

    def decide(self, key: bytes, seen: Root, version: int, /) -> Decision | None:
        """What the change that gives a holder the source's values decides; None where that has to be asked.

        Changes nothing, and may raise any error where that has to be asked.
        """
        ...


class FollowChanges(NamedTuple):
    """Makes the changes that follow from others."""

    of_source: Callable[[bytes, bytes], Change]
    """From (source key, holder key): the change that gives the holder the source's new values."""
    of_groups: Callable[[bytes, Sequence[Group]], Change]
    """From a holder's key and groups that it shows: the change that gives it their new numbers."""
    of_expired: Callable[[bytes], Change | None]
    """From the key of an entity that has a unique value: the change by which it gives that up if it has expired.

    None for an entity that does not expire.
    """
    group_at: Callable[[bytes], Group | None] | None = None
    """From the key of a row in `counts`: its group, if entities or indexes show that."""
    of_views: ViewFollower | None = None
    """Makes the entries of feeds that follow from other derived rows; None without feeds."""
    logs: Mapping[bytes, LoggedAs] = NO_LOGS
    """How changed rows of views are logged, by their prefixes."""
    cells: CopyCells = NO_CELLS
    """How copied values lie beside documents, on a store that changes one row at a time."""
    plain: Callable[[bytes, CommittedRows], PlainFollowers | None] = lambda _source, _rows: None
    """From a source's key and rows that have it: what decides for its plain holders; None if there are none."""
    read_source: Callable[[bytes, Root], object] = lambda _source, _root: None
    """Reads what holders take of a source, from its key and row; raises Corrupt where no holder can follow it."""
    accepts: Callable[[bytes, bytes], bool] = lambda _key, _document: False
    """From a key and a document: whether that may be stored, and others may copy its values."""


class Basis(NamedTuple):
    """What changes were decided on before they are committed: the clock, and the root rows that were read."""

    now: int
    rows: Mapping[bytes, EntityRow | Row | None]
    followed: Collection[bytes] = ()
    """Root rows of holders that followed when the changes were decided; they may change meanwhile."""


NO_JOBS: Final[Mapping[bytes, bytes]] = MappingProxyType({})


class Commit:
    """One commit, as asked of a committer.

    `swaps` are system rows that are swapped beside the changes. `beside` are functions that run in the same
    transaction, after the rows of the changes were written; only a store whose transactions span rows can do that. With
    a `basis` the changes were decided before, one after the other: they are decided again in that way, and only while
    the rows they were decided on are unchanged. `is_deciding` is the committer's note of how far it is: an error raised
    while it is true comes from the changes themselves, any other from the store. Nothing follows from rows of `views`
    with a prefix of `unfollowed`: feeds that are built afterwards are made of them then. Where one row is changed at a
    time what follows is left to tasks, as always. `jobs` are rows of `system` that the commit puts.
    """

    __slots__ = ("basis", "beside", "changes", "is_deciding", "jobs", "swaps", "unfollowed")

    def __init__(
        self,
        changes: Sequence[Change],
        swaps: Sequence[Swap] = (),
        basis: Basis | None = None,
        beside: Sequence[Callable[[CountedStore], object]] = (),
        unfollowed: Collection[bytes] = (),
    ) -> None:
        self.unfollowed = unfollowed
        self.jobs = NO_JOBS
        self.changes = changes
        self.beside = beside
        self.swaps = swaps
        self.basis = basis
        self.is_deciding = False


class WriteFence(Protocol):
    """What refuses commits of a program that a newer one has replaced. See docs/decisions/0016-the-fence.md."""

    @property
    def needed(self) -> NeededRow | None:
        """The row of the fence with which `check_writable` need not be asked; None where it has to be."""
        ...

    def check_writable(self, store: CountedStore, fence: Cell | None) -> None:
        """Raises SchemaMismatch unless this program may still write; `fence` is the value of `FENCE_ROW`."""
        ...


class WriteLease(Protocol):
    """The fence of a store that changes one row at a time: read before, and known for as long as a lease.

    Each raises SchemaMismatch when this program may not write any more. See rules F1 to F5 of the commit protocol.
    """

    move: MoveRow | None
    """What the store is moved by, or into, when that was read last."""

    @property
    def shares(self) -> object:
        """What says which views are written for an entity, another object once that changed; None if nothing does."""
        ...

    def renew(self) -> Plan[None]:
        """Before an attempt to commit: reads the fence again when half of the lease is over."""
        ...

    def hold(self) -> Plan[None]:
        """Directly before a root row is replaced: reads the fence again when the lease is over."""
        ...

    def learn(self) -> Plan[None]:
        """Reads the fence, and what other programs have changed."""
        ...


class SystemCommitter(Protocol):
    """Commits of rows that belong to no entity; needs no schema."""

    @property
    def waits_for_older(self) -> bool:
        """Whether programs that the fence refuses may still commit until `end_older` has returned."""
        ...

    def together(self, run: Callable[[CountedStore], T], swaps: Sequence[Swap] = ()) -> Plan[T]:
        """Runs a function that reads rows, decides and writes them as one, with `swaps` beside it; may run it again.

        The few operations that need several rows at once. On a store that changes one row at a time:

        - the schema and the fence are two cells of one row;
        - the position of a backfill is swapped after the schema, since a backfill may repeat its last step;
        - a repair emits rows again by commits, and adds to a sum by a compare-and-set on the shard row (rule 11).
        """
        ...

    def run(self, make: Callable[[], Plan[T]]) -> Plan[T]:
        """Runs a plan that changes rows by compare-and-set; may make and run it again.

        One transaction where it may span rows. Elsewhere the plan as it is: it ends well wherever it is interrupted.
        """
        ...

    def sweep(self, table: Table, within: RowRange, limit: int, swaps: Sequence[Swap] = ()) -> Plan[int]:
        """Removes the first rows of a range that no program writes to any more; returns how many there were.

        On a store that changes one row at a time: deletes with explicit stamps (rule 18).
        """
        ...

    def end_older(self) -> Plan[None]:
        """After the fence was raised: returns once no program that it refuses can commit any more.

        On a store that changes one row at a time: after a lease, and a pass over the journal (rule F2).
        """
        ...


def swap_alone(system: SystemCommitter, *swaps: Swap) -> Plan[None]:
    """Swaps system rows, and does nothing beside. What `together` costs for these swaps.

    Raises:
        Conflict: a row is not as it was seen.
    """
    return system.together(_nothing, swaps)


def _nothing(_store: CountedStore) -> None:
    """Only the swaps."""


class GroupRefused(Exception):
    """An index cannot show the numbers of a group."""

    def __init__(self, group: bytes, error: Exception) -> None:
        super().__init__(group, error)
        self.group = group
        self.error = error


class Committer(SystemCommitter, Protocol):
    """Commits of one open database."""

    def commit(self, commit: Commit) -> Plan[list[bytes]]:
        """Commits changes with everything derived from them, and swaps system rows; returns the tasks that it left.

        All or nothing where a transaction spans rows; elsewhere each change is a commit of its own, and the swaps come
        last: what they record is done by then, and doing it again does no harm.

        Raises:
            Conflict: a system row, or a row of the basis, is not as it was.
        """
        ...

    def follow_rows(self, keys: Sequence[bytes], swaps: Sequence[Swap]) -> Plan[None]:
        """Makes the entries right that follow from these rows of `views`, as they are now, and swaps system rows.

        On a store that changes one row at a time the swaps come last, and removed rows follow, too.
        """
        ...


class CommittedBatch(Protocol):
    """What a batch came to: the tasks that it left, and by their places the changes that are refused."""

    @property
    def tasks(self) -> list[bytes]: ...
    @property
    def refused(self) -> dict[int, OnereadError]: ...


class BatchCommitter(Committer, Protocol):
    """Commits of a database on a store that changes one row at a time: each change, and each group, by itself."""

    def commit_batch(self, changes: Sequence[Change], *, stops: bool) -> Plan[CommittedBatch]:
        """Commits changes in their order; with `stops` none behind the first that is refused is begun."""
        ...

    def group(self, change: Change) -> bytes:
        """The root row of the entity group that a change is in."""
        ...

    def index_groups(self, keys: Sequence[bytes], swaps: Sequence[Swap]) -> Plan[None]:
        """Writes all index rows of the groups with these rows in `counts`; then swaps system rows.

        Raises:
            GroupRefused: an index cannot show one of them.
        """
        ...

    def follow_groups_of(self, aggregates: Sequence[bytes]) -> Plan[None]:
        """Gives what shows groups of these aggregates, by their prefixes in `counts`, the numbers as they are now.

        Older programs that do not know what shows them write until their lease is over.
        """
        ...
