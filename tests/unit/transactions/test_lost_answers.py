"""Requests whose answers are lost are made again after a pause, and not for ever."""

import pytest

from oneread.errors import OutcomeUnknown, Unavailable
from oneread.plans.effects import Sleep, Together
from oneread.store.requests import CheckAndMutate, Mutate
from oneread.store.rows import VALUE, Cell, RowMutation
from oneread.transactions.log_entries import RowLogs
from oneread.transactions.lost_answers import LOOKS, until_answered
from oneread.transactions.system_commits import _replace
from tests.simulation.schema import WORLD, Customer, Product
from tests.simulation.world import bought
from tests.unit.transactions.test_journal_commits import Store, failing

PUT = Mutate("system", [RowMutation(b"k", {VALUE: Cell(b"v", 1)})])


class Pausing(Store):
    """A store that loses answers to writes of one table; counts these writes, and pauses."""

    def __init__(self, table, kind=CheckAndMutate, times=99):
        super().__init__(WORLD)
        self.pauses, self.lost = 0, 0
        self._is_lost = lambda asked: type(asked) is kind and asked.table == table
        self.fail = None
        self.save(Product(code=1, name="p"))
        self.save(Customer(number=1, name="c"))
        self._fail, self._times = failing(self._is_lost, OutcomeUnknown, times=times), times
        self.fail = self._note

    def _note(self, asked):
        self.lost += self._is_lost(asked)
        self._fail(asked)

    def run(self, plan):
        return super().run(self._observed(plan))

    def _observed(self, plan):
        steps, answer, failure = iter(plan), None, None
        while True:
            try:
                asked = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration as stop:
                return stop.value
            self.pauses += type(asked) is Sleep
            if type(asked) is Together:
                asked = Together([self._observed(each) for each in asked.plans])
            try:
                answer, failure = (yield asked), None
            except (Unavailable, OutcomeUnknown) as error:
                failure = error


def plans():
    """Each write that is made until its answer comes, and the table that it changes."""
    return {
        "any": ("system", Mutate, lambda _store: until_answered(PUT)),
        "an entry of a log": ("system", CheckAndMutate, lambda _store: RowLogs().add({b"changes:x": [b"k"]})),
        "the row of a log": ("system", Mutate, lambda _store: RowLogs().add({b"changes:x": [b"k"]})),
        "a row of the system": ("system", CheckAndMutate, lambda _store: _replace("system", b"k", None, {})),
        "a unique value": (
            "counts",
            CheckAndMutate,
            lambda store: store.operations.save(Customer(number=2, name="d", email="e@x"), "save"),
        ),
    }


@pytest.mark.parametrize("what", plans())
def test_a_write_is_made_again_with_pauses_and_not_for_ever(what):
    table, kind, plan = plans()[what]
    store = Pausing(table, kind)
    with pytest.raises(Unavailable, match="does not answer"):
        store.run(plan(store))
    assert (store.lost, store.pauses) == (LOOKS, LOOKS - 1)


@pytest.mark.parametrize("what", plans())
def test_a_write_whose_answer_comes_at_last_is_made(what):
    table, kind, plan = plans()[what]
    store = Pausing(table, kind, times=3)
    store.run(plan(store))
    assert store.pauses == 3


def test_a_sum_is_left_to_recovery_when_its_answers_are_lost():
    store = Pausing("counts")
    store.save(bought(1, 1, 1, 1, 1))
    assert store.lost % LOOKS == 0
    assert store.pauses == store.lost // LOOKS * (LOOKS - 1)
    store.fail = None
    store.settle()
