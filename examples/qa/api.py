"""The site for programs: JSON by FastAPI, from the models and views themselves; /api/openapi.json describes it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response
from fastapi.routing import APIRoute

from examples.pages import MOST, ROWS
from examples.qa.pages import month_of
from examples.qa.schema import (
    Answer,
    AnswersByScore,
    AnswersOfUser,
    Comment,
    CommentsOfThread,
    Kind,
    Post,
    Question,
    QuestionsByScore,
    QuestionsOfTag,
    QuestionsOfUser,
    Tag,
    TagsOfMonth,
    TopUsers,
    Unanswered,
    User,
    Vote,
)
from oneread import AsyncDatabase, Page
from oneread.web import CreateShape, PageQuery, PatchShape, database, if_version, respond
from oneread.web.fastapi import use_problems

Db = Annotated[AsyncDatabase, Depends(database)]
Query = Annotated[PageQuery, Depends()]
VALUES = {Kind.UP: 1, Kind.DOWN: -1}


class NewQuestion(CreateShape[Question], exclude=("posted_at",)):
    """What a client sends; the time is the server's."""


class NewAnswer(CreateShape[Answer], exclude=("posted_at",)):
    """What a client sends; the time is the server's."""


class NewComment(CreateShape[Comment], exclude=("written_at", "thread")):
    """What a client sends; the time is the server's, and the thread follows from the post."""


class NewVote(CreateShape[Vote], exclude=("value", "cast_at")):
    """What a client sends; what it is worth follows from its kind."""


class EditedQuestion(PatchShape[Question], exclude=("author", "posted_at")):
    """What may be changed in a question."""


def _operation(route: APIRoute) -> str:
    """An operation is called what its function is, and so are the functions of generated clients."""
    return route.name


api = FastAPI(
    title="Questions and answers",
    version="1",
    docs_url=None,  # its page loads scripts from elsewhere
    redoc_url=None,
    generate_unique_id_function=_operation,
)
use_problems(api)


@api.get("/questions")
async def questions_by_score(db: Db, query: Query) -> Page[QuestionsByScore]:
    return await query.page(db, QuestionsByScore, limit=ROWS, most=MOST)


@api.get("/unanswered")
async def unanswered(db: Db, query: Query) -> Page[Unanswered]:
    return await query.page(db, Unanswered, limit=ROWS, most=MOST)


@api.get("/questions/{number}", response_model=Question)
async def question(number: int, db: Db, request: Request) -> Response:
    return respond(request, await db.get(Question, number))


@api.get("/questions/{number}/answers")
async def answers_by_score(number: int, db: Db, query: Query) -> Page[AnswersByScore]:
    return await query.page(db, AnswersByScore, number, limit=ROWS, most=MOST)


@api.get("/questions/{number}/comments")
async def comments_of_thread(number: int, db: Db, query: Query) -> Page[CommentsOfThread]:
    return await query.page(db, CommentsOfThread, number, limit=ROWS, most=MOST)


@api.get("/users")
async def top_users(db: Db, query: Query) -> Page[TopUsers]:
    return await query.page(db, TopUsers, limit=ROWS, most=MOST)


@api.get("/users/{number}", response_model=User)
async def user(number: int, db: Db, request: Request) -> Response:
    return respond(request, await db.get(User, number))


@api.get("/users/{number}/questions")
async def questions_of_user(number: int, db: Db, query: Query) -> Page[QuestionsOfUser]:
    return await query.page(db, QuestionsOfUser, number, limit=ROWS, most=MOST)


@api.get("/users/{number}/answers")
async def answers_of_user(number: int, db: Db, query: Query) -> Page[AnswersOfUser]:
    return await query.page(db, AnswersOfUser, number, limit=ROWS, most=MOST)


@api.get("/tags/{word}", response_model=Tag)
async def tag(word: str, db: Db, request: Request) -> Response:
    return respond(request, await db.get(Tag, word))


@api.get("/tags/{word}/questions")
async def questions_of_tag(word: str, db: Db, query: Query) -> Page[QuestionsOfTag]:
    return await query.page(db, QuestionsOfTag, word, limit=ROWS, most=MOST)


@api.get("/months/{month}/tags")
async def tags_of_month(month: str, db: Db, query: Query) -> Page[TagsOfMonth]:
    return await query.page(db, TagsOfMonth, month_of(month), limit=ROWS, most=MOST)


@api.post("/questions", status_code=201)
async def ask(db: Db, new: NewQuestion) -> Question:
    return await db.create(new.entity(posted_at=datetime.now(UTC)))


@api.patch("/questions/{number}", response_model=Question)
async def edit_question(number: int, db: Db, changes: EditedQuestion, request: Request) -> Response:
    return respond(request, await db.patch(Question, number, if_version=if_version(request), **changes))


@api.post("/answers", status_code=201)
async def answer(db: Db, new: NewAnswer) -> Answer:
    return await db.create(new.entity(posted_at=datetime.now(UTC)))


@api.post("/comments", status_code=201)
async def comment(db: Db, new: NewComment) -> Comment:
    post = await db.find(Post, new["post"])
    thread = Question.at(*post.question.ref.key) if isinstance(post, Answer) else Question.at(*new["post"].key)
    return await db.create(
        new.entity(thread=thread, written_at=datetime.now(UTC))
    )  # refused where there is no such post


@api.post("/votes", status_code=201)
async def vote(db: Db, new: NewVote) -> Vote:
    return await db.create(new.entity(value=VALUES.get(new["kind"], 0), cast_at=datetime.now(UTC)))


@api.post("/users", status_code=201)
async def register(db: Db, new: CreateShape[User]) -> User:
    return await db.create(new.entity())


@api.patch("/users/{number}")
async def rename_user(number: int, db: Db, changes: PatchShape[User]) -> User:
    return await db.patch(User, number, **changes)


@api.delete("/posts/{number}", status_code=204)
async def delete_post(number: int, db: Db, request: Request) -> None:
    """Its answers, comments and votes go too."""
    await db.delete(Post, number, if_version=if_version(request))
