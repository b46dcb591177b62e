"""A declaration by which each entity that is counted rewrites many rows warns, unless it says that it is meant."""

from __future__ import annotations

import warnings
from datetime import datetime, timedelta
from typing import Any

import pytest

from oneread import (
    Aggregate,
    Copy,
    Feed,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    count,
    counter,
    expires,
    greatest,
    newest,
    on,
    rollup,
    shown,
)
from oneread import within as inside
from oneread.errors import CostlyDeclaration, InvalidDeclaration


class Place(Model[int]):
    number: Key[int]
    name: str


class Gathering(Model[int]):
    number: Key[int]
    place: Ref[Place]
    title: str
    at_: datetime
    yes: int = rollup(lambda: YesOf.yes)
    views: int = rollup(counter("views:{number}"))


class Answer(Model[int]):
    number: Key[int]
    gathering: Ref[Gathering]


class YesOf(Aggregate[Answer]):
    gathering: Ref[Gathering] = by(Answer.gathering)
    yes: int = count()


class Stay(Model[int]):
    number: Key[int]
    place: Ref[Place]
    member: int


class BusyGathering(Copy[Gathering]):
    title: str
    yes: int


class Comment(Model[int]):
    number: Key[int]
    gathering: BusyGathering


class Note(Model[int]):
    number: Key[int]
    gathering: Ref[Gathering]


class Home(Feed[Gathering]):
    joined = on(Gathering.place, Stay.place)
    member: int = by(Stay.member)
    at_: datetime = newest(Gathering.at_)
    title: str = shown(Gathering.title)
    yes: int = shown(Gathering.yes)
    views: int = shown(Gathering.views)  # within 10 seconds, however often it is counted


class NotesByBusiest(Index[Note]):
    yes: int = by(inside(Note.gathering, Gathering.yes))


class CommentsByTitle(Index[Comment]):
    title: str = by(inside(Comment.gathering, BusyGathering.title))
    yes: int = shown(inside(Comment.gathering, BusyGathering.yes))


class Busiest(Index[Gathering]):
    yes: int = newest(Gathering.yes)  # type: ignore[arg-type]


COUNTED = (Place, Gathering, Answer, YesOf)

WARNED: dict[str, tuple[tuple[Any, ...], str, str, str]] = {
    "an entry of a feed": (
        (Stay, Home),
        "Home",
        "its entries of all members of place",
        "leave it out, and read it with get_many of the sources of a page",
    ),
    "a copy": (
        (Comment,),
        "BusyGathering",
        "each Comment that holds it",
        "leave it out, and read it with get of what is referred to",
    ),
    "a row by a value of what it refers to": (
        (Note, NotesByBusiest),
        "NotesByBusiest",
        "the rows of each Note that refers to it",
        "leave it out",
    ),
}


def declared(name: str) -> Any:
    return next(each for each in (Home, BusyGathering, NotesByBusiest) if each.__name__ == WARNED[name][1])


@pytest.mark.parametrize("name", WARNED)
def test_what_each_counted_entity_rewrites_warns(name: str) -> None:
    declarations, costly, rewritten, instead = WARNED[name]
    with pytest.warns(CostlyDeclaration) as found:
        Schema(*COUNTED, *declarations)
    (text,) = [str(each.message) for each in found]
    assert text.startswith(f"{costly} shows Gathering.yes, which changes with each Answer: each rewrites {rewritten};")
    assert text.endswith(f"; {instead}, or declare costly = True in {costly} where that is meant")
    assert found[0].filename == __file__


@pytest.mark.parametrize("name", WARNED)
def test_what_is_meant_does_not_warn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared(name), "costly", True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Schema(*COUNTED, *WARNED[name][0])


@pytest.mark.parametrize("name", WARNED)
def test_only_a_truth_value_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared(name), "costly", "yes")
    with pytest.raises(InvalidDeclaration, match="costly: expected True or False"):
        Schema(*COUNTED, *WARNED[name][0])


class Topic(Model[int]):
    number: Key[int]
    last: datetime | None = rollup(lambda: LastOf.last)


class Reply(Model[int]):
    number: Key[int]
    topic: Ref[Topic]
    at_: datetime


class LastOf(Aggregate[Reply]):
    topic: Ref[Topic] = by(Reply.topic)
    last: datetime | None = greatest(Reply.at_)


class Reader(Model[int]):
    number: Key[int]
    topic: Ref[Topic]


class ReadersOfLively(Aggregate[Reader]):
    ttl = expires(inside(Reader.topic, Topic.last), after=timedelta(days=1))
    topic: Ref[Topic] = by(Reader.topic)
    readers: int = count()


def test_a_ttl_by_a_total_warns() -> None:
    with pytest.warns(CostlyDeclaration, match=r"ReadersOfLively shows Topic\.last, which changes with each Reply"):
        Schema(Topic, Reply, LastOf, Reader, ReadersOfLively)


def test_a_view_of_a_costly_copy_does_not_warn_again() -> None:
    with pytest.warns(CostlyDeclaration) as found:
        Schema(*COUNTED, Comment, CommentsByTitle)
    assert [str(each.message).split()[0] for each in found] == ["BusyGathering"]


def test_a_total_in_its_own_order_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Schema(*COUNTED, Busiest)
