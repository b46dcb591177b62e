"""What a feed with marks declares, and what a mark means."""

from datetime import UTC, datetime, timedelta
from types import new_class
from typing import Annotated

import msgspec
import pytest

from oneread import Feed, Key, Model, Ref, Schema, by, connect, newest, on
from oneread.costs.declared import of as costs_of
from oneread.errors import InvalidDeclaration
from oneread.feeds.marks import MARKS, FeedMarks, FeedPosition, moving
from oneread.models.model import key_names
from oneread.testing.clock import START
from tests.unit.feeds.marked import PLAIN, SCHEMA, Group, Lines, Member, Membership, Post


class Part(Model[str, int]):
    """What a member is of, with a key of two parts."""

    name: Key[str]
    number: Key[int]


class Share(Model[int]):
    number: Key[int]
    part: Ref[Part]
    alias: Annotated[str, msgspec.Meta(max_length=9)]
    group: Ref[Group]


class Wide(Feed[Post]):
    part: Ref[Part] = by(Share.part)
    alias: str = by(Share.alias)
    at: datetime = newest(Post.at)
    joined = on(Post.group, Share.group)
    marks = True


def models(schema):
    return {cls.__name__: cls for cls in schema.models if issubclass(cls, FeedMarks)}


def test_the_schema_adds_a_model_for_each_feed_with_marks():
    found = models(SCHEMA)
    assert sorted(found) == ["Home.marks", "Inbox.marks", "Lines.marks"]
    home = found["Home.marks"]
    assert (home.stored_as, home.__struct_fields__) == ("Home.marks", ("member_number", "member", *MARKS))
    assert key_names(home) == ("member_number",)
    assert key_names(found["Inbox.marks"]) == ("email",)
    again = Schema(*SCHEMA.models, *SCHEMA.views)
    assert list(models(again)) == list(found)
    assert models(again) != found
    assert models(Schema(Member, Group, Membership, Post)) == {}


def test_a_member_of_several_fields_and_parts_has_marks(url):
    schema = Schema(Part, Share, Group, Post, Wide)
    model = models(schema)["Wide.marks"]
    assert key_names(model) == ("part_name", "part_number", "alias")
    with connect(url, schema, workers=0) as db:
        db.save_all([Part(name="p", number=1), Group(number=1)])
        db.save(Share(number=1, part=Part.at("p", 1), alias="a", group=Group.at(1)))
        db.save_all([Post(name=name, group=Group.at(1), at=datetime.now(UTC)) for name in "xyz"])
        for member in ((Part.at("p", 1), "a"), ("p", 1, "a")):
            assert db.unread(Wide, *member).unread == 3
        db.mark(Wide, Part.at("p", 1), "a", read=db.page(Wide, "p", 1, "a")[1])
        assert db.unread(Wide, "p", 1, "a").unread == 1
        assert db.find(model, "p", 1, "a").part == Part.at("p", 1)


def test_costs_know_marks_and_feeds_of_groups():
    costs = costs_of(SCHEMA)
    bound = costs.save(models(SCHEMA)["Home.marks"])
    assert bound.requests >= 4
    assert costs.page(Lines, limit=20).requests == 1


def with_marks(given):
    class Other(Feed[Post]):
        member: Ref[Member] = by(Membership.member)
        at: datetime = newest(Post.at)
        joined = on(Post.group, Membership.group)
        marks = given

    return Other


@pytest.mark.parametrize("given", [None, 1, "yes", [], ("seen",)])
def test_marks_are_on_or_off(given):
    with pytest.raises(InvalidDeclaration, match="marks: expected True or False"):
        Schema(*PLAIN[:-1], with_marks(given))


@pytest.mark.parametrize("name", MARKS)
def test_a_field_called_like_a_mark_is_refused(name):
    space = {
        "__annotations__": {name: Ref[Member], "at": datetime},
        name: by(Membership.member),
        "at": newest(Post.at),
        "joined": on(Post.group, Membership.group),
    }
    Schema(*PLAIN[:-1], new_class("Called", (Feed[Post],), {}, lambda body: body.update(space)))
    with pytest.raises(InvalidDeclaration, match="is called like a mark"):
        Schema(*PLAIN[:-1], new_class("Called", (Feed[Post],), {}, lambda body: body.update(space, marks=True)))


def test_newer_is_before_in_the_feed():
    later, first, second = (
        FeedPosition(START + timedelta(1), b"z"),
        FeedPosition(START, b"a"),
        FeedPosition(START, b"b"),
    )
    ordered = [later, first, second, None]
    for place, one in enumerate(ordered[:-1]):
        assert [one.is_newer(other) for other in ordered] == [other > place for other in range(4)]


def test_marks_move_forwards():
    class Kept(msgspec.Struct):
        seen: FeedPosition | None = None
        read: FeedPosition | None = None

    old, new = FeedPosition(START, b"a"), FeedPosition(START + timedelta(1), b"a")
    kept = Kept(seen=new, read=old)
    assert moving({"seen": old, "read": new}, back=False)(kept) == Kept(new, new)
    assert moving({"seen": old, "read": new}, back=True)(kept) == Kept(old, new)
    assert moving({"seen": None}, back=False)(kept) == Kept(None, old)
