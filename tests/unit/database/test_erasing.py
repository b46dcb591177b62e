"""Erasing: no byte of a value is left in any row, whatever refers to the entity, and nothing brings it back."""

import asyncio
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated
from uuid import UUID

import msgspec
import pytest

from oneread import (
    GENERATED,
    Aggregate,
    Copy,
    Feed,
    Index,
    Job,
    Key,
    Model,
    Personal,
    Ref,
    Schema,
    by,
    connect,
    connect_async,
    count,
    counter,
    each,
    least,
    newest,
    on,
    reference,
    rollup,
    shown,
    within,
)
from oneread.database.purge import Purge
from oneread.derivations.emitted_record import RecordedPointers
from oneread.derivations.erasing import Erase
from oneread.errors import Erased, InvalidKey, InvalidQuery, NotFound, UsageError
from oneread.plans.trace import Trace
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import REMOVED, VALUE, Cell, RowMutation, RowRange
from oneread.testing.clock import Clock
from oneread.transactions.grace import LEAST_GRACE
from oneread.transfer.load import DumpReader, parse_head


class Mood(Enum):
    CALM = "calm"
    ANGRY = "angry"


class Home(msgspec.Struct, frozen=True):
    street: str
    floor: int


class Customer(Model[int]):
    number: Key[int]
    name: Annotated[str, Personal()]
    email: Annotated[str | None, Personal()] = None
    born: date = date(1815, 12, 10)
    home: Home = Home("Am Zwiebelhang", 4711)
    mood: Mood = Mood.ANGRY
    paid: Decimal = Decimal("4711.50")
    ident: UUID = UUID("11111111-2222-3333-4444-555555555555")
    tags: Annotated[list[str], msgspec.Meta(max_length=9)] = msgspec.field(default_factory=list)
    secret: str = ""
    visits: int = rollup(counter("visits:{number}"), every=1)


class Buyer(Copy[Customer]):
    name: str
    email: str | None
    born: date
    home: Home
    mood: Mood
    paid: Decimal
    ident: UUID


class Held(Copy[Customer]):
    on_delete = "refuse"
    name: str


class Cleared(Copy[Customer]):
    on_delete = "clear"
    name: str


class Goes(Copy[Customer]):
    on_delete = "delete"
    name: str


class Purchase(Model[int]):
    number: Key[int]
    buyer: Buyer
    total: int = 0


class OfPurchase(Copy[Purchase]):
    who: str = within(Purchase.buyer, Buyer.name)


class Line(Model[int]):
    number: Key[int]
    of: OfPurchase


class Review(Model[int]):
    number: Key[int]
    by_: Held


class Note(Model[int]):
    number: Key[int]
    by_: Cleared


class Login(Model[int]):
    number: Key[int]
    of: Goes


class LoginName(Copy[Login]):
    name: str = within(Login.of, Goes.name)


class Session(Model[int]):
    number: Key[int]
    login: LoginName


class Follow(Model[int]):
    number: Key[int]
    who: Ref[Customer] = reference(on_delete="refuse")


class Photo(Model[int, int]):
    child_of = Customer

    number: Key[int]
    photo: Key[int] = GENERATED
    title: str = ""


class Post(Model[int]):
    number: Key[int]
    author: Held
    room: int
    at_: datetime


class Membership(Model[int]):
    number: Key[int]
    member: Ref[Customer] = reference(on_delete="delete")
    room: int = 1


class PurchasesByName(Index[Purchase]):
    watched = timedelta(hours=1)

    name: str = by(within(Purchase.buyer, Buyer.name))
    secret: str = shown(within(Purchase.buyer, Customer.secret))


class CustomerOfEmail(Index[Customer]):
    unique = True
    email: str = by(Customer.email, hashed=True)


class CustomersByTag(Index[Customer]):
    tag: str = by(each(Customer.tags))
    name: str = shown(Customer.name)


class Moods(Aggregate[Purchase]):
    mood: Mood = by(within(Purchase.buyer, Buyer.mood))
    purchases: int = count()
    oldest: date | None = least(within(Purchase.buyer, Buyer.born))


class Wall(Feed[Post]):
    joined = on(Post.room, Membership.room)
    marks = True

    member: Ref[Customer] = by(Membership.member)
    at_: datetime = newest(Post.at_)
    author: Held = shown(Post.author)


SHOP = Schema(
    Customer, Purchase, Line, Review, Note, Login, Session, Follow, Photo, Post, Membership,
    PurchasesByName, CustomerOfEmail, CustomersByTag, Moods, Wall,
)  # fmt: skip
SECRETS = (b"Zwiebel", b"zw@x.org", b"Geheimnis", b"1815-12-10", b"4711.50", b"\x11\x11\x11\x11\x22\x22", b"langsam")


def person(**changed):
    given = {"number": 7, "name": "Zwiebelfisch", "email": "zw@x.org", "secret": "Geheimnis", "tags": ["langsam"]}
    return Customer(**given | changed)


def fill(db):
    db.save(person())
    db.save(Customer(number=8, name="Other", mood=Mood.CALM, born=date(2000, 1, 1), home=Home("x", 1), paid=Decimal(1),
                     ident=UUID(int=8)))  # fmt: skip
    for number in (1, 2):
        db.save(Purchase(number=number, buyer=Buyer.of(7)))
    db.save(Purchase(number=3, buyer=Buyer.of(8)))
    db.save(Line(number=1, of=OfPurchase.of(1)))
    db.save(Review(number=1, by_=Held.of(7)))
    db.save(Note(number=1, by_=Cleared.of(7)))
    db.save(Login(number=1, of=Goes.of(7)))
    db.save(Session(number=1, login=LoginName.of(1)))
    db.save(Follow(number=1, who=Customer.at(7)))
    for title in ("Zwiebel 1", "Zwiebel 2"):
        db.save(Photo(number=7, title=title))
    for number, who in ((1, 7), (2, 8)):
        db.save(Membership(number=number, member=Customer.at(who)))
        db.save(Post(number=number, author=Held.of(who), room=1, at_=datetime.now(UTC)))
    db.counter("visits:7").add(3)
    db.drain()


@pytest.fixture
def db(url):
    with connect(url, SHOP, workers=0) as opened:
        fill(opened)
        yield opened


def rows(db):
    for table in ("roots", "views", "counts", "system"):
        within = RowRange(b"", b"")
        while found := db._driver.run(Scan(table, within, 1000, families="dm").__iter__(), Trace(())):
            yield from ((table, key, row) for key, row in found)
            within = RowRange(found[-1][0] + b"\0", b"")


def left(db):
    """The rows that have one of the secrets, but for what goes by itself: removed rows of views, entries, and logs."""
    wall = db.operations.catalog.views[Wall].prefix
    found = []
    for table, key, row in rows(db):
        is_removed = row.get(VALUE) is not None and row[VALUE].value == REMOVED
        if table == "views" and (is_removed or (key.startswith(wall) and not db.operations.spans_rows)):
            continue  # until the purge
        if table == "system" and key.startswith(b"changes:"):
            continue  # until it is swept
        if has_secret(key, row):
            found.append((table, key, row))
    return found


def has_secret(key, row):
    return any(each in key or any(each in cell.value for cell in row.values()) for each in SECRETS)


def test_no_row_keeps_a_value(db):
    assert left(db)
    db.erase(Customer, 7)
    assert left(db) == []


def test_nothing_at_all_is_left_behind_the_sweep_and_the_purge(new_url):
    clock = Clock()
    with connect(new_url(), SHOP, workers=0, clock=clock) as db:
        fill(db)
        db.erase(Customer, 7)
        clock.tick(2 * 86_400)
        db.sweep()
        if not db.operations.spans_rows:
            one = Purge(db.operations.catalog, RecordedPointers(), LEAST_GRACE)
            while db.run(one.step()):
                pass
        assert [each for each in rows(db) if has_secret(each[1], each[2])] == []


def test_copies_are_cleared_whatever_their_declaration_says(db):
    receipt = db.erase(Customer, 7)
    assert receipt.done is not None
    blank = (True, "", None, date(1970, 1, 1), Home("", 0), Mood.CALM, Decimal(0), UUID(int=0))
    for number in (1, 2):
        found = db.get(Purchase, number).buyer
        assert found.ref == Customer.at(7)
        assert (
            found.deleted,
            found.name,
            found.email,
            found.born,
            found.home,
            found.mood,
            found.paid,
            found.ident,
        ) == blank
    assert db.get(Line, 1).of.who == ""
    assert (db.get(Review, 1).by_.name, db.get(Review, 1).by_.deleted) == ("", True)
    assert (db.get(Note, 1).by_.name, db.get(Note, 1).by_.deleted) == (None, True)
    assert db.get(Session, 1).login.name == ""
    assert db.get(Follow, 1).who == Customer.at(7)
    assert db.get(Post, 1).author.name == ""
    for model in (Login, Membership):
        with pytest.raises(NotFound):
            db.get(model, 1)
    assert db.page(Photo).rows == []
    assert db.page(Wall, 7).rows == []
    assert {(row.source.key[0], row.author.name) for row in db.page(Wall, 8).rows} == {(1, ""), (2, "Other")}
    assert [row.secret for row in db.page(PurchasesByName, "").rows] == ["", ""]
    assert db.page(PurchasesByName, "Zwiebelfisch").rows == []
    assert (db.get(Moods, Mood.ANGRY).purchases, db.get(Moods, Mood.CALM).purchases) == (0, 3)
    assert db.counter("visits:7").read() == 0


def test_others_stay_as_they_are(db):
    db.erase(Customer, 7)
    assert db.get(Customer, 8).name == "Other"
    assert db.get(Purchase, 3).buyer.name == "Other"
    assert db.get(Post, 2).author.name == "Other"


def test_a_verification_finds_nothing(db):
    db.erase(Customer, 7)
    assert not db.verify().faults


def test_the_receipt_says_what_was_done(db):
    planned = db.plan_erasure(Customer, 7)
    assert planned.state == "living"
    assert (planned.holders["Purchase"], planned.holders["Login"], planned.children) == (2, 1, 2)
    assert planned.counters == ("visits:7",)
    receipt = db.erase(Customer, 7)
    assert (receipt.model, receipt.key, receipt.children, receipt.counters) == ("Customer", ("7",), 2, 1)
    assert (receipt.rows, receipt.holders, receipt.waiting) == (planned.rows, sum(planned.holders.values()), 0)
    assert db.erasures() == [receipt]
    kept = {each.what.split(",")[0]: each.until for each in receipt.kept}
    until = kept["the change log of PurchasesByName"]
    assert timedelta(minutes=59) < until - receipt.begun <= timedelta(hours=1, minutes=1)


def test_what_an_erasure_cannot_reach_is_named(db):
    kept = [each.what for each in db.plan_erasure(Customer, 7).kept]
    assert "Purchase.buyer.name of entities that were deleted before, where others copy it" in kept
    assert not any(each.startswith("Customer.name") for each in kept)
    beside = "cells beside holders that were deleted, or referred to another one, until `oneread scrub`"
    assert (beside in kept) == (db.operations.parts.prices == "row" and db._driver.engine.capabilities.persistent)


def test_again_does_nothing_more(db):
    first = db.erase(Customer, 7)
    again = db.erase(Customer, 7)
    assert db.plan_erasure(Customer, 7).state == "erased"
    assert (again.begun, again.rows, again.holders, again.children) == (first.begun, first.rows, first.holders, 2)


def test_one_that_was_deleted_before_loses_its_last_values(db):
    for number in (1, 2):
        db.delete(Photo, 7, number)
    for model, number in ((Review, 1), (Follow, 1), (Post, 1)):
        db.delete(model, number)
    db.delete(Customer, 7)
    db.drain()
    assert db.get(Purchase, 1).buyer.name == "Zwiebelfisch"
    assert db.plan_erasure(Customer, 7).state == "deleted"
    db.erase(Customer, 7)
    assert db.get(Purchase, 1).buyer.name == ""
    assert db.get(Line, 1).of.who == ""
    assert not db.verify().faults


def test_one_that_never_was_is_noted_as_erased(db):
    assert db.plan_erasure(Customer, 99).state == "absent"
    receipt = db.erase(Customer, 99)
    assert (receipt.rows, receipt.holders) == (0, 0)
    assert db.plan_erasure(Customer, 99).state == "erased"
    assert not db.verify().faults


def test_a_child_is_erased_alone(db):
    db.erase(Photo, 7, 1)
    assert [each.title for each in db.page(Photo).rows] == ["Zwiebel 2"]
    assert db.get(Customer, 7).name == "Zwiebelfisch"
    db.save(Photo(number=7, title="third"))
    assert [each.photo for each in db.page(Photo).rows] == [2, 3]


def dumped(db):
    lines: list[bytes] = []
    db.dump(lines.append)
    return lines


def load(db, lines):
    """Loads a dump; returns what was refused, by class of error."""
    reader = DumpReader(db.operations.catalog, parse_head(lines[0]))
    refused: list[str] = []
    with db.bulk(on_refused=lambda refusal: refused.append(type(refusal.error).__name__)) as bulk:
        for line in lines[1:-1]:
            if line.startswith(b'{"model":'):
                bulk.apply(reader.change(line), len(line))
    db.drain()
    return refused


def test_a_load_of_an_older_dump_does_not_bring_it_back(db):
    older = dumped(db)
    db.erase(Customer, 7)
    refused = load(db, older)
    assert refused.count("Erased") == 5, "the person, and two photos, a login and a membership that went along"
    with pytest.raises(NotFound):
        db.get(Customer, 7)
    assert left(db) == []
    assert not db.verify().faults


def test_nor_does_it_into_a_store_that_was_loaded_from_a_newer_one(new_url, db):
    older = dumped(db)
    db.erase(Customer, 7)
    with connect(new_url(), SHOP, workers=0) as other:
        load(other, dumped(db))
        assert other.get(Purchase, 1).buyer.name == ""
        assert load(other, older).count("Erased") == 5
        assert other.get(Purchase, 1).buyer.name == ""
        assert left(other) == []


def test_nor_does_a_bulk_writer(db):
    db.erase(Customer, 7)
    with pytest.raises(Erased, match="not restored") as found, db.bulk() as bulk:
        bulk.save(person(), as_stored=True)
    assert found.value.facts["key"] == "Customer(7)"


def test_a_new_person_under_the_key_is_saved_and_restored(new_url, db):
    with connect(new_url(), SHOP, workers=0) as other:
        other.erase(Customer, 7)
        db.erase(Customer, 7)
        db.save(Customer(number=7, name="New"))
        assert db.get(Customer, 7).name == "New"
        db.drain()
        assert db.get(Purchase, 1).buyer.name == "New", "the reference was left, and is to the one that has the key now"
        refused = load(other, dumped(db))
        assert refused == ["Erased"] * len(refused), "photos and others that were erased stay erased"
        assert other.get(Customer, 7).name == "New"


def test_what_was_noted_of_it_goes(db):
    put = [(b"differs:x\0a", b"... Zwiebelfisch ..."), (b"differs:x\0b", b"of another"), (b"console:1", b"Customer(7)")]
    for key, value in put:
        db.run(Mutate("system", [RowMutation(key, {VALUE: Cell(value, 1)})]).__iter__())
    assert db.erase(Customer, 7).noted == 2
    kept = [key for table, key, row in rows(db) if table == "system" and key.startswith((b"differs:", b"console:"))
            and row[VALUE].value != REMOVED]  # fmt: skip
    assert kept == [b"differs:x\0b"]


def test_what_was_noted_of_the_key_of_a_deleted_one_goes(new_url):
    class Person(Model[str]):
        email: Key[str]

    with connect(new_url(), Schema(Person), workers=0) as db:
        db.save(Person(email="ada@example.org"))
        db.delete(Person, "ada@example.org")
        row = RowMutation(b"console:1", {VALUE: Cell(b"patch of Person ada@example.org", 1)})
        db.run(Mutate("system", [row]).__iter__())
        assert db.erase(Person, "ada@example.org").noted == 1


@pytest.mark.parametrize("step", range(12))
def test_interrupted_anywhere_it_is_continued_by_the_same_call(db, step):
    """Dies at a request of the erasure; what a later call finds is finished by it."""

    plan = db._erasure_of(Customer, (7,)).run()
    db._driver.run(Counting(plan, (step + 1) * 5), Trace(()))
    receipt = db.erase(Customer, 7)
    assert receipt.done is not None
    assert left(db) == []
    assert not db.verify().faults
    assert receipt.children <= 2


def Counting(plan, most):  # noqa: N802 - stands where a plan does
    """A plan that ends after so many requests, as if its program had died."""
    answer = None
    for _number in range(most):
        try:
            asked = plan.send(answer)
        except StopIteration:
            return
        answer = yield asked
    plan.close()


def test_many_holders_follow_by_a_task(new_url):
    few = Schema(*SHOP.models[:11], *[each for each in SHOP.views if not each.is_added], inline=3)
    with connect(new_url(), few, workers=0) as db:
        fill(db)
        for number in range(10, 30):
            db.save(Purchase(number=number, buyer=Buyer.of(7)))
        db.drain()
        assert db.erase(Customer, 7).holders >= 22
        assert {each.buyer.name for each in db.page(Purchase, limit=100).rows} == {"", "Other"}
        assert left(db) == []


class Strict(Model[int]):
    number: Key[int]
    buyer: Buyer

    def check(self):
        if not self.buyer.name:
            raise ValueError("a buyer has a name")


STRICT = Schema(Customer, Strict)


def test_holders_that_cannot_follow_are_set_aside_and_the_erasure_is_not_done(new_url):
    with connect(new_url(), STRICT, workers=0) as db:
        db.save(person())
        db.save(Strict(number=1, buyer=Buyer.of(7)))
        receipt = db.erase(Customer, 7)
        assert (receipt.done, receipt.waiting) == (None, 1)
        assert [each.holder for each in db.set_aside()] != []
        db.delete(Strict, 1)
        assert db.erase(Customer, 7).done is not None
        assert db.erasures()[0].waiting == 0


def test_what_is_refused(db):
    with pytest.raises(InvalidKey):
        db.erase(Customer, 7, 8)
    with pytest.raises(UsageError, match="not a model"):
        db.erase(PurchasesByName, 7)
    with pytest.raises(InvalidQuery, match="limit of receipts"):
        db.erasures(limit=0)
    assert db.erasures() == []


def test_a_reference_names_it(db):
    assert db.erase(Customer, db.get(Purchase, 1).buyer).done is not None


def test_the_other_face_does_the_same(url):
    async def erase():
        async with connect_async(url, SHOP, workers=0) as other:
            assert (await other.plan_erasure(Customer, 7)).state == "living"
            assert (await other.erase(Customer, 7)).done is not None
            assert len(await other.erasures()) == 1

    with connect(url, SHOP, workers=0) as db:
        fill(db)
        asyncio.run(erase())
        assert left(db) == []


def test_the_change_alone_is_one_commit(db):
    catalog = db.operations.catalog
    db.run(db.operations.commit([Erase(catalog, db.operations.root(Customer, (8,)), None, Customer)]))
    db.drain()
    assert db.get(Purchase, 3).buyer.name == ""


class Guest(Model[int]):
    number: Key[int]
    name: str


class Answer(Model[int]):
    number: Key[int]
    guest: Ref[Guest]
    brings: Ref[Guest] | None = None


class AnswersOfGuest(Index[Answer]):
    guest: Ref[Guest] = by(Answer.guest)


class SendMail(Job):
    to: str


def test_what_refers_by_the_key_alone_is_named_with_the_view_that_lists_it(url):
    with connect(url, Schema(Guest, Answer, AnswersOfGuest, SendMail), workers=0) as db:
        db.save(Guest(number=7, name="Ada"))
        db.save(Answer(number=1, guest=Guest.at(7)))
        said = [each.what for each in db.erase(Guest, 7).kept]
        assert said[:3] == [
            "Answer.guest of entities that refer to it by its key; AnswersOfGuest lists which",
            "Answer.brings of entities that refer to it by its key; no view lists which",
            "jobs that wait or are set aside: they have what the program gave them",
        ]
        assert [row.source.key for row in db.page(AnswersOfGuest, 7)] == [(1,)]
