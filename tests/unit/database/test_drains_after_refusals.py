"""A write that was refused keeps no drain waiting, whatever it had put before it was refused: see decision 0118."""

from contextlib import suppress

import pytest

from oneread import GENERATED, Aggregate, Index, Key, Model, Ref, Schema, by, connect, count, reference, shown
from oneread.errors import (
    AlreadyExists,
    Conflict,
    InvalidKey,
    InvalidValue,
    LimitExceeded,
    MissingReference,
    NotFound,
    NotUnique,
    OnereadError,
    StillReferenced,
)
from oneread.plans.effects import Sleep
from oneread.store.requests import CheckAndMutate
from oneread.transactions.tasks import Draining, TaskStepResult


class Note(Model[int]):
    number: Key[int]
    kind: str = ""
    mail: str = ""
    text: str = ""
    about: Ref["Note"] | None = reference(on_delete="refuse")

    def check(self) -> None:
        if self.kind == "wrong":
            raise ValueError("this kind is wrong")


class Remark(Model[int, int]):
    child_of = Note
    number: Key[int]
    line: Key[int] = GENERATED
    kind: str = ""


class OfKind(Aggregate[Note]):
    kind: str = by(Note.kind)
    notes: int = count()


class Remarks(Aggregate[Remark]):
    kind: str = by(Remark.kind)
    remarks: int = count()


class ByKind(Index[Note]):
    kind: str = by(Note.kind)
    text: str = shown(Note.text)


class Mails(Index[Note]):
    unique = True

    mail: str = by(Note.mail)


SCHEMA = Schema(Note, Remark, OfKind, Remarks, ByKind, Mails)

REFUSED = {
    "create what exists": (lambda db: db.create(Note(number=1)), AlreadyExists),
    "create with a taken value": (lambda db: db.create(Note(number=9, mail="1")), NotUnique),
    "save with a taken value": (lambda db: db.save(Note(number=2, mail="1")), NotUnique),
    "save what no index can hold": (lambda db: db.save(Note(number=2, kind="x" * 600)), InvalidKey),
    "patch to what no index can hold": (lambda db: db.patch(Note, 2, kind="x" * 600), InvalidKey),
    "save what is too large": (lambda db: db.save(Note(number=2, text="x" * 1_000_001)), LimitExceeded),
    "save with a reference to nothing": (lambda db: db.save(Note(number=9, about=Note.at(8))), MissingReference),
    "patch to a reference to nothing": (lambda db: db.patch(Note, 2, about=Note.at(8)), MissingReference),
    "save of another version": (lambda db: db.save(Note(number=2, kind="b"), if_version=1), Conflict),
    "patch of another version": (lambda db: db.patch(Note, 2, kind="b", if_version=1), Conflict),
    "delete of another version": (lambda db: db.delete(Note, 2, if_version=1), Conflict),
    "patch to what a check refuses": (lambda db: db.patch(Note, 2, kind="wrong"), InvalidValue),
    "patch of what is not there": (lambda db: db.patch(Note, 9, kind="b"), NotFound),
    "delete of what others refer to": (lambda db: db.delete(Note, 1), StillReferenced),
    "upsert with a taken value": (lambda db: db.upsert(Note(number=2), mail="1"), NotUnique),
    "get_or_create with a taken value": (lambda db: db.get_or_create(Note(number=9, mail="1")), NotUnique),
    "save_all with a taken value": (lambda db: db.save_all([Note(number=2, mail="1")]), NotUnique),
    "a child with a number that was not given": (lambda db: db.save(Remark(number=9, line=1)), InvalidKey),
    "a numbered child without its root": (lambda db: db.create(Remark(number=9)), MissingReference),
    "a child that exists": (lambda db: db.create(Remark(number=1, line=1)), AlreadyExists),
    "a patch of a child that is not there": (lambda db: db.patch(Remark, 1, 9, kind="b"), NotFound),
    "a child that no group can hold": (lambda db: db.save(Remark(number=1, line=1, kind="x" * 600)), InvalidKey),
    "a transaction": (lambda db: db.transact(lambda work: work.create(Note(number=1))), AlreadyExists),
    "its commit": (lambda db: db.transact(lambda work: work.save(Note(number=2, mail="1"))), NotUnique),
    "bulk": (lambda db: bulk(db, Note(number=2, mail="1")), NotUnique),
}


def bulk(db, entity):
    with db.bulk() as work:
        work.save(entity)


@pytest.fixture
def db(url):
    with connect(url, SCHEMA, workers=0) as opened:
        opened.save(Note(number=1, mail="1"))
        opened.save(Note(number=2, mail="2", about=Note.at(1)))
        opened.create(Remark(number=1))
        opened.drain()
        yield opened


def pauses_of(db):
    """The pauses of a drain; it looks at the journal several times, however short they are."""
    asked, draining, result = [], Draining(), None
    while result is not TaskStepResult.IDLE and len(asked) < 10:
        plan, answer = db.operations.drain_or_wait(100, draining), None
        try:
            while True:
                effect = plan.send(answer)
                if isinstance(effect, Sleep):
                    asked.append(effect)
                answer = db.run(effect.__iter__())
        except StopIteration as end:
            result = end.value
    return asked


@pytest.mark.parametrize("name", REFUSED)
def test_a_drain_after_a_refused_write_makes_no_pause(db, name):
    write, refusal = REFUSED[name]
    with pytest.raises(OnereadError) as refused:
        write(db)
    assert isinstance(refused.value, refusal)
    assert pauses_of(db) == []
    assert db.verify().clean


def test_a_drain_waits_for_a_commit_that_shares_the_marker_of_a_refused_write(url):
    """Both took one millisecond: removing the marker would leave the commit to nothing but the next one of its row."""
    same = {"workers": 0, "clock": lambda: 1_000_000}
    with connect(url, SCHEMA, **same) as db, connect(url, SCHEMA, **same) as two:
        plan = two.operations.save(Note(number=1), "save")
        asked = next(plan)
        while not (isinstance(asked, CheckAndMutate) and asked.table == "roots"):
            asked = plan.send(two.run(asked.__iter__()))
        with pytest.raises(InvalidKey):
            db.save(Note(number=1, kind="x" * 600))
        assert pauses_of(db) == []  # nothing is acknowledged yet
        answer = two.run(asked.__iter__())
        assert len(pauses_of(db)) == 10
        with suppress(StopIteration):
            while True:
                answer = two.run(plan.send(answer).__iter__())
        assert pauses_of(db) == []
        assert db.get(OfKind, "").notes == 1
