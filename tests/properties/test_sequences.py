"""Numbers of children agree with a naive count, whatever is written, refused, deleted or aborted between."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneread import GENERATED, Aggregate, Copy, Index, Key, Model, Ref, Schema, by, connect, count, shown
from oneread.errors import OnereadError
from oneread.testing import strategies
from oneread.testing.proof import prove
from oneread.testing.steps import SaveAllStep, SweepStep


class User(Model[str]):
    name: Key[str]
    karma: int = 0


class Badge(Model[str, int]):
    child_of = User
    name: Key[str]
    number: Key[int] = GENERATED
    title: str = ""


NAMES = ("ada", "bob")


class Counted:
    """A store, and what it should have numbered."""

    def __init__(self, db):
        self.db = db
        self.last = dict.fromkeys(NAMES, 0)
        self.living = {name: set() for name in NAMES}
        db.save_all([User(name=name) for name in NAMES])

    def _note(self, name, found):
        self.last[name] += 1
        self.living[name].add(self.last[name])
        assert found.number == self.last[name]

    def _one_given(self, name, place):
        return 1 + place % self.last[name]

    def create(self, name, _place):
        self._note(name, self.db.create(Badge(name=name)))

    def batch(self, name, place):
        for found in self.db.save_all([Badge(name=name) for _ in range(place)]):
            self._note(name, found)

    def refused(self, name, place):
        with pytest.raises(OnereadError):
            self.db.create(Badge(name=name, title=place))

    def aborted(self, name, _place):
        with pytest.raises(ZeroDivisionError):
            self.db.transact(lambda tx: (tx.create(Badge(name=name)), 1 / 0))

    def transact(self, name, place):
        made = self.db.transact(lambda tx: [tx.create(Badge(name=name)) for _ in range(place)])
        for found in made:
            self._note(name, found)

    def delete(self, name, place):
        if self.last[name]:
            number = self._one_given(name, place)
            self.db.delete(Badge, name, number)
            self.living[name].discard(number)

    def again(self, name, place):
        """Saves a number that was given before; it may be deleted."""
        if self.last[name]:
            number = self._one_given(name, place)
            self.db.save(Badge(name=name, number=number, title="again"))
            self.living[name].add(number)

    def root(self, name, place):
        self.db.save(User(name=name, karma=place))
        if not self.living[name]:
            self.db.delete(User, name)
            self.db.save(User(name=name))


VERBS = ("create", "batch", "refused", "aborted", "transact", "delete", "again", "root")
STEPS = st.lists(st.tuples(st.sampled_from(VERBS), st.sampled_from(NAMES), st.integers(0, 5)), max_size=25)


URLS = ("memory://", "memory://?span=row", "memory://?span=row&deletes=remove")


@pytest.mark.parametrize("url", URLS)
@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(steps=STEPS)
def test_numbers_are_those_of_a_naive_count(url, steps):
    with connect(url, Schema(User, Badge), workers=0) as db:
        counted = Counted(db)
        for verb, name, place in steps:
            getattr(counted, verb)(name, place)
        for name, there in counted.living.items():
            assert [each.number for each in db.page(Badge, name, limit=1000).rows] == sorted(there)
        if url == "memory://":
            assert db.verify().clean


class Author(Copy[User]):
    karma: int


class Post(Model[int, str, int]):
    """A child with views and a copy of its root; its key begins with another part."""

    child_of = User
    day: Key[int]
    name: Key[str]
    number: Key[int] = GENERATED
    author: Author
    answers: Ref[Badge] | None = None


class PostsOfKarma(Index[Post]):
    karma: int = by(Post.number)
    author: Author = shown(Post.author)


class PostsOfDay(Aggregate[Post]):
    day: int = by(Post.day)
    posts: int = count()


EVERYTHING = Schema(User, Badge, Post, PostsOfKarma, PostsOfDay)


def done_on(url, history):
    """A history as a store does it; batches of one that changes one row at a time are no transactions."""
    return [each for each in history if url == "memory://" or not isinstance(each, SaveAllStep | SweepStep)]


@pytest.mark.parametrize("url", URLS)
@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(history=strategies.histories(EVERYTHING))
def test_children_with_views_and_copies_show_what_the_oracle_shows(url, history):
    prove(EVERYTHING, done_on(url, history), url)


@pytest.mark.parametrize("url", URLS)
@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(history=strategies.histories(Schema(User, Badge)))
def test_children_alone_show_what_the_oracle_shows(url, history):
    prove(Schema(User, Badge), done_on(url, history), url)


def test_children_cost_at_most_their_bounds():
    with connect("memory://", EVERYTHING) as db:
        db.save(User(name="ada"))

        def post(**more):
            return Post(day=1, name="ada", author=Author.of("ada"), **more)

        several = [post() for _ in range(7)]
        done = [
            (db.create(post()), db.explain.create(post())),
            (db.save(post()), db.explain.save(post())),
            (db.save(post(number=1)), db.explain.save(post(number=1))),
            (db.get_or_create(post())[0], db.explain.get_or_create(post())),
            (db.save_all(several)[0], db.explain.save_all(several)),
            (db.patch(User, "ada", karma=8), db.explain.patch(User, "ada", karma=8)),
        ]
        for entity, explained in done:
            cost, bound = db.cost(entity), explained.bound
            assert cost.requests <= bound.requests, explained
            assert cost.rows <= bound.rows, explained
            assert cost.bytes <= bound.bytes, explained
