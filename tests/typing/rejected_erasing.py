"""Mistakes with erasing."""

from oneread import Database, Key, Model, Personal, Ref


class Actor(Model[int]):
    number: Key[int]
    name: str


class Film(Model[str, int]):
    title: Key[str]
    year: Key[int]


def wrong(db: Database, at: Ref[Film]) -> None:
    db.erase(Actor, "1")  # rejected
    db.erase(Film, 1970, "Blue")  # rejected
    db.erase(Actor, at)  # rejected
    db.plan_erasure(Actor, 1).rows_of  # rejected
    db.erasures(limit="5")  # rejected
    db.left_bytes("Ada")  # rejected
    Personal("x")  # rejected
