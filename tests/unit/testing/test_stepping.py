"""A function of a store can be stopped at each of its requests, as a plan can."""

import threading

import pytest

from oneread.errors import Unavailable
from oneread.plans.effects import Now, Random, Separately, Sleep
from oneread.store.requests import Read, Replace, Scan
from oneread.store.rows import Cell, RowRange
from oneread.testing.stepping import stepped, with_steps

ALL = RowRange(b"", b"")
ROW = {b"d:b": Cell(b"value", 1)}


def everything(store):
    row = store.read("roots", [b"a"])
    found = store.scan("views", ALL, 3, reverse=True, families="dm")
    store.replace("counts", {b"b": None})
    return row, found, store.now(), store.chance()


def running():
    return [each for each in threading.enumerate() if each.name == "oneread-stepped"]


def test_each_request_of_a_function_is_yielded_and_answered():
    plan = stepped(everything)
    asked = [plan.send(None), plan.send([ROW]), plan.send([(b"v", ROW)]), plan.send(None), plan.send(77)]
    assert asked == [
        Read("roots", [b"a"]),
        Scan("views", ALL, 3, reverse=True, families="dm"),
        Replace("counts", {b"b": None}),
        Now(),
        Random(),
    ]
    with pytest.raises(StopIteration) as ended:
        plan.send(0.5)
    assert ended.value.value == ([ROW], [(b"v", ROW)], 77, 0.5)
    assert not running()


def test_an_error_is_raised_inside_the_function_where_it_asked():
    def caught(store):
        try:
            store.read("roots", [b"a"])
        except Unavailable:
            return "caught"

    plan = stepped(caught)
    plan.send(None)
    with pytest.raises(StopIteration) as ended:
        plan.throw(Unavailable("not done"))
    assert ended.value.value == "caught"


def test_what_a_function_raises_is_raised_by_the_plan():
    def raising(_store):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stepped(raising).send(None)
    assert not running()


def test_a_closed_plan_ends_its_function_at_the_request():
    ended = []

    def asking(store):
        try:
            store.read("roots", [b"a"])
        finally:
            ended.append(1)

    plan = stepped(asking)
    plan.send(None)
    assert ended == []
    plan.close()
    assert ended == [1]
    assert not running()


def test_a_plan_yields_the_requests_of_its_functions_among_its_own():
    def plan():
        yield from Sleep(1)
        try:
            yield from Separately(lambda store: store.read("roots", [b"a"]))
        except Unavailable:
            return (yield from Separately(lambda store: store.read("roots", [b"b"])))

    steps = with_steps(plan())
    assert steps.send(None) == Sleep(1)
    assert steps.send(None) == Read("roots", [b"a"])
    assert steps.throw(Unavailable("not done")) == Read("roots", [b"b"])
    with pytest.raises(StopIteration) as ended:
        steps.send([None])
    assert ended.value.value == [None]


def test_a_closed_plan_cleans_up():
    ended = []

    def plan():
        try:
            yield from Separately(lambda store: store.read("roots", [b"a"]))
        finally:
            ended.append(1)

    steps = with_steps(plan())
    steps.send(None)
    steps.close()
    assert ended == [1]
    assert not running()
