"""Compares every number and every list of a store with what `recount` makes of the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar, cast

from examples.qa import schema
from examples.qa.recount import Expected, recount
from examples.qa.source import Data, Post
from oneread import Database, Model
from oneread.derivations.views import View

A = TypeVar("A", bound="Model[*tuple[Any, ...]] | View[Any]")


class Compared(NamedTuple):
    """One kind of number: how many were compared, and what is said of each that differs."""

    name: str
    numbers: int
    differences: list[str]


def check(db: Database, data: Data) -> list[Compared]:
    """Compares everything; reads the whole store page by page, and each list in its order."""
    expected = recount(data)
    questions = {each.number: each for each in _all(db, schema.Question)}
    answers = {each.number: each for each in _all(db, schema.Answer)}
    posts = {**questions, **answers}
    users = {each.number: each for each in _all(db, schema.User)}
    tags = {each.word: each for each in _all(db, schema.Tag)}
    months = {(each.month, each.tag.key[0]): each.questions for each in _all(db, schema.QuestionsOfTagAndMonth)}
    stated = {each.number: each.stated for each in (*data.questions, *data.answers)}
    return [
        _compared("questions: score", _of(expected.scores, data.questions), _field(questions, "score")),
        _compared("questions: answers", expected.answers, _field(questions, "answers")),
        _compared("questions: accepted answers", expected.solved, _field(questions, "solved")),
        _compared("answers: score", _of(expected.scores, data.answers), _field(answers, "score")),
        _compared("answers: accepted", _of(expected.accepted, data.answers), _field(answers, "accepted")),
        _compared("posts: score as the data state it", stated, _field(posts, "score")),
        _compared("posts: comments", expected.comments, _field(posts, "comments")),
        _votes(db, expected),
        _compared("users: reputation", expected.reputations, _field(users, "reputation")),
        _compared("tags: questions", expected.tags, _field(tags, "questions")),
        _compared("tags of months: questions", expected.tag_months, months),
        *_lists(db, expected),
    ]


def _votes(db: Database, expected: Expected) -> Compared:
    """Votes that are there with what they are worth, and orphaned ones that must not be there."""
    found = {each.number: (each.post.key[0], each.value) for each in _all(db, schema.Vote)}
    wanted = expected.votes | dict.fromkeys(expected.orphans)
    return _compared("votes: post and value", wanted, dict.fromkeys(expected.orphans) | found)


def _lists(db: Database, expected: Expected) -> list[Compared]:
    """The rows of each list in their order, with the numbers that they show."""
    scores, answers = expected.scores, expected.answers
    return [
        _in_order(
            "list: questions by score",
            [(number, scores[number], answers[number]) for number in expected.by_score],
            [(each.source.key[0], each.score, each.answers) for each in _all(db, schema.QuestionsByScore)],
        ),
        _in_order(
            "list: unanswered",
            [(number, scores[number]) for number in expected.unanswered],
            [(each.source.key[0], each.score) for each in _all(db, schema.Unanswered)],
        ),
        _in_order(
            "list: top users",
            [(number, expected.reputations[number]) for number in expected.top_users],
            [(each.source.key[0], each.reputation) for each in _all(db, schema.TopUsers)],
        ),
        _in_order(
            "list: tags of months",
            [
                (month, word, expected.tag_months[month, word])
                for month, words in expected.tags_of_month.items()
                for word in words
            ],
            [(each.month, each.tag.key[0], each.questions) for each in _all(db, schema.TagsOfMonth)],
        ),
    ]


def _all(db: Database, listed: type[A]) -> list[A]:
    """All rows of a list, or all entities of a model."""
    return [each for page in db.scan(listed) for each in page]


def _of(numbers: Mapping[int, int], posts: Sequence[Post]) -> dict[int, int]:
    return {post.number: numbers[post.number] for post in posts}


def _field(entities: Mapping[Any, object], name: str) -> dict[Any, int]:
    return {key: getattr(entity, name) for key, entity in entities.items()}


def _compared(name: str, expected: Mapping[Any, object], found: Mapping[Any, object]) -> Compared:
    """Each expected number beside the one that was found; what is found and not expected differs as well."""
    nothing = "nothing"
    keys = [*expected, *(key for key in found if key not in expected)]
    differences = [
        f"{name} of {_shown(key)}: {found.get(key, nothing)} is stored, {expected.get(key, nothing)} is right"
        for key in keys
        if key not in expected or key not in found or found[key] != expected[key]
    ]
    return Compared(name, len(keys), differences)


def _in_order(name: str, expected: Sequence[tuple[object, ...]], found: Sequence[tuple[object, ...]]) -> Compared:
    differences = [
        f"{name}, row {place}: {_shown(there)} is stored, {_shown(wanted)} is right"
        for place, (wanted, there) in enumerate(zip_longest(expected, found), 1)
        if wanted != there
    ]
    return Compared(name, len(expected), differences)


def _shown(key: object) -> str:
    """A key or a row as a person reads it."""
    if isinstance(key, tuple):
        return " ".join(map(_shown, cast("tuple[object, ...]", key)))
    if isinstance(key, datetime):
        return f"{key:%Y-%m}"
    return "nothing" if key is None else str(key)
