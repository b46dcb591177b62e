"""Entities of one group that copy each other, changed by one commit: each shows what the commit made of the others."""

import pytest

from oneread import Copy, Index, Key, Model, Schema, by, connect, within


class Step(Copy["Task"]):
    missing_ok = True
    name: str


class Part(Copy["Plan"]):
    name: str


class Plan(Model[int]):
    plan: Key[int]
    name: str = "plan"
    first: Step | None = None


class Task(Model[int, int]):
    child_of = Plan
    plan: Key[int]
    task: Key[int]
    name: str = "task"
    part: Part | None = None
    next: Step | None = None


class TasksByNext(Index[Task]):
    """With it copies are in documents, and holders are committed; without it a store of one row has them in cells."""

    next: str | None = by(within(Task.next, Step.name))


class TasksByPart(Index[Task]):
    part: str | None = by(within(Task.part, Part.name))


SCHEMAS = {"alone": Schema(Plan, Task), "listed": Schema(Plan, Task, TasksByNext, TasksByPart)}
CHANGES = {
    "one that is made later": [
        ("save", Task(plan=1, task=1, next=Step.of(1, 2))),
        ("save", Task(plan=1, task=2, name="new")),
    ],
    "one that is changed later": [
        ("save", Task(plan=1, task=1, next=Step.of(1, 9))),
        ("patch", (Task, 1, 9), {"name": "new"}),
    ],
    "and the holder once more": [
        ("save", Task(plan=1, task=1, next=Step.of(1, 9))),
        ("patch", (Task, 1, 9), {"name": "new"}),
        ("patch", (Task, 1, 1), {"name": "again"}),
    ],
    "one that is changed before": [
        ("patch", (Task, 1, 9), {"name": "new"}),
        ("save", Task(plan=1, task=1, next=Step.of(1, 9))),
    ],
    "the root": [
        ("save", Task(plan=1, task=1, part=Part.of(1))),
        ("patch", (Plan, 1), {"name": "new"}),
    ],
    "a child": [
        ("patch", (Plan, 1), {"first": Step.of(1, 9)}),
        ("patch", (Task, 1, 9), {"name": "new"}),
    ],
    "each other": [
        ("save", Task(plan=1, task=1, next=Step.of(1, 9))),
        ("patch", (Task, 1, 9), {"name": "new", "next": Step.of(1, 1)}),
        ("patch", (Task, 1, 1), {"name": "new"}),
    ],
    "itself": [
        ("patch", (Task, 1, 9), {"next": Step.of(1, 9)}),
        ("patch", (Task, 1, 9), {"name": "new"}),
    ],
    "one that goes": [
        ("save", Task(plan=1, task=1, next=Step.of(1, 9))),
        ("delete", (Task, 1, 9)),
    ],
}


def make(writer, changes):
    for verb, given, *fields in changes:
        if verb == "save":
            writer.save(given)
        else:
            getattr(writer, verb)(*given, **(fields[0] if fields else {}))


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("way", ["transact", "bulk"])
def test_each_shows_what_the_commit_made_of_the_others(url, schema, changes, way):
    with connect(url, schema, workers=0) as db:
        db.save(Plan(plan=1))
        db.save(Task(plan=1, task=9))
        if way == "bulk":
            with db.bulk() as bulk:
                make(bulk, changes)
        else:
            db.transact(lambda tx: make(tx, changes))
        db.drain()
        assert db.verify().clean
        plan = db.get(Plan, 1)
        shown = [(plan.first, plan)] if plan.first else []
        shown += [(copy, task) for task in db.page(Task) for copy in (task.part, task.next) if copy is not None]
        assert shown
        for copy, _holder in shown:
            source = db.find(copy.ref.refers_to or (Plan if type(copy) is Part else Task), *copy.ref.key)
            assert copy.deleted == (source is None)
            assert copy.name == (source.name if source else copy.name)
