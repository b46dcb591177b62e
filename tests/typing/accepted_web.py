"""Shapes as annotations of routes: type checkers know the entity that is made, and what a public shape shows."""

from datetime import datetime
from typing import Annotated, assert_type

from fastapi import Body
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from oneread import CREATED, AsyncDatabase, Copy, Key, Model, Page
from oneread.web import CreateShape, PageQuery, PatchShape, PublicShape, body_of, problem, respond


class User(Model[int]):
    number: Key[int]
    name: str
    email: str = ""


class Author(Copy[User]):
    name: str


class Post(Model[int]):
    number: Key[int]
    author: Author
    title: str
    made_at: datetime = CREATED


class Question(Post):
    discriminator = "type"
    headline: str


class NewPost(CreateShape[Post], exclude=("author",)):
    pass


class PublicUser(PublicShape[User], exclude=("email",)):
    pass


async def create(db: AsyncDatabase, user: CreateShape[User], new: NewPost) -> PublicUser:
    assert_type(user.entity(), User)
    assert_type(new.entity(author=Author.of(1)), Post)
    assert_type(await db.create(new.entity(author=Author.of(1))), Post)
    shown = PublicUser(await db.create(user.entity()))
    assert_type(shown.entity, User)
    return shown


async def change(db: AsyncDatabase, number: int, changes: PatchShape[Post]) -> Post:
    return await db.patch(Post, number, **changes)


async def change_any(db: AsyncDatabase, number: int, changes: PatchShape[Post]) -> Post:
    assert_type(changes.model, type[Post])
    return await db.patch(changes.model, number, **changes)


async def save(db: AsyncDatabase, post: Annotated[Post, Body()], question: Annotated[Question, Body()]) -> Post:
    assert_type(await db.save(question), Question)
    return await db.save(post)


async def users(db: AsyncDatabase, query: PageQuery) -> Page[PublicUser]:
    page = await query.page(db, User)
    assert_type(page, Page[User])
    assert_type(page.map(PublicUser), Page[PublicUser])
    assert_type(page.map(lambda user: user.name), Page[str])
    return page.map(PublicUser)


async def handle(request: Request) -> Response:
    new = await body_of(request, NewPost)
    assert_type(new, NewPost)
    assert_type((await body_of(request, CreateShape[User])).entity(), User)
    assert_type(await body_of(request, PatchShape[User]), PatchShape[User])
    return respond(request, new.entity(author=Author.of(1)))


async def fail(request: Request, connection: HTTPConnection) -> None:
    assert_type(await problem(request, ValueError()), Response)
    assert_type(await problem(connection, ValueError()), Response | None)
