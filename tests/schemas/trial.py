"""One program on every kind of store at once, held against the oracle and against each other.

Each store has a proof of its own (`oneread.testing.proof`): answers, refusals, lists in their order, raw rows. Here
they are also compared with one another - what a step returns, and by which error it is refused, with its text - and
each call with its declared bound; at every look `verify` must find nothing.
"""

import random
import re
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from oneread.errors import OnereadError, StillReferenced
from oneread.models.fields import Marker, defaults_of
from oneread.testing.comparison import Disagreement, check_same
from oneread.testing.naive import look
from oneread.testing.steps import LookStep, TogetherStep
from tests.schemas.costs import PricedProof
from tests.schemas.declaring import declare
from tests.schemas.histories import Historian
from tests.schemas.program import run_steps
from tests.schemas.reading import read_everything
from tests.schemas.reducing import reduce

STORES = ("memory", "lmdb", "row")
SPANNING = ("SaveAllStep", "TogetherStep")


def make(seed):
    """The program of a seed."""
    chance = random.Random(seed)
    program, declarer = declare(chance)
    return replace(program, steps=Historian(declarer, program).history(), seed=seed)


class Trial:
    """The stores of one program, side by side."""

    def __init__(self, schema, stores=STORES):
        self._stack = ExitStack()
        self._looks = 0
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="oneread-"))
        urls = {"memory": "memory://", "lmdb": f"lmdb://{folder}/store?durability=none", "row": "memory://?span=row"}
        self.proofs = {
            store: self._stack.enter_context(PricedProof(schema, urls[store], inline=schema.inline)) for store in stores
        }

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self._stack.close()

    def do(self, step):
        """Does a step to each store."""
        outcomes = {store: named(store, proof.do, step) for store, proof in self.proofs.items()}
        first = next(iter(outcomes))
        waits = any(proof.has_tasks() for proof in self.proofs.values())
        for store, outcome in {} if is_held_back(step, outcomes) else outcomes.items():
            what = f"{step!r}, compared with {first}"
            named(store, check_same, what, shown(outcomes[first], waits), shown(outcome, waits))
        if isinstance(step, LookStep):
            self._looks += 1
            for store, proof in self.proofs.items():
                named(store, verify, proof)
                named(store, read_everything, proof, random.Random(self._looks))

    def sweep(self):
        """Sweeps all that has expired, on each store: nothing is late then, and nothing wrong."""
        for store, proof in self.proofs.items():
            named(store, proof.look_swept)
            named(store, verify, proof)


def is_held_back(step, outcomes):
    """Whether a transaction deletes what others refer to, and stores of one row name another refusal before that."""
    *spanning, by_row = [type(each) for each in outcomes.values()]
    is_late = set(spanning) == {StillReferenced} and issubclass(by_row, OnereadError) and by_row is not StillReferenced
    return type(step) is TogetherStep and "row" in outcomes and is_late


def verify(proof):
    """Raises Disagreement for a fault that `verify` finds, but for what is set aside."""
    found = proof.database.verify()
    aside = {each.holder for each in proof.database.set_aside()}
    faults = [str(each) for each in found.faults if each.entity not in aside]
    if faults or found.skipped:
        raise Disagreement(f"verify finds {faults}, skips {found.skipped}")


def named(store, function, *given):
    """Calls a function; an error says on which store it was."""
    try:
        return function(*given)
    except Exception as error:
        error.store = store
        error.add_note(f"on the store {store}")
        raise


def shown(outcome, waits):
    """What a step came to: the class and text of an error, or the entities without their stamps.

    While something waits for a worker, copies and totals need not be alike.
    """
    if isinstance(outcome, OnereadError):
        return type(outcome).__name__, outcome.args[0]
    return len(outcome) if waits else [unstamped(look(each), type(each)) for each in outcome]


def unstamped(shown_entity, cls):
    name, fields = shown_entity
    stamps = {field for field, default in defaults_of(cls).items()
              if isinstance(default, Marker) and default.what in ("created", "updated")}  # fmt: skip
    return name, {field: value for field, value in fields.items() if field not in stamps}


def stores_of(program):
    """The stores that a program runs on: those of one row have no commit of several entities, see `portable`."""
    spans = any(step.startswith(SPANNING) for step in program.steps)
    return STORES if "portable=True" in program.options or not spans else STORES[:2]


def run(program, stores=None):
    """Runs a program; raises what is wrong with it."""
    schema, names = program.declare()
    with Trial(schema, stores or stores_of(program)) as trial:
        for step in run_steps(program, names):
            trial.do(step)
        trial.sweep()


class Failure(NamedTuple):
    """What is alike in two failures of programs of different size."""

    error: str
    store: str
    text: str


def failure_of(program, stores=None):
    """How a program fails; None if it does not."""
    try:
        run(program, stores)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is found
        text = re.sub(r"\b[a-zA-Z]?\d+|\d+", "", str(error))
        return Failure(type(error).__name__, getattr(error, "store", ""), text[:25])
    return None


def smallest(program):
    """A failing program made small, on no more stores than it takes to fail."""
    found = failure_of(program)
    stores = next(
        each for each in ((found.store,), ("memory", found.store), STORES) if failure_of(program, each) == found
    )
    return reduce(program, lambda each: failure_of(each, stores))


def standalone(program):
    """The text of a program that shows its failure: run it in a checkout, `PYTHONPATH=. python it.py`."""
    return f"""{program}
from tests.schemas.trial import Trial

with Trial(schema, {stores_of(program)!r}) as trial:
    for step in history:
        trial.do(step)
    trial.sweep()
"""
