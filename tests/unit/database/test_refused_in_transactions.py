"""A write that is refused inside a transaction leaves no trace in it: reads, later writes and commit are as without."""

import asyncio

import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    add,
    by,
    connect,
    connect_async,
    count,
    newest,
    reference,
    shown,
    total,
    within,
)
from oneread.errors import (
    AlreadyExists,
    Conflict,
    InvalidKey,
    InvalidValue,
    LimitExceeded,
    MissingReference,
    NotFound,
    NotUnique,
    StillReferenced,
)
from oneread.store.requests import Scan
from oneread.store.rows import TABLES, RowRange


class Club(Model[int]):
    id: Key[int]
    name: str


class Home(Copy[Club]):
    name: str


class Member(Model[int]):
    id: Key[int]
    mail: str
    nick: str
    points: int = 0
    note: str = ""
    home: Home | None = None
    friend: Ref["Member"] | None = reference(on_delete="refuse")

    def check(self) -> None:
        if self.points < 0:
            raise ValueError("points are never below zero")


class Mails(Index[Member]):
    unique = True

    mail: str = by(Member.mail)
    note: str = shown(Member.note)


class Nicks(Index[Member]):
    unique = True

    nick: str = by(Member.nick)


class AtHome(Index[Member]):
    home: str = by(within(Member.home, Home.name))
    points: int = newest(Member.points)


class Points(Aggregate[Member]):
    home: str = by(within(Member.home, Home.name))
    members: int = count()
    points: int = total(Member.points)


SCHEMA = Schema(Club, Member, Mails, Nicks, AtHome, Points)


def member(number, **fields):
    return Member(**{"id": number, "mail": f"mail {number}", "nick": f"nick {number}", "home": Home.of(1)} | fields)


START = [
    Club(id=1, name="Chess"),
    Club(id=2, name="Go"),
    member(1),
    member(2, friend=Member.at(1)),
    member(3, home=None),
]
BEFORE = [
    ("create", (member(10, mail="new"),), {}),
    ("patch", (Member, 2), {"points": add(5)}),
]
"""What the transaction wrote before: a unique value is taken in it, a sum has changed."""

REFUSED = {
    "create: the key is taken": (("create", (member(1, mail="other"),), {}), AlreadyExists),
    "create: a key that the transaction took": (("create", (member(10, mail="other"),), {}), AlreadyExists),
    "save: the model's check": (("save", (member(2, points=-1),), {}), InvalidValue),
    "patch: the model's check": (("patch", (Member, 2), {"points": -1}), InvalidValue),
    "patch: a wrong type": (("patch", (Member, 2), {"points": "many"}), InvalidValue),
    "patch: a step that does not apply": (("patch", (Member, 2), {"mail": add(1)}), InvalidValue),
    "patch: nothing there": (("patch", (Member, 99), {"points": 1}), NotFound),
    "save: another version": (("save", (member(2, points=7),), {"if_version": 1}), Conflict),
    "patch: another version": (("patch", (Member, 2), {"if_version": 1, "points": 7}), Conflict),
    "delete: another version": (("delete", (Member, 3), {"if_version": 1}), Conflict),
    "delete: others refer to it": (("delete", (Member, 1), {}), StillReferenced),
    "save: a reference to nothing": (("save", (member(2, friend=Member.at(99)),), {}), MissingReference),
    "patch: a copy of nothing": (("patch", (Member, 2), {"home": Home.of(99)}), MissingReference),
    "save: too large": (("save", (member(2, note="x" * 1_000_001),), {}), LimitExceeded),
    "patch: too long for a view's key": (("patch", (Member, 2), {"mail": "x" * 400}), InvalidKey),
    "patch: a holder's row would be too long": (("patch", (Club, 1), {"name": "x" * 400}), InvalidValue),
}
AFTER = [
    ("find", (Club, 1), {}),
    *[("find", (Member, number), {}) for number in (1, 2, 3, 10, 11, 99)],
    ("patch", (Member, 1), {"points": add(2)}),
    ("create", (member(12, mail="free", nick="free", friend=Member.at(2)),), {}),
    ("find", (Member, 1), {}),
]
"""What comes behind the refusal: it reads everything, and takes what the refused write wanted to take."""


def clock():
    return 1_000_000


def sync_outcome(url, steps):
    """What each step of one transaction returned or was refused with, and every row of the store behind it."""
    seen = []

    def body(transaction):
        for (verb, given, named), refusal in steps:
            if refusal is None:
                seen.append(getattr(transaction, verb)(*given, **named))
            else:
                with pytest.raises(refusal):
                    getattr(transaction, verb)(*given, **named)

    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        for entity in START:
            db.save(entity)
        db.transact(body)
        return seen, [db.run(everything(table)) for table in TABLES]


def async_outcome(url, steps):
    seen = []

    async def body(transaction):
        for (verb, given, named), refusal in steps:
            if refusal is None:
                seen.append(await getattr(transaction, verb)(*given, **named))
            else:
                with pytest.raises(refusal):
                    await getattr(transaction, verb)(*given, **named)

    async def main():
        async with connect_async(url, SCHEMA, workers=0, clock=clock) as db:
            for entity in START:
                await db.save(entity)
            await db.transact(body)
            return seen, [await db.run(everything(table)) for table in TABLES]

    return asyncio.run(main())


def everything(table):
    return Scan(table, RowRange(b"", b""), 10_000, families="dm").__iter__()


def allowed(steps):
    return [(step, None) for step in steps]


def without(outcome, url):
    """The outcome of the same transaction, had nothing in it been refused."""
    return outcome(url, allowed([*BEFORE, *AFTER]))


@pytest.mark.parametrize("outcome", [sync_outcome, async_outcome])
@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_write_leaves_no_trace_in_its_transaction(new_url, outcome, name):
    refused, refusal = REFUSED[name]
    found = outcome(new_url(), [*allowed(BEFORE), *[(refused, refusal)] * 2, *allowed(AFTER)])
    assert found == without(outcome, new_url())


def test_all_refusals_in_one_transaction_leave_no_trace(new_url):
    refusals = list(REFUSED.values())
    found = sync_outcome(new_url(), [*allowed(BEFORE), *refusals, *allowed(AFTER)])
    assert found == without(sync_outcome, new_url())


@pytest.mark.parametrize("name", [name for name in REFUSED if not name.endswith("the transaction took")])
def test_a_transaction_with_nothing_but_a_refused_write_writes_nothing(new_url, name):
    assert sync_outcome(new_url(), [REFUSED[name]]) == sync_outcome(new_url(), [])


TAKING = {
    "create": ("create", (member(11, mail="new"),), {}),
    "save": ("save", (member(11, mail="new"),), {}),
    "save over": ("save", (member(3, mail="new", points=9),), {}),
    "patch": ("patch", (Member, 2), {"mail": "new", "nick": "free"}),
    "patch, beside a free value": ("patch", (Member, 2), {"nick": "nick 10", "mail": "free"}),
}
"""Writes of a value that the transaction took before."""


@pytest.mark.parametrize("outcome", [sync_outcome, async_outcome])
@pytest.mark.parametrize("name", TAKING)
def test_a_value_that_the_transaction_took_refuses_it_at_its_end_unless_it_is_freed(new_url, outcome, name):
    freed = ("delete", (Member, 10), {})
    with pytest.raises(NotUnique) as refused:
        outcome(new_url(), allowed([*BEFORE, TAKING[name]]))
    assert refused.value.facts["owner"] == "Member(10)"
    outcome(new_url(), allowed([*BEFORE, TAKING[name], freed]))


def test_a_value_taken_in_the_store_refuses_the_transaction_at_its_end(url):
    """Until then the body may still free it; whether it did is known at the commit."""

    def taking(transaction):
        transaction.patch(Member, 2, mail="mail 1")
        transaction.patch(Member, 1, nick="kept?")

    def freeing(transaction):
        taking(transaction)
        transaction.patch(Member, 1, mail="another")

    with connect(url, SCHEMA, workers=0) as db:
        for entity in START:
            db.save(entity)
        before = [db.run(everything(table)) for table in TABLES]
        with pytest.raises(AlreadyExists):
            db.transact(taking)
        assert [db.run(everything(table)) for table in TABLES] == before
        db.transact(freeing)
        assert [db.get(Mails, mail).source.key for mail in ("another", "mail 1")] == [(1,), (2,)]


@pytest.mark.parametrize("verb", ["save", "create", "upsert", "get_or_create", "patch", "save_all"])
def test_a_refused_verb_by_itself_writes_nothing(url, verb):
    """Refused only when claims are settled, behind all decisions."""
    fields = {"points": 5, "mail": "mail 1"}
    calls = {
        "save": lambda db: db.save(member(2, **fields)),
        "create": lambda db: db.create(member(20, **fields)),
        "upsert": lambda db: db.upsert(member(2), **fields),
        "get_or_create": lambda db: db.get_or_create(member(20, **fields)),
        "patch": lambda db: db.patch(Member, 2, **fields),
        "save_all": lambda db: db.save_all([member(20), member(21, **fields), member(3, points=9)]),
    }
    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        for entity in START:
            db.save(entity)
        before = [db.run(everything(table)) for table in TABLES]
        with pytest.raises(AlreadyExists):
            calls[verb](db)
        assert [db.run(everything(table)) for table in TABLES] == before
