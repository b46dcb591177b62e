"""What a task will delete counts as deleted to who writes it, however many go with the source: see decision 0117."""

import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Ref, Schema, by, connect, count, reference
from oneread.errors import MissingReference, NotFound

HOLDERS = 120
"""More than follow at once on any store."""


class Post(Model[int]):
    number: Key[int]
    title: str = ""


class On(Copy[Post]):
    on_delete = "delete"
    title: str


class Vote(Model[int]):
    number: Key[int]
    post: Ref[Post] = reference(on_delete="delete")
    value: int = 0


class Remark(Model[int]):
    number: Key[int]
    post: On
    value: int = 0


class VotesFor(Aggregate[Vote]):
    post: Ref[Post] = by(Vote.post)
    votes: int = count()


class Remarks(Index[Remark]):
    value: int = by(Remark.value)


@pytest.fixture
def opened(url):
    several = []

    def opens(inline):
        db = connect(url, Schema(Post, Vote, Remark, VotesFor, Remarks, inline=inline), workers=0)
        several.append(db)
        db.save_all([Post(number=1), Post(number=2)])
        with db.bulk() as bulk:
            for number in range(HOLDERS):
                bulk.save(Vote(number=number, post=Post.at(1)))
                bulk.save(Remark(number=number, post=On.of(1)))
        db.drain()
        db.delete(Post, 1)
        return db

    yield opens
    for db in several:
        db.close()


MADE = {Vote: lambda post, value: Vote(number=7, post=Post.at(post), value=value),
        Remark: lambda post, value: Remark(number=7, post=On.of(post), value=value)}  # fmt: skip
VERBS = {
    "save": lambda db, made, **_given: db.save(made),
    "save_all": lambda db, made, **_given: db.save_all([made]),
    "create": lambda db, made, **_given: db.create(made),
    "get_or_create": lambda db, made, **_given: db.get_or_create(made),
    "transact": lambda db, made, **_given: db.transact(lambda work: work.save(made)),
    "patch": lambda db, made, value: db.patch(type(made), 7, value=value),
    "patch in a transaction": lambda db, made, value: db.transact(lambda work: work.patch(type(made), 7, value=value)),
}


@pytest.mark.parametrize("inline", [1000, 2], ids=["within the bound", "as a task"])
@pytest.mark.parametrize("model", MADE)
def test_what_refers_to_the_deleted_source_is_refused(opened, model, inline):
    """By each verb, which leaves the next one what it found."""
    db = opened(inline)
    for name, verb in VERBS.items():
        with pytest.raises(NotFound if "patch" in name else MissingReference):
            verb(db, MADE[model](1, 5), value=5)
    db.drain()
    assert db.find(model, 7) is None
    assert db.verify().clean


@pytest.mark.parametrize("inline", [1000, 2], ids=["within the bound", "as a task"])
@pytest.mark.parametrize("verb", ["save", "save_all", "create", "get_or_create", "transact"])
@pytest.mark.parametrize("model", MADE)
def test_what_refers_to_another_one_stays(opened, model, verb, inline):
    db = opened(inline)
    VERBS[verb](db, MADE[model](2, 5))
    db.drain()
    assert db.get(model, 7).value == 5
    assert db.get(VotesFor, 2).votes == 1 if model is Vote else [row.value for row in db.page(Remarks, 5)] == [5]
    assert sum(db.exists(each, number) for each in MADE for number in range(HOLDERS)) == 1
    assert db.verify().clean


@pytest.mark.parametrize("model", MADE)
def test_a_patch_to_another_one_keeps_it(opened, model):
    db = opened(2)
    db.patch(model, 7, post=MADE[model](2, 5).post, value=5)
    db.drain()
    assert db.get(model, 7).value == 5
    assert db.verify().clean


@pytest.mark.parametrize("inline", [1000, 2], ids=["within the bound", "as a task"])
def test_bulk_refuses_what_goes(opened, inline):
    db = opened(inline)
    with pytest.raises(MissingReference), db.bulk() as bulk:
        bulk.save(MADE[Vote](1, 5))
    db.drain()
    assert db.find(Vote, 7) is None
    assert db.verify().clean


@pytest.mark.parametrize("model", MADE)
def test_a_source_that_was_made_again_keeps_what_refers_to_it(opened, model):
    db = opened(2)
    db.save(Post(number=1, title="again"))
    VERBS["patch"](db, MADE[model](1, 5), value=5)
    db.drain()
    assert db.get(model, 7).value == 5
    assert db.verify().clean
