"""Posts that are questions, polls and answers, for tests of variants in both frameworks."""

from typing import Annotated

from fastapi import APIRouter, Body, Depends, FastAPI
from starlette.applications import Starlette
from starlette.routing import Route

from oneread import AsyncDatabase, Copy, Key, Model, Page, Ref, Schema, connect_async
from oneread.web import (
    CreateShape,
    PageQuery,
    PatchShape,
    PublicShape,
    body_of,
    changes_of,
    database,
    entity_of,
    exception_handlers,
    lifespan,
    respond,
)
from oneread.web.fastapi import use_problems


class User(Model[int]):
    number: Key[int]
    name: str


class Author(Copy[User]):
    name: str


class Post(Model[int]):
    """Anything that is written."""

    number: Key[int]
    author: Author
    text: str = ""
    secret: str = ""


class Question(Post):
    """A post that asks."""

    title: str


class Poll(Question):
    stored_as = "vote"
    choices: int = 2


class Answer(Post):
    question: Ref[Question]
    draft: str = ""


class Comment(Model[int]):
    variants_only = True
    discriminator = "@kind"
    number: Key[int]
    post: Ref[Post]


class Praise(Comment):
    type: str = "praise"


class Doubt(Comment):
    why: str


SCHEMA = Schema(User, Post, Question, Poll, Answer, Comment, Praise, Doubt)
Db = Annotated[AsyncDatabase, Depends(database)]
Query = Annotated[PageQuery, Depends()]


class NewPost(CreateShape[Post], exclude=("author", "draft")):
    pass


class PublicPost(PublicShape[Post], exclude=("secret", "draft")):
    pass


routes = APIRouter()


@routes.put("/posts")
async def put(db: Db, post: Annotated[Post, Body()]) -> Post:
    return await db.save(post)


@routes.put("/questions")
async def put_question(db: Db, question: Annotated[Question, Body()]) -> Question:
    return await db.save(question)


@routes.put("/answers")
async def put_answer(db: Db, answer: Annotated[Answer, Body()]) -> Answer:
    return await db.save(answer)


@routes.put("/comments")
async def put_comment(db: Db, comment: Annotated[Comment, Body()]) -> Comment:
    return await db.save(comment)


@routes.post("/posts", status_code=201)
async def create(db: Db, new: CreateShape[Post]) -> Post:
    return await db.create(new.entity())


@routes.post("/mine", status_code=201)
async def create_mine(db: Db, new: NewPost) -> PublicPost:
    return PublicPost(await db.create(new.entity(author=Author.of(1))))


@routes.get("/posts")
async def posts(db: Db, query: Query) -> Page[Post]:
    return await query.page(db, Post)


@routes.get("/public")
async def public(db: Db, query: Query) -> Page[PublicPost]:
    return (await query.page(db, Post)).map(PublicPost)


@routes.get("/posts/{number}")
async def post(db: Db, number: int) -> Post:
    return await db.get(Post, number)


@routes.patch("/posts/{number}")
async def edit(db: Db, number: int, changes: PatchShape[Post]) -> Post:
    return await db.patch(changes.model, number, **changes)


@routes.patch("/answers/{number}")
async def edit_answer(db: Db, number: int, changes: PatchShape[Answer]) -> Answer:
    return await db.patch(changes.model, number, **changes)


def fastapi(url="memory://"):
    app = FastAPI(lifespan=lifespan(connect_async(url, SCHEMA)))
    app.include_router(routes)
    use_problems(app)
    return app


def saving(model):
    async def handle(request):
        return respond(request, await database(request).save(await entity_of(request, model)))

    return handle


def patching(model):
    async def handle(request):
        changes = await body_of(request, PatchShape[model])
        number = int(request.path_params["number"])
        return respond(request, await database(request).patch(changes.model, number, **changes))

    return handle


async def handle_changes(request):
    changes = await changes_of(request, Post)
    return respond(request, await database(request).patch(Post, int(request.path_params["number"]), **changes))


async def handle_create(request):
    new = await body_of(request, CreateShape[Post])
    return respond(request, await database(request).create(new.entity()), status_code=201)


async def handle_mine(request):
    new = await body_of(request, NewPost)
    made = await database(request).create(new.entity(author=Author.of(1)))
    return respond(request, PublicPost(made), status_code=201)


async def handle_posts(request):
    return respond(request, await PageQuery.of(request).page(database(request), Post))


async def handle_public(request):
    return respond(request, (await PageQuery.of(request).page(database(request), Post)).map(PublicPost))


async def handle_post(request):
    return respond(request, await database(request).get(Post, int(request.path_params["number"])))


def starlette(url="memory://"):
    routes = [
        Route("/posts", saving(Post), methods=["PUT"]),
        Route("/questions", saving(Question), methods=["PUT"]),
        Route("/answers", saving(Answer), methods=["PUT"]),
        Route("/comments", saving(Comment), methods=["PUT"]),
        Route("/posts", handle_create, methods=["POST"]),
        Route("/mine", handle_mine, methods=["POST"]),
        Route("/posts", handle_posts),
        Route("/public", handle_public),
        Route("/posts/{number}", handle_post),
        Route("/posts/{number}", patching(Post), methods=["PATCH"]),
        Route("/answers/{number}", patching(Answer), methods=["PATCH"]),
        Route("/changes/{number}", handle_changes, methods=["PATCH"]),
    ]
    opening = lifespan(connect_async(url, SCHEMA))
    return Starlette(routes=routes, lifespan=opening, exception_handlers=exception_handlers)
