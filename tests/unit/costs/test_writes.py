"""The bounds of a delete with all children, of what replaces expired entities, and how often a group can be written."""

from datetime import datetime, timedelta

import pytest

from oneread import GENERATED, Aggregate, Copy, Index, Key, Model, Ref, Schema, by, connect, count, expires, shown
from oneread.costs.budgets import budget
from oneread.costs.declared import of
from oneread.costs.numbers import MachineNumbers, this_machine
from oneread.database.explaining import Explainer
from oneread.errors import UsageError
from oneread.testing.clock import START, Clock

INLINE = 60


class Person(Model[str]):
    name: Key[str]
    motto: str = ""


class Admin(Person):
    level: int = 1


class Note(Model[str, int]):
    child_of = Person
    name: Key[str]
    number: Key[int] = GENERATED
    text: str = ""


class LongNote(Note):
    more: str = ""


class Quoted(Copy[Note]):
    text: str


class Reply(Model[str, int]):
    child_of = Person
    name: Key[str]
    number: Key[int] = GENERATED
    quoted: Quoted | None = None
    after: Ref["Reply"] | None = None


class Elsewhere(Model[int]):
    number: Key[int]
    quoted: Quoted


class NotesOfText(Index[Note]):
    text: str = by(Note.text)


class Replies(Aggregate[Reply]):
    name: str = by(Reply.name)
    replies: int = count()


class RepliesOfName(Index[Reply]):
    name: str = by(Reply.name)
    quoted: Quoted | None = shown(Reply.quoted)


SCHEMA = Schema(
    Person, Admin, Note, LongNote, Reply, Elsewhere, NotesOfText, Replies, RepliesOfName, inline=INLINE
)  # fmt: skip


def filled(db, notes, replies):
    db.save(Admin(name="ada"))
    db.save(Person(name="bob"))
    if notes:
        db.save_all([(LongNote if place % 2 else Note)(name="ada", text=f"t{place}") for place in range(notes)])
    for place in range(replies):
        quoted = Quoted.of("ada", 1 + place % notes) if notes else None
        after = Reply.at("ada", place) if place else None
        db.save(Reply(name="ada", quoted=quoted, after=after))
    if notes:
        db.save(Elsewhere(number=1, quoted=Quoted.of("ada", 1)))


@pytest.mark.parametrize(("notes", "replies"), [(0, 0), (1, 0), (0, 1), (40, 0), (0, 40), (20, 20), (59, 1), (1, 59)])
def test_a_delete_with_children_costs_at_most_its_bound(notes, replies):
    with connect("memory://", SCHEMA, workers=0) as db:
        filled(db, notes, replies)
        exact = db.explain.delete(Person, "ada", children=notes + replies)
        whole = db.explain.delete(Person, "ada", children="delete")
        with budget() as spent:
            db.delete(Person, "ada", children="delete")
        assert db.find(Person, "ada") is None
        assert db.verify().clean
        for explained in (exact, whole):
            bound = explained.bound
            assert (spent.requests, spent.rows) <= (bound.requests, bound.rows)
            assert spent.rows <= bound.rows
            assert spent.bytes <= bound.bytes
        assert exact.bound.rows <= whole.bound.rows
        assert exact.plan == (
            "scan views for the children of Person('ada')",
            "read roots Person('ada') and children",
        )


def test_without_copies_the_bound_is_near():
    schema = Schema(Person, Note, inline=100)
    with connect("memory://", schema, workers=0) as db:
        db.save(Person(name="ada"))
        db.save_all([Note(name="ada") for _ in range(100)])
        bound = db.explain.delete(Person, "ada", children=100).bound
        with budget() as spent:
            db.delete(Person, "ada", children="delete")
        # the list; fence, rows, holds that go; roots and views written
        assert (spent.requests, spent.rows) == (6, 100 + 1 + 101 + 100 + 101 + 100)
        assert (bound.requests, bound.rows) <= (2 * spent.requests, 2 * spent.rows)


def test_the_table_has_the_delete_of_a_group():
    names = {bound.name for bound in of(SCHEMA).table()}
    assert f"delete(children={INLINE}) Person" in names
    assert f"delete(children={INLINE}) Admin" in names
    assert not any(name.startswith("delete(children") and name.endswith(("Note", "Elsewhere")) for name in names)


@pytest.mark.parametrize(
    ("model", "children", "text"),
    [
        (Note, 1, "no model of the schema has this one as its root"),
        (Elsewhere, 1, "no model of the schema has this one as its root"),
        (Person, INLINE + 1, "not deleted in one commit"),
        (Person, -1, "whole number"),
        (Person, True, "whole number"),
        (Person, "keep", "whole number"),
        (Person, 2.0, "whole number"),
        (str, 1, "not a model"),
        (NotesOfText, 1, "not a model"),
    ],
)
def test_a_wrong_number_of_children_is_refused(model, children, text):
    with pytest.raises(UsageError, match=text):
        of(SCHEMA).delete(model, children=children)


def test_only_a_root_is_explained_with_its_children():
    with connect("memory://", SCHEMA, workers=0) as db:
        with pytest.raises(UsageError, match="named by its root"):
            db.explain.delete(Note, "ada", 1, children="delete")
        with pytest.raises(UsageError, match="whole number"):
            db.explain.delete(Person, "ada", children="keep")


SECONDS = dict.fromkeys(
    ["point", "entity row", "row", "page", "request", "byte read", "byte written", "entity", "source", "index row",
     "extremum", "group", "claim"], 0.0
) | {"commit": 0.002}  # fmt: skip


@pytest.fixture
def explain():
    with connect("memory://", SCHEMA, workers=0) as db:
        yield db.explain.by(MachineNumbers(1, "memory://", this_machine(), SECONDS))


def test_the_commits_a_second_of_a_group_are_explained(explain: Explainer):
    for found in (
        explain.create(Note(name="ada")),
        explain.patch(Admin, "ada", level=2),
        explain.delete(Note, "ada", 1),
    ):
        assert (found.group, found.group_rate) == ("Person", pytest.approx(500))
        assert str(found).endswith("the commits of one Person group are one after the other: at least 500 a second")


def test_what_is_in_no_group_has_no_rate(explain: Explainer):
    assert explain.delete(Elsewhere, 1).group == ""
    assert explain.get(Person, "ada").group_rate is None
    assert of(Schema(Person)).group_of(Person) is None
    assert of(SCHEMA).group_of(Replies) is None


def test_without_numbers_the_group_is_named():
    with connect("memory://", SCHEMA, workers=0) as db:
        found = db.explain.create(Note(name="ada"))
        assert (found.group, found.group_rate) == ("Person", None)
        assert str(found).endswith("the commits of one Person group are one after the other")


class Ticket(Model[int]):
    number: Key[int]
    until: datetime
    nick: str
    ttl = expires("until")


class TicketsOfNick(Index[Ticket]):
    nick: str = by(Ticket.nick)


@pytest.mark.parametrize("url", ["memory://", "memory://?span=row"])
def test_a_create_may_replace_what_has_expired(url):
    schema, clock = Schema(Ticket, TicketsOfNick), Clock()
    with connect(url, schema, workers=0, clock=clock) as db:
        db.create(Ticket(number=1, until=START + timedelta(seconds=9), nick="a"))
        clock.tick(10)
        spent = db.cost(db.create(Ticket(number=1, until=clock.now + timedelta(seconds=9), nick="b")))
        bound = of(schema, span="row" if "row" in url else "rows").create(Ticket)
        assert (spent.requests, spent.rows) == (bound.requests, bound.rows)
