"""Shapes used wrongly: each marked line must be reported, and no other."""

from starlette.requests import Request

from oneread import Key, Model, Page
from oneread.web import CreateShape, PatchShape, PublicShape, body_of


class User(Model[int]):
    number: Key[int]
    name: str


class Tag(Model[str]):
    name: Key[str]


class NewUser(CreateShape[User], exclude=("name",)):
    pass


class PublicUser(PublicShape[User], exclude=("name",)):
    pass


class Number(CreateShape[int]):  # rejected
    pass


def wrong_entity(new: NewUser, tag: Tag) -> Tag:
    PublicUser(tag)  # rejected
    new["name"] = "Ada"  # rejected
    return new.entity(name="Ada")  # rejected


class Note(Model[int]):
    discriminator = 3  # rejected
    number: Key[int]


def wrong_model(changes: PatchShape[User]) -> type[Tag]:
    return changes.model  # rejected


def wrong_page(page: Page[Tag]) -> Page[PublicUser]:
    return page.map(PublicUser)  # rejected


async def wrong_body(request: Request) -> None:
    await body_of(request, User)  # rejected
    (await body_of(request, NewUser)).entity().nmae  # rejected
