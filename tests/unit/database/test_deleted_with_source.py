"""`on_delete="delete"`: holders go with their source, in the commit or as a task, and what refuses is set aside."""

import io

import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    count,
    reference,
    rollup,
    total,
)
from oneread.costs.budgets import budget
from oneread.errors import Conflict, InvalidDeclaration, NotFound, StillReferenced
from oneread.plans.effects import Atomically
from oneread.store.requests import Replace, Scan
from oneread.transactions.outbox import TASKS
from oneread.transfer.load import DumpReader, parse_head
from tests.unit.database.faces import FACES
from tests.unit.derivations.earlier import earlier_code


class Author(Copy["User"]):
    on_delete = "delete"
    name: str


class User(Model[int]):
    number: Key[int]
    name: str = ""


class Post(Model[int]):
    number: Key[int]
    author: Author


class Comment(Model[int]):
    number: Key[int]
    post: Ref[Post] = reference(on_delete="delete")


class Pin(Model[int]):
    number: Key[int]
    post: Ref[Post] = reference(on_delete="refuse")


class PostsBy(Index[Post]):
    author: Author = by(Post.author)


class CommentsOn(Index[Comment]):
    post: Ref[Post] = by(Comment.post)


DECLARED = (User, Post, Comment, Pin, PostsBy, CommentsOn)
POSTS = 5


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


@pytest.fixture(params=[(face, url) for face in FACES for url in ("memory", "lmdb")], ids="-".join)
def opened(request, tmp_path):
    """Opens a store with a user, five posts of his and two comments on each; a number is the bound `inline`."""
    face, engine = request.param
    several = []

    def made(inline=1000):
        url = "memory://" if engine == "memory" else f"lmdb://{tmp_path}/store"
        db = FACES[face](url, Schema(*DECLARED, inline=inline), workers=0)
        several.append(db)
        fill(db)
        return db

    yield made
    for db in several:
        db.close()


def fill(db):
    db.save_all([User(number=1, name="Ada"), User(number=2, name="Bea")])
    db.save_all([Post(number=number, author=Author.of(1)) for number in range(POSTS)])
    db.save_all([Comment(number=number, post=Post.at(number % POSTS)) for number in range(2 * POSTS)])


def posts(db):
    return [number for number in range(POSTS) if db.exists(Post, number)]


def comments(db):
    return [number for number in range(2 * POSTS) if db.exists(Comment, number)]


def test_holders_and_theirs_go_in_the_commit(opened):
    db = opened()
    db.delete(User, 1)
    assert posts(db) == comments(db) == []
    assert len(db.page(PostsBy, 1)) == 0
    assert db.verify().clean
    db.save(User(number=1))
    assert posts(db) == []


def test_the_delete_of_a_holder_takes_its_own(opened):
    db = opened()
    db.delete(Post, 3)
    assert comments(db) == [0, 1, 2, 4, 5, 6, 7, 9]
    assert db.exists(User, 1)
    assert db.verify().clean


def test_many_holders_go_as_a_task(opened):
    db = opened(inline=2)
    db.delete(User, 1)
    assert not db.exists(User, 1)
    assert posts(db) == [0, 1, 2, 3, 4]
    assert db.verify().clean  # they wait for their task
    db.drain()
    assert posts(db) == comments(db) == []
    assert db.verify().clean


def test_a_source_made_again_keeps_its_holders(opened):
    db = opened(inline=2)
    db.delete(User, 1)
    db.save(User(number=1, name="again"))
    db.drain()
    assert posts(db) == [0, 1, 2, 3, 4]
    assert db.get(Post, 0).author.name == "again"
    assert db.verify().clean


def test_a_holder_that_was_pointed_elsewhere_stays(opened):
    db = opened(inline=2)
    db.delete(User, 1)
    db.patch(Post, 3, author=Author.of(2))
    db.drain()
    assert posts(db) == [3]
    assert comments(db) == [3, 8]
    assert db.verify().clean


@pytest.mark.parametrize("inline", [1000, 2])
def test_what_refuses_is_set_aside_and_tried_again(opened, inline):
    db = opened(inline)
    db.save(Pin(number=1, post=Post.at(3)))
    db.delete(User, 1)
    db.drain()
    assert posts(db) == [3]
    assert comments(db) == [3, 8]
    (aside,) = db.set_aside()
    assert (aside.source, aside.holder, aside.error) == ("User(1)", "Post(3)", "StillReferenced")
    (fault,) = db.verify().faults
    assert (fault.row, fault.expected) == ("Post(3).author", "author=deleted with its source")
    assert fault.text == "Post 3: author: still there -> deleted with its source"
    db.delete(Pin, 1)
    db.drain(retry=True)
    assert posts(db) == comments(db) == []
    assert not db.set_aside()
    assert db.verify().clean


def test_refuse_still_forbids_the_delete_of_the_source(opened):
    db = opened()
    db.save(Pin(number=1, post=Post.at(3)))
    with pytest.raises(StillReferenced):
        db.delete(Post, 3)
    assert comments(db) == list(range(2 * POSTS))


@pytest.mark.parametrize("inline", [1000, 2])
def test_a_transaction_sees_what_went(opened, inline):
    db = opened(inline)
    db.save(Pin(number=1, post=Post.at(3)))
    found = db.transact(
        [
            ("delete", (User, 1), {}),
            ("find", (Post, 0), {}),
            ("find", (Post, 3), {}),
        ]
    )
    assert (found[1] is None) == (inline == 1000)
    assert found[2] == Post(number=3, author=found[2].author)
    db.drain()
    assert posts(db) == [3]
    assert [each.holder for each in db.set_aside()] == ["Post(3)"]


def test_a_refused_delete_in_a_transaction_leaves_holders(opened):
    db = opened()
    db.save(Pin(number=1, post=Post.at(3)))
    with pytest.raises(StillReferenced):
        db.transact([("delete", (Post, 3), {})])
    assert comments(db) == list(range(2 * POSTS))


def test_what_a_delete_costs():
    """Fence and entity; a scan and a read for each source with holders, a scan for what holds each; a write a table."""
    with connect("memory://", Schema(*DECLARED), workers=0) as db:
        fill(db)
        assert "deletes Post, Comment" in str(db.explain.delete(User, 1))
        for model, number, cost in ((Post, 3, (7, 15)), (User, 1, (18, 63))):
            with budget() as spent:
                db.delete(model, number)
            assert (spent.cost.requests, spent.cost.rows) == cost


@pytest.mark.parametrize("inline", [1000, 2])
def test_a_change_of_a_source_visits_no_holder_that_takes_nothing(opened, inline):
    """Comments take nothing of their post, so that only its delete concerns them."""
    db = opened(inline)
    moved = db.patch(Post, 3, author=Author.of(2))
    # Fence and post, the new author; written: the post, its back-references and its row in the index.
    assert (db.cost(moved).requests, db.cost(moved).rows) == (5, 3 + 1 + 4)
    assert not db.tasks(moved)
    db.delete(Post, 3)
    db.drain()
    assert comments(db) == [0, 1, 2, 4, 5, 6, 7, 9]
    assert db.verify().clean


def test_selections_that_are_left_out_hide_no_holder_from_a_delete(opened):
    """A task that waits for a change of the name is a task for all once the user is deleted."""
    db = opened(inline=0)
    db.drain()
    db.patch(User, 1, name="Eve")
    db.delete(User, 1)
    db.drain()
    assert posts(db) == comments(db) == []
    assert db.verify().clean


def test_the_version_of_a_holder_that_is_made_again_is_another(opened):
    db = opened()
    before = db.version(db.get(Post, 0))
    db.delete(User, 1)
    db.save(User(number=1, name="again"))
    with pytest.raises(Conflict):
        db.patch(Post, 0, author=Author.of(1), if_version=before)
    with pytest.raises(NotFound):
        db.patch(Post, 0, author=Author.of(1))
    made = db.save(Post(number=0, author=Author.of(1)), if_version=0)
    assert db.version(made) > before
    assert made.author.name == "again"
    with pytest.raises(Conflict):
        db.patch(Post, 0, author=Author.of(2), if_version=before)
    assert db.verify().clean


@pytest.mark.parametrize("inline", [1000, 0])
def test_totals_of_what_stays_shrink_with_those_who_went(face, inline):
    """In the commit of the delete, if the holders went in it; a holder with totals of its own goes like any other."""

    class Voter(Model[int]):
        number: Key[int]
        answers: int = rollup(lambda: AnswersOf.answers)

    class Answer(Model[int]):
        number: Key[int]
        author: Ref[Voter] = reference(on_delete="delete")
        score: int = rollup(lambda: VotesFor.score)

    class Vote(Model[int]):
        number: Key[int]
        voter: Ref[Voter] = reference(on_delete="delete")
        answer: Ref[Answer] = reference(on_delete="delete")
        value: int = 1

    class AnswersOf(Aggregate[Answer]):
        author: Ref[Voter] = by(Answer.author)
        answers: int = count()

    class VotesFor(Aggregate[Vote]):
        answer: Ref[Answer] = by(Vote.answer)
        score: int = total(Vote.value)

    db = face("memory://", Schema(Voter, Answer, Vote, AnswersOf, VotesFor, inline=inline), workers=0)
    db.save_all([Voter(number=number) for number in (1, 2)])
    db.save_all([Answer(number=number, author=Voter.at(number)) for number in (1, 2)])
    db.save_all([Vote(number=2 * n + k, voter=Voter.at(n), answer=Answer.at(k)) for n in (1, 2) for k in (1, 2)])
    assert db.get(Answer, 2).score == 2
    version = db.version(db.get(Answer, 2))
    db.delete(Voter, 1)
    assert db.get(Answer, 2).score == (1 if inline else 2)
    db.drain()
    found = db.get(Answer, 2)
    assert (found.score, db.version(found)) == (1, version)
    assert not db.exists(Answer, 1)
    assert [number for number in range(3, 7) if db.exists(Vote, number)] == [6]
    db.save(Voter(number=1))
    assert (db.get(Voter, 1).answers, db.get(Voter, 2).answers) == (0, 1)
    assert db.save(Answer(number=1, author=Voter.at(1))).score == 0
    assert db.verify().clean
    db.close()


@pytest.mark.parametrize("inline", [1000, 1])
def test_holders_with_rows_of_earlier_code_go_too(face, inline):
    """Their back-references name no selection; the first change that visits anybody visits them."""
    db = face("memory://", Schema(*DECLARED, inline=inline), workers=0)
    with earlier_code():
        fill(db)
    assert db.verify().clean
    db.patch(User, 1, name="Eve")
    db.drain()
    db.delete(Post, 3)
    assert db.save(Post(number=3, author=Author.of(1))).author.name == "Eve"
    db.drain()
    assert comments(db) == ([0, 1, 2, 4, 5, 6, 7, 9] if inline == 1000 else list(range(2 * POSTS)))
    db.delete(User, 1)
    db.drain()
    assert posts(db) == comments(db) == []
    assert db.verify().clean
    db.close()


def dumped(db):
    text = io.BytesIO()
    db.dump(text.write)
    return text.getvalue()


def test_a_dump_of_holders_that_wait_is_loaded_without_them():
    schema = Schema(*DECLARED, inline=2)
    with connect("memory://", schema, workers=0) as db, connect("memory://", schema, workers=0) as other:
        fill(db)
        db.patch(Post, 3, author=Author.of(2))
        db.delete(User, 1)
        head, *lines, _end = dumped(db).splitlines()
        reader = DumpReader(other.operations.catalog, parse_head(head))
        with other.bulk() as bulk:
            for line in lines:
                bulk.apply(reader.change(line), len(line))
        other.drain()
        db.drain()
        assert posts(other) == posts(db) == [3]
        assert comments(other) == comments(db) == [3, 8]
        assert other.verify().clean


def test_repair_deletes_a_holder_whose_task_was_lost():
    with connect("memory://", Schema(*DECLARED, inline=2), workers=0) as db:
        fill(db)
        db.delete(User, 1)
        db.run(forget_tasks())
        assert {fault.row for fault in db.verify().faults} == {f"Post({number}).author" for number in range(POSTS)}
        db.repair()
        assert posts(db) == comments(db) == []
        assert db.verify().clean


def forget_tasks():
    def forget():
        tasks = yield from Scan("system", TASKS, 10)
        yield from Replace("system", dict.fromkeys([key for key, _row in tasks]))

    return Atomically(forget).__iter__()


def test_what_cannot_be_declared():
    class Loose(Copy[User]):
        on_delete = "delete"
        missing_ok = True
        name: str

    class Holder(Model[int]):
        number: Key[int]
        user: Loose

    class Pointer(Model[int]):
        number: Key[int]
        user: Ref[User] = reference(on_delete="delete", missing_ok=True)

    class Word(Copy[User]):
        on_delete = "cascade"
        name: str

    class Other(Model[int]):
        number: Key[int]
        user: Word

    for model, text in ((Holder, "missing_ok"), (Pointer, "missing_ok"), (Other, "or delete")):
        with pytest.raises(InvalidDeclaration, match=text):
            Schema(User, model)
