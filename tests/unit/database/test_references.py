"""References and copies where a key is taken: every verb, both faces, both engines; and get_many of views."""

import copy
import pickle
from datetime import UTC, datetime
from uuid import UUID

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
    greatest,
    least,
    shown,
    total,
    within,
)
from oneread.errors import InvalidDeclaration, InvalidKey, InvalidQuery, InvalidValue, NotFound, UsageError
from oneread.models.references import ref_class
from tests.unit.database.faces import Awaited, Plain


class User(Model[int]):
    number: Key[int]
    name: str


class Author(Copy[User]):
    name: str


class Tag(Model[UUID]):
    id: Key[UUID]
    word: str


class Post(Model[int]):
    number: Key[int]
    author: Author
    tag: Ref[Tag] | None = None
    score: int = 0


class Question(Post):
    title: str = ""


class Line(Model[str, int]):
    order: Key[str]
    number: Key[int]
    post: Ref[Post]


class PostsOf(Aggregate[Post]):
    author: Author = by(Post.author)
    posts: int = count()
    score: int = total(Post.score)


class Scores(Aggregate[Post]):
    tag: Ref[Tag] | None = by(Post.tag, none="last")
    score: int = by(Post.score)
    best: int | None = greatest(Post.score)
    worst: int | None = least(Post.score)


class UserOfName(Index[User]):
    unique = True

    name: str = by(User.name)


class PostOfTag(Index[Post]):
    unique = True

    tag: Ref[Tag] | None = by(Post.tag, none="last")
    score: int = shown(Post.score)


class PostsByAuthor(Index[Post]):
    author: Author = by(Post.author)


SCHEMA = Schema(User, Tag, Post, Question, Line, PostsOf, Scores, UserOfName, PostOfTag, PostsByAuthor)
RED = UUID(int=1)


@pytest.fixture(params=[Plain, Awaited])
def db(url, request):
    opened = request.param(url, SCHEMA, workers=0)
    opened.save_all([User(number=1, name="Ada"), User(number=2, name="Bea")])
    opened.save(Tag(id=RED, word="red"))
    opened.save(Post(number=1, author=Author.of(1), tag=Tag.at(RED), score=3))
    opened.save(Question(number=2, author=Author.of(User.at(1)), score=5, title="?"))
    opened.save(Line(order="o", number=1, post=Post.at(1)))
    yield opened
    opened.close()


def test_every_verb_takes_a_reference_or_a_copy(db):
    post = db.get(Post, 1)
    for at in (post.author, post.author.ref, User.at(1), Ref((1,)), Author.of(1)):
        assert db.get(User, at) == db.find(User, at) == User(number=1, name="Ada")
        assert db.exists(User, at)
    assert db.get(Post, db.get(Line, Line.at("o", 1)).post) == post
    assert db.get(Question, Question.at(2)).title == "?"
    assert db.get(Post, Question.at(2)).score == 5
    assert db.get(PostsOf, post.author) == db.get(PostsOf, PostsOf.at(1)) == db.get(PostsOf, 1)
    assert db.get(PostsOf, 1).posts == 2
    assert db.get(Scores, Scores.at(Tag.at(RED), 3)).best == 3
    assert db.find(User, User.at(9)) is None
    with pytest.raises(NotFound):
        db.get(User, Author.of(9))
    assert db.patch(User, post.author, name="Eve").name == "Eve"
    assert db.patch(Tag, post.tag, word="blue").word == "blue"
    db.delete(Line, Ref(("o", 1)))
    assert not db.exists(Line, "o", 1)


def test_a_reference_costs_what_a_key_costs(db):
    by_key, by_reference = db.get(User, 1), db.get(User, User.at(1))
    assert db.cost(by_key) == db.cost(by_reference)
    assert (db.cost(by_reference).requests, db.cost(by_reference).rows) == (1, 1)


def test_the_body_of_a_transaction_takes_them(db):
    author = db.get(Post, 1).author
    steps = [
        ("get", (User, author), {}),
        ("find", (Post, Question.at(2)), {}),
        ("patch", (User, author), {"name": "Eve"}),
        ("delete", (Line, Line.at("o", 1)), {}),
        ("get", (User, User.at(1)), {}),
    ]
    seen = db.transact(steps)
    assert [seen[0].name, seen[1].number, seen[2].name, seen[4].name] == ["Ada", 2, "Eve", "Eve"]
    assert not db.exists(Line, "o", 1)


def test_a_bulk_writer_takes_them(url):
    db = Plain(url, SCHEMA)
    db.save_all([User(number=1, name="Ada"), User(number=2, name="Bea")])
    with db.bulk() as bulk:
        bulk.patch(User, Author.of(1), name="Eve")
        bulk.delete(User, User.at(2))
    assert [user and user.name for user in db.get_many(User, [(1,), (2,)])] == ["Eve", None]
    db.close()


ELSEWHERE = {
    "a reference to another model": User.at(1),
    "a copy of another model": Author.of(1),
    "a reference to a view": PostsOf.at(1),
    "a reference with more parts": Ref((1, 2)),
    "a reference without parts": Ref(()),
    "a reference whose key is no tuple": Ref(1),  # type: ignore[arg-type]
    "a reference to a reference": Ref((Tag.at(RED),)),
    "None": None,
}


@pytest.mark.parametrize("at", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_reference_elsewhere_is_refused_and_nothing_changes(db, at):
    for ask in (
        lambda: db.get(Tag, at),
        lambda: db.find(Tag, at),
        lambda: db.exists(Tag, at),
        lambda: db.get_many(Tag, [(RED,), at]),
        lambda: db.patch(Tag, at, word="x"),
        lambda: db.delete(Tag, at),
        lambda: db.transact([("get", (Tag, at), {})]),
        lambda: db.transact([("delete", (Tag, at), {})]),
    ):
        with pytest.raises(InvalidKey):
            ask()
    assert db.get(Tag, RED).word == "red"


def test_a_variant_is_asked_for_by_its_own_reference(db):
    with pytest.raises(InvalidKey, match=r"another class.*\*ref.key"):
        db.get(Question, Post.at(2))
    assert db.find(Question, *Post.at(1).key) is None


def test_a_view_refuses_a_reference_to_another_model(db):
    with pytest.raises(InvalidKey, match="another class"):
        db.page(PostsByAuthor, Tag.at(RED))
    with pytest.raises(InvalidKey, match="another class"):
        db.get(PostsOf, Post.at(1))
    assert len(db.page(PostsByAuthor, User.at(1))) == 2


def test_a_save_refuses_a_reference_to_another_model(db):
    for wrong in ({"author": Author.of(Tag.at(RED))}, {"author": Author.of(1), "tag": User.at(1)}):
        with pytest.raises(InvalidValue, match="another class than the field"):
            db.save(Post(number=7, **wrong))
    assert not db.exists(Post, 7)


def test_references_read_and_made_know_their_class(db):
    post = db.get(Post, 1)
    assert repr([post.tag, post.author.ref, post.ref(), db.page(PostsByAuthor, 1)[0].source]) == (
        f"[Tag.at({RED!r}), User.at(1), Post.at(1), Post.at(1)]"
    )
    assert repr(Ref((1,))) == "Ref(key=(1,))"
    assert repr(Line.at("o", 1)) == "Line.at('o', 1)"

    class Visit(Model[int]):
        number: Key[int]
        at: datetime

    assert repr(Visit(number=1, at=datetime(2020, 1, 1, tzinfo=UTC)).ref()) == "Ref[Visit]((1,))"


def test_references_are_equal_by_their_keys_alone():
    ref = User.at(1)
    assert ref == Ref((1,)) == Post.at(1)
    assert ref != Ref((2,))
    assert ref != (1,)
    assert len({ref, Ref((1,)), Post.at(1)}) == 1
    assert pickle.loads(pickle.dumps(ref)) == copy.copy(ref) == copy.deepcopy(ref) == ref
    assert ref_class(User) is type(ref)
    with pytest.raises(AttributeError):
        ref.key = (2,)  # type: ignore[misc]


@pytest.mark.parametrize("verb", ["get", "find", "exists", "patch", "delete"])
@pytest.mark.parametrize("given", [User.at(1), Author.of(1)], ids=["reference", "copy"])
def test_a_reference_in_place_of_the_class_is_refused_with_what_to_write(db, verb, given):
    with pytest.raises(UsageError, match=r"a class comes first.*db\.get\(Customer, purchase\.buyer\)") as caught:
        getattr(db, verb)(given)
    assert caught.value.facts == {"given": given}


def test_a_copy_that_groups_never_says_that_its_source_lives(db):
    db.delete(User, 1)
    post = db.get(Post, 1)
    (row, *_others) = db.page(PostsByAuthor, post.author)
    group = db.get(PostsOf, post.author)
    assert post.author.deleted
    for only_refers in (row.author, group.author):
        assert only_refers == Author.of(1)
        with pytest.raises(AttributeError, match=r"Author\.deleted is not filled"):
            only_refers.deleted  # noqa: B018 - reading is the point


def test_get_many_takes_references_and_copies(db):
    posts = db.get_many(Post, [(1,), (2,)])
    found = db.get_many(User, [*(post.author for post in posts), User.at(2), (9,)])
    assert [user and user.name for user in found] == ["Ada", "Ada", "Bea", None]
    assert (db.cost(found[0]).requests, db.cost(found[0]).rows) == (1, 4)


def test_get_many_of_groups_is_one_request(db):
    found = db.get_many(PostsOf, [(1,), (2,), User.at(1), PostsOf.at(9)])
    assert [(group.author.ref.key, group.posts, group.score) for group in found] == [
        ((1,), 2, 8), ((2,), 0, 0), ((1,), 2, 8), ((9,), 0, 0),
    ]  # fmt: skip
    assert db.cost(found[0]).requests == 1


def test_get_many_of_groups_with_extrema_scans_once_for_each(db):
    found = db.get_many(Scores, [(Tag.at(RED), 3), (None, 5), (None, 6)])
    assert [(group.best, group.worst) for group in found] == [(3, 3), (5, 5), (None, None)]
    assert (db.cost(found[0]).requests, db.cost(found[0]).rows) == (1 + 3 * 2, 3 + 2 * 2)


def test_get_many_of_a_unique_index(db):
    found = db.get_many(UserOfName, [("Ada",), ("Zoe",), ("Bea",)])
    assert [row and row.source for row in found] == [User.at(1), None, User.at(2)]
    assert db.cost(found[0]).requests == 3
    assert db.get_many(UserOfName, []) == db.get_many(PostsOf, []) == db.get_many(Scores, []) == []


@pytest.mark.parametrize("cls", [PostsOf, Scores, UserOfName, User])
def test_what_get_many_costs_is_within_its_bound(url, cls):
    with Plain(url, SCHEMA).db as db:
        db.save_all([User(number=1, name="Ada"), User(number=2, name="Bea")])
        db.save(Post(number=1, author=Author.of(1), score=3))
        keys = {
            PostsOf: [(1,), (2,)],
            Scores: [(None, 3), (None, 4)],
            UserOfName: [("Ada",), ("Bea",)],
            User: [(1,), (2,)],
        }
        found, bound = db.get_many(cls, keys[cls]), db.explain.get_many(cls, keys[cls]).bound
        cost = db.cost(found[0])
        assert (cost.requests, cost.rows <= bound.rows, cost.bytes <= bound.bytes) == (bound.requests, True, True)


def test_get_many_refuses_a_view_that_has_pages_only(db):
    with pytest.raises(InvalidQuery, match="unique index or an aggregate"):
        db.get_many(PostsByAuthor, [(1,)])
    with pytest.raises(InvalidKey, match="as tuples, or references"):
        db.get_many(PostsOf, [1])
    with pytest.raises(UsageError, match="not a model of the schema"):
        db.get_many(Author, [(1,)])


def test_none_in_a_unique_index_is_not_one_row(db):
    db.save(Question(number=3, author=Author.of(1)))
    assert db.get(PostOfTag, Tag.at(RED)).source == Post.at(1)
    for ask in (
        lambda: db.get(PostOfTag, None),
        lambda: db.find(PostOfTag, None),
        lambda: db.get_many(PostOfTag, [(None,)]),
    ):
        with pytest.raises(InvalidQuery, match="None is never unique"):
            ask()
    assert len(db.page(PostOfTag, None)) == 2


def test_explain_takes_them(url):
    with Plain(url, SCHEMA).db as db:
        assert str(db.explain.get(User, Author.of(1))).count("User(1)")
        assert "Tag" in str(db.explain.patch(Tag, Tag.at(RED), word="x"))
        assert "Line('o', 1)" in str(db.explain.delete(Line, Line.at("o", 1)))
        with pytest.raises(InvalidKey, match="another class"):
            db.explain.get(User, Tag.at(RED))


class Posted(Copy[Post]):
    author: Ref[User]
    points: int = shown(Post.score)


class Nested(Copy[Post]):
    author: Author


class Elsewhere(Copy[Post]):
    points: str = shown(User.name)


class Grouped(Copy[Post]):
    points: int = by(Post.score)


class Retyped(Copy[Post]):
    points: str = shown(Post.score)  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("held", "text"),
    [
        (Nested, r"a copy cannot hold a copy.*write='author: Ref\[User\]'"),
        (Elsewhere, r"a copied field is its source's: shown\("),
        (Grouped, r"no rule but shown\(...\) or within\(...\)"),
        (Retyped, "another type than its source"),
    ],
)
def test_a_wrong_copied_field_names_the_right_one(held, text):
    class Holder(Model[int]):
        number: Key[int]
        post: held

    with pytest.raises(InvalidDeclaration, match=text):
        Schema(User, Tag, Post, Holder)


def test_a_copy_two_entities_away_cannot_be_shown_whole():
    class Row(Index[Line]):
        author: Author = shown(within(Line.post, Post.author))

    with pytest.raises(InvalidDeclaration, match=r"two entities away.*Author.name"):
        Schema(User, Tag, Post, Line, Row)


class Chief(Copy["Worker"]):
    name: str
    chief: Ref["Worker"] | None


class Worker(Model[int]):
    number: Key[int]
    name: str
    chief: Chief | None = None


def test_an_entity_that_copies_itself_is_returned_as_it_is_stored(url):
    with connect(url, Schema(Worker), workers=0) as db:
        db.save(Worker(number=1, name="a"))
        written = [
            db.save(Worker(number=1, name="b", chief=Chief.of(1))),
            db.save(Worker(number=1, name="c", chief=Chief.of(1))),
            db.patch(Worker, 1, name="d"),
        ]
        assert [each.chief.name for each in written] == ["b", "c", "d"]
        assert db.get(Worker, 1) == written[-1]
        assert db.verify().clean
