"""References and copies where a key is taken, as they are meant to be written: both faces, every verb."""

from typing import assert_type

from oneread import (
    Aggregate,
    AsyncBulk,
    AsyncDatabase,
    AsyncTransaction,
    Bulk,
    Copy,
    Database,
    Index,
    Key,
    Model,
    Page,
    Ref,
    Transaction,
    add,
    by,
    count,
    descending,
    reference,
    shown,
    within,
)


class User(Model[int]):
    number: Key[int]
    name: str
    posts: int = 0


class Author(Copy[User]):
    name: str


class Post(Model[int]):
    number: Key[int]
    author: Author
    editor: Author | None = None
    score: int = 0


class Question(Post):
    title: str = ""


class Answer(Post):
    question: Ref[Question]


class Vote(Model[str, int]):
    poll: Key[str]
    number: Key[int]
    answer: Ref[Answer]


class Following(Model[Ref[User], Ref[Question]]):
    """Its key refers, so that a call takes references to its parts; on_delete is that of the field."""

    user: Key[Ref[User]] = reference(on_delete="delete")
    question: Key[Ref[Question]]
    since: int = 0


class Bell(Model[Ref[Following], int]):
    following: Key[Ref[Following]]
    number: Key[int]


class AnswersByScore(Index[Answer]):
    question: Ref[Question] = by(Answer.question)
    score: int = descending(Answer.score)


class AnswersOf(Aggregate[Answer]):
    question: Ref[Question] = by(Answer.question)
    answers: int = count()


class Named(Index[User]):
    unique = True

    name: str = by(User.name)


class Bells(Index[Bell]):
    user: Ref[User] = by(within(Bell.following, Following.user))
    name: str = shown(within(Bell.following, within(Following.user, User.name)))


def keys_that_refer(db: Database, user: User, question: Question) -> None:
    following = db.get(Following, user.ref(), question.ref())
    assert_type(following, Following)
    assert_type(following.user, Ref[User])
    assert_type(Following.at(user.ref(), question.ref()), Ref[Following])
    assert_type(Following(user=user.ref(), question=question.ref()), Following)
    assert_type(db.find(Following, User.at(1), Question.at(2)), Following | None)
    assert_type(db.get(Following, following.ref()), Following)
    assert_type(db.get(Bell, following.ref(), 1), Bell)
    assert_type(db.get(Bell, Bell.at(following.ref(), 1)), Bell)
    assert_type(db.patch(Following, User.at(1), Question.at(2), since=1), Following)
    assert_type(db.get_many(Following, [(User.at(1), Question.at(2))]), list[Following | None])
    assert_type(db.get(User, following.user), User)
    db.page(Following, User.at(1))
    db.page(Bells, User.at(1))
    db.delete(Following, User.at(1), Question.at(2))


def reading(db: Database) -> None:
    row = db.page(AnswersByScore, 1)[0]
    answer = db.get(Answer, row.source)
    assert_type(answer, Answer)
    assert_type(db.get(Question, answer.question), Question)
    assert_type(db.get(User, answer.author), User)
    assert_type(db.get(User, answer.author.ref), User)
    assert_type(db.get(Post, row.source), Post)  # a variant's reference is one of its model
    assert_type(db.get(Vote, Vote.at("p", 1)), Vote)
    assert_type(db.get(Vote, "p", 1), Vote)
    assert_type(db.get(AnswersOf, answer.question), AnswersOf)
    assert_type(db.get(AnswersOf, AnswersOf.at(1)), AnswersOf)
    assert_type(db.get(AnswersOf, 1), AnswersOf)
    assert_type(db.find(User, answer.author), User | None)
    assert_type(db.find(Question, answer.question), Question | None)
    assert_type(db.exists(User, answer.author), bool)
    assert_type(db.exists(Question, answer.question), bool)
    if answer.editor is not None:
        assert_type(db.get(User, answer.editor), User)
    db.page(AnswersByScore, answer.question)


def several(db: Database, answers: list[Answer]) -> None:
    assert_type(db.get_many(User, [answer.author for answer in answers]), list[User | None])
    assert_type(db.get_many(Question, [answer.question for answer in answers]), list[Question | None])
    assert_type(db.get_many(Post, (answer.ref() for answer in answers)), list[Post | None])
    assert_type(db.get_many(User, [(1,), (2,)]), list[User | None])
    assert_type(db.get_many(Vote, [("p", 1)]), list[Vote | None])
    assert_type(db.get_many(AnswersOf, [(1,), (2,)]), list[AnswersOf | None])
    assert_type(db.get_many(AnswersOf, [(answer.question,) for answer in answers]), list[AnswersOf | None])
    assert_type(db.get_many(Named, [("Ada",)]), list[Named | None])


def writing(db: Database, bulk: Bulk, answer: Answer) -> None:
    assert_type(db.patch(User, answer.author, name="x"), User)
    assert_type(db.patch(User, answer.author.ref, posts=add(1), if_version=3), User)
    assert_type(db.patch(Question, answer.question, title="x"), Question)
    db.delete(User, answer.author, if_version=2)
    db.delete(Question, answer.question)
    bulk.patch(User, answer.author, name="x")
    bulk.delete(Question, answer.question, position=1)
    assert_type(Author.of(User.at(1)), Author)
    assert_type(Author.of(answer.author), Author)
    assert_type(Author.of(1), Author)


def together(db: Database, answer: Answer) -> None:
    def body(tx: Transaction) -> str:
        assert_type(tx.get(Question, answer.question), Question)
        assert_type(tx.find(User, answer.author), User | None)
        assert_type(tx.patch(User, answer.author, name="x"), User)
        tx.delete(Question, answer.question)
        return tx.get(User, answer.author).name

    assert_type(db.transact(body), str)


async def asynchronously(db: AsyncDatabase, bulk: AsyncBulk, answer: Answer) -> None:
    assert_type(await db.get(Question, answer.question), Question)
    assert_type(await db.get(User, answer.author), User)
    assert_type(await db.find(User, answer.author), User | None)
    assert_type(await db.exists(User, answer.author), bool)
    assert_type(await db.get_many(User, [answer.author]), list[User | None])
    assert_type(await db.get_many(AnswersOf, [(1,)]), list[AnswersOf | None])
    assert_type(await db.patch(User, answer.author, name="x"), User)
    await db.delete(User, answer.author)
    await bulk.delete(User, answer.author)

    async def body(tx: AsyncTransaction) -> User:
        return await tx.get(User, answer.author)

    assert_type(await db.transact(body), User)


class Posted(Copy[Post]):
    author: Ref[User]
    headline_of: int = shown(Post.score)
    writer: str = within(Post.author, Author.name)


class Comment(Model[int]):
    number: Key[int]
    post: Ref[Post]
    posted: Posted


class CommentsFor(Aggregate[Comment]):
    author: Author = by(within(Comment.post, Post.author))
    comments: int = count()


class CommentsOf(Index[Comment]):
    author: Ref[User] = by(within(Comment.posted, Posted.author))
    who: Ref[User] = shown(within(Comment.post, within(Post.author, Author.ref)))


def bounds(db: Database) -> None:
    assert_type(db.page(AnswersByScore, 1, after=1, through=9), Page[AnswersByScore])
    assert_type(db.page(AnswersByScore, 1, since=1, until=9), Page[AnswersByScore])
