"""Totals that are added to entities which are stored: empty until they are built, and right from then on."""

import pytest

from oneread import (
    Aggregate,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    count,
    descending,
    field,
    rollup,
    shown,
    to_json,
)
from oneread.errors import NotReady


def without_totals():
    class Answer(Model[int]):
        number: Key[int]
        question: Ref["Question"]
        good: bool = False

    class Question(Model[int]):
        number: Key[int]
        title: str

    return Schema(Answer, Question), Answer, Question


def with_totals(*, only_good=False):
    class Answer(Model[int]):
        number: Key[int]
        question: Ref["Question"]
        good: bool = False

    class AnswersOf(Aggregate[Answer]):
        where = field(Answer.good) == True if only_good else None  # noqa: E712 - a condition of the store

        question: Ref["Question"] = by(Answer.question)
        answers: int = count()

    class Question(Model[int]):
        number: Key[int]
        title: str
        answers: int = rollup(AnswersOf.answers)

    class QuestionsByAnswers(Index[Question]):
        answers: int = descending(Question.answers)
        title: str = shown(Question.title)

    return Schema(Answer, AnswersOf, Question, QuestionsByAnswers), Answer, Question, QuestionsByAnswers


@pytest.fixture
def filled(url):
    """The URL of a store of the program before."""
    schema, answer, question = without_totals()
    with connect(url, schema, workers=0) as db:
        db.save_all([question(number=number, title="?") for number in range(3)])
        db.save_all([answer(number=number, question=question.at(number % 2), good=number > 3) for number in range(7)])
    return url


def test_a_total_is_empty_until_it_is_built(filled):
    schema, _answer, question, by_answers = with_totals()
    with connect(filled, schema, workers=0) as db:
        found = db.get(question, 0)
        assert repr(found) == "Question(number=0, title='?')"
        assert to_json(found) == b'{"number":0,"title":"?"}'
        with pytest.raises(AttributeError, match=r"Question\.answers is not built yet; run a backfill"):
            _ = found.answers
        with pytest.raises(NotReady):
            db.page(by_answers)
        assert db.backfill().done
        assert [db.get(question, number).answers for number in range(3)] == [4, 3, 0]
        assert [(row.source.key, row.answers) for row in db.page(by_answers).rows] == [((0,), 4), ((1,), 3), ((2,), 0)]
        assert db.verify().clean


def test_what_is_written_while_totals_are_built_counts_once(filled):
    schema, answer, question, _view = with_totals()
    with connect(filled, schema, workers=0) as db:
        db.save(answer(number=10, question=question.at(2)))
        assert not hasattr(db.patch(question, 1, title="!"), "answers")
        assert not hasattr(db.save(question(number=0, title="?")), "answers")
        assert not hasattr(db.transact(lambda tx: tx.get(question, 0)), "answers")
        db.delete(answer, 0)
        db.save(question(number=3, title="new"))
        db.patch(answer, 1, question=question.at(3))
        assert not hasattr(db.get(question, 2), "answers")
        assert not hasattr(db.page(question).rows[0], "answers")
        assert db.backfill().done
        assert [db.get(question, number).answers for number in range(4)] == [3, 2, 1, 1]
        assert db.verify().clean


def test_a_total_of_another_condition_is_built_again(filled):
    schema, *_classes = with_totals()
    with connect(filled, schema, workers=0) as db:
        db.backfill()
    schema, _answer, question, by_answers = with_totals(only_good=True)
    with connect(filled, schema, workers=0) as db:
        assert not hasattr(db.get(question, 0), "answers")
        assert db.backfill().done
        assert [db.get(question, number).answers for number in range(3)] == [2, 1, 0]
        assert [row.answers for row in db.page(by_answers).rows] == [2, 1, 0]
        assert db.verify().clean


def test_a_second_program_sees_totals_when_they_are_built(filled):
    schema, _answer, question, _view = with_totals()
    with connect(filled, schema, workers=0) as reader, connect(filled, schema, workers=0) as db:
        assert not hasattr(reader.get(question, 0), "answers")
        assert db.backfill().done
        reader.run(reader.operations.refresh())
        reader.patch(question, 0, title="!")
        assert reader.get(question, 0).answers == 4


def test_an_entity_without_its_totals_can_be_saved(filled):
    schema, _answer, question, _view = with_totals()
    with connect(filled, schema, workers=0) as db:
        found = db.get(question, 0)
        db.save(found)
        db.backfill()
        assert db.get(question, 0).answers == 4


def items(*, shows_votes):
    class Vote(Model[int]):
        number: Key[int]
        item: int

    class VotesOf(Aggregate[Vote]):
        item: int = by(Vote.item)
        votes: int = count()

    class Item(Model[int]):
        item: Key[int]
        title: str = ""
        if shows_votes:
            votes: int = rollup(VotesOf.votes)

    return Schema(Vote, VotesOf, Item), Vote, Item


def test_what_older_programs_write_until_their_lease_is_over_counts_too(url):
    older, vote, item = items(shows_votes=False)
    newer, _vote, showing = items(shows_votes=True)
    with connect(url, older, workers=0) as before:
        before.save_all([item(item=1), vote(number=1, item=1)])
        with connect(url, newer, workers=0) as db:
            db.patch(showing, 1, title="!")  # it has its total from now on
            before.save(vote(number=2, item=1))
            assert db.backfill().done
            assert db.get(showing, 1).votes == 2
