"""The committer of engines whose transactions span rows: a commit is one engine transaction.

It needs no intents, no markers, and no tombstones but those of root rows. See rules 4, 5 and 13-17 of the commit
protocol, and docs/decisions/0004-native-keeps-no-history.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, ParamSpec, TypeVar

import msgspec

from oneread.errors import NotUnique, OnereadError
from oneread.plans.collector import PausedCollector
from oneread.plans.counted import CountedStore
from oneread.plans.plan import Plan
from oneread.store.engine import CompiledCommits, DecidedSaves, Requests, SaveQuestion, SaveQuestions
from oneread.store.keys import kind_part
from oneread.store.limits import INLINE_HOLDERS
from oneread.store.rows import VALUE, Cell, EntityRow, Row, cells_of_entity
from oneread.transactions import outbox
from oneread.transactions.alone import is_alone, load_alone, writes_alone
from oneread.transactions.cascade import Cascade, RefusedHolders
from oneread.transactions.commit import Change, Commit, FollowChanges, WriteFence
from oneread.transactions.derived_writes import Group
from oneread.transactions.loading import check_unchanged, load_rows, take_numbers, wanted_rows
from oneread.transactions.moves import atomically
from oneread.transactions.outbox import SetAside
from oneread.transactions.refusals import is_refusal
from oneread.transactions.root import BODY, NO_ROOT, Root, next_version, parse_root
from oneread.transactions.root_rows import entity_in
from oneread.transactions.system_rows import FENCE_ROW, NativeSystem, Swap, swap
from oneread.transactions.unit_of_work import HoldersRefused, UnitOfWork

MANY: Final = 100
"""Changes of a commit whose objects the garbage collector need not look at meanwhile."""

_pack: Final = msgspec.msgpack.Encoder().encode

P = ParamSpec("P")
T = TypeVar("T")


class NativeCommitter(NativeSystem):
    """Commits of one open database: see `Committer`."""

    def __init__(
        self,
        name_of: Callable[[bytes], object],
        fence: WriteFence,
        followers: FollowChanges,
        inline: int = INLINE_HOLDERS,
        new_unit: Callable[[CountedStore], UnitOfWork] = UnitOfWork,
    ) -> None:
        self.name_of = name_of
        self.new_unit = new_unit
        self._fence = fence
        self._followers = followers
        self._inline = inline
        self._is_plain = followers.of_views is None  # only indexes show what views hold
        self._followed = _table_of(followers)

    def commit(self, commit: Commit) -> Plan[list[bytes]]:
        """One transaction. Costs what its changes do, and one request for the fence and the swapped rows together."""
        attempt, compiled = partial(self._commit_in, commit=commit), partial(self._commit_compiled, commit)
        if len(commit.changes) < MANY:
            return atomically(attempt, compiled)
        return atomically(_without_collector(attempt), _without_collector(compiled))

    def _commit_in(self, store: CountedStore, commit: Commit) -> list[bytes]:
        """An attempt; again without the holders with which it could not be written (`_until_written`).

        Again, too, when an entity that has expired had a unique value, which it gives up before.
        """
        freeing: dict[bytes, Change] = {}
        refused: dict[bytes, Exception] = {}
        is_first = not commit.swaps
        while True:
            try:
                if is_first:
                    is_first = False
                    return self._attempt_first(store, commit)
                return self._attempt(store, commit, [*freeing.values(), *commit.changes], refused)
            except HoldersRefused as found:
                refused |= found.holders
            except NotUnique as error:
                if not self._frees(error, freeing):
                    raise

    def _frees(self, error: NotUnique, freeing: dict[bytes, Change]) -> bool:
        """Adds the change by which the owner of a taken value may give it up; whether there is another one."""
        change = None if error.holder in freeing else self._followers.of_expired(error.holder)
        if change is not None:
            freeing[error.holder] = change
        return change is not None

    def _attempt(
        self, store: CountedStore, commit: Commit, changes: Sequence[Change], refused: RefusedHolders
    ) -> list[bytes]:
        commit.is_deciding = False
        unit = self.new_unit(store)
        keys = [each.key for each in commit.swaps] if commit.swaps else []
        if FENCE_ROW not in keys:  # a commit that swaps the fence row has checked it
            if keys:  # in one request with the fence
                unit.load("system", [FENCE_ROW, *keys])
            self.check_writable(unit)
        basis = commit.basis
        now = store.now() if basis is None else basis.now
        if keys:
            swap(unit, now, commit.swaps)
        if basis is not None:
            check_unchanged(unit, basis)
        commit.is_deciding = True
        if basis is None:
            self.cascade(unit, now, refused).commit(changes)
        else:
            self._decide_in_turn(unit, changes, now, refused)
        return self._write(unit, commit, now)

    def _decide_in_turn(
        self, unit: UnitOfWork, changes: Sequence[Change], now: int, refused: RefusedHolders | None = None
    ) -> None:
        """Decides each change, with all that follows from it, before the next one."""
        going: dict[bytes, dict[bytes, None]] = {}
        unit.roots.going = going
        load_rows(unit, changes)
        for change in changes:  # one of them may make the source again whose delete comes before
            self.cascade(unit, now, refused).commit([change])
        unit.roots.going = None
        self.cascade(unit, now, refused).let_go(going)

    def _attempt_first(self, store: CountedStore, commit: Commit) -> list[bytes]:
        """The first attempt at a commit without swaps."""
        commit.is_deciding = False
        fence = store.read_values("system", [FENCE_ROW])[0]
        self._fence.check_writable(store, fence)
        unit, basis = None, commit.basis
        now = store.now() if basis is None else basis.now
        if basis is not None:
            unit = self._unit_behind(fence, store)
            check_unchanged(unit, basis)
        commit.is_deciding = True
        decided = self._decide_saves(store, commit, now)
        if decided is not None:
            commit.is_deciding = False
            if not decided.is_complete:
                return self._write_followed(unit or self._unit_behind(fence, store), commit, decided, now)
            store.write_decided(decided)
            _write_beside(store, commit, now)
            return []
        unit = unit or self._unit_behind(fence, store)
        if basis is not None:
            self._decide_in_turn(unit, commit.changes, now)
        elif len(commit.changes) == 1 and commit.changes[0].sequence is None:
            return self._attempt_one(unit, commit, now)
        else:
            self.cascade(unit, now).commit(commit.changes)
        return self._write(unit, commit, now)

    def _unit_behind(self, fence: Cell | None, store: CountedStore) -> UnitOfWork:
        unit = self.new_unit(store)
        unit.known("system")[FENCE_ROW] = None if fence is None else {VALUE: fence}
        return unit

    def _decide_saves(self, store: CountedStore, commit: Commit, now: int) -> DecidedSaves | None:
        """Lets compiled code decide all changes; None where Python has to. Writes nothing."""
        if not store.has_core or commit.unfollowed:
            return None
        numbered = [each for each in commit.changes if each.sequence is not None]
        if numbered:
            take_numbers(numbered, partial(_read_row, store), self.name_of)
        saves = _questions_of(commit.changes, partial(_read_root, store))
        if not saves:
            return None
        basis = commit.basis
        known = () if basis is None else (*basis.rows, *basis.followed)
        asked = SaveQuestions(saves, now, self._inline, known, basis is not None, self._followed)
        decided = store.decide_saves(asked)
        return decided if decided is not None and self._take_decided(commit.changes, decided) else None

    def _write_followed(self, unit: UnitOfWork, commit: Commit, decided: DecidedSaves, now: int) -> list[bytes]:
        """Writes what compiled code decided, with what follows from its rows of feeds and logs, by a unit of nothing.

        Returns the tasks that it leaves.
        """
        store, logs = unit.store, self._followers.logs
        read, (roots, views, *_others) = decided.rows.reads()[0], decided.rows.writes()
        after = store.decided_rows("roots", [row for row in roots if kind_part(row[0]) in logs])
        before = store.decided_rows("roots", [row for row in read if row[0] in after])
        changed = [key for key, row in after.items() if entity_in(row) != entity_in(before[key])]
        following = unit.follow_decided(store.decided_rows("views", views), changed, now)
        store.write_decided(decided, following)
        unit.write_changed()
        _write_beside(store, commit, now)
        return outbox.left_by(unit)

    def _take_decided(self, changes: Sequence[Change], decided: DecidedSaves) -> bool:
        """Gives changes what was decided; False where Python has to decide, for one of them or for what follows."""
        for change, saved in zip(changes, decided.saved, strict=True):
            if not change.take_saved(saved):
                return False
        return not decided.checked or all(itertools.starmap(self._followers.accepts, decided.checked))

    def _commit_compiled(self, commit: Commit, store: CompiledCommits, now: int) -> tuple[list[bytes], Requests] | None:
        """`Atomically.compiled` of a commit of changes alone."""
        if commit.swaps or commit.basis is not None or commit.beside or commit.jobs or commit.unfollowed:
            return None
        commit.is_deciding = True
        requests = self.commit_now(store, now, commit.changes)
        commit.is_deciding = False
        return None if requests is None else ([], requests)

    def commit_now(self, store: CompiledCommits, now: int, changes: Sequence[Change]) -> Requests | None:
        """Commits changes by compiled code alone, on what this program knows of the store; the requests of that.

        None, with nothing written, where only `commit` can, or refuses. Raises what changes raise.
        """
        fence = self._fence.needed
        if fence is None or any(each.sequence is not None for each in changes):
            return None
        try:
            saves = _questions_of(changes, partial(_look_at_root, store))
        except OnereadError:  # of a row that cannot be read, for one: it is raised again there
            return None
        if not saves:
            return None
        asked = SaveQuestions(saves, now, self._inline, followed=self._followed, rows=(fence,))
        requests = store.commit_compiled(asked, partial(self._take_whole, changes))
        size = len(fence[2]) if isinstance(fence[2], bytes) else 0
        return None if requests is None else ((1, size), *requests)

    def _take_whole(self, changes: Sequence[Change], decided: DecidedSaves) -> bool:
        """`_take_decided`, of what a unit has nothing to add to."""
        return decided.is_complete and self._take_decided(changes, decided)

    def _attempt_one(self, unit: UnitOfWork, commit: Commit, now: int) -> list[bytes]:
        """An attempt at a commit of one change.

        Where nothing follows from it but rows of its own, they are written at once: by a unit of work they are the
        same rows, by the same requests. Else the unit takes what was read and decided.
        """
        store, change = unit.store, commit.changes[0]
        seen, rows = load_alone(store, change, now)
        decision = (
            None if change.groups(seen) else change.decide(seen, next_version(now, seen.version, change.key), rows)
        )
        if decision is not None and self._is_plain and is_alone(decision):
            writes = writes_alone(store, change.key, decision, rows, self._followers.logs)
            commit.is_deciding = False
            writes.write(store)
            _write_beside(store, commit, now)
            return []
        unit.adopt(rows)
        cascade = self.cascade(unit, now)
        if decision is None:
            cascade.commit(commit.changes)
        else:
            cascade.commit_decided(change.key, decision)
        return self._write(unit, commit, now)

    def _write(self, unit: UnitOfWork, commit: Commit, now: int) -> list[bytes]:
        """Settles and writes a unit on which a commit was decided; returns the tasks that it leaves."""
        unit.unfollowed = commit.unfollowed
        if unit.followed or unit.showing:
            _report_followed(unit, commit.changes)
        unit.settle(now)
        commit.is_deciding = False
        unit.write(now)
        _write_beside(unit.store, commit, now)
        return outbox.left_by(unit)

    def step(self, run: Callable[[TaskStep], None]) -> Plan[None]:
        """Runs one step of a task in one transaction; again without the holders with which it cannot be written."""

        def attempt(store: CountedStore, refused: RefusedHolders) -> None:
            step = TaskStep(self, store, refused)
            run(step)
            step.unit.flush(step.now)

        return atomically(lambda store: _until_written(partial(attempt, store)))

    def decide(self, unit: UnitOfWork, changes: Sequence[Change], now: int) -> None:
        """Decides changes on an overlay, with everything that follows from them; writes nothing.

        Costs one read of all root rows and hints together; one scan and one read for each source that fans out.

        For each rank of groups: one read of their holders, one of the groups, and one scan for each extremum.
        """
        unit.roots.going = {}  # a change that follows may make their source again
        _until_written(partial(self._overlay, unit, now, changes))

    def refusals(self, items: Sequence[Sequence[Change]]) -> Plan[dict[int, OnereadError]]:
        """Decides items of changes in order and writes nothing; returns the places of those that are refused.

        Each is decided as if it were committed by itself after those before it that are not refused; so those can be
        committed together. One transaction: costs what its changes do, and a read more for each item with claims.
        """

        def run(store: CountedStore) -> dict[int, OnereadError]:
            unit = self.new_unit(store)
            now = store.now()
            unit.load("roots", wanted_rows([change for item in items for change in item]))
            refused: dict[int, OnereadError] = {}
            for place, item in enumerate(items):
                error = self._refusal(unit, now, item)
                if error is not None:
                    refused[place] = error
            return refused

        return atomically(run)

    def _refusal(self, unit: UnitOfWork, now: int, item: Sequence[Change]) -> OnereadError | None:
        """Decides an item on a unit; returns why it is refused, and then the unit is as before."""
        freeing: dict[bytes, Change] = {}
        while True:
            mark = unit.mark()
            changes = [*freeing.values(), *item]
            try:
                _until_written(partial(self._overlay, unit, now, changes, checked=True))
            except OnereadError as error:
                if not is_refusal(error):
                    raise
                unit.restore(mark)
                if not (isinstance(error, NotUnique) and self._frees(error, freeing)):
                    return error
            else:
                return None

    def _overlay(
        self, unit: UnitOfWork, now: int, changes: Sequence[Change], refused: RefusedHolders, *, checked: bool = False
    ) -> None:
        """Decides changes on a unit, which is as before when holders are refused.

        With `checked`, claims and sums are looked at as if the unit were settled.
        """
        mark = unit.mark()
        try:
            self.cascade(unit, now, refused).commit(changes)
            if checked:
                unit.check_since(mark)
        except HoldersRefused:
            unit.restore(mark)
            raise

    def follow(self, store: CountedStore, source: bytes, holder: bytes) -> SetAside | None:
        """Inside `together`: gives a holder its source's values; returns why it cannot have them, None when it has.

        One unit of work, written when the holder followed.
        """

        def attempt(refused: RefusedHolders) -> SetAside | None:
            unit = self.new_unit(store)
            now = store.now()
            key = outbox.aside_key(source, holder)
            if holder in self.cascade(unit, now, refused).follow(source, [holder]):
                return outbox.read_aside((key, unit.get("system", key) or {})).shown
            unit.remove("system", key)
            unit.flush(now)
            return None

        return _until_written(attempt)

    def follow_rows(self, keys: Sequence[bytes], swaps: Sequence[Swap]) -> Plan[None]:
        """One unit of work, which writes these rows again."""
        yield from self.together(partial(self._write_again, keys=keys), swaps)

    def _write_again(self, store: CountedStore, keys: Sequence[bytes]) -> None:
        unit, now = self.new_unit(store), store.now()
        unit.load("views", keys)
        for key in keys:
            row = unit.get("views", key)
            if row is not None:
                unit.put("views", key, row)
        unit.flush(now)

    def show_groups(self, store: CountedStore, groups: Sequence[Group]) -> None:
        """Inside `together`: gives the entities that show these groups their numbers as they are now."""
        unit, now = self.new_unit(store), store.now()
        self.cascade(unit, now).show_groups(groups)
        unit.flush(now)

    def cascade(self, unit: UnitOfWork, now: int, refused: RefusedHolders | None = None) -> Cascade:
        """Decides changes on a unit of work, and the copies that follow."""
        return Cascade(unit, now, self._followers, self._inline, refused)

    def check_writable(self, unit: UnitOfWork) -> None:
        """Raises SchemaMismatch unless this program may still write."""
        row = unit.load_one("system", FENCE_ROW)
        self._fence.check_writable(unit.store, None if row is None else row.get(VALUE))


def _questions_of(changes: Sequence[Change], seen: Callable[[bytes], Root]) -> tuple[SaveQuestion, ...] | None:
    """The question of each change; None where one has none."""
    questions: list[SaveQuestion] = []
    for change in changes:
        question = change.question(seen)
        if question is None:
            return None
        questions.append(question)
    return tuple(questions)


def _without_collector(function: Callable[P, T]) -> Callable[P, T]:
    """The function, while the garbage collector is paused."""

    def paused(*given: P.args, **named: P.kwargs) -> T:
        with PausedCollector():
            return function(*given, **named)

    return paused


def _look_at_root(store: CompiledCommits, key: bytes) -> Root:
    """The entity of a root row, and its own version."""
    cell = store.point("roots", key, BODY)
    return NO_ROOT if cell is None else Root(cell[1], cell[0], None, cell[1])


def _read_root(store: CountedStore, key: bytes) -> Root:
    found = store.read_root(key)
    return found if isinstance(found, EntityRow) else parse_root(found)


def _read_row(store: CountedStore, key: bytes) -> Row | None:
    found = store.read_root(key)
    return cells_of_entity(found) if isinstance(found, EntityRow) else found


class TaskStep:
    """One attempt at a step of a task, and its unit of work, which `NativeCommitter.step` writes."""

    def __init__(self, committer: NativeCommitter, store: CountedStore, refused: RefusedHolders) -> None:
        self.unit = committer.new_unit(store)
        self.now = 0
        self._committer = committer
        self._refused = refused
        self._cascade: Cascade | None = None

    def begin(self) -> None:
        """Checks that this program may still write, and reads the clock; before anything is decided."""
        self._committer.check_writable(self.unit)
        self.now = self.unit.store.now()
        self._cascade = self._committer.cascade(self.unit, self.now, self._refused)

    def follow(self, source: bytes, holders: Sequence[bytes]) -> list[bytes]:
        """Lets holders follow a source, and theirs follow them; returns those that could not."""
        assert self._cascade is not None, "a step begins before it decides"
        return self._cascade.follow(source, holders)

    def show_groups(self, groups: Sequence[Group]) -> None:
        """Lets the entities that show these groups follow them, and what follows from that."""
        assert self._cascade is not None, "a step begins before it decides"
        self._cascade.show_groups(groups)


def _table_of(followers: FollowChanges) -> bytes:
    """The feeds and change logs of a schema for compiled code; empty where there are none."""
    most, feeds = (0, ()) if followers.of_views is None else followers.of_views.table
    logs = [(prefix, *each) for prefix, each in followers.logs.items()]
    return _pack((logs, most, feeds)) if logs or feeds else b""


def _until_written(attempt: Callable[[RefusedHolders], T]) -> T:
    """Runs an attempt that writes a unit of work; again without the holders with which it could not be written.

    An attempt writes nothing before its unit is settled, so that the same transaction can begin again.
    """
    refused: dict[bytes, Exception] = {}
    while True:
        try:
            return attempt(refused)
        except HoldersRefused as found:
            refused |= found.holders


def _write_beside(store: CountedStore, commit: Commit, now: int) -> None:
    """What a commit does beside its changes."""
    if commit.jobs:
        store.replace_values("system", commit.jobs, now)
    for run in commit.beside:
        run(store)


def _report_followed(unit: UnitOfWork, changes: Iterable[Change]) -> None:
    """Gives changes whose rows were committed again, because a source of theirs changed, the rows as they are now."""
    for change in changes:
        if change.key in unit.followed or change.key in unit.showing:
            change.followed(unit.roots.root(change.key))
