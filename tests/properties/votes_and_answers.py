"""A site whose totals go through three levels: votes, answers, questions and authors, with copies of totals besides."""

from decimal import Decimal
from typing import Annotated

from msgspec import Meta

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    ascending,
    by,
    count,
    descending,
    each,
    field,
    greatest,
    least,
    mean,
    reference,
    rollup,
    shown,
    total,
)


class Author(Copy["User"]):
    name: str


class Vote(Model[int, int]):
    on: Key[int]
    voter: Key[int]
    answer: Ref["Answer"] = reference(missing_ok=True)
    value: int
    weight: Decimal | None = None


class VotesOf(Aggregate[Vote]):
    answer: Ref["Answer"] = by(Vote.answer)
    votes: int = count()
    score: int = total(Vote.value)
    weight: Decimal | None = mean(Vote.weight)


class Answer(Model[int]):
    number: Key[int]
    question: Ref["Question"]
    author: Author
    votes: int = rollup(VotesOf.votes)
    score: int = rollup(VotesOf.score)
    weight: Decimal | None = rollup(VotesOf.weight)


class AnswersOf(Aggregate[Answer]):
    question: Ref["Question"] = by(Answer.question)
    answers: int = count()
    best: int | None = greatest(Answer.score)
    worst: int | None = least(Answer.score)


class GoodAnswersOf(Aggregate[Answer]):
    where = field(Answer.score) > 0

    question: Ref["Question"] = by(Answer.question)
    answers: int = count()


class Points(Aggregate[Answer]):
    author: Author = by(Answer.author)
    points: int = total(Answer.score)


class AnswersByScore(Index[Answer]):
    question: Ref["Question"] = by(Answer.question)
    score: int = descending(Answer.score)
    author: Author = shown(Answer.author)


class AnswersWithScore(Aggregate[Answer]):
    """Groups by a total: an answer moves from group to group as it is voted on."""

    score: int = by(Answer.score)
    answers: int = count()


class Question(Model[int]):
    number: Key[int]
    asker: Ref["User"] | None = None
    tags: Annotated[list[Ref["Tag"]], Meta(max_length=3)]
    answers: int = rollup(AnswersOf.answers)
    good: int = rollup(GoodAnswersOf.answers)
    best: int | None = rollup(AnswersOf.best)
    worst: int | None = rollup(AnswersOf.worst)


class QuestionsByBest(Index[Question]):
    best: int | None = descending(Question.best, none="last")
    answers: int = shown(Question.answers)
    good: int = shown(Question.good)
    worst: int | None = shown(Question.worst)


class TagUse(Aggregate[Question]):
    tag: Ref["Tag"] = by(each(Question.tags))
    questions: int = count()
    answers: int = total(Question.answers)


class Tag(Model[str]):
    word: Key[str]
    questions: int = rollup(TagUse.questions)
    answers: int = rollup(TagUse.answers)


class User(Model[int]):
    number: Key[int]
    name: str
    points: int = rollup(Points.points)


class TopUsers(Index[User]):
    points: int = descending(User.points)
    name: str = shown(User.name)


class Winner(Copy[User]):
    name: str
    points: int


class Badge(Model[int]):
    """Shows a total that is three levels up, and sums it once more."""

    number: Key[int]
    winner: Winner
    best: Ref[Question] | None = None


class PointsOfBadges(Aggregate[Badge]):
    best: Ref[Question] | None = by(Badge.best, none="first")
    badges: int = count()


class AuthorsByPoints(Index[Points]):
    """Over groups whose numbers are two levels up; it shows the copy of the key, which only refers."""

    points: int = descending(Points.points)
    author: Author = shown(Points.author)


class QuestionsByWorst(Index[AnswersOf]):
    """Over groups that entities show, too, by values that may be None."""

    where = field(AnswersOf.answers) > 1

    worst: int | None = ascending(AnswersOf.worst, none="first")
    best: int | None = descending(AnswersOf.best, none="last")
    question: Ref["Question"] = shown(AnswersOf.question)


class AnswersByWeight(Index[VotesOf]):
    weight: Decimal | None = descending(VotesOf.weight, none="last")
    votes: int = shown(VotesOf.votes)


class MostBadges(Index[PointsOfBadges]):
    """Groups without a question are listed as well."""

    badges: int = descending(PointsOfBadges.badges)
    best: Ref[Question] | None = by(PointsOfBadges.best, none="last")


class Comment(Model[int]):
    """Counts its own replies."""

    number: Key[int]
    reply_to: Ref["Comment"] | None = None
    replies: int = rollup(lambda: Replies.replies)
    deep: int = rollup(lambda: DeepReplies.replies)


class Replies(Aggregate[Comment]):
    comment: Ref[Comment] = by(Comment.reply_to)
    replies: int = count()


class DeepReplies(Aggregate[Comment]):
    comment: Ref[Comment] = by(Comment.reply_to)
    replies: int = total(Comment.replies)


class Visit(Model[int]):
    number: Key[int]
    user: int
    day: int


class Visits(Aggregate[Visit]):
    """Its groups have the key of a day, part by part."""

    user: int = by(Visit.user)
    day: int = by(Visit.day)
    visits: int = count()


class BusyDays(Index[Visits]):
    user: int = by(Visits.user)
    visits: int = descending(Visits.visits)
    day: int = ascending(Visits.day)


class Day(Model[int, int]):
    user: Key[int]
    day: Key[int]
    visits: int = rollup(Visits.visits)


SITE = Schema(
    Vote, VotesOf, Answer, AnswersOf, GoodAnswersOf, Points, AnswersByScore, AnswersWithScore, Question,
    QuestionsByBest, TagUse, Tag, User, TopUsers, Badge, PointsOfBadges, Comment, Replies, DeepReplies, Visit, Visits,
    Day, AuthorsByPoints, QuestionsByWorst, AnswersByWeight, MostBadges, BusyDays,
)  # fmt: skip
