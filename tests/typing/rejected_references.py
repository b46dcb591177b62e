"""References that lead elsewhere: both type checkers report each marked line, and no other."""

from oneread import (
    Aggregate,
    AsyncDatabase,
    Bulk,
    Copy,
    Database,
    Index,
    Key,
    Model,
    Ref,
    Transaction,
    by,
    count,
    descending,
    shown,
    within,
)


class User(Model[int]):
    number: Key[int]
    name: str


class Tag(Model[str]):
    word: Key[str]


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


class Following(Model[Ref[User], Ref[Question]]):
    user: Key[Ref[User]]
    question: Key[Ref[Question]]


class AnswersByScore(Index[Answer]):
    question: Ref[Question] = by(Answer.question)
    score: int = descending(Answer.score)


class QuestionsByScore(Index[Question]):
    score: int = descending(Question.score)


class AnswersOf(Aggregate[Answer]):
    question: Ref[Question] = by(Answer.question)
    answers: int = count()


class Copied(Copy[AnswersOf]):  # rejected
    answers: int


class Second(Index[QuestionsByScore]):  # rejected
    score: int = descending(QuestionsByScore.score)


class Totals(Aggregate[AnswersOf]):  # rejected
    answers: int = count()


class Named(Copy[Question]):
    headline: int = shown(Question.title)  # rejected
    points: str = shown(Question.score)  # rejected
    nothing: str = shown(Question.headline)  # rejected
    writer: int = within(Question.author, Author.name)  # rejected


class ByTag(Index[Answer]):
    question: Ref[Question] = by(Answer.author)  # rejected
    author: Author = by(within(Answer.question, Question.title))  # rejected


def wrong_keys_that_refer(db: Database) -> None:
    Following(user=1, question=Question.at(1))  # rejected
    Following.at(Question.at(1), User.at(1))  # rejected
    db.get(Following, Question.at(1), User.at(1))  # rejected
    db.get(Following, 1, 2)  # rejected
    db.get(Following, User.at(1))  # rejected
    db.get_many(Following, [(1, 2)])  # rejected


def wrong(db: Database, bulk: Bulk, answer: Answer) -> None:
    db.get(Question, answer.author)  # rejected
    db.get(Question, Tag.at("qubit"))  # rejected
    db.get(User, 1, 3)  # rejected
    db.get(Answer, db.page(QuestionsByScore)[0].source)  # rejected
    db.get(Question, Post.at(1))  # rejected
    db.get(User, "1")  # rejected
    db.get(AnswersOf, 1, object())  # rejected
    db.get_many(User, [answer.question])  # rejected
    db.get_many(User, [("x",)])  # rejected
    db.get_many(Question, [answer.author])  # rejected
    db.get_many(AnswersOf, [(object(),)])  # rejected
    db.delete(Question, answer.ref())  # rejected
    db.find(User, answer.editor)  # rejected
    db.find(Tag, answer.author)  # rejected
    db.exists(User, answer.question)  # rejected
    db.patch(Tag, answer.author, word="x")  # rejected
    db.patch(User, Tag.at("x"), name="x")  # rejected
    bulk.delete(Tag, answer.author)  # rejected
    bulk.patch(Question, answer.ref(), title="x")  # rejected
    Author.of(Tag.at("x"))  # rejected
    who: str = db.get(User, answer.author).number  # rejected
    title: str = db.find(Question, answer.question).title  # rejected
    print(who, title)


def wrong_transaction(db: Database, answer: Answer) -> None:
    def body(tx: Transaction) -> None:
        tx.get(Question, answer.author)  # rejected
        tx.find(User, answer.ref())  # rejected
        tx.patch(Tag, answer.question, word="x")  # rejected
        tx.delete(User, answer.question)  # rejected

    db.transact(body)


async def wrong_async(db: AsyncDatabase, answer: Answer) -> None:
    await db.get(Question, answer.author)  # rejected
    await db.get_many(User, [answer.question])  # rejected
    await db.delete(Question, answer.ref())  # rejected
