"""Posts and their authors, for tests of shapes, links and OpenAPI in both frameworks."""

from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated
from uuid import UUID

import msgspec
from fastapi import APIRouter, Depends, FastAPI, Response
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from oneread import (
    CREATED,
    GENERATED,
    UPDATED,
    AsyncDatabase,
    Copy,
    Index,
    Key,
    Model,
    Page,
    Ref,
    Schema,
    by,
    connect_async,
    newest,
    reference,
    shown,
)
from oneread.web import (
    CreateShape,
    PageQuery,
    PatchShape,
    PublicShape,
    body_of,
    database,
    exception_handlers,
    if_version,
    lifespan,
    respond,
)
from oneread.web.fastapi import use_problems


class Mood(Enum):
    GLAD = "glad"
    SAD = "sad"


class Place(msgspec.Struct, frozen=True):
    """Where it was written."""

    city: str
    near: tuple["Place", ...] = ()


class Tag(Model[str]):
    name: Key[str]


class User(Model[int]):
    """Somebody who writes."""

    number: Key[int]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=20)]
    email: str = ""
    likes: Ref[Tag] | None = None


class Author(Copy[User]):
    name: str
    likes: Ref[Tag] | None


class Post(Model[UUID]):
    """Something written."""

    id: Key[UUID] = GENERATED
    author: Author
    topic: Ref[Tag] = reference(on_delete="refuse")
    title: str
    tags: Annotated[list[Ref[Tag]], msgspec.Meta(max_length=5)] = msgspec.field(default_factory=list)
    score: int = 0
    price: Decimal = Decimal("1.50")
    mood: Mood = Mood.GLAD
    place: Place | None = None
    if_version: int = 0
    spelled: int = msgspec.field(default=0, name="spelledHere")
    made_at: datetime = CREATED
    changed_at: datetime = UPDATED


class PostsOfAuthor(Index[Post]):
    max_limit = 40
    author: Author = by(Post.author)
    made_at: datetime = newest(Post.made_at)
    title: str = shown(Post.title)


SCHEMA = Schema(Tag, User, Post, PostsOfAuthor)
Db = Annotated[AsyncDatabase, Depends(database)]
Query = Annotated[PageQuery, Depends()]


class NewPost(CreateShape[Post], exclude=("author", "if_version")):
    pass


class EditedPost(PatchShape[Post], exclude=("author", "if_version")):
    pass


class PublicUser(PublicShape[User], exclude=("email",)):
    pass


class Listed(BaseModel):
    total: int
    posts: Page[PostsOfAuthor]


class ListedStruct(msgspec.Struct):
    total: int
    posts: Page[PostsOfAuthor]
    author: User


routes = APIRouter()


@routes.post("/posts", status_code=201)
async def create(db: Db, new: NewPost) -> Post:
    return await db.create(new.entity(author=Author.of(1)))


@routes.post("/users", status_code=201)
async def register(db: Db, new: CreateShape[User]) -> PublicUser:
    return PublicUser(await db.create(new.entity()))


@routes.get("/users")
async def users(db: Db, query: Query) -> Page[PublicUser]:
    return (await query.page(db, User, limit=1)).map(PublicUser)


@routes.get("/users/{number}")
async def user(db: Db, number: int) -> PublicUser:
    return PublicUser(await db.get(User, number))


@routes.patch("/users/{number}")
async def rename(db: Db, number: int, changes: PatchShape[User]) -> User:
    return await db.patch(User, number, **changes)


@routes.get("/posts/{key}")
async def post(db: Db, key: UUID) -> Post:
    return await db.get(Post, key)


@routes.patch("/posts/{key}")
async def edit(db: Db, key: UUID, changes: EditedPost) -> Post:
    return await db.patch(Post, key, **changes)


@routes.get("/posts")
async def posts(db: Db, query: Query) -> Page[PostsOfAuthor]:
    return await query.page(db, PostsOfAuthor, 1, limit=1)


@routes.get("/listed")
async def listed(db: Db, query: Query) -> Listed:
    return Listed(total=3, posts=await query.page(db, PostsOfAuthor, 1, limit=1))


@routes.get("/struct", response_model=Listed)
async def in_a_struct(db: Db, query: Query, request: Request) -> Response:
    page = await query.page(db, PostsOfAuthor, 1, limit=1)
    return respond(request, ListedStruct(3, page, await db.get(User, 1)))


def fastapi(url="memory://"):
    app = FastAPI(lifespan=lifespan(connect_async(url, SCHEMA)))
    app.include_router(routes)
    use_problems(app)
    return app


async def handle_create(request):
    new = await body_of(request, NewPost)
    return respond(request, await database(request).create(new.entity(author=Author.of(1))), status_code=201)


async def handle_register(request):
    new = await body_of(request, CreateShape[User])
    return respond(request, PublicUser(await database(request).create(new.entity())), status_code=201)


async def handle_users(request):
    page = await PageQuery.of(request).page(database(request), User, limit=1)
    return respond(request, page.map(PublicUser))


async def handle_user(request):
    return respond(request, PublicUser(await database(request).get(User, int(request.path_params["number"]))))


async def handle_rename(request):
    number = int(request.path_params["number"])
    changes = await body_of(request, PatchShape[User])
    return respond(request, await database(request).patch(User, number, if_version=if_version(request), **changes))


async def handle_post(request):
    return respond(request, await database(request).get(Post, UUID(request.path_params["key"])))


async def handle_edit(request):
    changes = await body_of(request, EditedPost)
    return respond(request, await database(request).patch(Post, UUID(request.path_params["key"]), **changes))


async def handle_posts(request):
    return respond(request, await PageQuery.of(request).page(database(request), PostsOfAuthor, 1, limit=1))


async def handle_listed(request):
    page = await PageQuery.of(request).page(database(request), PostsOfAuthor, 1, limit=1)
    return respond(request, Listed(total=3, posts=page))


async def handle_in_a_struct(request):
    db = database(request)
    page = await PageQuery.of(request).page(db, PostsOfAuthor, 1, limit=1)
    return respond(request, ListedStruct(3, page, await db.get(User, 1)))


def starlette(url="memory://"):
    routes = [
        Route("/posts", handle_create, methods=["POST"]),
        Route("/posts", handle_posts),
        Route("/posts/{key}", handle_post),
        Route("/posts/{key}", handle_edit, methods=["PATCH"]),
        Route("/users", handle_register, methods=["POST"]),
        Route("/users", handle_users),
        Route("/users/{number}", handle_user),
        Route("/users/{number}", handle_rename, methods=["PATCH"]),
        Route("/listed", handle_listed),
        Route("/struct", handle_in_a_struct),
    ]
    opening = lifespan(connect_async(url, SCHEMA))
    return Starlette(routes=routes, lifespan=opening, exception_handlers=exception_handlers)
