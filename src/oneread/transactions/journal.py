"""Root rows are replaced on stores that change one row at a time, and their intents applied exactly once.

The writer applies them, the next commit of the row, or recovery: all at the same time do no harm. See rules 5 to 12 of
the commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from oneread.errors import Corrupt, OutcomeUnknown, SchemaMismatch, StoreError, Unavailable
from oneread.plans.effects import Now, Random, Reserve, Sleep, Together
from oneread.plans.performer import elapsed
from oneread.plans.plan import Plan
from oneread.plans.retry import backoff
from oneread.store.requests import ABSENT, CheckAndMutate, Mutate, Read
from oneread.store.rows import REMOVED, UNDECODABLE, VALUE, WRITES, Cell, Row, RowMutation
from oneread.transactions import outbox
from oneread.transactions.commit import WriteLease
from oneread.transactions.deltas import Delta, add_to_row, decode_amounts
from oneread.transactions.intents import (
    INTENTS,
    MARKER,
    Intents,
    SeenRow,
    child_cells,
    decode_intents,
    decode_version,
    encode_version,
    fence_cells,
    journal_key,
    pending_key,
    read_root,
)
from oneread.transactions.job_rows import job_puts
from oneread.transactions.log_entries import RowLogs
from oneread.transactions.lost_answers import LOOKS, pause_for_answer, until_answered
from oneread.transactions.move_gate import MoveGate
from oneread.transactions.moves import logged_root
from oneread.transactions.root import EMITTED, NO_ROOT, VERSION, Root, next_version

TOKENS: Final = b"m:t"
"""The column of all tokens of a row of `counts`, in the order in which they were added.

With a column each, those that are gone would slow every read of the row: what is deleted stays until a compaction.
"""

KEPT_TOKENS: Final = 32
"""Tokens of a row's last changes, which stay: so who reads the row often enough knows all that was added to it."""

_REMEMBERED: Final = 10_000
"""Rows of `counts` whose tokens are remembered until the next change of the row removes them."""

MOST_TOKENS: Final = 32
"""Tokens that are older than `OLD_TOKEN` in a row beside those that stay, before a change looks which are needed."""

OLD_TOKEN: Final = 60_000
"""Milliseconds."""


class Token(NamedTuple):
    """Which commit was added to a row of `counts`."""

    version: int
    root: bytes


class Committed(NamedTuple):
    """A commit behind its commit point: what is still to be applied.

    `shards` are the rows of `counts` that it adds to, as they were before the commit; `markers` the versions of the
    markers that were put for it. `root` is what the row holds since, where that is known.
    """

    key: bytes
    intents: Intents
    shards: Mapping[bytes, Row | None]
    markers: Sequence[int]
    root: Root = NO_ROOT


class Journal:
    """Replaces root rows, and applies their intents. What raises the fence has no `lease`, all else has.

    `clock` is in seconds, and never set.
    """

    def __init__(self, name_of: Callable[[bytes], object] = bytes.hex, clock: Callable[[], float] = elapsed) -> None:
        self.name_of = name_of
        self.clock = clock
        self.lease: WriteLease | None = None
        self.gate = MoveGate()
        self.logs = RowLogs()
        self.kept_tokens = KEPT_TOKENS
        self.most_tokens = MOST_TOKENS
        self._spent: dict[bytes, set[Token]] = {}

    def swap_root(self, seen: SeenRow, cells: Row, commit: bytes) -> Plan[bool]:
        """The commit point: whether it was this commit that replaced the row. A lost answer is found in the history.

        Nothing is sent where the entity was decided on by other shares than those that count now (rule F5).

        Raises:
            Corrupt: the row's version is damaged, so that no comparison could ever hold.
            OutcomeUnknown: so many commits came since that the history does not reach back.
        """
        swap = self._swap_of(seen, cells)
        if not (yield from self._may_send(seen, cells)):
            return False
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
                if (yield from self._may_send(seen, cells)) and (yield from swap):
                    return True
            except SchemaMismatch:
                break
            except (OutcomeUnknown, StoreError):
                if not (yield from _has_paused(number)):
                    break
        raise OutcomeUnknown("the answer to a commit was lost; read before writing again", key=self.name_of(seen.key))

    def _swap_of(self, seen: SeenRow, cells: Row) -> CheckAndMutate:
        if seen.is_damaged:
            raise Corrupt(
                "the version of this root row cannot be read; run `oneread repair`", key=self.name_of(seen.key)
            )
        expected = encode_version(seen.version) if seen.version else ABSENT
        return CheckAndMutate("roots", VERSION, expected, RowMutation(seen.key, cells), has_history=True)

    def renew_lease(self) -> Plan[None]:
        """Before anything is written for others to see; raises SchemaMismatch when this program may not write."""
        if self.lease is not None:
            yield from self.lease.renew()

    def _may_send(self, seen: SeenRow, cells: Row) -> Plan[bool]:
        """Directly before a root row is replaced: what was put before it is in the journal then (rule F1).

        While the store is moved the change is marked. Whether the shares by which was decided are those that the lease
        knows then (rule F5).
        """
        if self.lease is None:
            return True
        yield from self.lease.hold()
        yield from self._enter(seen.key, cells)
        return seen.shares is None or seen.shares is self.lease.shares

    def _enter(self, key: bytes, cells: Row) -> Plan[None]:
        """While the store is moved: marks the entities of a group that a commit changes, or waits."""
        if not self.gate.is_moving or EMITTED not in cells or outbox.is_group_root(key):
            return
        stored = cells[INTENTS].value
        children = [] if stored == REMOVED else [each.key for each in decode_intents(stored).children]
        logged = [logged_root(each) for each in (key, *children)]
        yield from self.gate.enter(logged, decode_version(cells[VERSION].value))

    def leased(self, seen: SeenRow) -> SeenRow:
        """A row on which is decided from now on, by the shares that the lease knows."""
        shares = None if self.lease is None else self.lease.shares
        return seen if shares is None else seen._replace(shares=shares)

    def fence(self, seen: SeenRow, stamp: int) -> Plan[bool]:
        """Ends every attempt to commit a row at a version of at most `stamp`; whether the row was as it was seen."""
        assert seen.intents is None, "what is not applied yet is applied before"
        version = max(next_version((yield from Now()), seen.version, seen.key), stamp)
        commit = yield from new_commit()
        return (yield from self.swap_root(seen, fence_cells(seen, version, commit), commit))

    def apply(self, *done: Committed) -> Plan[None]:
        """Writes what intents say: rows and deltas, then the tasks; then clears them and removes the markers.

        Several commits share `shards`, which were read before the first of them.
        """
        rows: list[RowMutation] = []
        deltas: dict[bytes, list[_AddedDelta]] = {}
        logged: dict[bytes, list[bytes]] = {}
        children: list[RowMutation] = []
        for key, intents, *_rest in done:
            version = intents.version
            rows += [RowMutation(each, {VALUE: Cell(value, version)}) for each, value in intents.puts.items()]
            rows += [RowMutation(each, {VALUE: Cell(REMOVED, version)}) for each in intents.removed]
            for shard, amounts in intents.deltas.items():
                deltas.setdefault(shard, []).append(_AddedDelta(key, version, shard, amounts))
            for log, keys in intents.logged(key).items():
                logged.setdefault(log, []).extend(keys)
            children += [RowMutation(each.key, child_cells(each, version)) for each in intents.children]
        together: list[Plan[Any]] = [Mutate("views", rows).__iter__()] if rows else []
        tokens: dict[bytes, set[Token]] = {}
        together += [self._add(several, done[0].shards, tokens) for several in deltas.values()]
        if children:
            together.append(Mutate("roots", children).__iter__())
        if together:
            yield from Together(together)
        yield from self.logs.add(logged)
        tasks = [outbox.task_row(*each, made.version) for key, made, *_rest in done for each in made.tasks(key).items()]
        tasks += outbox.group_task_rows((key, made.version, made.groups) for key, made, *_rest in done)
        for _key, intents, *_rest in done:
            tasks += job_puts(intents.jobs, intents.version)
        if tasks:
            yield from Mutate("system", tasks)
        cleared = [_cleared(key, intents.version) for key, intents, *_rest in done if intents]
        if cleared:
            yield from until_answered(Mutate("roots", cleared))
            self._note_spent(tokens)
        markers = without_markers(*done)
        if markers:
            yield from Mutate("system", markers)

    def finish(self, seen: SeenRow) -> Plan[None]:
        """Applies the intents that a row holds; the markers stay (rule 8)."""
        if seen.intents is not None:
            yield from self.apply(Committed(seen.key, seen.intents, {}, ()))

    def finished(self, key: bytes) -> Plan[SeenRow]:
        """A root row without intents."""
        while True:
            seen = read_root(key, (yield from Read("roots", [key], "dm"))[0])
            if seen.intents is None:
                return seen
            yield from self.finish(seen)

    def _add(
        self, several: Sequence[_AddedDelta], before: Mapping[bytes, Row | None], tokens: dict[bytes, set[Token]]
    ) -> Plan[None]:
        """Adds deltas of one row of `counts` to it, each exactly once (rules 11 and 11b).

        `before` has the row if it was read before the commit points: no delta can have been added before that.
        """
        shard, rest = several[0].shard, several
        is_known, row, lost = shard in before, before.get(shard), 0
        while rest:
            if not is_known:
                (row,) = yield from Read("counts", [shard], "dm")
                there = {each.token for each in rest}.intersection(tokens_of(row))
                tokens.setdefault(shard, set()).update(there)
                rest = [each for each in rest if each.token not in there]
                rest = yield from self._still_intended(rest)
                if not rest:
                    return
            is_known = False
            now, held = (yield from Now()), tokens_of(row)
            early = held[: max(0, len(held) + len(rest) - self.kept_tokens)]
            spent = self._spent.get(shard, set()).difference(held[len(early) :])
            gone = spent | (yield from self._ended_tokens([each for each in early if each not in spent], now))
            mutation = _sum_with(rest, row, now, [each for each in held if each not in gone])
            expected = None if row is None or WRITES not in row else row[WRITES].value
            try:
                if (yield from CheckAndMutate("counts", WRITES, expected, mutation)):
                    tokens.setdefault(shard, set()).update(each.token for each in rest)
                    self._forget_spent(shard, spent)
                    return
            except OutcomeUnknown:
                lost += 1
                yield from pause_for_answer(lost)

    def _ended_tokens(self, early: Sequence[Token], now: int) -> Plan[set[Token]]:
        """Tokens that no program remembers, once they are many: their intents are cleared (rule 12). A read then."""
        old = [each for each in early if each.version < now - OLD_TOKEN]
        if len(old) <= self.most_tokens:
            return set()
        rows = yield from Read("roots", [each.root for each in old], "dm")
        seen = [read_root(each.root, row) for each, row in zip(old, rows, strict=True)]
        return {each for each, root in zip(old, seen, strict=True) if not root.intends(each.version)}

    def _still_intended(self, several: Sequence[_AddedDelta]) -> Plan[list[_AddedDelta]]:
        """The deltas that the intents of their root rows hold."""
        if not several:
            return []
        rows = yield from Read("roots", [each.root for each in several], "dm")
        seen = [read_root(each.root, row) for each, row in zip(several, rows, strict=True)]
        return [each for each, root in zip(several, seen, strict=True) if each.is_intended(root)]

    def _note_spent(self, tokens: Mapping[bytes, Iterable[Token]]) -> None:
        """Remembers tokens whose intents are cleared: the next change of their row removes them (rule 12)."""
        if len(self._spent) < _REMEMBERED:
            for shard, several in tokens.items():
                self._spent.setdefault(shard, set()).update(several)

    def _forget_spent(self, shard: bytes, spent: Collection[Token]) -> None:
        known = self._spent.get(shard, set())
        known.difference_update(spent)
        if not known:
            self._spent.pop(shard, None)


class _AddedDelta:
    """One delta of one commit."""

    def __init__(self, root: bytes, version: int, shard: bytes, amounts: bytes) -> None:
        self.root = root
        self.version = version
        self.shard = shard
        self.amounts = amounts
        self.token = Token(version, root)

    def is_intended(self, seen: SeenRow) -> bool:
        """Whether the root row holds it, so that it may not be added yet."""
        return seen.intents is not None and seen.version == self.version and self.shard in seen.intents.deltas


def _sum_with(several: Sequence[_AddedDelta], row: Row | None, now: int, left: Iterable[Token]) -> RowMutation:
    """A row of `counts` with deltas and their tokens beside those that are left, at a stamp that grows each time."""
    writes = None if row is None else row.get(WRITES)
    stamp = now if writes is None else max(now, decode_version(writes.value) + 1)
    held = None if row is None else row.get(VALUE)
    delta = Delta()
    for each in several:
        delta.add(decode_amounts(each.amounts), 1)
    value = add_to_row(None if held is None or held.value == REMOVED else held.value, delta.amounts, is_part=True)
    cells = {
        VALUE: Cell(REMOVED if value is None else value, stamp),
        WRITES: Cell(encode_version(stamp), stamp),
        TOKENS: Cell(_encode_tokens([*left, *(each.token for each in several)]), stamp),
    }
    return RowMutation(several[0].shard, cells)


def tokens_of(row: Row | None) -> list[Token]:
    """The tokens in a row of `counts`, the last one behind; none where they cannot be read, which `verify` names."""
    if row is None or TOKENS not in row:
        return []
    try:
        return _decode_tokens(row[TOKENS].value)
    except UNDECODABLE:
        return []


def has_unreadable_tokens(row: Row) -> bool:
    """Whether the tokens in a row of `counts` cannot be read."""
    if TOKENS not in row:
        return False
    try:
        _decode_tokens(row[TOKENS].value)
    except UNDECODABLE:
        return True
    return False


_encode_tokens: Final = msgspec.msgpack.Encoder().encode
_decode_tokens: Final = msgspec.msgpack.Decoder(list[Token]).decode


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


def without_markers(*done: Committed) -> list[RowMutation]:
    """Removes the markers of commits that are applied."""
    return [
        RowMutation(place, deletes={MARKER: intents.version})
        for key, intents, _shards, versions, _root in done
        for place in dict.fromkeys(journal_key(key, each) for each in sorted(versions))
    ]


def left_tasks(done: Committed) -> list[bytes]:
    """What a commit that is not applied yet leaves: itself, and the tasks of its holders and of groups."""
    key, intents = done.key, done.intents
    return [pending_key(key, intents.version), *intents.tasks(key), *group_tasks(done)] if intents else []


def group_tasks(done: Committed) -> list[bytes]:
    """The tasks of the groups that a commit changed, which entities or indexes show."""
    return [outbox.group_task(each) for each in done.intents.groups]


def check_sums(added: Collection[bytes], shards: Mapping[bytes, Row | None]) -> None:
    """Raises Corrupt for a row of `counts` that nothing can be added to: before the commit, which must be completed."""
    for each in added:
        row = shards[each]
        if row is not None and VALUE in row and row[VALUE].value != REMOVED:
            decode_amounts(row[VALUE].value)


def reserve(key: bytes, intents: Intents, markers: Collection[int]) -> Reserve:
    """What the commit point and all behind it may cost, but for holders and entries that follow."""
    rows, sums, after = len(intents.puts) + len(intents.removed), len(intents.deltas), bool(intents)
    tasks = len(intents.tasks(key)) + len(intents.groups) + len(intents.jobs)
    logs, children = 2 * len(intents.logs), len(intents.children)
    return Reserve(
        1 + bool(rows) + bool(children) + sums + logs + bool(tasks) + after + bool(markers),
        1 + rows + children + sums + logs + tasks + after + len(markers),
    )


def _cleared(key: bytes, version: int) -> RowMutation:
    """The end of the intents of one version: its stamp leaves those of a later commit alone."""
    return RowMutation(key, {INTENTS: Cell(REMOVED, version)})
