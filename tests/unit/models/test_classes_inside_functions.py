"""Models and views inside a function name themselves and each other, in annotations that are text."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Ref, Schema, by, connect, count, reference, shown, within
from oneread.errors import InvalidDeclaration


def test_a_model_refers_to_itself(url):
    class Node(Model[int]):
        id: Key[int]
        up: Ref[Node] | None = reference(missing_ok=True)
        also: Annotated[list[Ref[Node]], msgspec.Meta(max_length=3)] = msgspec.field(default_factory=list)

    with connect(url, Schema(Node), workers=0) as db:
        saved = db.save(Node(id=1, up=Node.at(1)))
        assert db.get(Node, 1) == saved
        also = db.save(Node(id=2, also=[Node.at(1)]))
        assert (saved.up, also.also) == (Node.at(1), [Node.at(1)])


def test_two_models_refer_to_each_other_and_are_seen_in_views(url):
    class Club(Model[int]):
        id: Key[int]
        name: str
        head: Ref[Member] | None = reference(missing_ok=True)

    class Member(Model[int]):
        id: Key[int]
        home: Ref[Club]
        boss: Ref[Member] | None = reference(on_delete="refuse")

    class OfClub(Index[Member]):
        named: str = by(within(Member.home, Club.name))
        boss: Ref[Member] | None = shown(Member.boss)

    class PerHead(Aggregate[Member]):
        head: Ref[Member] | None = by(within(Member.home, Club.head), none="first")
        members: int = count()

    with connect(url, Schema(Club, Member, OfClub, PerHead), workers=0) as db:
        db.save(Club(id=1, name="Chess", head=Member.at(1)))
        db.save_all([Member(id=1, home=Club.at(1)), Member(id=2, home=Club.at(1), boss=Member.at(1))])
        assert [row.boss for row in db.page(OfClub, "Chess")] == [None, Member.at(1)]
        assert db.get(PerHead, Member.at(1)).members == 2
        db.patch(Club, 1, name="Go", head=None)
        assert len(db.page(OfClub, "Go")) == 2
        assert db.get(PerHead, None).members == 2
        assert not db.verify().faults


def test_a_class_that_only_the_function_knows_is_named_in_the_refusal():
    class Club(Model[int]):
        id: Key[int]
        name: str

    class Home(Copy[Club]):
        name: str

    class Visit(Model[int]):
        id: Key[int]
        place: Home

    with pytest.raises(InvalidDeclaration, match="declare it in the module") as refusal:
        Schema(Club, Visit)
    assert (refusal.value.facts["field"], refusal.value.facts["declaration"]) == ("place", Visit)


def test_a_model_that_is_not_in_the_schema_is_named_in_the_refusal(url):
    class Left(Model[int]):
        id: Key[int]
        right: Ref[Right] | None = reference(missing_ok=True)

    class Right(Model[int]):
        id: Key[int]
        left: Ref[Left] | None = reference(missing_ok=True)

    with pytest.raises(InvalidDeclaration, match="add it to the schema"):
        Schema(Left)
    with connect(url, Schema(Left, Right), workers=0) as db:
        db.save(Left(id=1, right=Right.at(2)))
        db.save(Right(id=2, left=Left.at(1)))
        assert db.get(Right, 2).left == Left.at(1)
