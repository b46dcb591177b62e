"""What comes behind the commit point on stores that change one row at a time: intents are applied, exactly once.

The writer does it, the next commit of the row, or recovery: all at the same time do no harm. See rules 5 to 12 of the
commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeVar

from oneread.errors import OutcomeUnknown, StoreError, Unavailable
from oneread.plans.effects import Now, Random, Sleep, Together
from oneread.plans.plan import Plan
from oneread.plans.retry import backoff
from oneread.store.requests import ABSENT, CheckAndMutate, Mutate, Read, Request
from oneread.store.rows import REMOVED, Cell, Row, RowMutation
from oneread.transactions import outbox
from oneread.transactions.deltas import Delta, decode_amounts
from oneread.transactions.intents import (
    INTENTS,
    MARKED,
    Intents,
    SeenRow,
    child_cells,
    decode_version,
    encode_version,
    fence_cells,
    journal_key,
    read_root,
)
from oneread.transactions.outbox import Task
from oneread.transactions.root import VERSION, next_version
from oneread.transactions.row_system import RowSystem
from oneread.transactions.unit_of_work import VALUE

T = TypeVar("T")

LOOKS: Final = 30
"""Times that a root row is read for the outcome of a commit whose answer was lost."""

WRITES: Final = b"m:w"
"""The column that grows with each change of a row of `counts`, and that each change compares."""

_TOKEN: Final = b"m:t:"
_TOKENS: Final = 10_000
"""Rows of `counts` whose tokens are remembered until the next change of the row removes them."""

_TRIES: Final = 3
"""Times that a request is made whose answer is lost, where making it twice does no harm."""


class Committed(NamedTuple):
    """A commit behind its commit point: what is still to be applied.

    `shards` are the rows of `counts` that it adds to, as they were before the commit; `markers` the versions of the
    markers that were put for it.
    """

    key: bytes
    intents: Intents
    shards: Mapping[bytes, Row | None]
    markers: Sequence[int]


class RowApplier(RowSystem):
    """Replaces root rows, and applies their intents."""

    def __init__(self, name_of: Callable[[bytes], object]) -> None:
        self.name_of = name_of
        self._spent: dict[bytes, dict[bytes, int]] = {}

    def _swap_root(self, seen: SeenRow, cells: Row, commit: bytes) -> Plan[bool]:
        """The commit point: whether it was this commit that replaced the row. A lost answer is found in the history.

        Raises:
            OutcomeUnknown: so many commits came since that the history does not reach back.
        """
        expected = encode_version(seen.version) if seen.version else ABSENT
        swap = CheckAndMutate("roots", VERSION, expected, RowMutation(seen.key, cells))
        try:
            return (yield from swap)
        except OutcomeUnknown:
            pass
        for number in range(LOOKS):
            try:
                found = read_root(seen.key, (yield from Read("roots", [seen.key], "dm"))[0])
                if found.version != seen.version:
                    entry = next((each for each in found.history if each.replaced == seen.version), None)
                    if entry is None:
                        break
                    return entry.commit == commit
                if (yield from swap):
                    return True
            except (OutcomeUnknown, StoreError):
                if not (yield from _has_paused(number)):
                    break
        raise OutcomeUnknown("the answer to a commit was lost; read before writing again", key=self.name_of(seen.key))

    def fence(self, seen: SeenRow, stamp: int) -> Plan[bool]:
        """Ends every attempt to commit a row at a version of at most `stamp`; whether the row was as it was seen."""
        assert seen.intents is None, "what is not applied yet is applied before"
        version = max(next_version((yield from Now()), seen.version), stamp)
        commit = yield from new_commit()
        return (yield from self._swap_root(seen, fence_cells(seen, version, commit), commit))

    def apply(self, done: Committed) -> Plan[None]:
        """Writes what intents say: rows and deltas, then the task; then clears them and removes the markers."""
        key, intents, shards = done.key, done.intents, done.shards
        version = intents.version
        if intents:
            rows = [RowMutation(each, {VALUE: Cell(value, version)}) for each, value in intents.puts.items()]
            rows += [RowMutation(each, {VALUE: Cell(REMOVED, version)}) for each in intents.removed]
            together: list[Plan[Any]] = [Mutate("views", rows).__iter__()] if rows else []
            tokens: dict[bytes, tuple[bytes, int]] = {}
            for shard, amounts in intents.deltas.items():
                adding = _AddedDelta(key, version, shard, amounts)
                together.append(self._add(adding, shards, tokens))
            if intents.children:
                children = [RowMutation(each.key, child_cells(each, version)) for each in intents.children]
                together.append(Mutate("roots", children).__iter__())
            if together:
                yield from Together(together)
            for source in intents.sources(key):
                yield from _put_task(source, version)
            cleared = RowMutation(key, {INTENTS: Cell(REMOVED, version)})
            yield from _until_answered(CheckAndMutate("roots", VERSION, encode_version(version), cleared))
            self._note_spent(tokens)
        markers = {journal_key(key, each): each for each in sorted(done.markers)}
        if markers:
            yield from Mutate("system", [RowMutation(each, deletes={MARKED: version}) for each in markers])

    def finish(self, seen: SeenRow) -> Plan[None]:
        """Applies the intents that a row holds; the markers stay (rule 8)."""
        if seen.intents is not None:
            yield from self.apply(Committed(seen.key, seen.intents, {}, ()))

    def _finished(self, key: bytes) -> Plan[SeenRow]:
        """A root row without intents."""
        while True:
            seen = read_root(key, (yield from Read("roots", [key], "dm"))[0])
            if seen.intents is None:
                return seen
            yield from self.finish(seen)

    def _add(
        self, adding: _AddedDelta, before: Mapping[bytes, Row | None], tokens: dict[bytes, tuple[bytes, int]]
    ) -> Plan[None]:
        """Adds a delta to its row of `counts` exactly once (rules 11 and 11b).

        `before` has the row if it was read before the commit point: the delta cannot have been added before that.
        """
        shard, token = adding.shard, adding.token
        is_known, row = shard in before, before.get(shard)
        while True:
            if not is_known:
                (row,) = yield from Read("counts", [shard], "dm")
                if row is not None and token in row:
                    tokens[shard] = token, row[token].stamp
                    return
                seen = read_root(adding.root, (yield from Read("roots", [adding.root], "dm"))[0])
                if seen.intents is None or seen.version != adding.version or shard not in seen.intents.deltas:
                    return
            is_known = False
            spent = dict(self._spent.get(shard, {}))
            mutation, stamp = adding.mutation(row, (yield from Now()), spent)
            expected = None if row is None or WRITES not in row else row[WRITES].value
            try:
                if (yield from CheckAndMutate("counts", WRITES, expected, mutation)):
                    tokens[shard] = (token, stamp)
                    self._forget_spent(shard, spent)
                    return
            except OutcomeUnknown:
                continue

    def _note_spent(self, tokens: Mapping[bytes, tuple[bytes, int]]) -> None:
        """Remembers tokens whose intents are cleared: the next change of their row removes them (rule 12)."""
        if len(self._spent) < _TOKENS:
            for shard, (token, stamp) in tokens.items():
                self._spent.setdefault(shard, {})[token] = stamp

    def _forget_spent(self, shard: bytes, spent: Mapping[bytes, int]) -> None:
        known = self._spent.get(shard, {})
        for token in spent:
            known.pop(token, None)
        if not known:
            self._spent.pop(shard, None)


class _AddedDelta:
    """One delta of one commit."""

    def __init__(self, root: bytes, version: int, shard: bytes, amounts: bytes) -> None:
        self.root = root
        self.version = version
        self.shard = shard
        self._amounts = amounts
        self.token = _TOKEN + encode_version(version) + blake2b(root, digest_size=8).digest()

    def mutation(self, row: Row | None, now: int, spent: Mapping[bytes, int]) -> tuple[RowMutation, int]:
        """The row with the delta and its token, without spent ones, and its stamp, which grows with each change."""
        writes = None if row is None else row.get(WRITES)
        stamp = now if writes is None else max(now, decode_version(writes.value) + 1)
        held = None if row is None else row.get(VALUE)
        delta = Delta()
        delta.add(decode_amounts(self._amounts), 1)
        value = delta.onto(None if held is None or held.value == REMOVED else held.value)
        cells = {
            VALUE: Cell(REMOVED if value is None else value, stamp),
            WRITES: Cell(encode_version(stamp), stamp),
            self.token: Cell(self.root, stamp),
        }
        return RowMutation(self.shard, cells, dict(spent)), stamp


def _has_paused(number: int) -> Plan[bool]:
    """Pauses before another look; False where no time is left."""
    try:
        yield from Sleep(backoff(number, (yield from Random())))
    except Unavailable:
        return False
    return True


def new_commit() -> Plan[bytes]:
    """An id that no other commit has."""
    first, second = (yield from Random()), (yield from Random())
    return int(first * 2**53).to_bytes(7, "big") + int(second * 2**53).to_bytes(7, "big")


def _until_answered(request: CheckAndMutate) -> Plan[bool]:
    """A compare-and-set that does no harm when it is made twice. Raises Unavailable: its answers are lost."""
    for number in range(LOOKS):
        try:
            return (yield from request)
        except OutcomeUnknown:
            yield from Sleep(backoff(number, (yield from Random())))
    raise Unavailable("the store does not answer; what is left is done later")


def surely(request: Request[T]) -> Plan[T]:
    """A request before the commit point, which may be made twice.

    Raises:
        Unavailable: its answers are lost. Nothing is committed.
    """
    for _ in range(_TRIES - 1):
        try:
            return (yield from request)
        except OutcomeUnknown:
            continue
    try:
        return (yield from request)
    except OutcomeUnknown as failure:
        raise Unavailable("the store does not answer; nothing was written; try again") from failure


def _put_task(source: bytes, version: int) -> Mutate:
    cell = Cell(outbox.encode_task(Task(source)), version)
    return Mutate("system", [RowMutation(outbox.version_key(source, version), {VALUE: cell})])
