"""The simulator: several processes over one engine, under every fault; what they leave is compared with an oracle.

    simulation = Simulation(17, schema)
    simulation.process("writer", [SaveStep(customer), PatchStep(Customer, (1,), {"name": "Bea"})])
    simulation.process("worker", [DrainStep(2)] * 10)
    simulation.run()  # raises Violation with the seed and the last requests

One seed is one history, to the last request. A store whose transactions span rows is audited after each of them, and an
oracle does the same steps. On one that changes one row at a time derived rows follow after the commit: each change of a
root row is looked at, and the audit comes when everything is recovered and done, before late requests and after. See
"The simulator" of the commit protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from random import Random as Chance
from typing import Any, Literal

from oneread.database.open import opened
from oneread.database.operations import Operations
from oneread.engines.memory import MemoryEngine
from oneread.engines.one_row_memory import Deletes, OneRowMemoryEngine
from oneread.errors import Conflict, OnereadError, OutcomeUnknown, Unavailable, UsageError
from oneread.evolution.schema import Schema
from oneread.plans.effects import Atomically
from oneread.plans.trace import Trace
from oneread.store.engine import Engine
from oneread.store.requests import CheckAndMutate, Read, Request, Scan
from oneread.store.rows import Row
from oneread.testing.audit import Audit, Offence
from oneread.testing.comparison import (
    Disagreement,
    check_waiting,
    compare,
    counts_in,
    has_stale_copy,
    is_one_moment,
    read_all,
    rewrite_all,
    run_tasks,
)
from oneread.testing.naive import look
from oneread.testing.naive_entities import Place, written_at
from oneread.testing.oracle import Oracle
from oneread.testing.processes import Crashed, Process, Processes, Strand, Undone
from oneread.testing.processes import Violation as Violation  # noqa: PLC0414 - programs import it from here
from oneread.testing.schedules import Fates, Policy
from oneread.testing.steps import DeleteStep, SaveStep, Step, UpsertStep
from oneread.transactions import outbox
from oneread.transactions.intents import JOURNAL, ChildRow, read_root, root_of_marker
from oneread.transactions.journal_commits import RowCommitter
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.root import BODY, NO_ROOT, VERSION, parse_root
from oneread.transactions.sequences import last_number
from oneread.transactions.system_commits import RowSystem
from oneread.transactions.tasks import TaskStepResult

_ROUNDS = 200


class Simulation(Processes):
    """One history.

    Arguments:
        seed: of every random decision.
        schema: compiled for the engine; a small `inline` makes tasks arise.
        span: of a commit: all rows, or one row, as on HBase and Bigtable.
        engine: an empty store whose transactions span rows; memory by default.
        fates: of requests; drawn by chance otherwise.
        policy: which process is next; drawn among the policies otherwise.
        deletes: what a store of one row does with older puts that come after a delete; drawn by chance otherwise.
    """

    def __init__(
        self,
        seed: int,
        schema: Schema,
        engine: Engine | None = None,
        fates: Fates | None = None,
        policy: Policy | None = None,
        *,
        span: Literal["rows", "row"] = "rows",
        deletes: Deletes | None = None,
    ) -> None:
        self._lateness = Chance(f"row {seed}")
        if span == "row":
            hides: Deletes = "hide" if self._lateness.randrange(2) else "remove"
            engine = OneRowMemoryEngine(deletes or hides)
        super().__init__(seed, schema, engine or MemoryEngine(), fates, policy)
        self.oracle = Oracle(*schema.models, *schema.views)
        self.oracle.clock_of = self._clock_of
        self.oracle.is_late = self._is_late
        self.oracle.waits = self._is_stored
        self.audit = Audit(self.engine, self.operations)
        self.blurred = False
        """Whether copies of a deleted source may have values that the oracle does not know, from here on."""
        self._changes: Counter[str] = Counter()
        """How many entities each step has changed, on a store that changes one row at a time."""
        self._changed: set[tuple[str, bytes]] = set()

    def _open(self, schema: Schema) -> Operations:
        if self.engine.capabilities.spans_rows:
            return self._driver.run(opened(schema, read_only=False), Trace())
        operations = self._driver.run(opened(schema, read_only=False, committer=RowSystem()), Trace())
        operations.outbox.leases = LeaseHolder(clock=lambda: self.now / 1000, new_owner=lambda: "the last worker")
        assert isinstance(operations.committer, RowCommitter)
        journal = operations.committer.journal
        journal.clock, journal.kept_tokens = lambda: self.now / 1000, 0
        return operations

    @property
    def _spans_rows(self) -> bool:
        return self.operations.spans_rows

    @property
    def _committer(self) -> RowCommitter:
        assert isinstance(self.operations.committer, RowCommitter)
        return self.operations.committer

    def prepare(self, *steps: Step) -> None:
        """Does steps at once and without any fault, before the processes start."""
        for step in steps:
            self._driver.run(step.plan(self.operations), Trace())
            if self._spans_rows:
                self._check(self.audit.check)
                step.expect(self.oracle)
        if not self._spans_rows and not self._has_group_tasks():
            self._check(self.audit.check)

    def _has_group_tasks(self) -> bool:
        """Whether what shows some groups is still to follow them."""
        return bool(self.engine.answer(Scan("system", outbox.GROUP_TASKS, 1)))

    # The end.

    def settle(self) -> None:
        """Ends and compares everything; saves every entity once more, or lets late requests land, and does it again."""
        self._rest()
        if self._spans_rows:
            self._check(lambda: rewrite_all(self.oracle, self.audit, self._driver, self.operations))
        while self._late:
            self._land()
        self._rest()

    def _rest(self) -> None:
        """Ends everything that is left, and compares the store with its entities, and these with the oracle."""
        if self._spans_rows:
            self._compare_with_oracle()
        else:
            self._recover()
        self._check(self.audit.check_at_rest)

    def _compare_with_oracle(self) -> None:
        # What has expired by any clock may be gone, so all clocks have got there.
        self.now = self.oracle.now = self.audit.clock = max(self.audit.clock, self.now)
        self._check(lambda: run_tasks(self.audit, self._driver, self.operations))
        self.oracle.delete_with_sources()
        self._check(lambda: check_waiting(self.oracle, self.audit, self.operations))
        self.oracle.settle()  # of what is late, a sweep or a commit may have removed some
        blurred = self.blurred or bool(self.audit.set_aside())
        self._check(lambda: compare(self.oracle, self._rows, blurred=blurred))

    def _rows(self, declaration: type, equal: tuple[Any, ...]) -> list[Any]:
        return read_all(self._driver, self.operations, declaration, equal)

    def _recover(self) -> None:
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

    @property
    def digest(self) -> str:
        """A digest of the history: every request, its fate, and the rows at the end."""
        tables = self.audit.stored.items()
        rows = [(table, key, sorted(row.items())) for table, found in tables for key, row in sorted(found.items())]
        text = "\n".join([*self.lines, *map(repr, rows)])
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def _is_late(self, view: type, place: tuple[type, tuple[Any, ...]]) -> bool:
        row = self.audit.stored["roots"].get(self.operations.kind(place[0]).key(place[1]))
        return counts_in(self.operations, view, row)

    def _clock_of(self, place: tuple[type, tuple[Any, ...]]) -> int:
        """The clock at the last commit of an entity, by its own stamps."""
        key = self.operations.kind(place[0]).key(place[1])
        row = self.audit.stored["roots"].get(key)
        root = NO_ROOT if row is None else parse_root(row)
        entity = self.operations.catalog.state(key, root).entity
        return root.version if entity is None else written_at(entity, root.version)

    # Steps.

    def _begin(self, process: Process) -> None:
        assert process.step is not None
        process.moments = [self._moment(process.step)] if process.step.reads else []

    def _moment(self, step: Step) -> object:
        """What a reader would see now; of a store on which what follows from a commit may be half done, nothing."""
        if not self._spans_rows:
            return None
        try:
            return look(self._driver.run(step.plan(self.operations), Trace()))
        except OnereadError as error:
            return type(error)

    def _finish(self, process: Process, value: object, error: OnereadError | None) -> None:
        step = process.step
        assert step is not None
        if error is not None:
            if not isinstance(error, UsageError | Conflict | Unavailable | OutcomeUnknown):
                raise error
            self._end_step(process, type(error).__name__)
            return
        if self._must_commit(step) and not process.commits and not self._changes[self._step_of(process)]:
            self._raise_violation(f"{step} was acknowledged and nothing was committed")
        if self._spans_rows and step.reads and not is_one_moment(look(value), process.moments):
            self._raise_violation(f"{step} showed what the store held at no moment: {look(value)!r}")
        self._end_step(process, "done")

    def _must_commit(self, step: Step) -> bool:
        """Whether a step that succeeds has changed something: on one row a patch to equal values has not."""
        if self._spans_rows:
            return step.writes
        return isinstance(step, UpsertStep) or (isinstance(step, SaveStep) and step.mode == "create")

    # Transactions.

    def _commit(self, strand: Strand, asked: Atomically[Any]) -> object:
        lagging = self._leaves_copies_behind(strand.process.step)
        try:
            result = self._transaction(strand, asked)
        except (Crashed, OnereadError) as failure:
            self._check(self.audit.check_unchanged)
            self._check_refusal(strand.process, failure)
            raise
        self._check_commit(strand.process, lagging=lagging)
        return result

    def _undo(self, strand: Strand, asked: Atomically[Any]) -> None:
        try:
            self._transaction(strand, asked, undone=True)
        except (Undone, Crashed, OnereadError) as failure:
            self._note(strand.process, f"undone: {type(failure).__name__}")
        self._check(self.audit.check_unchanged)

    def _check_commit(self, process: Process, *, lagging: bool) -> None:
        """After a commit: audits the store, and does the step to the oracle."""
        self.audit.clock = max(self.audit.clock, self._clock(process))
        self._check(self.audit.check)
        step = process.step
        assert step is not None
        process.commits += 1
        self.oracle.now = self._clock(process)
        self.oracle.drop_swept(self._is_stored)
        self.oracle.delete_with_sources()
        if step.writes:
            if process.commits > 1:
                self._raise_violation("one step committed twice")
            self.oracle.took_deleted = False
            refusal = self._expect(step)
            if refusal is not None:
                self._raise_violation(f"{step} was accepted; expected {type(refusal).__name__}")
            self.blurred = self.blurred or lagging or (self.oracle.took_deleted and self.audit.pending)
        for other in self._processes:
            if other.step is not None and other.step.reads:
                other.moments.append(self._moment(other.step))

    def _is_stored(self, place: Place) -> bool:
        """Whether an entity was there at the last check."""
        return self.audit.is_stored(self.operations.kind(place[0]).key(place[1]))

    def _leaves_copies_behind(self, step: Step | None) -> bool:
        """Whether this deletes a source whose last values have not reached all of its copies yet."""
        if not isinstance(step, DeleteStep) or not self.audit.pending:
            return False
        return has_stale_copy(self.oracle, self.audit, self.operations, step.model, step.key)

    def _check_refusal(self, process: Process, failure: Exception) -> None:
        """Checks that the oracle refuses the step with the same error."""
        step = process.step
        if not isinstance(failure, UsageError) or step is None or not step.writes:
            return
        self.oracle.now = self._clock(process)
        refusal = self._expect(step)
        if type(refusal) is not type(failure):
            self._raise_violation(f"{step}: {failure!r}; expected {refusal!r}")

    def _expect(self, step: Step) -> UsageError | None:
        """Does a step to the oracle, all of it or nothing; returns why the oracle refused."""
        held, ever = dict(self.oracle.held), set(self.oracle.ever)
        try:
            step.expect(self.oracle)
        except UsageError as refusal:
            self.oracle.held, self.oracle.ever = held, ever
            return refusal
        return None

    # Changes of one row.

    def _apply(self, asked: Request[Any], step: str) -> Any:
        if not isinstance(asked, CheckAndMutate) or asked.table != "roots":
            return self.engine.answer(asked)
        (before,) = self.engine.answer(Read("roots", [asked.mutation.key], "dm"))
        answer = self.engine.answer(asked)
        if answer:
            self._check_root(asked.mutation.key, before)
            self._check_once(asked, step)
        return answer

    def _check_once(self, asked: CheckAndMutate, step: str) -> None:
        """A step changes the own fields of an entity once, however often its requests are made."""
        cells = asked.mutation.puts
        changed: list[bytes] = []
        if outbox.is_group_root(asked.mutation.key):
            return
        if BODY in cells and cells[BODY].stamp == cells[VERSION].stamp:  # a copy that follows keeps the own version
            changed.append(asked.mutation.key)
        intents = read_root(asked.mutation.key, cells).intents if VERSION in cells else None
        if intents is not None:
            changed += [each.key for each in intents.children if each.own in (0, intents.version)]
        for place in [(step, key) for key in changed]:
            if place in self._changed:
                self._raise_violation(f"{step} changed an entity twice")
            self._changed.add(place)
            self._changes[step] += 1

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

    def _check(self, check: Callable[[], None]) -> None:
        try:
            check()
        except (Offence, Disagreement) as offence:
            self._raise_violation(str(offence))
