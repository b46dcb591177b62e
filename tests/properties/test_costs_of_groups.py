"""No write in an entity group, on a store that changes one row at a time, asks more of it than the declarations say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread import (
    GENERATED,
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
    newest,
    reference,
    rollup,
    total,
    within,
)
from oneread.costs import declared
from oneread.costs.budgets import budget
from oneread.errors import OnereadError
from oneread.testing.clock import Clock
from tests.properties.row_bounds import FEW, holds


class User(Model[str]):
    name: Key[str]
    karma: int = 0
    comments: int = rollup(lambda: Scores.comments)


class Author(Copy[User]):
    karma: int


class Comment(Model[str, int]):
    child_of = User
    name: Key[str]
    number: Key[int] = GENERATED
    score: int = 0
    title: str | None = None
    votes: int = rollup(lambda: VotesOfComment.votes)


class Quote(Copy[Comment]):
    on_delete = "delete"

    score: int


class Line(Model[str, int]):
    """A child whose key programs give."""

    child_of = User
    name: Key[str]
    line: Key[int]
    author: Author | None = None
    about: Ref[Comment] | None = reference(on_delete="refuse")
    quoted: Quote | None = None
    quantity: int = 1


class Vote(Model[int]):
    number: Key[int]
    comment: Ref[Comment] | None = None


class Review(Model[int]):
    number: Key[int]
    of: Quote | None = None


class CommentsOfUser(Index[Comment]):
    name: str = by(Comment.name)
    number: int = newest(Comment.number)


class Scores(Aggregate[Comment]):
    name: str = by(Comment.name)
    comments: int = count()
    score: int = total(Comment.score)


class VotesOfComment(Aggregate[Vote]):
    comment: Ref[Comment] | None = by(Vote.comment)
    votes: int = count()


class Titles(Index[Comment]):
    unique = True
    title: str = by(Comment.title)


class LinesOfKarma(Index[Line]):
    karma: int | None = by(within(Line.author, Author.karma), none="last")


class ReviewsByScore(Index[Review]):
    score: int | None = by(within(Review.of, Quote.score), none="last")


MODELS = (User, Comment, Line, Vote, Review)
VIEWS = (CommentsOfUser, Scores, VotesOfComment, Titles, LinesOfKarma, ReviewsByScore)
GROUPS = Schema(*MODELS, *VIEWS)


@pytest.mark.parametrize("inline", [0, 2, 100])
@pytest.mark.timeout(900)
def test_no_write_of_children_exceeds_its_bound(inline):
    holds(GROUPS, inline)


NAMES = st.sampled_from(["ada", "bob"])
NUMBERS = st.integers(1, 3)
AUTHORS = st.none() | st.builds(Author.of, NAMES)


def comments(name):
    return st.builds(Comment, name=st.just(name), score=NUMBERS, title=st.none() | st.sampled_from("xy"))


def lines(name):
    own = st.builds(lambda number: Comment.at(name, number), NUMBERS)
    quoted = st.none() | st.builds(Quote.of, NAMES, NUMBERS)
    return st.builds(
        Line, name=st.just(name), line=NUMBERS, author=AUTHORS, about=st.none() | own, quoted=quoted, quantity=NUMBERS
    )


def writes(name):
    """Verbs of a transaction in one group, each with what its bound is asked for."""
    return st.one_of(
        st.tuples(st.just("create"), comments(name)),
        st.tuples(st.just("save"), lines(name)),
        st.tuples(st.just("patch"), st.just(Comment), st.tuples(st.just(name), NUMBERS), st.just({"score": 5})),
        st.tuples(st.just("patch"), st.just(Line), st.tuples(st.just(name), NUMBERS), st.just({"author": None})),
        st.tuples(st.just("patch"), st.just(User), st.just((name,)), st.just({"karma": 7})),
        st.tuples(st.just("delete"), st.sampled_from([Comment, Line]), st.tuples(st.just(name), NUMBERS)),
    )


ACTS = NAMES.flatmap(
    lambda name: st.one_of(
        st.tuples(st.just("transact"), st.just(name), st.lists(writes(name), min_size=1, max_size=5)),
        st.tuples(st.just("delete group"), st.just(name), st.just([])),
        st.tuples(
            st.just("review"),
            st.just(name),
            st.lists(st.builds(lambda number, of: ("save", Review(number=number, of=of)), NUMBERS,
                               st.none() | st.builds(Quote.of, NAMES, NUMBERS)), min_size=1, max_size=2),
        ),
    )
)  # fmt: skip


class Priced:
    """A store whose transactions, and deletes of whole groups, are held against their bounds."""

    def __init__(self, inline, schema=GROUPS):
        self.clock = Clock()
        schema = Schema(*schema.models, *schema.views, inline=inline)
        self.db = connect("memory://?span=row", schema, clock=self.clock, workers=0)
        self.costs = declared.of(schema, span="row")
        self.inline = inline
        self.held = 0

    def do(self, verb, name, writes):
        self.clock.tick(0.05)
        for each in ("ada", "bob"):
            if self.db.find(User, each) is None:
                self.db.create(User(name=each))
        self.clock.tick(0.05)
        try:
            if verb == "delete group":
                with budget() as spent:
                    self.db.delete(User, name, children="delete")
                self.hold(spent.cost, self.costs.delete(User, children=self.inline))
            elif verb == "review":
                for each in writes:
                    self._write(self.db, each)
            else:
                found = self.db.transact(lambda work: [self._write(work, each) for each in writes])
                done = [each for each in found if each is not None]
                if done:
                    bound = self.costs.transact([self._bound(each) for each in writes])
                    self.hold(self.db.cost(done[0]), bound)
        except OnereadError:
            self.held += 10  # references that refused entities may have had

    def _write(self, db, write):
        verb, *given = write
        if verb == "patch":
            model, key, changes = given
            return db.patch(model, *key, **changes)
        if verb == "delete":
            return db.delete(given[0], *given[1])
        return getattr(db, verb)(*given)

    def _bound(self, write):
        verb, given, *rest = write
        if verb == "patch":
            return self.costs.patch(given, *rest[1])
        return getattr(self.costs, verb)(given if isinstance(given, type) else type(given))

    def hold(self, cost, bound):
        left = 4 * self.held
        assert cost.requests <= bound.requests + left
        assert cost.rows <= bound.rows + left
        assert cost.bytes <= bound.bytes
        assert cost.rounds <= bound.rounds + left


def shared(inline, effort=FEW):
    @effort
    @given(st.lists(ACTS, max_size=8))
    def is_within(acts):
        priced = Priced(inline)
        for act in acts:
            priced.do(*act)
        priced.db.close()

    is_within()


@pytest.mark.parametrize("inline", [2, 100])
@pytest.mark.timeout(900)
def test_no_transaction_exceeds_its_bound(inline):
    shared(inline)
