"""`fresh=True`: a child of an entity group as of every commit that was acknowledged, on both kinds of store."""

from uuid import uuid4

import pytest

from oneread import Aggregate, Key, Model, Schema, by, connect, count
from oneread.errors import InvalidQuery, NotFound
from tests.unit.database.faces import FACES


class Post(Model[int]):
    number: Key[int]


class Comment(Model[int, str]):
    child_of = Post
    number: Key[int]
    place: Key[str]
    text: str


class Texts(Aggregate[Comment]):
    text: str = by(Comment.text)
    comments: int = count()


DECLARED = Schema(Post, Comment, Texts)
COMMENT = Comment(number=1, place="first", text="Hello")


@pytest.fixture
def url():
    return f"memory://{uuid4()}?span=row"


@pytest.fixture
def url_of_rows(tmp_path):
    return f"lmdb://{tmp_path}/store?durability=none"


@pytest.fixture
def hasty(url):
    """A program whose commits are applied when another program asks for them."""
    with connect(url, DECLARED, wait="commit", workers=0) as opened:
        opened.save(Post(number=1))
        yield opened


@pytest.fixture(params=FACES.values(), ids=FACES)
def other(request, url, hasty):  # noqa: ARG001 - the program that has filled the store
    opened = request.param(url, DECLARED, workers=0)
    yield opened
    opened.close()


def test_a_fresh_read_shows_a_child_whose_row_is_not_written_yet(hasty, other):
    hasty.save(COMMENT)
    assert other.find(Comment, 1, "first") is None
    assert other.find(Comment, 1, "first", fresh=True) == COMMENT
    assert other.get(Comment, 1, "first") == COMMENT
    assert other.get(Texts, "Hello").comments == 1


def test_a_fresh_read_does_not_show_a_child_that_was_deleted(hasty, other):
    hasty.save(COMMENT)
    other.get(Comment, 1, "first", fresh=True)
    hasty.delete(Comment, 1, "first")
    assert other.get(Comment, 1, "first") == COMMENT
    with pytest.raises(NotFound):
        other.get(Comment, 1, "first", fresh=True)


def test_a_fresh_read_of_a_child_is_one_request_more(hasty, other):
    hasty.save(COMMENT)
    other.get(Comment, 1, "first", fresh=True)
    assert other.cost(other.get(Comment, 1, "first", fresh=True)).requests == 2
    assert other.cost(other.get(Comment, 1, "first")).requests == 1
    assert other.cost(other.get(Post, 1, fresh=True)).requests == 1


def test_where_transactions_span_rows_every_read_is_fresh(url_of_rows):
    with connect(url_of_rows, DECLARED) as opened:
        opened.save(Post(number=1))
        opened.save(COMMENT)
        found = opened.get(Comment, 1, "first", fresh=True)
        assert found == COMMENT
        assert opened.cost(found).requests == 1


def test_a_view_and_a_value_of_another_type_are_refused(other, url_of_rows):
    with connect(url_of_rows, DECLARED) as opened:
        for db in (other, opened):
            with pytest.raises(InvalidQuery, match="includes="):
                db.get(Texts, "Hello", fresh=True)
            for given in (1, None):
                with pytest.raises(InvalidQuery, match="True or False"):
                    db.find(Comment, 1, "first", fresh=given)
