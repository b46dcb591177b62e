"""Totals of groups that entities show: what may be declared, when they change, and what that costs exactly."""

import asyncio
from datetime import datetime
from typing import Annotated

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    bucket,
    by,
    connect,
    connect_async,
    count,
    descending,
    field,
    greatest,
    rollup,
    shown,
    to_json,
    total,
)
from oneread.costs.budgets import budget
from oneread.errors import Conflict, InvalidDeclaration, InvalidValue
from tests.unit.derivations.carts import Item, Items, Paid, Price


class Author(Copy["User"]):
    name: str


class Vote(Model[int, int]):
    on: Key[int]
    voter: Key[int]
    answer: Ref["Answer"]
    value: int


class VotesOf(Aggregate[Vote]):
    answer: Ref["Answer"] = by(Vote.answer)
    score: int = total(Vote.value)


class Answer(Model[int]):
    number: Key[int]
    question: Ref["Question"]
    author: Author
    score: int = rollup(VotesOf.score)


class AnswersOf(Aggregate[Answer]):
    question: Ref["Question"] = by(Answer.question)
    answers: int = count()
    best: int | None = greatest(Answer.score)


class Points(Aggregate[Answer]):
    author: Author = by(Answer.author)
    points: int = total(Answer.score)


class Question(Model[int]):
    number: Key[int]
    title: str
    answers: int = rollup(AnswersOf.answers)
    best: int | None = rollup(AnswersOf.best)


class QuestionsByBest(Index[Question]):
    best: int | None = descending(Question.best, none="last")
    title: str = shown(Question.title)


class User(Model[int]):
    number: Key[int]
    name: str
    points: int = rollup(Points.points)


SITE = Schema(Vote, VotesOf, Answer, AnswersOf, Points, Question, QuestionsByBest, User)


@pytest.fixture
def db(url):
    with connect(url, SITE, workers=0) as database:
        for number, name in enumerate(("Ada", "Bea"), 1):
            database.save(User(number=number, name=name))
        for number in (1, 2):
            database.save(Question(number=number, title="?"))
        for number in (1, 2, 3):
            database.save(answer(number))
        yield database


def answer(number, question=1, author=1):
    return Answer(number=number, question=Question.at(question), author=Author.of(author))


def vote(on, voter, value=1):
    return Vote(on=on, voter=voter, answer=Answer.at(on), value=value)


def spent(call, *given):
    with budget() as cost:
        call(*given)
    return cost.cost.requests, cost.cost.rows


# When totals change.


def test_a_vote_reaches_answer_question_and_author_in_its_own_commit(db):
    db.save(vote(2, 1, 5))
    assert db.get(Answer, 2).score == 5
    assert (db.get(Question, 1).answers, db.get(Question, 1).best) == (3, 5)
    assert db.get(User, 1).points == 5
    assert [(row.source.key, row.best) for row in db.page(QuestionsByBest).rows] == [((1,), 5), ((2,), None)]


def test_an_entity_made_after_its_children_is_filled_at_once(db):
    db.delete(Question, 1)
    db.save(vote(1, 1, 4))
    made = db.save(Question(number=1, title="again"))
    assert (made.answers, made.best) == (3, 4)


def test_children_that_move_change_both_groups(db):
    db.save(vote(1, 1, 9))
    db.patch(Answer, 1, question=Question.at(2), author=Author.of(2))
    assert [(db.get(Question, n).answers, db.get(Question, n).best) for n in (1, 2)] == [(2, 0), (1, 9)]
    assert [db.get(User, n).points for n in (1, 2)] == [0, 9]


def test_an_empty_group_gives_zero_and_none(db):
    for number in (1, 2, 3):
        db.delete(Answer, number)
    assert (db.get(Question, 1).answers, db.get(Question, 1).best) == (0, None)


def test_what_a_saved_object_says_of_its_totals_does_not_count(db):
    stale = db.get(Question, 1)
    db.save(answer(4))
    saved = db.save(msgspec.structs.replace(stale, title="new"))
    assert (saved.title, saved.answers) == ("new", 4)
    assert db.save(Question(number=1, title="made anew")).answers == 4


def test_a_batch_shows_each_entity_as_it_is_at_the_end(db):
    saved = db.save_all([Question(number=7, title="7"), answer(70, question=7), answer(71, question=7), vote(70, 1, 3)])
    assert (saved[0].answers, saved[0].best) == (2, 3)
    assert saved[1].score == 3


def test_a_transaction_sees_the_totals_of_its_own_writes(db):
    def body(tx):
        tx.save(answer(8, question=2))
        seen = tx.get(Question, 2).answers
        tx.delete(Answer, 8)
        return seen, tx.get(Question, 2).answers

    assert db.transact(body) == (1, 0)


def test_two_transactions_conflict_over_a_total_only_if_one_reads_it(db):
    def late(tx, *, reads):
        if reads:
            tx.get(Question, 1)
        tx.save(vote(2, 9 + reads))
        db.save(vote(1, 9 + reads))

    db.transact(lambda tx: late(tx, reads=False), attempts=1)
    assert db.get(Question, 1).best == 1
    with pytest.raises(Conflict):
        db.transact(lambda tx: late(tx, reads=True), attempts=1)


def test_the_asynchronous_face_keeps_totals(url):
    async def run():
        async with await connect_async(url, SITE, workers=0) as database:
            await database.save_all([User(number=1, name="Ada"), Question(number=1, title="?"), answer(1)])
            await database.save(vote(1, 1, 2))
            return (await database.get(Question, 1)).best, (await database.get(User, 1)).points

    assert asyncio.run(run()) == (2, 2)


# What is refused.


def test_a_total_cannot_be_set(db):
    with pytest.raises(InvalidValue, match="change what the group counts"):
        db.patch(Question, 1, answers=7)
    with pytest.raises(InvalidValue, match="change what the group counts"):
        db.patch(Answer, 1, score=7)


def test_a_constructor_does_not_offer_totals():
    with pytest.raises(InvalidValue) as refused:
        Question(number=1, title="?", zzz=1)
    assert refused.value.facts["fields"] == ["number", "title"]
    with pytest.raises(InvalidValue) as refused:
        Question(number=1, title="?", answer=1)
    assert "perhaps" not in refused.value.facts


class Cart(Model[int]):
    cart: Key[int]
    amount: Annotated[int, msgspec.Meta(le=100)] = rollup(Items.amount)


def test_a_total_that_breaks_its_constraint_refuses_the_commit_that_caused_it(url):
    with connect(url, Schema(Price, Item, Items, Cart), workers=0) as db:
        db.save_all([Price(number=1, amount=40), Cart(cart=1)])
        db.save_all([Item(number=number, price=Paid.of(1), cart=1) for number in (1, 2)])
        with pytest.raises(InvalidValue, match="does not fit") as refused:
            db.save(Item(number=3, price=Paid.of(1), cart=1))
        facts = refused.value.facts
        assert (facts["model"], facts["key"], facts["field"], facts["value"]) == ("Cart", (1,), "amount", 120)
        assert (db.get(Cart, 1).amount, db.find(Item, 3)) == (80, None)
        assert db.verify().clean


@pytest.mark.parametrize("inline", [0, 1000])
def test_holders_whose_change_a_total_refuses_are_set_aside(url, inline):
    with connect(url, Schema(Price, Item, Items, Cart, inline=inline), workers=0) as db:
        db.save_all([Price(number=1, amount=10), Cart(cart=1), Cart(cart=2)])
        db.save_all([Item(number=number, price=Paid.of(1), cart=1 + number // 3) for number in range(4)])
        db.patch(Price, 1, amount=40)
        db.drain()
        carts = [db.get(Cart, number).amount for number in (1, 2)]
        assert carts[1] == 40
        assert carts[0] == sum(db.get(Item, number).price.amount for number in range(3)) <= 100
        db.patch(Price, 1, amount=20)
        db.drain()
        assert [db.get(Cart, number).amount for number in (1, 2)] == [60, 20]
        assert db.verify().clean


# What it costs.


def test_a_vote_takes_nine_requests_for_three_levels(db):
    assert spent(db.save, vote(2, 1)) == (9, 21)


def test_a_child_without_a_parent_costs_one_read_and_leaves_it_alone(url):
    with connect(url, Schema(Price, Item, Items, Cart), workers=0) as db:
        db.save(Price(number=1, amount=10))
        assert spent(db.save, Item(number=1, price=Paid.of(1), cart=7)) == (7, 8)
        assert db.find(Cart, 7) is None


def test_a_batch_of_children_writes_what_shows_them_once(db):
    few = spent(db.save_all, [vote(2, voter) for voter in range(10)])
    many = spent(db.save_all, [vote(2, voter) for voter in range(10, 1010)])
    assert few[0] == many[0] == 9
    assert many[1] - few[1] == 2 * 990


# How it is shown.


def test_totals_are_in_json_and_not_in_dumps(db):
    assert to_json(db.get(Question, 1)) == b'{"number":1,"title":"?","answers":3,"best":0}'
    lines = []
    db.dump(lines.append)
    assert b'{"number":1,"title":"?"}' in b"".join(lines)


def test_an_entity_that_was_not_saved_has_no_total():
    assert repr(Question(number=1, title="?").answers) == "<rollup>"


# What may be declared.


class Note(Model[int]):
    number: Key[int]
    text: str
    at: datetime
    parent: Ref["Note"] | None = None


class NotesOf(Aggregate[Note]):
    parent: Ref[Note] = by(Note.parent)
    notes: int = count()
    least: int | None = greatest(Note.number)


class NotesByText(Aggregate[Note]):
    text: str = by(Note.text)
    notes: int = count()


class NotesByDay(Aggregate[Note]):
    day: datetime = bucket(Note.at, "day")
    notes: int = count()


def refusal(*declarations):
    with pytest.raises(InvalidDeclaration) as error:
        Schema(Note, *declarations)
    return str(error.value)


def test_a_total_is_a_number_of_an_aggregate():
    class Text(Model[str]):
        text: Key[str]
        notes: str = rollup(NotesByText.text)

    class Name(Model[str]):
        text: Key[str]
        notes: int = rollup("NotesByText.notes")

    class Field(Model[str]):
        text: Key[str]
        notes: int = rollup(Note.number)

    for model in (Text, Name, Field):
        assert "expected a number of an aggregate, as rollup(AnswersOf.answers)" in refusal(model, NotesByText)


def test_the_aggregate_is_in_the_schema():
    class Text(Model[str]):
        text: Key[str]
        notes: int = rollup(NotesByText.notes)

    assert "the aggregate of this rollup is not in the schema" in refusal(Text)


def test_a_total_has_the_type_of_its_number():
    class Text(Model[str]):
        text: Key[str]
        notes: str = rollup(NotesByText.notes)

    class Parent(Model[int]):
        number: Key[int]
        least: int = rollup(NotesOf.least)

    assert "a rollup has the type of the number" in refusal(Text, NotesByText)
    assert "a rollup has the type of the number" in refusal(Parent, NotesOf)


def test_a_group_has_the_key_of_the_entity_that_shows_it():
    class Word(Model[str]):
        word: Key[str]
        notes: int = rollup(NotesByText.notes)

    class Day(Model[datetime]):
        day: Key[datetime]
        notes: int = rollup(NotesByDay.notes)

    class Other(Model[int]):
        number: Key[int]
        notes: int = rollup(NotesOf.notes)

    for model, view in ((Word, NotesByText), (Day, NotesByDay), (Other, NotesOf)):
        assert "do not have the keys of this model" in refusal(model, view)


def test_a_part_of_the_key_cannot_be_a_total():
    class Text(Model[int]):
        notes: Key[int] = rollup(NotesByText.notes)

    assert "a part of the key cannot be a rollup" in refusal(Text, NotesByText)


def test_a_total_of_itself_is_refused_by_its_circle():
    class Reply(Model[int]):
        number: Key[int]
        to: Ref["Reply"] | None = None
        all: int = rollup(lambda: Replies.all)

    class Replies(Aggregate[Reply]):
        to: Ref[Reply] = by(Reply.to)
        all: int = total(Reply.all)

    message = refusal(Reply, Replies)
    assert "these fields depend on each other in a circle" in message
    assert "Reply.all <- Reply.all" in message


def test_a_condition_closes_a_circle_too():
    class Reply(Model[int]):
        number: Key[int]
        to: Ref["Reply"] | None = None
        good: int = rollup(lambda: Replies.good)

    class Replies(Aggregate[Reply]):
        where = field(Reply.good) > 0

        to: Ref[Reply] = by(Reply.to)
        good: int = count()

    assert "Reply.good <- Reply.good" in refusal(Reply, Replies)


def test_an_entity_may_count_its_own_kind(url):
    class Reply(Model[int]):
        number: Key[int]
        to: Ref["Reply"] | None = None
        replies: int = rollup(lambda: Replies.replies)

    class Replies(Aggregate[Reply]):
        to: Ref[Reply] = by(Reply.to)
        replies: int = count()

    with connect(url, Schema(Reply, Replies), workers=0) as db:
        db.save_all([Reply(number=1), Reply(number=2, to=Reply.at(1)), Reply(number=3, to=Reply.at(1))])
        db.save(Reply(number=4, to=Reply.at(2)))
        assert [db.get(Reply, number).replies for number in (1, 2, 3, 4)] == [2, 1, 0, 0]
        assert db.verify().clean


def test_children_do_not_hold_a_total_of_themselves():
    class Shown(Copy["Folder"]):
        files: int

    class File(Model[int]):
        number: Key[int]
        folder: Shown

    class FilesOf(Aggregate[File]):
        folder: Shown = by(File.folder)
        files: int = count()

    class Folder(Model[int]):
        number: Key[int]
        files: int = rollup(FilesOf.files)

    message = refusal(File, FilesOf, Folder)
    assert "each new one would commit all the others again" in message
    assert "FilesOf.files" in message


def test_a_unique_value_cannot_be_a_total():
    class Text(Model[str]):
        text: Key[str]
        notes: int = rollup(NotesByText.notes)

    class TextsByNotes(Index[Text]):
        unique = True

        notes: int = by(Text.notes)

    assert "a unique value is the entity's own" in refusal(Text, NotesByText, TextsByNotes)
