"""Memberships and items of the feeds that are simulated."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec

from oneread import Key, Model
from oneread.testing.processes import START

BEGINNING = datetime.fromtimestamp(START / 1000, UTC)


class Membership(Model[int]):
    number: Key[int]
    member: int
    group: str


class Post(Model[int]):
    number: Key[int]
    groups: Annotated[list[str], msgspec.Meta(max_length=2)]
    at: datetime = BEGINNING
    text: str = ""
