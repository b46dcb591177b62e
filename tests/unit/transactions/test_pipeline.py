"""What commits of an entity group cost on a store that changes one row at a time, and what they refuse."""

from uuid import uuid4

import pytest

from oneread import (
    GENERATED,
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Schema,
    add,
    by,
    connect,
    count,
    newest,
    total,
    within,
)
from oneread.database.transaction import TransactionWork
from oneread.derivations.changes import Save
from oneread.errors import (
    Conflict,
    LimitExceeded,
    MissingReference,
    NotFound,
    NotUnique,
    OutcomeUnknown,
    StillReferenced,
    Unavailable,
    UsageError,
)
from oneread.plans.effects import Now, Separately
from oneread.store.requests import CheckAndMutate, Mutate, Read
from oneread.store.rows import Cell, RowMutation
from oneread.testing.audit import Audit
from oneread.transactions import journal_recovery, pipeline
from oneread.transactions.commit import Basis, Commit
from oneread.transactions.intents import JOURNAL, OWN, encode_version
from oneread.transactions.root import VERSION
from oneread.transactions.sequences import SEQUENCE
from tests.unit.transactions.test_journal_commits import Losing, Store, failing, is_commit


class User(Model[str]):
    name: Key[str]
    karma: int = 0


class Author(Copy[User]):
    karma: int


class Comment(Model[str, int]):
    child_of = User
    name: Key[str]
    number: Key[int] = GENERATED
    score: int = 0
    title: str | None = None


class Line(Model[str, int]):
    """A child whose key programs give."""

    child_of = User
    name: Key[str]
    line: Key[int]
    author: Author | None = None
    quantity: int = 1


class CommentsOfUser(Index[Comment]):
    name: str = by(Comment.name)
    number: int = newest(Comment.number)


class Scores(Aggregate[Comment]):
    name: str = by(Comment.name)
    comments: int = count()
    score: int = total(Comment.score)


class Titles(Index[Comment]):
    unique = True
    title: str = by(Comment.title)


class LinesOfKarma(Index[Line]):
    karma: int | None = by(within(Line.author, Author.karma), none="last")


GROUPS = Schema(User, Comment, Line, CommentsOfUser, Scores, Titles)


class Groups(Store):
    """A store with transactions, whose requests are counted as those of its verbs."""

    def __init__(self, schema=GROUPS):
        super().__init__(schema)

    def transact(self, body, group=None):
        def plan():
            work = TransactionWork(self.operations, group)
            result = yield from body(work)
            yield from work.commit()
            return result

        return self.run(plan())

    def create(self, entity):
        return self.save(entity, "create")[0].entity

    def delete_group(self, name):
        return self.run(self.operations.delete(User, (name,), None, "delete"))

    def cells(self, model, *key):
        (row,) = self.engine.answer(Read("roots", [self.operations.kind(model).key(key)], "dm"))
        return row


@pytest.fixture
def store():
    made = Groups()
    for name in ("ada", "bob"):
        made.save(User(name=name))
    return made


# What each write costs: requests, rounds until the commit, rounds until the views stand.


@pytest.mark.parametrize(
    ("act", "costs"),
    [
        (lambda store: store.create(Comment(name="ada", score=3)), (9, 3, 4)),
        (lambda store: store.create(Line(name="ada", line=1)), (8, 3, 4)),
        (lambda store: store.patch(Comment, "bob", 1, score=add(1)), (9, 4, 5)),
        (lambda store: store.patch(Line, "bob", 1, quantity=5), (7, 4, 4)),
        (lambda store: store.delete(Comment, "bob", 1), (10, 4, 5)),
        (lambda store: store.patch(User, "bob", karma=1), (8, 3, 3)),
        (lambda store: store.delete_group("bob"), (17, 8, 9)),
    ],
    ids=["comment", "child", "patch with a sum", "patch", "delete", "root alone", "group of two"],
)
def test_the_costs_of_a_write(store, act, costs):
    """The goal of a comment with a sum and an index row: nine requests, three rounds until the commit."""
    store.create(Comment(name="bob", score=1))
    store.create(Line(name="bob", line=1))
    act(store)
    assert store.costs == costs


def test_children_of_one_transaction_are_one_commit(store):
    """Of ten comments: one marker, one commit, one put of their rows, one of index rows, one change of the sum."""

    def body(work):
        for score in range(10):
            yield from work.save(Comment(name="ada", score=score), "create", None)

    store.transact(body)
    assert sum(is_commit(asked) for _round, asked in store.made) == 1
    put = [asked for _round, asked in store.made if type(asked) is Mutate and asked.table == "roots"]
    assert [len(each.rows) for each in put] == [10, 1], "the children, and the end of the intents"
    assert store.requests == 10, "one more than for one: the body reads the root"
    assert store.find(Scores, "ada").score == 45


def test_a_group_is_deleted_in_one_commit(store):
    for _ in range(5):
        store.create(Comment(name="ada"))
    store.delete_group("ada")
    assert sum(is_commit(asked) for _round, asked in store.made) == 1
    assert [store.find(Comment, "ada", number) for number in range(1, 6)] == [None] * 5
    assert store.find(User, "ada") is None
    assert store.rows("system", JOURNAL) == []


# Numbers.


def test_a_refused_child_takes_no_number(store):
    store.create(Comment(name="ada", title="a"))
    with pytest.raises(NotUnique):
        store.create(Comment(name="ada", title="a"))
    with pytest.raises(MissingReference, match="root"):
        store.create(Comment(name="eve"))
    assert store.create(Comment(name="ada", title="b")).number == 2


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_takes_one_number(store, done):
    store.fail = Losing(store, done=done)
    assert store.create(Comment(name="ada")).number == 1
    assert store.create(Comment(name="ada")).number == 2


def test_an_entity_that_waits_for_its_number_is_refused_by_conflict_where_others_come_first(store, monkeypatch):
    monkeypatch.setattr(pipeline, "ATTEMPTS", 3)
    key = store.seen(User, "ada").key

    def interfere(asked):
        if is_commit(asked):
            version = store.seen(User, "ada").version + 1
            raised = RowMutation(key, {VERSION: Cell(encode_version(version), version)})
            store.engine.answer(Mutate("roots", [raised]))

    store.fail = interfere
    with pytest.raises(Conflict, match="try again") as raised:
        store.save(Comment(name="ada"))
    assert raised.value.facts == {"key": "User('ada')"}


def test_numbers_outlive_children_and_their_group(store):
    for _ in range(3):
        store.create(Comment(name="ada"))
    store.delete(Comment, "ada", 3)
    assert store.create(Comment(name="ada")).number == 4
    store.delete_group("ada")
    assert any(column.startswith(SEQUENCE) for column in store.cells(User, "ada"))
    store.save(User(name="ada"))
    assert store.create(Comment(name="ada")).number == 5


# What is compared.


def test_a_transaction_whose_group_was_changed_meanwhile_is_a_conflict(store):
    """Also where another child was changed: the root's version is all that a commit compares."""
    store.create(Comment(name="ada"))

    def body(work):
        found = yield from work.get(Comment, ("ada", 1))
        yield from store.operations.save(Line(name="ada", line=1))
        yield from work.patch(Comment, ("ada", 1), {"score": found.score + 1}, None)

    with pytest.raises(Conflict):
        store.transact(body)
    assert store.find(Comment, "ada", 1).score == 0


@pytest.mark.parametrize("writes", [True, False])
def test_a_child_that_is_newer_than_its_root_ends_the_attempt(store, writes):
    """Before the body sees it; a body that goes on all the same is not committed."""
    seen = []

    def body(work):
        yield from work.get(User, ("ada",))
        yield from store.operations.save(Line(name="ada", line=1, quantity=7))
        try:
            seen.append((yield from work.find(Line, ("ada", 1))))
        except Conflict:
            if writes:
                yield from work.patch(User, ("ada",), {"karma": 1}, None)

    with pytest.raises(Conflict):
        store.transact(body)
    assert seen == []
    assert store.find(User, "ada").karma == 0


def test_a_transaction_sees_what_it_wrote_and_leaves_nothing_of_what_was_refused(store):
    def body(work):
        first = yield from work.save(Comment(name="ada", title="a"), "create", None)
        with pytest.raises(NotFound):
            yield from work.patch(Comment, ("ada", 7), {"score": 1}, None)
        yield from work.delete(Comment, ("ada", 1), None)
        second = yield from work.save(Comment(name="ada", title="a"), "create", None)
        found = yield from work.find(Comment, ("ada", 1))
        return first.number, second.number, found

    assert store.transact(body) == (1, 2, None)
    assert store.find(Titles, "a").source == Comment.at("ada", 2)


def test_a_unique_value_is_given_to_one_of_a_group(store):
    def body(work):
        yield from work.save(Comment(name="ada", title="a"), "create", None)
        yield from work.save(Comment(name="ada", title="a"), "create", None)

    with pytest.raises(NotUnique):
        store.transact(body)
    store.create(Comment(name="ada", title="a"))

    def handing_over(work):
        yield from work.patch(Comment, ("ada", 1), {"title": None}, None)
        yield from work.save(Comment(name="ada", title="a"), "create", None)

    with pytest.raises(NotUnique):
        store.transact(handing_over)
    store.patch(Comment, "ada", 1, title=None)
    assert store.create(Comment(name="ada", title="a")).number == 2


def test_a_commit_of_two_groups_is_refused_before_anything_is_written(store):
    operations = store.operations
    changes = [Save(operations.catalog, Line(name=name, line=1)) for name in ("ada", "bob")]
    before = store.rows("roots")
    with pytest.raises(UsageError, match="these are two") as refused:
        store.run(operations.committer.commit(Commit(changes, basis=Basis(store.now, {}))))
    assert refused.value.facts == {"group": "User('ada')", "given": "User('bob')"}
    assert store.rows("roots") == before


def test_an_unchecked_read_may_be_of_another_group(store):
    def body(work):
        other = yield from work.get(User, ("bob",), unchecked=True)
        yield from work.patch(User, ("ada",), {"karma": other.karma + 1}, None)

    store.transact(body)
    assert store.find(User, "ada").karma == 1


# Deletes and holders.


def test_a_root_with_children_is_not_deleted_alone(store):
    store.create(Line(name="ada", line=1))
    with pytest.raises(StillReferenced) as refused:
        store.delete(User, "ada")
    assert refused.value.facts["owner"] == "Line('ada', 1)"
    store.delete(Line, "ada", 1)
    store.delete(User, "ada")


def test_a_group_is_listed_again_for_children_that_came_meanwhile(store):
    store.create(Line(name="ada", line=1))
    came = []

    def fail(asked):
        if type(asked) is Mutate and asked.table == "system" and not came:
            came.append(asked)
            other = Groups()
            other.engine, other.driver.engine, other.now, other.numbers = store.engine, store.engine, store.now + 5, 900
            other.create(Line(name="ada", line=2))

    store.fail = fail
    store.now += 1
    store.delete_group("ada")
    assert [store.find(Line, "ada", line) for line in (1, 2)] == [None, None]


def test_the_own_version_of_a_child_stays_when_its_copies_follow():
    """Its cells have the root's version; the own one is in a cell beside them."""
    store = Groups(Schema(User, Line, LinesOfKarma))
    store.save(User(name="ada"))
    made = store.save(Line(name="ada", line=1, author=Author.of("ada")))[0]
    store.patch(User, "ada", karma=7)
    found, version = store.run(store.operations.find(Line, ("ada", 1)))
    assert (found.author.karma, version) == (7, made.version)
    assert OWN in store.cells(Line, "ada", 1)
    assert store.seen(Line, "ada", 1).root.own == made.version < store.seen(Line, "ada", 1).version
    store.patch(Line, "ada", 1, quantity=2)
    changed, version = store.run(store.operations.find(Line, ("ada", 1)))
    assert version == store.seen(Line, "ada", 1).version > made.version
    assert changed.quantity == 2


def test_a_page_gives_a_child_its_own_version():
    """It is what `if_version` compares, and what `get` gives."""
    with connect("memory://?span=row", Schema(User, Line, LinesOfKarma), workers=0) as db:
        db.save(User(name="ada"))
        made = db.save(Line(name="ada", line=1, author=Author.of("ada")))
        db.patch(User, "ada", karma=7)
        db.drain()
        (found,) = db.page(Line).rows
        assert found.author.karma == 7
        assert db.version(found) == db.version(db.get_many(Line, [("ada", 1)])[0]) == db.version(made)
        db.patch(Line, "ada", 1, quantity=2, if_version=db.version(found))


def test_a_source_cannot_be_followed_by_a_child_that_has_its_values(store):
    store.save(Line(name="ada", line=1, author=Author.of("ada")))
    commit = store.operations.committer
    root = store.seen(User, "ada")
    (place,) = [key for key, _row in store.rows("views") if key.startswith(b"\x00\x00")]
    before = store.seen(Line, "ada", 1)
    store.run(commit.copies.follow_pointer(root.key, place, before.version))
    assert store.seen(Line, "ada", 1) == before


# Behind the commit point.


def test_nothing_raises_behind_the_commit_point(store):
    """What was not applied is found by the next commit of the group, and by recovery."""
    is_child = lambda asked: type(asked) is Mutate and asked.table == "roots"  # noqa: E731
    store.fail = failing(is_child, Unavailable)
    made = store.create(Comment(name="ada"))
    assert store.find(Comment, "ada", 1) is None
    assert [each.key for each in store.seen(User, "ada").intents.children] == [store.seen(Comment, "ada", 1).key]
    assert store.create(Comment(name="ada")).number == 2
    assert store.find(Comment, "ada", made.number) == made
    store.fail = failing(is_child, Unavailable)
    store.create(Comment(name="ada"))
    store.settle()
    assert store.find(Comment, "ada", 3) is not None


def test_the_size_of_the_intents_is_checked_before_the_commit(store, monkeypatch):
    monkeypatch.setattr(pipeline, "INTENTS_BYTES", 200)

    def body(work):
        for _ in range(9):
            yield from work.save(Comment(name="ada"), "create", None)

    with pytest.raises(LimitExceeded, match="too many rows"):
        store.transact(body)
    assert not any(is_commit(asked) for _round, asked in store.made)
    monkeypatch.undo()
    assert store.create(Comment(name="ada")).number == 1


def test_an_answer_that_is_lost_before_the_commit_does_no_harm(store):
    store.fail = failing(lambda asked: type(asked) is Mutate and asked.table == "system", OutcomeUnknown)
    assert store.create(Comment(name="ada")).number == 1


def test_every_commit_of_a_group_leaves_neither_intents_nor_marker(store):
    for act in (
        lambda: store.create(Comment(name="ada", title="x")),
        lambda: store.patch(Comment, "ada", 1, score=4),
        lambda: store.save(Line(name="ada", line=1)),
        lambda: store.delete(Comment, "ada", 1),
        lambda: store.delete_group("ada"),
    ):
        act()
        assert store.seen(User, "ada").intents is None
        assert store.rows("system", JOURNAL) == []
        assert not any(type(asked) in (Now, Separately) for _round, asked in store.made)
        assert any(type(asked) is CheckAndMutate for _round, asked in store.made)


# A changed schema.


def test_a_backfill_builds_a_view_of_children_one_by_one(monkeypatch):
    """Several children of one group lack the view; the position is stored when each was committed."""
    monkeypatch.setattr(journal_recovery, "END_SECONDS", 0.0)
    url = f"memory://{uuid4()}?span=row"
    with connect(url, Schema(User, Comment, Line, Scores, Titles), workers=0) as db:
        for name in ("ada", "bob"):
            db.save(User(name=name))
            db.save_all([Comment(name=name, score=score) for score in range(4)])
        db.delete(Comment, "ada", 2)
    with connect(url, GROUPS, workers=0) as db:
        assert db.backfill(wait=0, quiet=0).done
        assert [row.number for row in db.page(CommentsOfUser, "ada")] == [4, 3, 1]
        assert [row.number for row in db.page(CommentsOfUser, "bob")] == [4, 3, 2, 1]
        Audit(db._driver.engine, db.operations).check()
