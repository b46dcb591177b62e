"""`Schema(portable=True)`: every engine refuses what a store that changes one row at a time cannot do."""

import pytest

from oneread import GENERATED, Index, Key, Model, Schema, by, connect
from oneread.errors import InvalidDeclaration, InvalidValue, NotUnique, UsageError
from tests.unit.database.faces import FACES


class User(Model[str]):
    name: Key[str]
    age: int = 0


class Comment(Model[str, int]):
    child_of = User
    name: Key[str]
    number: Key[int] = GENERATED


PORTABLE = Schema(User, Comment, portable=True)


@pytest.fixture(params=sorted(FACES))
def db(request, url):
    opened = FACES[request.param](url, PORTABLE)
    opened.save_all([User(name="ada"), User(name="bob")])
    yield opened
    opened.close()


def test_a_transaction_of_one_group_is_allowed(db):
    read, _made, _patched = db.transact(
        [
            ("get", (User, "ada"), {}),
            ("create", (Comment(name="ada"),), {}),
            ("patch", (User, "ada"), {"age": 7}),
        ]
    )
    assert read.age == 0
    assert db.get(User, "ada").age == 7


@pytest.mark.parametrize(
    "second",
    [
        ("save", (User(name="bob"),), {}),
        ("create", (Comment(name="bob"),), {}),
        ("patch", (User, "bob"), {"age": 1}),
        ("delete", (User, "bob"), {}),
    ],
)
@pytest.mark.parametrize("first", [("get", (User, "ada"), {}), ("create", (Comment(name="ada"),), {})])
def test_a_write_in_a_second_group_is_refused(db, first, second):
    with pytest.raises(UsageError, match="outside") as refused:
        db.transact([first, second])
    assert refused.value.facts == {"group": "User('ada')", "given": "User('bob')"}
    assert db.find(Comment, "ada", 1) is None


def test_a_read_of_another_group_is_unchecked_or_refused(db):
    write = ("patch", (User, "ada"), {"age": 1})
    with pytest.raises(UsageError, match="unchecked=True"):
        db.transact([write, ("get", (User, "bob"), {})])
    with pytest.raises(UsageError, match="unchecked=True"):
        db.transact([("find", (User, "bob"), {}), ("get", (User, "ada"), {})])
    assert db.get(User, "ada").age == 0
    read, _ = db.transact([("get", (User, "bob"), {"unchecked": True}), write])
    assert (read.name, db.get(User, "ada").age) == ("bob", 1)


def test_a_batch_is_a_commit_for_each_entity(db):
    with pytest.raises(InvalidValue) as refused:
        db.save_all([User(name="c"), User(name="d"), User(name="e", age="x"), User(name="f")])
    assert refused.value.facts["saved"] == 2
    assert [db.exists(User, name) for name in "cdef"] == [True, True, False, False]


def test_it_is_a_property_of_the_program(url):
    with FACES["sync"](url, Schema(User, Comment)).db as opened:
        opened.transact(lambda tx: (tx.save(User(name="ada")), tx.save(User(name="bob"))))
    with FACES["sync"](url, PORTABLE).db as opened, pytest.raises(UsageError):
        opened.transact(lambda tx: (tx.save(User(name="ada")), tx.save(User(name="bob"))))


def test_a_store_that_changes_one_row_at_a_time_refuses_it_under_any_schema(url):
    with FACES["sync"](url, Schema(User, Comment)).db as opened:
        with pytest.raises(UsageError, match="outside") as refused:
            opened.transact(lambda tx: (tx.save(User(name="ada")), tx.save(User(name="bob"))))
        assert refused.value.facts == {"group": "User('ada')", "given": "User('bob')"}
        assert opened.find(User, "ada") is None


@pytest.mark.parametrize("given", [1, None, "yes"])
def test_portable_is_a_bool(given):
    with pytest.raises(InvalidDeclaration, match="True or False"):
        Schema(User, portable=given)


class Shelf(Model[int]):
    shelf: Key[int]


class Slot(Model[int, int]):
    child_of = Shelf
    shelf: Key[int]
    slot: Key[int]
    label: str | None = None


class SlotOf(Index[Slot]):
    unique = True
    label: str | None = by(Slot.label)


@pytest.mark.parametrize("gives_up", ["save", "patch", "delete"])
def test_a_unique_value_does_not_pass_on_within_a_transaction(url, gives_up):
    def swap(tx):
        if gives_up == "save":
            tx.save(Slot(shelf=1, slot=1, label="b"))
        elif gives_up == "patch":
            tx.patch(Slot, 1, 1, label="b")
        else:
            tx.delete(Slot, 1, 1)
        tx.save(Slot(shelf=1, slot=2, label="a"))

    with connect(url, Schema(Shelf, Slot, SlotOf, portable=True), workers=0) as db:
        db.save(Shelf(shelf=1))
        db.save(Slot(shelf=1, slot=1, label="a"))
        with pytest.raises(NotUnique) as refused:
            db.transact(swap)
        assert refused.value.facts["owner"] == "Slot(1, 1)"
        assert [slot.label for slot in db.page(Slot)] == ["a"]
        db.transact(lambda tx: (tx.patch(Slot, 1, 1, label="b"), tx.patch(Slot, 1, 1, label="a")))
        assert db.get(SlotOf, "a").source.key == (1, 1)
