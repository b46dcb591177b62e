"""What a feed may be declared as, and what is refused with what to write instead."""

from datetime import datetime, timedelta
from types import new_class

import pytest

from oneread import Aggregate, Copy, Feed, Key, Model, Ref, Schema, bucket, by, count, each, newest, on, shown, within
from oneread.errors import InvalidDeclaration
from tests.unit.feeds.community import Cross, Group, Home, Member, Membership, Post

PLAIN = {"member": Ref[Member], "at": datetime}
RULES = {"member": by(Membership.member), "at": newest(Post.at)}
JOINED = on(Post.group, Membership.group)


def declare(annotations=PLAIN, rules=RULES, model=Post, **options):
    space = {"__annotations__": annotations, "__module__": __name__, **rules, **options}
    return new_class("Made", (Feed[model],), {}, lambda made: made.update(space))


CASES = [
    (declare, "a feed says which items a membership shows: joined = on"),
    (lambda: declare(joined="group"), "a feed says which items a membership shows: joined = on"),
    (lambda: declare(joined=on(Post.group, Membership.in_group)), None),
    (lambda: declare(joined=on(Post.at, Membership.group)), "joined: both fields refer to the same model"),
    (lambda: declare(joined=on(Post.group, Membership.member)), "joined: both fields refer to the same model"),
    (lambda: declare(joined=on(Post.group, each(Cross.groups))), "a membership is in one group"),
    (lambda: declare(joined=on(Membership.group, Membership.group)), "this path starts at another model"),
    (
        lambda: declare({"at": datetime}, {"at": newest(Post.at)}, joined=JOINED),
        "a feed begins with whose it is",
    ),
    (
        lambda: declare({"member": Ref[Member]}, {"member": by(Membership.member)}, joined=JOINED),
        "a feed has one time of the item",
    ),
    (
        lambda: declare({"at": datetime, "member": Ref[Member]}, dict(reversed(RULES.items())), joined=JOINED),
        "a feed begins with whose it is",
    ),
    (
        lambda: declare({**PLAIN, "again": datetime}, {**RULES, "again": newest(Post.at)}, joined=JOINED),
        "a feed has one time of the item",
    ),
    (
        lambda: declare({**PLAIN, "number": int}, {**RULES, "number": count()}, joined=JOINED),
        "a feed has no totals",
    ),
    (
        lambda: declare({"member": Ref[Group], "at": datetime}, {**RULES, "member": by(Post.group)}, joined=JOINED),
        "the first by\\(...\\) of a feed are fields of the membership's model",
    ),
    (
        lambda: declare({**PLAIN, "of": int}, {**RULES, "of": shown(Membership.of_member)}, joined=JOINED),
        "a feed shows fields that all its items have.*view=Made, field='of', path='Membership.of_member'",
    ),
    (
        lambda: declare({**PLAIN, "at": int}, {**RULES, "at": newest(Post.number)}, joined=JOINED),
        "the time of a feed is an instant.*view=Made, field='at', type=int",
    ),
    (lambda: declare(joined=JOINED, unique=True), "only an index is unique"),
    (lambda: declare(joined=JOINED, expire_after=None), "there is no such option.*perhaps='expires_after'"),
    (lambda: declare(joined=JOINED, large_groups=5), "there is no such option.*perhaps='large_group'"),
    (
        lambda: declare({**PLAIN, "at_most": int}, RULES, joined=JOINED, at_most=5),
        "an option is written without a type",
    ),
    (lambda: declare(joined=JOINED, expires_after=5), "expires_after: expected an age"),
    (lambda: declare(joined=JOINED, expires_after=timedelta(0)), "expires_after: expected an age"),
    (lambda: declare(joined=JOINED, at_most=0), "at_most: expected a number of entries"),
    (lambda: declare(joined=JOINED, at_most=True), "at_most: expected a number of entries"),
    (lambda: declare(joined=JOINED, expires_after=None, at_most=1), None),
]


@pytest.mark.parametrize(("feed", "message"), CASES, ids=map(str, range(len(CASES))))
def test_a_wrong_feed_is_refused(feed, message):
    def build():
        return Schema(Member, Group, Membership, Post, Cross, feed())

    if message is None:
        assert build().views
        return
    with pytest.raises(InvalidDeclaration, match=message):
        build()


def test_a_feed_needs_the_models_that_it_joins():
    with pytest.raises(InvalidDeclaration, match="of the memberships; add it to the schema"):
        Schema(Member, Group, Post, Home)
    with pytest.raises(InvalidDeclaration, match="the model of this view is not in the schema"):
        Schema(Member, Group, Membership, Home)


def test_what_a_schema_adds_is_made_again_by_another_schema():
    schema = Schema(Member, Group, Membership, Post, Home)
    again = Schema(*schema.models, *schema.views)
    assert [each.__name__ for each in again.views] == [each.__name__ for each in schema.views]


class GroupName(Copy[Group]):
    name: str


class Note(Model[int]):
    number: Key[int]
    group: GroupName
    at: datetime


class Notes(Feed[Note]):
    member: int = by(Membership.of_member)
    at: datetime = newest(Note.at)
    group: GroupName = shown(Note.group)
    name: str = shown(within(Note.group, GroupName.name))
    joined = on(Note.group, Membership.group)


class NotesOfDay(Aggregate[Note]):
    group: GroupName = by(Note.group)
    day: datetime = bucket(Note.at, "day")
    notes: int = count()


class Days(Feed[NotesOfDay]):
    member: int = by(Membership.of_member)
    day: datetime = newest(NotesOfDay.day)
    notes: int = shown(NotesOfDay.notes)
    joined = on(NotesOfDay.group, Membership.group)
    expires_after = None


def test_copies_and_groups_of_aggregates_may_be_items():
    assert Schema(Member, Group, Membership, Note, Notes, NotesOfDay, Days).views


def test_a_feed_of_groups_says_what_bounds_it():
    """Groups are not swept, so the expiry of every feed would only hide their entries."""

    def days(**options):
        space = {
            "__annotations__": {"member": int, "day": datetime},
            "member": by(Membership.of_member),
            "day": newest(NotesOfDay.day),
            "joined": on(NotesOfDay.group, Membership.group),
        }
        return new_class("Days", (Feed[NotesOfDay],), {}, lambda made: made.update(space | options))

    declared = (Member, Group, Membership, Note, NotesOfDay)
    for options in ({}, {"expires_after": timedelta(days=1)}):
        with pytest.raises(InvalidDeclaration, match="groups of an aggregate are not swept"):
            Schema(*declared, days(**options))
    for options in ({"expires_after": None}, {"at_most": 500}):
        assert Schema(*declared, days(**options)).views
