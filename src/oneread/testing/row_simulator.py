"""The simulator over a store that changes one row at a time: every request of every process meets its own fate.

A request may also be late: its caller has given up, and it is done at any later time, after recovery too. At the end
everything is recovered and drained, and the store must hold exactly what follows from its entities. See "The simulator"
of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random as Chance
from typing import Any, Final

from oneread.counters.rows import MARKS as COUNTER_MARKS
from oneread.counters.rows import PREFIXES as COUNTER_PREFIXES
from oneread.database.open import opened
from oneread.derivations.catalog import Catalog
from oneread.derivations.copy_cells import LaidCopies
from oneread.derivations.emitted_record import RecordedPointers
from oneread.engines.one_row_memory import Deletes, OneRowMemoryEngine
from oneread.errors import Conflict, OnereadError, OutcomeUnknown, Unavailable, UsageError
from oneread.evolution.schema import Schema
from oneread.feeds.entries import Entries, Kept, kept_row
from oneread.feeds.feed_view import FeedView
from oneread.feeds.row_entries import NONE_HIDDEN, entry_row, is_entry, was_trimmed
from oneread.plans.trace import Trace
from oneread.store.engine import Engine
from oneread.store.keys import VIEW_BYTES, pointer_part, view_part
from oneread.store.requests import CheckAndMutate, Mutate, Read, Request, Scan
from oneread.store.rows import REMOVED, VALUE, Row, RowRange
from oneread.testing.audit import Audit, TableReads
from oneread.testing.row_groups_audit import hidden_of, shown_entries
from oneread.testing.schedules import Fates, Policy
from oneread.testing.simulator import Simulation, _Process, _Strand
from oneread.testing.steps import SaveStep, Step, UpsertStep
from oneread.transactions import outbox
from oneread.transactions.intents import JOURNAL, ChildRow, read_root, root_of_marker, root_row
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.outbox import is_group_root
from oneread.transactions.root import BODY, VERSION
from oneread.transactions.row_commits import RowCommitter
from oneread.transactions.row_system import RowSystem
from oneread.transactions.sequences import NumberSequence, last_number
from oneread.transactions.tasks import TaskStepResult

_LATE: Final = 0.1
_ROUNDS: Final = 200


class LogicalRows:
    """The rows of such a store as one whose transactions span rows would hold them."""

    def __init__(self, engine: Engine, catalog: Catalog) -> None:
        self._engine = engine
        self._cells = LaidCopies(catalog)
        feeds = [Entries(view) for view in catalog.views.values() if isinstance(view, FeedView)]
        self._trimmed = [each for each in feeds if each.view.kept is not None]
        self._large = {each.prefix: each for each in feeds if each.view.large is not None}
        self._recorded = RecordedPointers()

    def answer(self, asked: Scan) -> list[tuple[bytes, Row]]:
        stored: list[tuple[bytes, Row]] = self._engine.answer(asked)
        if asked.table == "roots":
            entities = [(key, each) for key, each in stored if not is_group_root(key)]
            laid = [(key, root_row(self._cells.lay(key, each))) for key, each in entities]
            return [(key, row) for key, row in laid if row is not None]
        living = [(key, row[VALUE]) for key, row in stored if VALUE in row and row[VALUE].value != REMOVED]
        if asked.table == "views":
            others = [(key, row) for key, row in stored if VALUE not in row and view_part(key) not in self._large]
            entries = [(key, entry_row(row)) for key, row in others]
            rows = [(key, {VALUE: cell}) for key, cell in living if self._is_meant(key)]
            rows += [each for each in entries if is_entry(each)]
            rows += [each for feed in self._large.values() for each in shown_entries(feed, stored)]
            return sorted(rows + [each for feed in self._trimmed for each in _kept_rows(feed, stored)])
        if asked.table == "counts":
            marks = [(key, next(iter(row.values()))) for key, row in stored if key.startswith(COUNTER_MARKS)]
            counted = [*map(self._counted, living), *marks]
            return sorted((key, {VALUE: cell}) for key, cell in counted if cell is not None)
        return [(_shared(key), {VALUE: cell}) for key, cell in living]

    def _root(self, key: bytes) -> Any:
        (row,) = self._engine.answer(Read("roots", [key], "dm"))
        return read_root(key, row).root

    def _is_meant(self, key: bytes) -> bool:
        """Whether a row is meant: back-references and holds of attempts that were not committed are not."""
        if pointer_part(key) not in (outbox.BACK_REFERENCES, outbox.HOLDS):
            return True
        stored = self._engine.answer(Scan("roots", RowRange(b"", b""), 1 << 30, families="dm"))
        roots = [each for each, _row in stored if key.endswith(each) and not is_group_root(each)]
        return any(key in self._recorded.pointers(each, self._root(each)) for each in roots)

    def _counted(self, found: tuple[bytes, Any]) -> tuple[bytes, Any]:
        """A sum as it is; of a claim, its owner, or None if it has not the value."""
        key, cell = found
        (row,) = self._engine.answer(Read("counts", [key], "dm"))
        if len(row) > 1 or key[:VIEW_BYTES] in COUNTER_PREFIXES:
            return key, cell
        owner = cell.value[8:]
        return key, type(cell)(owner, cell.stamp) if key in self._recorded.claims(self._root(owner)) else None


def meant_rows(engine: Engine, catalog: Catalog) -> TableReads:
    """The rows of any store as one whose transactions span rows holds them."""
    return engine if engine.capabilities.spans_rows else LogicalRows(engine, catalog)


def _kept_rows(feed: Entries, stored: Sequence[tuple[bytes, Row]]) -> Iterable[tuple[bytes, Row]]:
    """How many entries each member has, and the newest one that was trimmed: counted here, and kept elsewhere."""
    kept: dict[bytes, Kept] = {}
    hidden = hidden_of(feed, stored)
    for key, row in stored:
        if view_part(key) == feed.prefix:
            member = feed.member_in(key)
            before = kept.get(member, Kept())
            is_newest = was_trimmed(row) and not before.trimmed
            trimmed = feed.tail_of(key) if is_newest else before.trimmed
            kept[member] = Kept(before.entries + bool(entry_row(row, hidden.get(member, NONE_HIDDEN))), trimmed)
    assert feed.view.kept is not None, "asked only of feeds with at_most"
    return [(feed.view.kept + member, kept_row(each, 0)) for member, each in kept.items() if each != Kept()]


def _shared(key: bytes) -> bytes:
    """The key of a row of `system`, of a task the one that it has where all changes of a source have the same."""
    return outbox.unversioned(key) if key.startswith(outbox.TASKS.start) else key


def _always_changes(step: Step | None) -> bool:
    """Whether a step that succeeds has committed a change of an entity."""
    return isinstance(step, UpsertStep) or (isinstance(step, SaveStep) and step.mode == "create")


class RowSimulation(Simulation):
    """One history. `deletes` is what the store does with older puts that come after a delete."""

    def __init__(
        self,
        seed: int,
        schema: Schema,
        fates: Fates | None = None,
        policy: Policy | None = None,
        deletes: Deletes | None = None,
    ) -> None:
        chance = Chance(f"row {seed}")
        hides: Deletes = "hide" if chance.randrange(2) else "remove"
        engine = OneRowMemoryEngine(deletes or hides)
        super().__init__(seed, schema, engine, fates, policy)
        self._committer.journal.clock = lambda: self.now / 1000
        self._committer.journal.kept_tokens = 0
        self._late: list[tuple[Request[Any], str]] = []
        self._committed: set[tuple[str, bytes]] = set()
        self._steps_done: set[str] = set()
        self._lateness = chance

    def _open(self, schema: Schema) -> Any:
        operations = self._driver.run(opened(schema, read_only=False, committer=RowSystem()), Trace())
        operations.outbox.leases = LeaseHolder(clock=lambda: self.now / 1000, new_owner=lambda: "the last worker")
        return operations

    def _audit(self) -> Audit:
        return Audit(LogicalRows(self.engine, self.operations.catalog), self.operations)

    @property
    def _committer(self) -> RowCommitter:
        assert isinstance(self.operations.committer, RowCommitter)
        return self.operations.committer

    def prepare(self, *steps: Step) -> None:
        for step in steps:
            self._driver.run(step.plan(self.operations), Trace())
        if not self._has_group_tasks():
            self._check(self.audit.check)

    def _has_group_tasks(self) -> bool:
        """Whether what shows some groups is still to follow them."""
        return bool(self.engine.answer(Scan("system", outbox.GROUP_TASKS, 1)))

    def _serve(self, strand: _Strand) -> None:
        if self._late and self._lateness.random() < _LATE:
            self._land()
        super()._serve(strand)

    def _land(self) -> None:
        """Does one of the late requests."""
        asked, step = self._late.pop(self._lateness.randrange(len(self._late)))
        self.lines.append(f"{self._steps} late: {type(asked).__name__}")
        self._apply(asked, step)

    def _apply(self, asked: Request[Any], step: str) -> Any:
        before = None
        if isinstance(asked, CheckAndMutate) and asked.table == "roots":
            (before,) = self.engine.answer(Read("roots", [asked.mutation.key], "dm"))
        answer = self.engine.answer(asked)
        if isinstance(asked, CheckAndMutate) and asked.table == "roots" and answer:
            self._check_root(asked.mutation.key, before)
            self._check_once(asked, step)
        return answer

    def _check_once(self, asked: CheckAndMutate, step: str) -> None:
        """A step changes the own fields of an entity once, however often its requests are made."""
        cells = asked.mutation.puts
        changed: list[bytes] = []
        if is_group_root(asked.mutation.key):
            return
        if BODY in cells and cells[BODY].stamp == cells[VERSION].stamp:  # a copy that follows keeps the own version
            changed.append(asked.mutation.key)
        intents = read_root(asked.mutation.key, cells).intents if VERSION in cells else None
        if intents is not None:
            changed += [each.key for each in intents.children if each.own in (0, intents.version)]
        for place in [(step, key) for key in changed]:
            if place in self._committed:
                self._raise_violation(f"{step} changed an entity twice")
            self._committed.add(place)
            self._steps_done.add(step)

    def _step_of(self, process: _Process) -> str:
        return f"{process.name} {process.begun}"

    def _check_root(self, key: bytes, before: Row | None) -> None:
        (row,) = self.engine.answer(Read("roots", [key], "dm"))
        seen, then = read_root(key, row), read_root(key, before)
        if seen.version < then.version:
            self._raise_violation(f"a version went back: {then.version} to {seen.version}")
        if seen.intents is not None:
            markers = self.engine.answer(Scan("system", JOURNAL, 1 << 30))
            if key not in {root_of_marker(each) for each, _row in markers}:
                self._raise_violation("a row has intents and no marker")
            self._check_numbers(seen.intents.children, before)

    def _check_numbers(self, children: Sequence[ChildRow], before: Row | None) -> None:
        """A number that a commit gives was never given before."""
        catalog = self.operations.catalog
        for each in children:
            taken = catalog.taken_number(each.key)
            if taken is not None and taken.number > last_number(before, taken.sequence):
                (row,) = self.engine.answer(Read("roots", [each.key], "dm"))
                if row is not None:
                    self._raise_violation(f"{catalog.name_of(each.key)} has a number that was given before")

    def _perform(self, strand: _Strand) -> object:
        return self._apply(strand.asked, self._step_of(strand.process))

    def _lose(self, strand: _Strand) -> None:
        asked = strand.asked
        if isinstance(asked, (Mutate, CheckAndMutate)) and self._lateness.randrange(2):
            self._note(strand.process, "late")
            self._late.append((asked, self._step_of(strand.process)))
            self._resume(strand, None, OutcomeUnknown("simulated: no answer in time"))
            return
        super()._lose(strand)

    def _finish(self, process: _Process, value: object, error: OnereadError | None) -> None:  # noqa: ARG002 - of the base class
        if error is not None and not isinstance(error, UsageError | Conflict | Unavailable | OutcomeUnknown):
            raise error
        if error is None and _always_changes(process.step) and self._step_of(process) not in self._steps_done:
            self._raise_violation(f"{process.step} was acknowledged and nothing was committed")
        self._end_step(process, "done" if error is None else type(error).__name__)

    def _moment(self, step: Step) -> None:
        """Readers are not compared: what follows from a commit may be half applied."""

    def settle(self) -> None:
        """Recovers and drains, lets every late request land, does both again, and audits the store each time."""
        self._rest()
        while self._late:
            self._land()
        self._rest()

    def _rest(self) -> None:
        self.now += 60_000
        self._driver.run(self._committer.recovery.recover(patience=0.0), Trace())
        for _ in range(_ROUNDS):
            self.now += 20_000
            if self._driver.run(self.operations.drain_step(50), Trace()) is TaskStepResult.IDLE:
                break
        else:
            self._raise_violation(f"tasks are left after {_ROUNDS} batches")
        if self.engine.answer(Scan("system", JOURNAL, 1)):
            self._raise_violation("a marker is left after recovery")
        self._check(self.audit.check)
        if self.audit.pending or self._has_group_tasks():
            self._raise_violation("tasks are left")
        self._check(self.audit.check_totals)
        self._check_holds()
        self._check_groups()

    def _check_groups(self) -> None:
        """Every number of a sequence was given to one child, and no child is newer than its root."""
        catalog = self.operations.catalog
        stored = self.engine.answer(Scan("roots", RowRange(b"", b""), 1 << 30, families="dm"))
        rows = {key: row for key, row in stored if root_row(row) is not None and not is_group_root(key)}
        given: dict[NumberSequence, set[int]] = {}
        for key, row in rows.items():
            taken, root = catalog.taken_number(key), catalog.group_of(key)
            if taken is not None:
                given.setdefault(taken.sequence, set()).add(taken.number)
            if row[VERSION].stamp > rows[root][VERSION].stamp:
                self._raise_violation(f"{catalog.name_of(key)} is newer than its root")
        for sequence, numbers in given.items():
            if numbers != set(range(1, 1 + last_number(rows[sequence.root], sequence))):
                self._raise_violation(f"the numbers of {catalog.name_of(sequence.root)} are {sorted(numbers)}")

    def _check_holds(self) -> None:
        """What entities refer to with `on_delete="refuse"` exists."""
        catalog = self.operations.catalog
        for key, entity in self.audit.entities().items():
            for each in catalog.type_of(entity).holding:
                for source in each.keys(entity):
                    if not self.audit.is_stored(source):
                        self._raise_violation(f"{catalog.name_of(key)} refers to {catalog.name_of(source)}, deleted")
