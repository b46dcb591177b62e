"""The site's models and views: this is the part to copy into a program of your own.

Children are declared before those that show their totals; a class that is declared further down is named in quotes.
"""

from datetime import datetime
from enum import Enum
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
    bucket,
    by,
    count,
    descending,
    each,
    field,
    newest,
    oldest,
    reference,
    rollup,
    shown,
    total,
)

# --- Votes and comments ----------------------------------------------------------------------------------------------


class Author(Copy["User"]):
    """What a post and a comment show of who wrote it; it follows when a user changes their name."""

    name: str


class Kind(Enum):
    UP = "up"
    DOWN = "down"
    ACCEPTED = "accepted"
    FAVOURITE = "favourite"
    OTHER = "other"


class Vote(Model[int]):
    """One vote. What it is worth is stored, because totals are made of stored fields. Votes go with their post."""

    number: Key[int]
    post: Ref["Post"] = reference(on_delete="delete")
    kind: Kind
    value: int  # 1 up, -1 down, 0 for all other kinds
    cast_at: datetime


class VotesOf(Aggregate[Vote]):
    post: Ref["Post"] = by(Vote.post)
    score: int = total(Vote.value)


class Acceptances(Aggregate[Vote]):
    where = field(Vote.kind) == Kind.ACCEPTED

    post: Ref["Post"] = by(Vote.post)
    accepted: int = count()


class Comment(Model[int]):
    """A remark on a post, with which it is deleted. `thread` is the question whose page shows it."""

    number: Key[int]
    post: Ref["Post"] = reference(on_delete="delete")
    thread: Ref["Question"] = reference(on_delete="delete")
    author: Author | None
    text: Annotated[str, Meta(min_length=1, max_length=2_000)]
    written_at: datetime


class CommentsOf(Aggregate[Comment]):
    post: Ref["Post"] = by(Comment.post)
    comments: int = count()


class CommentsOfThread(Index[Comment]):
    """All comments of a question's page, those of a post together, oldest first: one range."""

    thread: Ref["Question"] = by(Comment.thread)
    post: Ref["Post"] = by(Comment.post)
    written_at: datetime = oldest(Comment.written_at)
    author: Author | None = shown(Comment.author)
    text: str = shown(Comment.text)


# --- Posts -----------------------------------------------------------------------------------------------------------


class Post(Model[int]):
    """What can be voted for and commented on: a question, an answer, or what is known about a tag."""

    number: Key[int]
    author: Author | None
    text: Annotated[str, Meta(max_length=100_000)]  # text, never HTML
    posted_at: datetime
    score: int = rollup(VotesOf.score)
    accepted: int = rollup(Acceptances.accepted)
    comments: int = rollup(CommentsOf.comments)


class Reputation(Aggregate[Post]):
    author: Author = by(Post.author)
    points: int = total(Post.score)  # vote -> post -> author: a total of totals


class Wiki(Post):
    """What is known about a tag."""


class About(Copy[Wiki]):
    text: str


class Asked(Copy["Question"]):
    """What an answer shows of its question, with which it is deleted."""

    on_delete = "delete"

    title: str


class Answer(Post):
    question: Asked


class AnswersByScore(Index[Answer]):
    question: Asked = by(Answer.question)
    score: int = descending(Answer.score)
    author: Author | None = shown(Answer.author)
    text: str = shown(Answer.text)
    posted_at: datetime = shown(Answer.posted_at)
    accepted: int = shown(Answer.accepted)


class AnswersOfUser(Index[Answer]):
    author: Author = by(Answer.author)
    score: int = descending(Answer.score)
    question: Asked = shown(Answer.question)
    accepted: int = shown(Answer.accepted)
    posted_at: datetime = shown(Answer.posted_at)


class AnswersOf(Aggregate[Answer]):
    question: Asked = by(Answer.question)
    answers: int = count()
    accepted: int = total(Answer.accepted)


class Answered(Aggregate[Answer]):
    author: Author = by(Answer.author)
    answers: int = count()


class Question(Post):
    title: Annotated[str, Meta(min_length=1, max_length=300)]
    tags: Annotated[list[Ref["Tag"]], Meta(max_length=5)]
    answers: int = rollup(AnswersOf.answers)
    solved: int = rollup(AnswersOf.accepted)  # how many of its answers are accepted


class QuestionsByScore(Index[Question]):
    score: int = descending(Question.score)
    posted_at: datetime = newest(Question.posted_at)
    title: str = shown(Question.title)
    tags: list[Ref["Tag"]] = shown(Question.tags)
    answers: int = shown(Question.answers)
    solved: int = shown(Question.solved)
    author: Author | None = shown(Question.author)


class Unanswered(Index[Question]):
    """A question leaves this list with its first answer, and comes back when that is deleted."""

    where = field(Question.answers) == 0

    posted_at: datetime = newest(Question.posted_at)
    score: int = shown(Question.score)
    title: str = shown(Question.title)
    tags: list[Ref["Tag"]] = shown(Question.tags)
    author: Author | None = shown(Question.author)


class QuestionsOfTag(Index[Question]):
    tag: Ref["Tag"] = by(each(Question.tags))
    score: int = descending(Question.score)
    posted_at: datetime = newest(Question.posted_at)
    title: str = shown(Question.title)
    answers: int = shown(Question.answers)
    solved: int = shown(Question.solved)
    author: Author | None = shown(Question.author)


class QuestionsOfUser(Index[Question]):
    author: Author = by(Question.author)
    score: int = descending(Question.score)
    title: str = shown(Question.title)
    answers: int = shown(Question.answers)
    solved: int = shown(Question.solved)
    posted_at: datetime = shown(Question.posted_at)


class QuestionsAsked(Aggregate[Question]):
    author: Author = by(Question.author)
    questions: int = count()


class QuestionsOfTagAndMonth(Aggregate[Question]):
    """How often a tag was used in a month; months begin at midnight UTC."""

    month: datetime = bucket(Question.posted_at, "month")
    tag: Ref["Tag"] = by(each(Question.tags))
    questions: int = count()


class TagsOfMonth(Index[QuestionsOfTagAndMonth]):
    """The tags of a month, most used first: an index over the groups of an aggregate."""

    month: datetime = by(QuestionsOfTagAndMonth.month)
    questions: int = descending(QuestionsOfTagAndMonth.questions)
    tag: Ref["Tag"] = shown(QuestionsOfTagAndMonth.tag)


class TagUse(Aggregate[Question]):
    tag: Ref["Tag"] = by(each(Question.tags))
    questions: int = count()


# --- Tags and users --------------------------------------------------------------------------------------------------


class Tag(Model[str]):
    word: Key[str]
    about: About | None = None
    questions: int = rollup(TagUse.questions)


class User(Model[int]):
    number: Key[int]
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    joined_at: datetime
    questions: int = rollup(QuestionsAsked.questions)
    answers: int = rollup(Answered.answers)
    reputation: int = rollup(Reputation.points)


class TopUsers(Index[User]):
    reputation: int = descending(User.reputation)
    name: str = shown(User.name)
    questions: int = shown(User.questions)
    answers: int = shown(User.answers)


SITE = Schema(
    Vote,
    VotesOf,
    Acceptances,
    Comment,
    CommentsOf,
    CommentsOfThread,
    Post,
    Reputation,
    Wiki,
    Answer,
    AnswersByScore,
    AnswersOfUser,
    AnswersOf,
    Answered,
    Question,
    QuestionsByScore,
    Unanswered,
    QuestionsOfTag,
    QuestionsOfUser,
    QuestionsAsked,
    QuestionsOfTagAndMonth,
    TagsOfMonth,
    TagUse,
    Tag,
    User,
    TopUsers,
    portable=True,
)
