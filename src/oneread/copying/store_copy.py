"""Copying one open store into another: the lines of a dump, without a file, become changes of the target."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Final, NamedTuple

import msgspec

from oneread.copying.comparison import ComparedStores
from oneread.copying.job_copies import copy_jobs
from oneread.copying.pairs import Pair, Pairs, Stores, is_empty
from oneread.counters.dumping import RestoreCounters
from oneread.database._sync.bulk import Bulk
from oneread.database.unfinished_commits import MOST_MARKERS
from oneread.derivations.pending_tasks import count_waiting
from oneread.errors import OnereadError, UsageError
from oneread.plans.effects import Sleep
from oneread.plans.plan import Plan
from oneread.plans.progress import Progress, Reporter, no_progress
from oneread.transfer.bulk import BATCH, Refusal
from oneread.transfer.checkpoints import Checkpoint, key_of, read_checkpoint
from oneread.transfer.content import START, Content, position_line
from oneread.transfer.dump import End
from oneread.transfer.load import DumpReader, parse_end, parse_head

CHECKPOINT: Final = "copy of a store"
"""The name of the checkpoint of a target."""
_ROUNDS: Final = 50
"""How often what was refused is tried again at most, while that stores some."""
_RESTING: Final = 0.1
"""Seconds that a copy with a pace may be ahead of it."""


class CopiedStore(msgspec.Struct, frozen=True):
    """The result of a copy.

    Arguments:
        entities: entities of the source, all of which are in the target.
        deleted: tombstones.
        counters: counters of both kinds.
        tokens: tokens of adds that count once.
        resumed: how many entities and tombstones an earlier run had copied.
        left: what does not go along, in words.
        compared: what was found when both were compared; None where that was not wanted.
    """

    entities: int
    deleted: int
    counters: int
    tokens: int
    resumed: int
    left: tuple[str, ...]
    compared: ComparedStores | None


class CopyOptions(NamedTuple):
    """How a store is copied: see `copy_store`."""

    batch: int = BATCH
    pace: float | None = None
    resume: bool = False
    progress: Reporter = no_progress


class StoreCopy:
    """One copy: lines of a dump of the source become changes of the target."""

    def __init__(self, stores: Stores, options: CopyOptions) -> None:
        self._source, self._target, self._left = stores
        self._stores, self._options = stores, options
        self._content = Content()
        self._lines = 0
        self._reached = START
        self._position = START
        self._finished = False
        self._refused = 0
        self._refusal: OnereadError | None = None
        self._make: Callable[[bytes], object] | None = None
        self._began = monotonic()

    def run(self) -> CopiedStore:
        """Copies all; where an earlier run had stored some, or something was refused, what is missing as well.

        An earlier run may have been killed while it compared: then all is there, and what the target has counted since
        stays as it is.
        """
        self._begin()
        end = self._source.dump(partial(self._take, None)) if self._finished else self._copy()
        self._target.drain()
        copy_jobs(self._source, self._target)
        resumed = position_line(self._reached)
        return CopiedStore(sum(end.entities.values()), end.deleted, end.counters, end.tokens, resumed, self._left, None)

    def _copy(self) -> End:
        options = self._options
        with self._target.bulk(
            checkpoint=CHECKPOINT,
            restart=not options.resume,
            batch=options.batch,
            on_refused=self._note_refused,
            progress=self._report,
        ) as bulk:
            if not options.resume:
                bulk.reached(START)  # from here on the copy can be resumed
                bulk.flush()
            end = self._source.dump(partial(self._take, bulk))
            bulk.flush()
            if self._refused or options.resume:
                self._add_missing(bulk)
        return end

    def _begin(self) -> None:
        """Reads how far an earlier run came. Raises UsageError for a target that is not to be copied into."""
        if self._source.run(self._is_unfinished()):
            raise UsageError(
                "the source has tasks or commits that wait: stop what writes to it, and run `oneread tasks --drain`"
            )
        key = key_of(CHECKPOINT)
        earlier: Checkpoint = self._source.run(read_checkpoint(key))
        if earlier.position is not None and not earlier.finished:
            raise UsageError("the source is itself the target of a copy that was not finished; finish that one")
        found: Checkpoint = self._target.run(read_checkpoint(key))
        if self._options.resume:
            if found.position is None:
                raise UsageError("there is no copy to resume: none into this target has begun")
            self._reached, self._finished = str(found.position), found.finished
        elif found.position is not None and not found.finished:
            raise UsageError("a copy into this target was not finished: resume it, or give an empty target")
        elif not is_empty(self._target):
            raise UsageError("the target is not empty: give the URL of a new store")

    def _is_unfinished(self) -> Plan[bool]:
        """Whether something is still to follow from earlier writes to the source, or a write is under way."""
        operations = self._source.operations
        waiting = count_waiting((yield from operations.lag()))
        commits = yield from operations.parts.unfinished_commits(BATCH, MOST_MARKERS)
        return bool(waiting or (commits is not None and commits.roots))

    def _take(self, bulk: Bulk | None, line: bytes) -> None:
        """Copies one line of the dump; without a bulk only looks whether it is what was copied."""
        if self._make is None:
            head = parse_head(line)
            assert head is not None, "a dump begins with its head"
            self._make = DumpReader(self._target.operations.catalog, head).change
            self._content.add(line)
        elif parse_end(line) is not None:
            self._check_reached()
        elif line.startswith(b'{"model":'):
            self._lines += 1
            self._content.add(line)
            self._position = self._content.position(self._lines)
            start = position_line(self._reached)
            if self._lines == start:
                self._check_reached()
            elif self._lines > start and bulk is not None:
                bulk.apply(self._make(line), len(line), position=self._position)  # type: ignore[arg-type]
                self._rest()
        else:
            self._check_reached()
            if bulk is not None:
                self._restore(line)
                self._rest()

    def _restore(self, line: bytes) -> None:
        """Stores a counter or tokens; doing it again changes nothing."""
        assert self._make is not None, "a dump begins with its head"
        made = self._make(line)
        assert isinstance(made, RestoreCounters), "all others begin with their model"
        self._target.run(made.plan(self._target.operations.parts))

    def _check_reached(self) -> None:
        """Raises UsageError unless what an earlier run has copied is what the source has."""
        start = position_line(self._reached)
        is_longer = self._lines > start and not self._finished
        if not (is_longer or (self._lines == start and self._position == self._reached)):
            raise UsageError(
                "the source has changed since this copy began: copy it into an empty store while nothing writes to it",
                line=start,
            )

    def _rest(self) -> None:
        """Waits where the copy is ahead of its pace."""
        pace = self._options.pace
        if pace is not None:
            ahead = (self._lines - position_line(self._reached)) / pace - (monotonic() - self._began)
            if ahead > _RESTING:
                self._wait(ahead)

    def _wait(self, seconds: float) -> None:
        self._target.run(Sleep(seconds).__iter__())

    def _report(self, _found: Progress) -> None:
        self._options.progress(Progress("copying", self._lines, refused=self._refused))

    def _note_refused(self, refusal: Refusal) -> None:
        self._refused += 1
        self._refusal = refusal.error

    def _add_missing(self, bulk: Bulk) -> None:
        """Stores what the target lacks, in rounds: an entity may refer to one that comes later."""
        assert self._make is not None, "the dump was read"
        make, before = self._make, -1

        def add(pair: Pair) -> None:
            if pair.found is None:
                bulk.apply(make(pair.line), len(pair.line), position=self._position)  # type: ignore[arg-type]

        for _round in range(_ROUNDS):
            self._refused, self._refusal = 0, None
            for _position in Pairs(self._stores).walk(add):
                pass
            bulk.flush()
            if self._refused in (0, before):
                break
            before = self._refused
        if self._refusal is not None:
            self._refusal.add_note(f"copy: the target refuses {self._refused:,} entities; all others are stored")
            raise self._refusal
