"""Writes that are sent in time, and those that are not."""

import pytest

from oneread.errors import Unavailable
from oneread.plans.effects import Together
from oneread.plans.in_time import in_time
from oneread.plans.plan import drive
from oneread.store.requests import Mutate, Read

WRITE, READ = Mutate("views", []), Read("views", [])


class Slow:
    """Answers every request, and a second passes each time."""

    def __init__(self):
        self.now, self.made = 0, []

    def run(self, plan, seconds):
        return drive(in_time(plan, lambda: self.now, seconds), self.answer)

    def answer(self, asked):
        if type(asked) is Together:
            return [drive(each, self.answer) for each in asked.plans]
        self.made.append(type(asked))
        self.now += 1
        return self.now


def writing():
    first = yield from READ
    yield from WRITE
    return first


def test_a_plan_in_time_is_as_it_is():
    slow = Slow()
    assert slow.run(writing(), 1) == 1
    assert slow.made == [Read, Mutate]


def test_a_write_that_comes_too_late_is_not_sent():
    slow = Slow()
    with pytest.raises(Unavailable, match="took too long"):
        slow.run(writing(), 0)
    assert slow.made == [Read]


def test_reads_are_sent_at_any_time():
    slow = Slow()

    def reading():
        yield from READ
        yield from READ

    slow.run(reading(), 0)
    assert slow.made == [Read, Read]


def test_writes_of_plans_that_run_together_are_sent_in_time_too():
    slow = Slow()

    def together():
        try:
            yield from Together([writing(), writing()])
        except Unavailable:
            return "late"

    assert slow.run(together(), 2) == "late"
    assert slow.made == [Read, Mutate, Read]


def test_errors_of_requests_reach_the_plan():
    def handling():
        try:
            yield from READ
        except Unavailable:
            return "handled"

    def fail(_asked):
        raise Unavailable("on purpose")

    assert drive(in_time(handling(), lambda: 0, 1), fail) == "handled"


def test_a_plan_that_is_closed_cleans_up():
    closed = []

    def cleaning():
        try:
            yield from READ
        finally:
            closed.append(True)

    plan = in_time(cleaning(), lambda: 0, 1)
    next(plan)
    plan.close()
    assert closed == [True]
