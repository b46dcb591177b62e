"""Old code and new code on one store while backfills run and die: a seed decides which process is next.

Each process is a list of steps under one of two schemas; a turn is one request, or one whole transaction. The new
schema has views that the old one lacks or declares otherwise. When the old code is done, or was fenced off, the
backfill is brought to its end, and the audit compares every row of the store with what its entities say.
"""

from random import Random
from typing import ClassVar

from msgspec.structs import replace

from oneread import Schema
from oneread.database.open import opened
from oneread.derivations.schema_rows import replace_schema, stored_schema
from oneread.engines.memory import MemoryEngine
from oneread.errors import Conflict, NotReady, OnereadError, SchemaMismatch, UsageError
from oneread.evolution.backfill import BackfillOptions
from oneread.models.model import stored_name
from oneread.models.versions import Retired
from oneread.plans.effects import Atomically, Now, Sleep
from oneread.plans.effects import Random as Chance
from oneread.plans.inside import run_plan
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import Request
from oneread.testing.audit import Audit, Offence
from oneread.testing.steps import DrainStep, Step
from tests.simulation.schema import (
    City,
    Customer,
    CustomersOfEmail,
    CustomersOfLand,
    CustomersOfOrigin,
    Product,
    Purchase,
    PurchasesAlso,
    PurchasesOfBuyer,
    PurchasesOfTown,
    Region,
    SalesOfProduct,
    SalesOfTown,
)
from tests.simulation.world import ACTS, KEPT, PENDING, STEPS, WRITES, beginning

MODELS = (Region, City, Customer, Product, Purchase)
VIEWS = (
    CustomersOfEmail,
    CustomersOfLand,
    CustomersOfOrigin,
    PurchasesAlso,
    PurchasesOfBuyer,
    PurchasesOfTown,
    SalesOfProduct,
    SalesOfTown,
)
START = 1_700_000_000_000
QUIET, RUNS = 0.05, 12


class Found(AssertionError):
    """Something that must hold does not: with the seed, and what was done last."""


class Process:
    """Steps of one program, one after the other."""

    def __init__(self, name, operations, steps):
        self.name, self.operations, self.steps = name, operations, iter(steps)
        self.plan = None
        self.asked = None
        self.wake = 0


class TwoSchemas:
    """One history."""

    views = VIEWS
    over: ClassVar[dict[type, type]] = {}
    """Indexes over groups, and the aggregate of each: it is new or changed when that is."""

    def __init__(self, seed, *, changed=True):
        self.seed, self.chance, self.now = seed, Random(seed), START
        self.lines = []
        self.engine = MemoryEngine()
        self.driver = SyncDriver(self.engine, lambda: self.now, self.chance.random)
        lacking = set(self.chance.sample(self.views, self.chance.randint(1, 5)))
        lacking.update(index for index, aggregate in self.over.items() if aggregate in lacking)
        self.old = self.open(*(view for view in self.views if view not in lacking))
        for step in (*beginning(), *PENDING[: seed % 3]):
            self.drive(step.plan(self.old))
        self.added = lacking
        self.new = self.open(*self.views)
        self.changed = set()
        if changed and self.chance.random() < 0.3:
            self.change(self.chance.choice([view for view in self.views if view not in lacking]))
        self.building = lacking | self.changed
        self.results, self.is_built, self.overtaken = [], False, False
        self.processes = self.programs()

    def open(self, *views):
        return self.drive(opened(Schema(*MODELS, *views, inline=2), read_only=False))

    def drive(self, plan):
        return self.driver.run(plan, Trace())

    def change(self, view):
        """What opening a store with a changed view comes to: one generation more, and older code may not write."""

        changed = {view, *(index for index, aggregate in self.over.items() if aggregate is view)}

        def changing(store):
            stored = run_plan(store, stored_schema())
            several = {stored_name(each) for each in changed}
            names = [name for name in stored.views if name.split(".")[0] in several]
            views = dict(stored.views)
            retired = [Retired(name, views[name].number, views[name].generation) for name in names]
            for name in names:
                views[name] = replace(views[name], generation=views[name].generation + 1, state="building")
            stored = replace(stored, views=views, retired=tuple(retired), writers=stored.version)
            replace_schema(store, stored, self.now)

        self.drive(Atomically(changing).__iter__())
        self.changed |= changed
        self.new = self.open(*self.views)

    def programs(self):
        def writer():
            chance = Random(self.chance.random())
            weights, made = zip(*(WRITES + KEPT if self.seed % 2 else WRITES), strict=True)
            return [step(chance) for step in chance.choices(made, weights, k=ACTS)]

        return [
            Process("old writer", self.old, writer() * 2),
            Process("new writer", self.new, writer()),
            Process("old worker", self.old, [DrainStep(2)] * STEPS),
            Process("new worker", self.new, [DrainStep(2)] * STEPS),
            *(Process(f"backfill {number}", self.new, self.backfills()) for number in range(1 + self.seed % 2)),
        ]

    def backfills(self):
        """One run of a backfill after the other, begun again when it dies, until it is done or gives up."""
        for _ in range(RUNS):
            if not self.is_built:
                yield self

    def plan(self, verbs):
        options = BackfillOptions(quiet=QUIET, wait=0.2, fence=self.chance.random() < 0.3)
        return verbs.backfill(options).run()

    # Which process is next.

    def run(self):
        living = list(self.processes)
        while living:
            ready = [each for each in living if each.wake <= self.now]
            if not ready:
                self.now = min(each.wake for each in living)
                continue
            process = self.chance.choice(ready)
            if not self.advance(process):
                living.remove(process)
            self.now += self.chance.choice((0, 0, 1, 3, 40))
            if not self.is_built:
                self.nothing_half_built_is_served()
        self.end()

    def advance(self, process):
        """One request of a process; False when it has ended."""
        if process.plan is None:
            step = next(process.steps, None)
            if step is None:
                return False
            process.doing = str(step) if isinstance(step, Step) else "backfill"
            process.plan = step.plan(process.operations)
            return self.answer(process, None)
        if process.doing == "backfill" and self.chance.random() < 0.03:
            self.note(process, "killed")
            process.plan.close()
            process.plan = None
            return True
        try:
            answer = self.perform(process.asked)
        except OnereadError as error:
            return self.answer(process, None, error)
        if process.doing == "backfill" and type(process.asked) is Atomically and self.chance.random() < 0.05:
            self.note(process, "killed behind its commit")
            process.plan.close()
            process.plan = None
            if not self.is_built and not self.drive(stored_schema()).unfinished:  # that commit was the last one
                self.built()
                self.is_built = True
            return True
        return self.answer(process, answer)

    def answer(self, process, answer, error=None):
        while True:
            try:
                asked = process.plan.send(answer) if error is None else process.plan.throw(error)
            except StopIteration as stop:
                self.note(process, "done")
                self.ended(process, stop.value)
                process.plan = None
                return True
            except OnereadError as failure:
                self.note(process, f"{type(failure).__name__}: {failure}")
                process.plan = None
                return self.refused(process, failure)
            error = None
            if type(asked) is Now:
                answer = self.now
            elif type(asked) is Sleep:
                process.wake = self.now + round(asked.seconds * 1000)
                answer = None
            elif type(asked) is Chance:
                answer = self.chance.random()
            else:
                process.asked = asked
                return True

    def perform(self, asked):
        if isinstance(asked, Request):
            return self.engine.answer(asked)
        return self.driver.run(iter_of(asked), Trace())

    def ended(self, process, value):
        if process.doing != "backfill":
            return
        self.results.append(value)
        if value.done:
            if not self.is_built:
                self.built()
            self.is_built = True

    def refused(self, process, failure):
        """Whether the process continues."""
        if isinstance(failure, SchemaMismatch):
            if process.operations is not self.old:
                self.violated(f"new code was refused: {failure}")
            self.overtaken = True
            return False
        if not isinstance(failure, UsageError | Conflict):
            raise failure
        return True

    # What must hold.

    def built(self):
        """At the moment the views become readable all of it is in them; tasks may still be on their way."""
        self.note(None, "mark_built")
        self.audited()
        stored = self.drive(stored_schema())
        if stored.unfinished or stored.writers != stored.version:
            self.violated(f"not finished: {stored}")
        for table in ("views", "counts"):
            for key in Audit(self.engine, self.new).stored[table]:
                if key[:2] not in (b"\x00\x00", b"\xff\xff") and key[:4] not in self.prefixes():
                    self.violated(f"a row of a generation that is gone: {table} {key!r}")

    def prefixes(self):
        return {
            view.number.to_bytes(2, "big") + view.generation.to_bytes(2, "big")
            for view in self.drive(stored_schema()).views.values()
        }

    def nothing_half_built_is_served(self):
        fresh = self.new.fence
        for view in self.building:
            try:
                fresh.check(view)
            except NotReady:
                continue
            self.violated(f"{view.__name__} was served half-built")

    def audited(self):
        try:
            Audit(self.engine, self.new).check()
        except (Offence, OnereadError) as offence:
            self.violated(str(offence))

    def end(self):
        """Old code has ended: the backfill ends, once nothing stands in its way, and everything is right."""
        for _ in range(3):
            result = self.drive(self.new.backfill(BackfillOptions(fence=True)).run())
            if result.done:
                break
            for number in range(1, 6):  # a unique value twice: the operator decides
                self.unshared(number)
        else:
            self.violated(f"a backfill does not end: {result}")
        while self.drive(self.new.drain_step(2)):
            pass
        self.drive(self.new.refresh())
        for view in self.views:
            self.new.fence.check(view)
        self.audited()
        self.old_code_is_refused()

    def unshared(self, number):
        for act in (
            lambda: self.new.patch(Customer, (number,), {"email": None}, None),
            lambda: self.new.patch(Purchase, (number,), {"also": []}, None),
        ):
            try:
                self.drive(act())
            except UsageError as error:
                self.note(None, f"{error!r}")

    def old_code_is_refused(self):
        before = Audit(self.engine, self.new).stored
        try:
            self.drive(self.old.save(Region(code=1, name="late")))
        except SchemaMismatch:
            pass
        else:
            self.violated("old code wrote to a store that was taken over")
        if before != Audit(self.engine, self.new).stored:
            self.violated("a refused write left something behind")

    def note(self, process, line):
        name = "" if process is None else f"{process.name} {process.doing}"
        self.lines.append(f"@{self.now - START} {name}: {line}")

    def violated(self, what):
        raise Found("\n".join([f"seed {self.seed}: {what}", f"added {self.added}", *self.lines[-40:]]))


def iter_of(asked):
    return (yield from asked)
