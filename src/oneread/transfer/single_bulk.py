"""Bulk writing on a store that changes one row at a time: every change is a commit of its own, in pages of them.

What must not be made twice has a commit id of its checkpoint and position: a program that continues finds it in the
history of its row. See docs/decisions/0102-pages-of-commits.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from oneread.errors import Conflict, OnereadError
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.transactions.commit import BatchCommitter, Change, Commit
from oneread.transactions.known_commits import KnownCommit
from oneread.transactions.refusals import is_refusal
from oneread.transfer.bulk import Batches, BatchOptions, Item, Limits, MakeChange, Refusal, WantedChange
from oneread.transfer.checkpoints import Checkpoint, Position, encode_checkpoint

_TAKEN: Final = "another program works under this checkpoint; the changes of this batch are stored, as its own are"
_ID_BYTES: Final = 14
_KEY_BYTES: Final = 64


class SingleCheckpoint(Checkpoint, frozen=True, array_like=True):
    """A checkpoint of changes that are made one by one, and what finds those that were made behind it.

    `changes` and `size` bound the batch that is made behind the position, `since` milliseconds since 1970 at the
    earliest. The ids of its commits are made of `salt`, which is another one after the end of the work, and of the
    `number` of changes that have the position before them.
    """

    changes: int = 0
    size: int = 0
    since: int = 0
    salt: int = 0
    number: int = 0


_decode = msgspec.msgpack.Decoder(SingleCheckpoint).decode


class _Given(NamedTuple):
    """One change as given, and the item that it is of."""

    item: Item
    given: WantedChange


class SingleBatches(Batches):
    """Gathers changes and commits each by itself, in order; the position of a batch is stored behind it.

    A program that is killed does its last batch again. So with a checkpoint a change that `may_repeat` leaves what it
    left before; any other is looked for in the history of its row.
    """

    def __init__(
        self,
        make: MakeChange,
        committer: BatchCommitter,
        options: BatchOptions,
        may_repeat: Callable[[WantedChange], bool],
    ) -> None:
        super().__init__(make, options)
        self._committer = committer
        self._may_repeat = may_repeat
        self._begun = SingleCheckpoint()
        self._continues = False  # whether a program before this one may have made some of the next batch
        self._position: Position | None = None
        self._number = 0

    def opened(self) -> Plan[None]:
        """Reads the checkpoint, and takes batches at least as large as those of the program that is continued."""
        yield from super().opened()
        if self._row is None:
            return
        begun = _decode(self._row)
        if self._options.restart or begun.finished:
            return
        self._begun, self._continues = begun, True
        self._position, self._number = begun.position, begun.number
        limits = self._options.limits
        larger = Limits(max(limits.changes, begun.changes), max(limits.size, begun.size), limits.tasks)
        self._options = self._options._replace(limits=larger)

    def committed(self) -> Plan[list[bytes]]:
        """Commits what was given up to the last position; returns the tasks that this left.

        Costs some requests for each change, and with a checkpoint a compare-and-set for each batch. What is refused is
        left out by itself: the other changes of its item are stored.
        """
        items, self._closed = self._closed, []
        self._count = self._size = 0
        every = [_Given(item, given) for item in items for given in item.given]
        stops = self._options.on_refused is None
        changes: list[Change] = []
        refused: dict[int, OnereadError] = {}
        places: list[int] = []
        for place, each in enumerate(every):
            try:
                changes.append((yield from self._make(each.given)))
                places.append(place)
            except OnereadError as error:
                if not is_refusal(error):
                    raise
                refused[place] = error
                if stops:
                    break
        if self._options.checkpoint is not None:
            yield from self._know([every[place] for place in places], changes)
        done = yield from self._committer.commit_batch(changes, stops=stops)
        refused |= {places[number]: error for number, error in done.refused.items()}
        self._count_all(every, refused)
        if stops and refused:
            yield from self._end_at(items, every[min(refused)].item, refused[min(refused)])
        for place in sorted(refused):
            self._refuse(every[place], refused[place])
        positions = [item.position for item in items if item.position is not None]
        if positions:
            self.reached = msgspec.structs.replace(self.reached, position=positions[-1])
        yield from self.settled()
        if items:
            self._batches += 1
            self._report_progress()
        return done.tasks

    def _end_at(self, items: Sequence[Item], refused: Item, error: OnereadError) -> Plan[None]:
        """Stores the position before an item that is refused, and raises its error."""
        before = [each.position for each in items[: items.index(refused)] if each.position is not None]
        if before:
            self.reached = msgspec.structs.replace(self.reached, position=before[-1])
        yield from self.settled()
        refused.error = error
        self._give_up(refused)

    def _refuse(self, each: _Given, error: OnereadError) -> None:
        assert self._options.on_refused is not None, "without it the first refusal ends the work"
        self._options.on_refused(Refusal(error, (each.given,), each.item.position))

    def _count_all(self, every: Sequence[_Given], refused: dict[int, OnereadError]) -> None:
        """Counts what is stored: without `on_refused` nothing behind the first that is refused counts."""
        first = min(refused, default=len(every)) if self._options.on_refused is None else len(every)
        stored = sum(place not in refused for place in range(first))
        self._stored += stored
        self._refused += len(refused)
        if self._options.checkpoint is not None:
            stored, more = self.reached.stored + stored, self.reached.refused + len(refused)
            self.reached = msgspec.structs.replace(self.reached, finished=False, stored=stored, refused=more)

    # What must not be made twice.

    def _know(self, every: Sequence[_Given], changes: Sequence[Change]) -> Plan[None]:
        """Gives changes that must not be made twice the ids of their commits."""
        ids = list(self._ids(every))
        known = [
            number
            for number, (each, change) in enumerate(zip(every, changes, strict=True))
            if change.sequence is not None or not self._may_repeat(each.given)
        ]
        if not known:
            return
        limits = self._options.limits
        if (self._begun.changes, self._begun.size) != (limits.changes, limits.size):
            yield from self._store_checkpoint((yield from self._begin()), finished=False)
        of_row: dict[bytes, list[bytes]] = {}
        for number in known:
            of_row.setdefault(self._committer.group(changes[number]), []).append(self._id_of(ids[number]))
        met: Counter[bytes] = Counter()
        for number in known:
            root = self._committer.group(changes[number])
            every_id, place = of_row[root], met[root]
            met[root] += 1
            if self._continues:
                known_commit = KnownCommit(every_id[place], every_id[place:], self._begun.since, every_id[:place])
            else:
                known_commit = KnownCommit(every_id[place])
            changes[number].known = known_commit

    def _ids(self, every: Sequence[_Given]) -> Iterator[bytes]:
        """What names each change: the position of its item, and its number among the changes with this position."""
        for each in every:
            number = 1 + self._number if each.item.position == self._position else 0
            self._position, self._number = each.item.position, number
            yield msgspec.msgpack.encode((each.item.position, number))

    def _id_of(self, name: bytes) -> bytes:
        return blake2b(name, digest_size=_ID_BYTES, key=(self._options.checkpoint or b"")[-_KEY_BYTES:],
                       salt=self._begun.salt.to_bytes(8, "big")).digest()  # fmt: skip

    def _begin(self) -> Plan[SingleCheckpoint]:
        """What is to be known of the next batch: its size, and since when it may be made."""
        limits, now = self._options.limits, (yield from Now())
        since = self._begun.since if self._continues else now
        salt = self._begun.salt if self._begun.salt and not self._begun.finished else now
        return SingleCheckpoint(changes=limits.changes, size=limits.size, since=since, salt=salt)

    def _save_checkpoint(self, *, finished: bool) -> Plan[None]:
        self._continues = False
        yield from self._store_checkpoint((yield from self._begin()), finished=finished)

    def _store_checkpoint(self, begun: SingleCheckpoint, *, finished: bool) -> Plan[None]:
        reached = msgspec.structs.replace(self.reached, finished=finished)
        wanted = msgspec.structs.replace(begun, number=self._number, **msgspec.structs.asdict(reached))
        try:
            yield from self._committer.commit(Commit((), self._swaps(wanted)))
        except Conflict as error:
            raise Conflict(_TAKEN, **error.facts) from error
        self._row, self._begun = encode_checkpoint(wanted), wanted
        self.reached = self._saved = reached
