"""Compares every number and every list of a store with what `recount` makes of the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from examples.comparing import Compared, all_rows, compare, compare_in_order
from examples.qa import schema
from examples.qa.recount import Expected, recount
from examples.qa.source import Data, Post
from oneread import Database


def check(db: Database, data: Data) -> list[Compared]:
    """Compares everything; reads the whole store page by page, and each list in its order."""
    expected = recount(data)
    questions = {each.number: each for each in all_rows(db, schema.Question)}
    answers = {each.number: each for each in all_rows(db, schema.Answer)}
    posts = {**questions, **answers}
    users = {each.number: each for each in all_rows(db, schema.User)}
    tags = {each.word: each for each in all_rows(db, schema.Tag)}
    months = {(each.month, each.tag.key[0]): each.questions for each in all_rows(db, schema.QuestionsOfTagAndMonth)}
    stated = {each.number: each.stated for each in (*data.questions, *data.answers)}
    return [
        compare("questions: score", _of(expected.scores, data.questions), _field(questions, "score")),
        compare("questions: answers", expected.answers, _field(questions, "answers")),
        compare("questions: accepted answers", expected.solved, _field(questions, "solved")),
        compare("answers: score", _of(expected.scores, data.answers), _field(answers, "score")),
        compare("answers: accepted", _of(expected.accepted, data.answers), _field(answers, "accepted")),
        compare("posts: score as the data state it", stated, _field(posts, "score")),
        compare("posts: comments", expected.comments, _field(posts, "comments")),
        _votes(db, expected),
        compare("users: reputation", expected.reputations, _field(users, "reputation")),
        compare("tags: questions", expected.tags, _field(tags, "questions")),
        compare("tags of months: questions", expected.tag_months, months),
        *_lists(db, expected),
    ]


def _votes(db: Database, expected: Expected) -> Compared:
    """Votes that are there with what they are worth, and orphaned ones that must not be there."""
    found = {each.number: (each.post.key[0], each.value) for each in all_rows(db, schema.Vote)}
    wanted = expected.votes | dict.fromkeys(expected.orphans)
    return compare("votes: post and value", wanted, dict.fromkeys(expected.orphans) | found)


def _lists(db: Database, expected: Expected) -> list[Compared]:
    """The rows of each list in their order, with the numbers that they show."""
    scores, answers = expected.scores, expected.answers
    return [
        compare_in_order(
            "list: questions by score",
            [(number, scores[number], answers[number]) for number in expected.by_score],
            [(each.source.key[0], each.score, each.answers) for each in all_rows(db, schema.QuestionsByScore)],
        ),
        compare_in_order(
            "list: unanswered",
            [(number, scores[number]) for number in expected.unanswered],
            [(each.source.key[0], each.score) for each in all_rows(db, schema.Unanswered)],
        ),
        compare_in_order(
            "list: top users",
            [(number, expected.reputations[number]) for number in expected.top_users],
            [(each.source.key[0], each.reputation) for each in all_rows(db, schema.TopUsers)],
        ),
        compare_in_order(
            "list: tags of months",
            [
                (month, word, expected.tag_months[month, word])
                for month, words in expected.tags_of_month.items()
                for word in words
            ],
            [(each.month, each.tag.key[0], each.questions) for each in all_rows(db, schema.TagsOfMonth)],
        ),
    ]


def _of(numbers: Mapping[int, int], posts: Sequence[Post]) -> dict[int, int]:
    return {post.number: numbers[post.number] for post in posts}


def _field(entities: Mapping[Any, object], name: str) -> dict[Any, int]:
    return {key: getattr(entity, name) for key, entity in entities.items()}
