"""Erasing, with the types that an editor shows."""

from typing import Annotated, assert_type

from oneread import AsyncDatabase, Copy, Database, Key, Model, Personal, Ref, Schema
from oneread.database.erasures import Erasing, Erasure
from oneread.database.proof import LeftBytes
from oneread.evolution.privacy import PersonalPlace, personal_places
from oneread.store.engine import Scrubbed


class Actor(Model[int]):
    number: Key[int]
    name: Annotated[str, Personal()]
    phone: Annotated[str | None, Personal(lambda number: f"+49{number}")] = None


class Played(Copy[Actor]):
    name: str


def erase(db: Database, at: Ref[Actor], copy: Played) -> None:
    assert_type(db.erase(Actor, 1), Erasure)
    assert_type(db.erase(Actor, at), Erasure)
    assert_type(db.erase(Actor, copy), Erasure)
    assert_type(db.plan_erasure(Actor, 1), Erasing)
    assert_type(db.erasures(limit=5), list[Erasure])
    assert_type(db.scrub(wait=1.5), Scrubbed)
    assert_type(db.left_bytes(b"Ada", b"Eve", files=["dump.jsonl"]), list[LeftBytes])
    assert_type(personal_places(Schema(Actor)), tuple[PersonalPlace, ...])
    assert_type(Actor(number=1, name="Ada").name, str)
    db.dump(print, Actor, without_personal=True)


async def erase_async(db: AsyncDatabase) -> None:
    assert_type(await db.erase(Actor, 1), Erasure)
    assert_type((await db.plan_erasure(Actor, 1)).holders, dict[str, int])
