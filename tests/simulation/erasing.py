"""A world in which people are erased, on either kind of store, beside writers; and rules broken on purpose.

An erasure dies, or its requests are lost and come late; its receipt says that it is not done. At the end all that were
begun are erased again without faults. Then nothing of these people may be left in any row, but for the keys of removed
rows, which the purge takes.
"""

from random import Random

from oneread import (
    GENERATED,
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    count,
    least,
    reference,
    shown,
    within,
)  # fmt: skip
from oneread.database.cell_scrub import CellScrub
from oneread.database.continued_erasures import ContinuedErasures
from oneread.database.erasing import EntityErasure, receipts
from oneread.database.erasure_steps import ErasureSteps
from oneread.database.purge import Purge
from oneread.derivations import decisions
from oneread.derivations.copy_cells import LaidCopies
from oneread.derivations.emitted_record import RecordedPointers
from oneread.derivations.erasing import Erase
from oneread.plans.effects import Sleep
from oneread.plans.trace import Trace
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import REMOVED, TABLES, VALUE, RowRange
from oneread.testing.comparison import run_tasks
from oneread.testing.processes import JUMPS
from oneread.testing.schedules import ByChance
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DeleteStep, DrainStep, PatchStep, SaveStep, Step
from oneread.transactions.copy_follower import _Page
from oneread.transactions.grace import LEAST_GRACE
from oneread.transactions.leases import LeaseHolder
from tests.simulation.breaking import edit
from tests.simulation.row_purging import SleepStep
from tests.simulation.row_world import CALM, RecoverStep, work_of

PEOPLE, ERASED, ACTS, MOST_STEPS = 3, 2, 8, 500
SECRETS = [f"secret {number}".encode() for number in range(ERASED)]
"""What the values of the people who are erased begin with."""


class Person(Model[int]):
    number: Key[int]
    name: str
    mail: str | None = None


class Known(Copy[Person]):
    """Something follows from it, unlike from the next ones."""

    missing_ok = True
    name: str


class Shown(Copy[Person]):
    missing_ok = True
    name: str
    mail: str | None


class Cleared(Copy[Person]):
    on_delete = "clear"
    missing_ok = True
    name: str


class Refusing(Copy[Person]):
    on_delete = "refuse"
    missing_ok = True
    name: str


class Deal(Model[int]):
    number: Key[int]
    buyer: Known | None = None
    seller: Shown | None = None
    witness: Cleared | None = None
    guarantor: Refusing | None = None
    size: int = 0


class OfDeal(Copy[Deal]):
    """What is copied again, of a copy in an index and of one from which else nothing follows."""

    missing_ok = True
    buyer: str | None = within(Deal.buyer, Known.name)
    seller: str | None = within(Deal.seller, Shown.name)


class Line(Model[int]):
    number: Key[int]
    deal: OfDeal


class OfLine(Copy[Line]):
    missing_ok = True
    buyer: str | None = within(Line.deal, OfDeal.buyer)


class Note(Model[int]):
    number: Key[int]
    line: OfLine


class Login(Model[int]):
    number: Key[int]
    of: Ref[Person] = reference(on_delete="delete")
    word: str = ""


class Photo(Model[int, int]):
    child_of = Person

    number: Key[int]
    photo: Key[int] = GENERATED
    title: str = ""


class DealsOfName(Index[Deal]):
    name: str | None = by(within(Deal.buyer, Known.name), none="last")
    size: int = shown(Deal.size)


class PersonOfMail(Index[Person]):
    unique = True
    mail: str | None = by(Person.mail, hashed=True)


class Sizes(Aggregate[Deal]):
    size: int = by(Deal.size)
    deals: int = count()
    first: str | None = least(within(Deal.buyer, Known.name))


MODELS = Person, Deal, Line, Note, Login, Photo
PEOPLES = Schema(*MODELS, DealsOfName, PersonOfMail, Sizes, inline=1)


class Act(Step, frozen=True):
    """A step of another program; no oracle follows it, since that erases nothing."""

    step: Step

    def __str__(self):
        return str(self.step)

    def plan(self, operations):
        return self.step.plan(operations)

    def expect(self, _oracle, _versions=()):
        return []


class EraseStep(Step, frozen=True):
    """`db.erase(Person, number)`."""

    number: int
    simulation: "ErasureSimulation"

    def __str__(self):
        return f"erase {self.number}"

    def plan(self, _operations):
        self.simulation.begun.add(self.number)
        return erasure(self.simulation, self.number).run()


class ContinueStep(Step, frozen=True):
    """A step of a worker that continues erasures."""

    look: ContinuedErasures

    def __str__(self):
        return "continue"

    def plan(self, _operations):
        return self.look.step()


def leases_of(simulation, name):
    """Those of a worker; a paused process sleeps for longer."""
    return LeaseHolder(0.5, lambda: simulation.now / 1000, lambda: name)


def erasure(simulation, number):
    return EntityErasure(simulation.operations, simulation.engine.capabilities, Person, (number,))


class ErasureSimulation(Simulation):
    """Looks, at the end, for what is left of those whose erasure was begun; `begun` are their numbers."""

    is_scrubbed = False

    def __init__(self, *given, **options):
        self.begun = set()
        super().__init__(*given, **options)

    def _compare_with_oracle(self):
        self.now = self.audit.clock = max(self.audit.clock, self.now)
        self._check(self.audit.check)
        self._check(lambda: run_tasks(self.audit, self._driver, self.operations))

    def _perform(self, strand):
        answer = super()._perform(strand)
        if self._spans_rows and isinstance(strand.asked, Mutate):
            self._check(self.audit.check)  # the receipt of an erasure is put by itself
        return answer

    def _land(self):
        super()._land()
        if self._spans_rows:
            self._check(self.audit.check)

    def _check_once(self, asked, step):
        if not step.startswith("eraser"):  # it commits a root for each of its children
            super()._check_once(asked, step)

    def settle(self):
        """A worker continues what was begun, without faults; what was written since is erased by the same call.

        Then late requests land, and what was removed is purged.
        """
        self.now += 60_000
        look = ContinuedErasures(self.operations, leases_of(self, "the last worker"))
        for _ in range(MOST_STEPS):
            if not self._driver.run(self._awake(look.step()), Trace()):
                break
        done = {int(each.key[0]) for each in self._driver.run(receipts(100), Trace()) if each.done is not None}
        for number in sorted(self.begun - done):
            receipt = self._driver.run(self._awake(erasure(self, number).run()), Trace())
            if receipt.done is None:
                self._raise_violation(f"the erasure of {number} is not done: {receipt}")
        self._rest()
        while self._late:
            self._land()
        self._rest()
        if self.is_scrubbed:
            scrubbed = self._driver.run(self._awake(CellScrub(self.operations, lambda _written: None).run()), Trace())
            if scrubbed.refused:
                self._raise_violation(f"documents are not written again: {scrubbed}")
            self._rest()
        self._check_left(of_removed=False)
        if not self._spans_rows:
            self.now += max(JUMPS) + 2 * LEAST_GRACE * 1000
            purge = Purge(self.operations.catalog, RecordedPointers(), LEAST_GRACE)
            while self._driver.run(purge.step(), Trace()):
                pass
            self._check_left(of_removed=True)

    def _awake(self, plan):
        """A plan that waits for no lease: the clock moves in place of its sleep."""
        answer = None
        while True:
            try:
                asked = plan.send(answer)
            except StopIteration as stop:
                return stop.value
            if type(asked) is Sleep:
                self.now += 20_000
                answer = None
            else:
                answer = yield asked

    def _check_left(self, *, of_removed):
        wanted = [SECRETS[number] for number in self.begun]
        for table in TABLES:
            for key, row in self.engine.answer(Scan(table, RowRange(b"", b""), 1 << 30, families="dm")):
                is_removed = VALUE in row and row[VALUE].value == REMOVED
                if is_removed and not of_removed:
                    continue
                for secret in wanted:
                    if secret in key or any(secret in cell.value for cell in row.values()):
                        self._raise_violation(f"{secret!r} is left in {table}: {key!r} {row}")


def name(chance, number):
    return f"secret {number} {chance.choice('ab')}"


def person(chance, number):
    return SaveStep(Person(number=number, name=name(chance, number), mail=f"{name(chance, number)}@x"))


def deal(chance, number, *, moves):
    """About the same people each time, unless it `moves`: what was taken of those before may stay until a scrub."""
    about = chance if moves else Random(f"deal {number}")
    each = [None if about.random() < 0.1 else about.randrange(PEOPLE) for _ in range(3)]
    each.append(about.choice((None, 0)))
    kinds = {"buyer": Known, "seller": Shown, "witness": Cleared, "guarantor": Refusing}
    copies = {field: copy.of(of) for (field, copy), of in zip(kinds.items(), each, strict=True) if of is not None}
    return SaveStep(Deal(number=number, size=chance.randrange(2), **copies))


def act(chance, *, moves):
    number = chance.randrange(PEOPLE)
    which = chance.randrange(4)
    other = chance.randrange(3) if moves else which
    return Act(
        chance.choice(
            [
                lambda: PatchStep(Person, (number,), {"name": name(chance, number)}),
                lambda: PatchStep(Person, (number,), {"mail": f"{name(chance, number)}@x"}),
                lambda: deal(chance, which, moves=moves),
                lambda: deal(chance, which, moves=moves),
                lambda: PatchStep(Deal, (which,), {"size": chance.randrange(2)}),
                lambda: SaveStep(Line(number=which, deal=OfDeal.of(other))),
                lambda: SaveStep(Note(number=which, line=OfLine.of(other))),
                lambda: DeleteStep(Note, (which,)) if moves else SaveStep(Note(number=which, line=OfLine.of(which))),
                lambda: SaveStep(Login(number=which, of=Person.at(number), word=name(chance, number))),
                lambda: SaveStep(Photo(number=0, title=name(chance, 0))),
                lambda: DeleteStep(Person, (number,)),
            ]
        )()
    )


def beginning(chance):
    yield from [person(chance, number) for number in range(PEOPLE)]
    yield from [deal(chance, number, moves=False) for number in range(3)]
    yield from [SaveStep(Line(number=number, deal=OfDeal.of(number))) for number in range(3)]
    yield from [SaveStep(Note(number=number, line=OfLine.of(number))) for number in range(3)]
    yield SaveStep(Login(number=9, of=Person.at(0), word=name(chance, 0)))
    yield SaveStep(Photo(number=0, title=name(chance, 0)))


def world(seed, span="row", **options):
    """The history of one seed: two who erase, two writers, two workers; half of the seeds are calm.

    In every other one what refers to people refers to others by and by, and the store is scrubbed at the end.
    """
    chance, moves = Random(f"erasures {seed}"), seed % 2 == 1
    if seed % 4 > 1:
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    simulation = ErasureSimulation(seed, PEOPLES, span=span, **options)
    simulation.is_scrubbed = moves and span == "row"
    simulation.prepare(*map(Act, beginning(chance)))
    for number in range(ERASED):
        erasing = [EraseStep(number, simulation) for _ in range(chance.choice((1, 1, 2)))]
        simulation.process(
            f"eraser {number}", [*[act(chance, moves=moves) for _ in range(chance.randrange(3))], *erasing]
        )
    for number in range(2):
        simulation.process(f"writer {number}", [act(chance, moves=moves) for _ in range(ACTS)])
    for name in ("eraser who continues", "eraser who continues, too"):
        leases = leases_of(simulation, name)
        looks = [ContinueStep(ContinuedErasures(simulation.operations, leases)) for _ in range(2)]
        simulation.process(name, [SleepStep(1.0), *[each for each in looks for _ in range(4)]])
    if span == "row":
        simulation.process("worker", [work_of(simulation, "worker")] * 6)
        simulation.process("recoverer", [RecoverStep()] * 4)
    else:
        simulation.process("worker", [DrainStep(2)] * 6)
    return simulation


# Rules broken on purpose.


def documents_under_cells_are_not_written_again(patch):
    def rewrite(_erasure, _source, _wanted):
        yield from ()

    patch.setattr(ErasureSteps, "_rewrite", rewrite)


def holders_of_an_erased_source_get_cells_alone(patch):
    patch.setattr(LaidCopies, "is_erased", lambda _cells, _source, _root: False)


def children_that_came_meanwhile_stay(patch):
    edit(patch, ErasureSteps, "commit", ("erased += yield from self._erase_all((yield from self._children()))", "pass"))


def what_an_interrupted_erasure_left_is_not_done(patch):
    begun = "    receipt = yield from self._begin(planned)\n"
    over = "    if planned.state == 'erased':\n        return msgspec.structs.replace(receipt, done=receipt.begun)\n"
    edit(patch, EntityErasure, "run", (begun, begun + over))


def an_erased_entity_keeps_its_last_values(patch):
    edit(patch, decisions, "deletion", ("    if erases:\n", "    if False:\n"))


def what_was_deleted_before_keeps_its_last_values(patch):
    edit(patch, Erase, "decide", ("    if is_erased(before.record) or", "    if before.record or"))


def cells_left_behind_stay(patch):
    def renew(_scrub, _left):
        yield from ()

    patch.setattr(CellScrub, "_renew", renew)


def documents_under_cells_are_not_scrubbed(patch):
    def rewrite(_scrub, _key):
        yield from ()

    patch.setattr(CellScrub, "_rewrite", rewrite)


def a_holder_that_lost_follows_by_one_back_reference(patch):
    def leave(page, *holders):
        page.alone.update(dict.fromkeys(page.places[holder][0] for holder in holders))

    patch.setattr(_Page, "leave", leave)


BY_SEED = {
    a_holder_that_lost_follows_by_one_back_reference: 109,
    cells_left_behind_stay: 37,
    documents_under_cells_are_not_scrubbed: 87,
    documents_under_cells_are_not_written_again: 0,
    holders_of_an_erased_source_get_cells_alone: 4,
    children_that_came_meanwhile_stay: 32,
    what_an_interrupted_erasure_left_is_not_done: 30,
    what_was_deleted_before_keeps_its_last_values: 20,
}
"""Each with a seed that finds it."""

BY_SEED_OF_ALL_ROWS = {
    an_erased_entity_keeps_its_last_values: 1,
    what_was_deleted_before_keeps_its_last_values: 20,
}
"""The same where transactions span rows."""
