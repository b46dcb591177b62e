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
from oneread.transactions.outbox import TASKS
from oneread.transfer.load import DumpReader, parse_head
from tests.unit.database.faces import FACES


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


@pytest.fixture(params=sorted(FACES))
def opened(new_url, request):
    """Opens a store with a user, five posts of his and two comments on each; a number is the bound `inline`."""
    several = []

    def made(inline=1000):
        db = FACES[request.param](new_url(), Schema(*DECLARED, inline=inline), workers=0)
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
def test_a_transaction_sees_what_will_go(opened, inline):
    """Holders go at its commit, however many they are."""
    db = opened(inline)
    db.save(Pin(number=1, post=Post.at(3)))
    found = db.transact(
        [
            ("delete", (User, 1), {}),
            ("find", (Post, 0), {}),
            ("find", (Post, 3), {}),
        ]
    )
    assert found[1] == Post(number=0, author=found[1].author)
    assert found[2] == Post(number=3, author=found[2].author)
    db.drain()
    assert posts(db) == [3]
    assert [(each.holder, each.tries) for each in db.set_aside()] == [("Post(3)", 1)]


@pytest.mark.parametrize("inline", [0, 1, 3, 1000])
def test_what_is_made_again_in_its_transaction_deletes_no_holder(opened, inline):
    db = opened(inline)
    db.transact([("delete", (User, 1), {}), ("save", (User(number=1, name="again"),), {})])
    check_no_holder_went(db)


@pytest.mark.parametrize("inline", [0, 1, 3, 1000])
def test_what_is_made_again_in_its_batch_deletes_no_holder(url, inline):
    with connect(url, Schema(*DECLARED, inline=inline), workers=0) as db:
        fill(db)
        with db.bulk(batch=100) as bulk:
            bulk.delete(User, 1)
            bulk.save(User(number=1, name="again"))
        check_no_holder_went(db)


def check_no_holder_went(db):
    db.drain()
    assert posts(db) == list(range(POSTS))
    assert comments(db) == list(range(2 * POSTS))
    assert {db.get(Post, number).author.name for number in range(POSTS)} == {"again"}
    assert db.verify().clean


def test_a_refused_delete_in_a_transaction_leaves_holders(opened):
    db = opened()
    db.save(Pin(number=1, post=Post.at(3)))
    with pytest.raises(StillReferenced):
        db.transact([("delete", (Post, 3), {})])
    assert comments(db) == list(range(2 * POSTS))


def test_what_a_delete_costs(url):
    """Fence and entity; a scan and a read for each source with holders, a scan for what holds each; a write a table."""
    with connect(url, Schema(*DECLARED), workers=0) as db:
        fill(db)
        assert "deletes Post, Comment" in str(db.explain.delete(User, 1))
        for model, number, cost in ((Post, 3, (7, 15)), (User, 1, (18, 63))):
            with budget() as spent:
                db.delete(model, number)
            assert (spent.cost.requests, spent.cost.rows) == cost


def test_a_holder_that_was_set_aside_and_pointed_elsewhere_stays(opened):
    """What was set aside is tried without a look at back-references."""
    db = opened()
    db.save(Pin(number=1, post=Post.at(3)))
    db.delete(User, 1)
    db.patch(Post, 3, author=Author.of(2))
    db.delete(Pin, 1)
    db.drain(retry=True)
    assert posts(db) == [3]
    assert not db.set_aside()
    assert db.verify().clean


@pytest.mark.parametrize("inline", [1000, 0])
def test_only_the_reference_that_says_so_takes_its_holder_along(url, face, inline):
    class Named(Copy[User]):
        name: str

    class Letter(Model[int]):
        number: Key[int]
        sender: Ref[User] | None = reference(on_delete="delete")
        reader: Named | None = None

    db = face(url, Schema(User, Letter, inline=inline), workers=0)
    db.save_all([User(number=number, name="u") for number in (1, 2)])
    db.save_all(
        [
            Letter(number=1, sender=User.at(1), reader=Named.of(2)),
            Letter(number=2, sender=User.at(2), reader=Named.of(1)),
            Letter(number=3, reader=Named.of(1)),
            Letter(number=4, sender=User.at(1), reader=Named.of(1)),
        ]
    )
    db.delete(User, 1)
    db.drain()
    assert [number for number in range(5) if db.exists(Letter, number)] == [2, 3]
    assert db.get(Letter, 2).reader.deleted
    assert db.verify().clean
    db.close()


@pytest.mark.parametrize("inline", [1000, 0])
def test_a_change_that_copies_show_does_not_visit_those_who_take_nothing(url, face, inline):
    class Named(Copy[User]):
        name: str

    class Badge(Model[int]):
        number: Key[int]
        owner: Named

    class Follow(Model[int]):
        number: Key[int]
        user: Ref[User] = reference(on_delete="delete")

    db = face(url, Schema(User, Badge, Follow, inline=inline), workers=0)
    db.save(User(number=1, name="Ada"))
    db.save(Badge(number=1, owner=Named.of(1)))
    db.save_all([Follow(number=number, user=User.at(1)) for number in range(50)])
    renamed = db.patch(User, 1, name="Eve")
    if inline:
        # Fence, user, what is before and behind the selection left out, badge; written: user and badge.
        assert (db.cost(renamed).requests, db.cost(renamed).rows) == (6, 2 + 1 + 1 + 2)
    else:
        assert db.drain() == 1
    assert db.get(Badge, 1).owner.name == "Eve"
    db.delete(User, 1)
    db.drain()
    assert not any(db.exists(Follow, number) for number in range(50))
    assert db.verify().clean
    db.close()


@pytest.mark.parametrize("inline", [1000, 0])
def test_a_source_of_another_variant_is_there(url, face, inline):
    """The commit and a task find an answer where the question was: nothing goes; with the answer it goes."""

    class Entry(Model[int]):
        number: Key[int]

    class Question(Entry):
        title: str = ""

    class Answer(Entry):
        text: str = ""

    class Vote(Model[int]):
        number: Key[int]
        question: Ref[Question] = reference(on_delete="delete")

    db = face(url, Schema(Entry, Question, Answer, Vote, inline=inline), workers=0)
    db.save(Question(number=1))
    db.save(Vote(number=1, question=Question.at(1)))
    db.drain()
    db.transact([("delete", (Question, 1), {}), ("save", (Answer(number=1),), {})])
    db.drain()
    assert db.exists(Vote, 1)
    assert db.verify().clean
    db.delete(Answer, 1)
    db.drain()
    assert not db.exists(Vote, 1)
    assert db.verify().clean
    db.close()


def test_a_source_that_was_deleted_before_the_option_takes_no_holder_along(url):
    """A declaration that deletes data would be a trap, also while the task of the delete waits."""

    def world(on_delete):
        class User(Model[int]):
            number: Key[int]
            name: str = ""

        class Named(Copy[User]):
            name: str

        class Post(Model[int]):
            number: Key[int]
            author: Ref[User] = reference(on_delete=on_delete)
            reader: Named | None = None

        return User, Post, Named

    user, post, named = world("keep")
    with connect(url, Schema(user, post)) as db:
        db.save_all([user(number=number) for number in (1, 2)])
        db.save_all([post(number=number, author=user.at(number), reader=named.of(1)) for number in (1, 2)])
        db.delete(user, 1)
        user, post, named = world("delete")
        with connect(url, Schema(user, post), workers=0) as new:
            new.backfill(fence=True)
            assert new.verify().clean
            assert new.get(post, 1).reader == new.get(post, 2).reader
            new.delete(user, 2)
            new.drain(retry=True)
            assert (new.exists(post, 1), new.exists(post, 2)) == (True, False)
            assert new.verify().clean


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
def test_totals_of_what_stays_shrink_with_those_who_went(url, face, inline):
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

    db = face(url, Schema(Voter, Answer, Vote, AnswersOf, VotesFor, inline=inline), workers=0)
    db.save_all([Voter(number=number) for number in (1, 2)])
    db.save_all([Answer(number=number, author=Voter.at(number)) for number in (1, 2)])
    db.save_all([Vote(number=2 * n + k, voter=Voter.at(n), answer=Answer.at(k)) for n in (1, 2) for k in (1, 2)])
    db.drain()
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


def dumped(db):
    text = io.BytesIO()
    db.dump(text.write)
    return text.getvalue()


def load(db, text, batch):
    head, *lines, _end = text.splitlines()
    reader = DumpReader(db.operations.catalog, parse_head(head))
    with db.bulk(batch=batch) as bulk:
        for line in lines:
            bulk.apply(reader.change(line), len(line))


def test_a_dump_of_holders_before_their_source_is_loaded_without_them(new_url):
    """A reply has a key before that of what it replies to: its line is read before the tombstone is."""

    class Reply(Model[int]):
        number: Key[int]
        to: Ref["Reply"] | None = reference(on_delete="delete")

    schema = Schema(Reply, inline=0)
    with connect(new_url(), schema, workers=0) as db, connect(new_url(), schema, workers=0) as other:
        db.save_all([Reply(number=2), Reply(number=1, to=Reply.at(2)), Reply(number=3, to=Reply.at(2))])
        db.delete(Reply, 2)
        load(other, dumped(db), batch=1)
        other.drain()
        assert not any(other.exists(Reply, number) for number in (1, 2, 3))
        assert other.verify().clean


@pytest.mark.parametrize("batch", [1, 1000])
def test_a_dump_of_holders_that_wait_is_loaded_without_them(new_url, batch):
    schema = Schema(*DECLARED, inline=2)
    with connect(new_url(), schema, workers=0) as db, connect(new_url(), schema, workers=0) as other:
        fill(db)
        db.patch(Post, 3, author=Author.of(2))
        db.delete(User, 1)
        load(other, dumped(db), batch)
        other.drain()
        db.drain()
        assert posts(other) == posts(db) == [3]
        assert comments(other) == comments(db) == [3, 8]
        assert other.verify().clean


def test_repair_deletes_a_holder_whose_task_was_lost(url):
    with connect(url, Schema(*DECLARED, inline=2), workers=0) as db:
        fill(db)
        db.delete(User, 1)
        db.run(forget_tasks())
        assert {fault.row for fault in db.verify().faults} == {f"Post({number}).author" for number in range(POSTS)}
        db.repair()
        assert posts(db) == comments(db) == []
        assert db.verify().clean


def forget_tasks():
    def forget(store):
        tasks = store.scan("system", TASKS, 10)
        store.replace("system", dict.fromkeys([key for key, _row in tasks]))

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
