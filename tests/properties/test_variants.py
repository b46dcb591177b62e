"""Histories of entities of several variants of one model, under the same keys: the database shows what the oracle does.

Copies, indexes and aggregates name variants and fields of theirs; a key changes its variant by a delete and a save, in
two commits and in one. Variants and their model show totals, and others copy those.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneread import Aggregate, Copy, Index, Key, Model, Ref, Schema, by, count, reference, rollup, shown, total, within
from oneread.errors import UsageError
from oneread.testing import strategies
from oneread.testing.proof import Proof, prove
from oneread.testing.steps import SaveStep


class Asked(Copy["Question"]):
    title: str
    text: str


class Cleared(Copy["Question"]):
    on_delete = "clear"
    title: str
    answers: int


class Awaited(Copy["Answer"]):
    missing_ok = True
    score: int


class Shown(Copy["Post"]):
    text: str


class Post(Model[int]):
    number: Key[int]
    text: str = ""
    notes: int = rollup(lambda: NotesOf.notes)


class Question(Post):
    title: str
    tag: str = ""
    answers: int = rollup(lambda: Scores.answers)
    score: int = rollup(lambda: Scores.score)


class Poll(Question):
    choices: int


class Answer(Post):
    to: Asked
    score: int


class Note(Model[int]):
    number: Key[int]
    cleared: Cleared | None = None
    awaited: Awaited | None = None
    shown: Shown | None = None
    plain: Ref[Question] | None = None
    loose: Ref[Answer] | None = reference(missing_ok=True)


class Mark(Model[int]):
    """Goes with its question, and with what is there instead of it."""

    number: Key[int]
    question: Ref[Question] = reference(on_delete="delete")


class Titles(Index[Question]):
    title: str = by(Question.title)
    answers: int = shown(Question.answers)


class AnswersByTitle(Index[Answer]):
    title: str | None = by(within(Answer.to, Asked.title), none="first")
    tag: str | None = shown(within(Answer.to, Question.tag))


class NotesByTag(Index[Note]):
    tag: str = by(within(Note.plain, Question.tag))
    score: int | None = shown(within(Note.loose, Answer.score))


class Scores(Aggregate[Answer]):
    to: Asked = by(Answer.to)
    answers: int = count()
    score: int = total(Answer.score)


class NotesOf(Aggregate[Note]):
    shown: Shown = by(Note.shown)
    notes: int = count()


class Posts(Aggregate[Post]):
    text: str = by(Post.text)
    posts: int = count()


SCHEMA = Schema(Post, Question, Poll, Answer, Note, Mark, Titles, AnswersByTitle, NotesByTag, Scores, NotesOf, Posts)
WORDS = st.sampled_from(["", "a", "b"])
GIVEN = {Post.text: WORDS, Question.title: WORDS, Question.tag: WORDS, Answer.score: st.integers(-2, 2)}


@given(strategies.histories(SCHEMA, GIVEN))
def test_the_database_shows_what_the_oracle_shows(history):
    prove(SCHEMA, history)


@settings(deadline=None)
@given(strategies.histories(SCHEMA, GIVEN), st.data(), st.sampled_from([0, 1, 3, 1000]))
def test_a_variant_changed_in_one_commit_is_a_delete_and_a_save(history, data, inline):
    """What is there at the commit counts, however many holders follow in it."""
    with Proof(SCHEMA, inline=inline) as proof:
        for step in history:
            proof.do(step)
            if isinstance(step, SaveStep) and isinstance(step.entity, Post) and data.draw(st.booleans()):
                _change(proof, step.entity)
        proof.look()


def _change(proof, entity):
    """Makes a stored entity of any variant this one, in one commit, by both."""
    proof.look()
    before = dict(proof.oracle.held)

    def both(work):
        work.delete(Post, entity.number)
        work.save(entity)

    try:
        proof.database.transact(both)
    except UsageError as refusal:
        with pytest.raises(type(refusal)):
            _expected(proof, entity)
        proof.oracle.held = before
        return
    _expected(proof, entity)


def _expected(proof, entity):
    if proof.oracle.get(Post, entity.number) is None:
        proof.oracle.save(entity)
    else:
        proof.oracle.replace(entity)
