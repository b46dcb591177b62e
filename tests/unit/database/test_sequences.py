"""Sequences: the numbers of the children of an entity group, from 1 and without holes."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from oneread import GENERATED, Index, Key, Model, Ref, Schema, by, connect, renamed
from oneread.errors import (
    AlreadyExists,
    Corrupt,
    InvalidDeclaration,
    InvalidKey,
    MissingReference,
    NotUnique,
    OnereadError,
    SchemaMismatch,
    StillReferenced,
    UsageError,
)
from oneread.store.requests import Read
from oneread.store.rows import Cell
from oneread.verify import sequence_check
from tests.properties.test_dump_round_trip import dumped, load
from tests.unit.database.faces import FACES


class User(Model[str]):
    name: Key[str]
    karma: int = 0


class Comment(Model[datetime, str, int]):
    """The root's key is in the middle of the key: the time comes first."""

    child_of = User
    at: Key[datetime]
    name: Key[str]
    number: Key[int] = GENERATED
    text: str = ""


class Badge(Model[str, int]):
    child_of = User
    name: Key[str]
    number: Key[int] = GENERATED
    title: str = ""


class Titles(Index[Badge]):
    unique = True
    title: str = by(Badge.title)


SCHEMA = Schema(User, Comment, Badge, Titles)
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture(params=sorted(FACES))
def db(request, url):
    opened = FACES[request.param](url, SCHEMA, clock=lambda: 1_700_000_000_000)
    opened.save(User(name="ada"))
    opened.save(User(name="bob"))
    yield opened
    assert opened.verify().clean
    opened.close()


def badge(name="ada", title="", **more):
    return Badge(name=name, title=title, **more)


def numbers(found):
    return [each.number for each in found]


def test_numbers_start_at_one_for_each_group_and_model(db):
    assert numbers([db.create(badge(title=each)) for each in "abc"]) == [1, 2, 3]
    assert db.create(badge("bob", "x")).number == 1
    assert db.create(Comment(at=NOON, name="ada")).number == 1
    assert db.create(Comment(at=NOON - timedelta(1), name="ada")).number == 2
    assert db.get(Comment, NOON, "ada", 1).text == ""


def test_save_and_get_or_create_number_too(db):
    assert db.save(badge(title="a")).number == 1
    made, created = db.get_or_create(badge(title="b"))
    assert (made.number, created) == (2, True)
    with pytest.raises(UsageError, match="give its number"):
        db.upsert(badge(title="c"), title="d")
    assert db.upsert(badge(title="c", number=2), title="d").title == "d"


def test_what_is_refused_takes_none(db):
    db.create(badge(title="a"))
    for refused in (badge(title="a"), badge(title=7), Badge(name="nobody", title="z")):
        with pytest.raises(OnereadError):
            db.create(refused)
    assert db.create(badge(title="b")).number == 2


def test_a_batch_takes_numbers_in_its_order_or_none(db):
    saved = db.save_all([badge(title="a"), badge("bob", "b"), badge(title="c")])
    assert [(each.name, each.number) for each in saved] == [("ada", 1), ("bob", 1), ("ada", 2)]
    with pytest.raises(NotUnique):
        db.save_all([badge(title="d"), badge(title="a")])
    assert db.create(badge(title="e")).number == 3


def test_a_deleted_number_is_not_given_again(db):
    for title in "abc":
        db.create(badge(title=title))
    db.delete(Badge, "ada", 3)
    db.delete(Badge, "ada", 1)
    assert db.create(badge(title="d")).number == 4
    assert db.save(badge(title="a", number=1)).number == 1  # by name it is saved again
    assert db.create(badge(title="e")).number == 5


def test_the_count_outlives_the_root_and_its_purge(db):
    db.create(badge(title="a"))
    with pytest.raises(StillReferenced) as refused:
        db.delete(User, "ada")
    assert refused.value.facts["owner"] == "Badge('ada', 1)"
    db.delete(Badge, "ada", 1)
    db.delete(User, "ada")
    operations = db.operations
    keys = [operations.root(User, ("ada",)), operations.root(Badge, ("ada", 1))]
    db.run(operations.committer.purge(keys))
    assert [row is None for row in db.run(Read("roots", keys).__iter__())] == [False, True]
    with pytest.raises(MissingReference, match="root"):
        db.create(badge(title="b"))
    db.save(User(name="ada"))
    assert db.create(badge(title="c")).number == 2


def test_writes_of_the_root_keep_the_count(db):
    db.create(badge(title="a"))
    before = db.version(db.get(User, "ada"))
    db.create(badge(title="b"))
    assert db.version(db.get(User, "ada")) == before, "its own version stays"
    db.patch(User, "ada", karma=7)
    db.save(User(name="ada", karma=8))
    assert db.create(badge(title="c")).number == 3
    assert db.get(User, "ada").karma == 8


@pytest.mark.parametrize("number", [0, -1, 3, 2**63, 2**70])
def test_programs_do_not_choose_numbers(db, number):
    db.create(badge(title="a"))
    for verb in (db.save, db.create):
        with pytest.raises(InvalidKey, match="leave it out") as refused:
            verb(badge(title="b", number=number))
        assert refused.value.facts["last"] == 1
    assert db.create(badge(title="b")).number == 2


def test_a_transaction_sees_its_numbers(db):
    made = db.transact(
        [
            ("create", (badge(title="a"),), {}),
            ("create", (badge(title="b"),), {}),
            ("get", (Badge, "ada", 2), {}),
            ("create", (User(name="eve"),), {}),
            ("create", (badge("eve", "c"),), {}),
        ]
    )
    assert [getattr(each, "number", None) for each in made] == [1, 2, 2, None, 1]
    with pytest.raises(AlreadyExists):
        db.transact([("create", (badge(title="d"),), {}), ("create", (User(name="eve"),), {})])
    assert db.create(badge(title="d")).number == 3


def test_a_write_refused_inside_a_transaction_takes_none(url):
    with connect(url, SCHEMA) as db:
        db.save(User(name="ada"))

        def body(tx):
            first = tx.create(badge(title="a"))
            with pytest.raises(OnereadError):
                tx.create(badge(title=7))
            return first, tx.create(badge(title="b"))

        assert numbers(db.transact(body)) == [1, 2]


def test_transactions_that_meet_run_again_and_leave_no_hole(url):
    with connect(url, SCHEMA) as db:
        db.save(User(name="ada"))
        runs = []

        def body(tx):
            made = tx.create(badge(title="tx"))
            if not runs:
                db.create(badge(title="other"))
            runs.append(made.number)
            return made

        assert db.transact(body).number == 2
        assert runs == [1, 2]


def test_a_transaction_that_reads_two_moments_runs_again(url):
    with connect(url, SCHEMA) as db:
        db.save(User(name="ada"))
        seen = []

        def body(tx):
            tx.get(User, "ada")
            if not seen:
                db.create(badge(title="other"))  # behind the count that the body has read
            seen.append(tx.find(Badge, "ada", 1))
            return tx.create(badge(title="tx"))

        assert db.transact(body).number == 2
        assert [each is None for each in seen] == [False, False]
        assert db.get(Badge, "ada", 1).title == "other"


def test_costs_are_exact(db):
    first = db.create(badge(title="a"))
    # fence; root and source; the row at the number; groups of the claim; roots, views, counts written
    found = db.cost(first)
    assert (found.requests, found.rows) == (7, 9)
    bound = db.explain.create(badge(title="b")).bound
    assert (bound.requests, bound.rows) >= (found.requests, found.rows)
    assert db.cost(db.save(Comment(at=NOON, name="ada"))).requests == 5


@pytest.mark.parametrize("count", [2, 3, 100])
def test_several_children_read_their_rows_together(db, count):
    saved = db.save_all([Comment(at=NOON, name="ada") for _ in range(count)])
    assert numbers(saved) == list(range(1, count + 1))
    # fence; root; the rows at the numbers; roots and holds written
    found = db.cost(saved[0])
    assert (found.requests, found.rows) == (5, 1 + 1 + count + (count + 1) + count)
    bound = db.explain.save_all([Comment(at=NOON, name="ada")] * count).bound
    assert (bound.requests, bound.rows) >= (found.requests, found.rows)


def test_several_children_of_several_groups_and_models_read_their_rows_together(db):
    first = db.create(badge(title="a"))
    mixed = [badge(title="b"), Comment(at=NOON, name="bob"), badge("bob", "c"), badge(title="d"), first]
    saved = db.save_all(mixed)
    assert numbers(saved) == [2, 1, 1, 3, 1]
    assert db.cost(saved[0]).requests == 7  # as for one: fence, roots, numbers, claims, three tables


def test_a_transaction_numbers_several_with_one_read_at_its_commit(db):
    saved = db.transact([("create", [Comment(at=NOON, name="ada")], {})] * 5)
    assert numbers(saved) == [1, 2, 3, 4, 5]
    # the root in the body; fence, root and rows again, roots and views written
    assert db.cost(saved[0]).requests <= 6


def test_bulk_reads_the_rows_of_a_batch_together(url):
    seen = []
    with connect(url, SCHEMA, workers=0, observers=(lambda request, _answer: seen.append(request),)) as db:
        db.save(User(name="ada"))
        seen.clear()
        with db.bulk() as bulk:
            for _ in range(50):
                bulk.create(Comment(at=NOON, name="ada"))
        assert sum(type(request) is Read and request.table == "roots" for request in seen) == 2


def test_a_loaded_store_continues_behind_the_greatest(url):
    with connect(url, SCHEMA) as db:
        db.save_all([User(name="ada"), User(name="bob")])
        for title in "abc":
            db.create(badge(title=title))
        db.delete(Badge, "ada", 2)
        db.create(Comment(at=NOON, name="bob"))
        db.create(badge("bob", "x"))
        db.delete(Badge, "bob", 1)
        text = dumped(db)
    with connect(url, SCHEMA) as db:
        load(db, text)
        assert db.verify().clean
        assert numbers(db.page(Badge, "ada").rows) == [1, 3]
        assert db.create(badge(title="d")).number == 4
        assert db.create(Comment(at=NOON, name="bob")).number == 2
        assert db.create(badge("bob", "x")).number == 2, "of the deleted one only the tombstone was in the dump"


def test_a_dump_has_roots_first_where_references_form_a_cycle(new_url):
    class Thread(Model[str]):
        name: Key[str]
        last: Ref["Answer"] | None = None

    class Answer(Model[str, int]):
        child_of = Thread
        name: Key[str]
        number: Key[int] = GENERATED

    schema = Schema(Thread, Answer)
    with connect(new_url(), schema) as db:
        db.save(Thread(name="t"))
        db.patch(Thread, "t", last=db.create(Answer(name="t")).ref())
        text = dumped(db)
    with connect(new_url(), schema) as db:
        load(db, text)
        assert db.get(Thread, "t").last == Answer.at("t", 1)
        assert db.create(Answer(name="t")).number == 2
        assert db.verify().clean


def test_bulk_numbers_in_order(url):
    with connect(url, SCHEMA) as db:
        db.save(User(name="ada"))
        with db.bulk() as bulk:
            for place in range(50):
                bulk.create(badge(title=str(place)))
        found = db.page(Badge, "ada", limit=50).rows
        assert [(each.number, each.title) for each in found] == [(place + 1, str(place)) for place in range(50)]


def test_a_count_behind_its_children_refuses_to_number(url):
    with connect(url, SCHEMA) as db:
        db.save(User(name="ada"))
        db.create(badge(title="a"))
        root = db.operations.root(User, ("ada",))

        def lose_the_count(store):
            (row,) = store.read("roots", [root], "dm")
            store.replace("roots", {root: {name: cell for name, cell in row.items() if name[:3] != b"m:s"}})

        db.run(db.operations.committer.together(lose_the_count))
        with pytest.raises(Corrupt, match="behind"):
            db.create(badge(title="b"))
        assert db.find(Badge, "ada", 2) is None
        (fault,) = db.verify().faults
        assert fault.text == "Badge ada/1: sequence: 0 -> at least 1"
        assert (fault.kind, fault.view, fault.mendable) == ("different", "sequence", True)
        assert db.repair().mended == 1
        assert db.create(badge(title="b")).number == 2
        assert db.verify().clean


def test_verify_knows_the_counts_of_more_roots_than_it_keeps(url, monkeypatch):
    """A batch has some roots that are kept, and so many others that those are dropped."""
    monkeypatch.setattr(sequence_check, "KEPT_SEQUENCES", 30)
    with connect(url, SCHEMA) as db:
        db.save_all([User(name=f"user {number}") for number in range(40)])
        with db.bulk() as bulk:
            for place in range(1_100):  # a batch is 500
                number = place % 20 + place // 500 * 10
                bulk.create(Comment(at=NOON + timedelta(seconds=place), name=f"user {number}"))
        assert db.verify().clean


def damage_count(db, value, kind=Badge):
    """Another value in place of the count of ada's children of a kind."""
    root, column = db.operations.root(User, ("ada",)), b"m:s" + db.operations.kind(kind).prefix

    def write(store):
        (row,) = store.read("roots", [root], "dm")
        store.replace("roots", {root: row | {column: Cell(value, row[b"d:v"].stamp)}})

    db.run(db.operations.committer.together(write))


DAMAGE = [b"", b"\x01", bytes(7), bytes(9), b"\xff" * 8, b"\x80" + bytes(7), b"x" * 1000]


@pytest.mark.parametrize("value", DAMAGE, ids=[str(len(value)) + value[:1].hex() for value in DAMAGE])
def test_a_count_that_cannot_be_read_is_named_found_and_mended(url, value):
    with connect(url, SCHEMA) as db:
        db.save_all([User(name="ada"), User(name="bob")])
        for title in "abc":
            db.create(badge(title=title))
        db.delete(Badge, "ada", 3)
        comment = db.create(Comment(at=NOON, name="ada"))
        damage_count(db, value)
        attempts = [
            lambda: db.create(badge(title="d")),
            lambda: db.save_all([badge(title="d"), badge(title="e")]),
            lambda: db.transact(lambda tx: tx.create(badge(title="d"))),
            lambda: db.save(Badge(name="ada", number=3, title="again")),
        ]
        for attempt in attempts:
            with pytest.raises(Corrupt, match="cannot be read; run a repair") as refusal:
                attempt()
            assert refusal.value.facts["root"] == "User('ada')"
            assert refusal.value.facts["stored"] == value[:16]
        assert numbers(db.page(Badge, "ada").rows) == [1, 2]
        db.patch(User, "ada", karma=7)  # what does not number goes on, and keeps the damage
        assert db.create(Comment(at=NOON, name="ada")).number == comment.number + 1
        assert db.create(badge("bob", "x")).number == 1
        faults = db.verify().faults
        texts = [each.text for each in faults]
        assert "User ada: its sequence cannot be read: it is not a number of 8 bytes" in texts
        assert "Badge ada/3: sequence: 0 -> at least 3" in texts
        assert len(texts) == 1 + 3
        assert {(each.view, each.mendable) for each in faults} == {("sequence", True)}
        assert db.repair().clean
        assert db.verify().clean
        assert db.create(badge(title="d")).number == 4, "the deleted one's number is not given again"
        assert db.get(User, "ada").karma == 7


def test_a_count_that_cannot_be_read_and_has_no_children_starts_again(url):
    with connect(url, SCHEMA) as db:
        db.save(User(name="ada"))
        damage_count(db, b"?")
        (fault,) = db.verify().faults
        assert (fault.kind, fault.view, fault.entity) == ("unreadable", "sequence", "User('ada')")
        assert db.repair().clean
        assert db.create(badge()).number == 1


def test_repair_of_two_counts_of_one_root(url):
    with connect(url, SCHEMA) as db:
        db.save(User(name="ada"))
        db.create(badge())
        db.create(Comment(at=NOON, name="ada"))
        damage_count(db, b"?", Badge)
        damage_count(db, b"?", Comment)
        assert db.repair().clean
        assert db.create(badge(title="b")).number == db.create(Comment(at=NOON, name="ada")).number == 2


def declare(name, base, annotations, **space):
    return type(base)(name, (base,), {"__annotations__": annotations, "__module__": __name__, **space})


@pytest.mark.parametrize(
    ("annotations", "space", "text"),
    [
        ({"number": Key[int]}, {"number": GENERATED}, "child_of"),
        ({"name": Key[str], "number": Key[int]}, {"number": GENERATED, "child_of": "Nowhere"}, "child_of"),
        ({"name": Key[str]}, {"child_of": Badge}, "child_of"),
        ({"name": Key[str]}, {"child_of": int}, "child_of"),
        ({"user": Key[str], "number": Key[int]}, {"child_of": User}, "same names"),
        ({"name": Key[int], "number": Key[int]}, {"child_of": User}, "same names"),
        ({"name": Key[str], "a": Key[int], "b": Key[int]}, {"child_of": User, "a": GENERATED, "b": GENERATED}, "one"),
        ({"name": Key[str], "number": int}, {"child_of": User, "number": GENERATED}, "GENERATED"),
        ({"name": Key[str], "number": Key[str]}, {"child_of": User, "number": GENERATED}, "GENERATED"),
    ],
)
def test_declarations_that_cannot_work(annotations, space, text):
    child = declare("Child", Model, annotations, **space)
    with pytest.raises(InvalidDeclaration, match=text):
        Schema(User, Badge, child)


def test_a_root_with_a_generated_key_is_not_generated_by_its_children():
    class Thread(Model[UUID]):
        id: Key[UUID] = GENERATED

    class Reply(Model[UUID, int]):
        child_of = Thread
        id: Key[UUID] = GENERATED
        number: Key[int] = GENERATED

    with pytest.raises(InvalidDeclaration, match="not generated"):
        Schema(Thread, Reply)
    with pytest.raises(InvalidDeclaration, match="child_of"):
        Schema(Reply)


def test_stored_entities_do_not_enter_a_group(url):
    def model(**space):
        return declare("Note", Model, {"name": Key[str], "number": Key[int]}, **space)

    with connect(url, Schema(User, model(child_of=User, number=GENERATED))):
        pass
    with connect(url, Schema(User, model(child_of=User))) as db:  # no entities: everything is possible
        db.save(User(name="ada"))
        db.save(db.operations.catalog.names["Note"](name="ada", number=7))
    with pytest.raises(SchemaMismatch, match="entity group"):
        connect(url, Schema(User, model()))
    with pytest.raises(SchemaMismatch, match="entity group"):
        connect(url, Schema(User, Badge, model(child_of=User, number=GENERATED)))


def renamed_parts(url, root_fields, fields, **space):
    """A root and its children under other names for the parts of their keys; opened, with what is there."""
    user = declare("User", Model, root_fields, evolution=(renamed("name", to="nick"),))
    note = declare("Note", Model, fields, child_of=user, **space)
    return user, note, connect(url, Schema(user, note), workers=0)


def test_the_numbered_part_and_the_parts_of_the_root_can_be_renamed(url):
    user, note, db = renamed_parts(url, {"name": Key[str]}, {"name": Key[str], "number": Key[int]}, number=GENERATED)
    with db:
        db.save(user(name="ada"))
        db.save_all([note(name="ada") for _ in range(3)])
        db.delete(note, "ada", 3)
    steps = (renamed("number", to="place"),)
    parts = {"name": Key[str], "place": Key[int]}
    user, note, db = renamed_parts(url, {"name": Key[str]}, parts, place=GENERATED, evolution=steps)
    with db:
        assert db.get(note, "ada", 2) == note(name="ada", place=2)
        assert db.create(note(name="ada")).place == 4
        assert db.verify().clean
    steps = (*steps, renamed("name", to="nick"))
    parts = {"nick": Key[str], "place": Key[int]}
    user, note, db = renamed_parts(url, {"nick": Key[str]}, parts, place=GENERATED, evolution=steps)
    with db:
        assert db.get(user, "ada") == user(nick="ada")
        assert db.create(note(nick="ada")).place == 5
        assert db.verify().clean
    with pytest.raises(SchemaMismatch, match="entity group"):  # the same part, and no number any more
        renamed_parts(url, {"nick": Key[str]}, parts, evolution=steps)
    with pytest.raises(SchemaMismatch, match="can be renamed and nothing else"):  # not declared as renamed
        renamed_parts(url, {"nick": Key[str]}, {"nick": Key[str], "rank": Key[int]}, rank=GENERATED)
