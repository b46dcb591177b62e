"""A schema that warns: each answer rewrites each mark of its note."""

from __future__ import annotations

from oneread import Aggregate, Copy, Key, Model, Ref, Schema, by, count, rollup


class Note(Model[int]):
    number: Key[int]
    answers: int = rollup(lambda: AnswersOf.answers)


class Answer(Model[int]):
    number: Key[int]
    note: Ref[Note]


class AnswersOf(Aggregate[Answer]):
    note: Ref[Note] = by(Answer.note)
    answers: int = count()


class Answered(Copy[Note]):
    answers: int


class Mark(Model[int]):
    number: Key[int]
    note: Answered


COSTLY = Schema(Note, Answer, AnswersOf, Mark)
