"""What another option would cost is what a schema that declares it costs."""

from datetime import datetime

import msgspec
import pytest

from oneread import Aggregate, Copy, Feed, Index, Key, Model, Ref, Schema, by, count, greatest, newest, on, shown
from oneread.costs import declared
from oneread.costs.changed import ChangedCosts, compared
from oneread.derivations.compiled_schema import ROW_FORM


class Town(Model[int]):
    number: Key[int]
    name: str = ""


class TownShown(Copy[Town]):
    name: str


def made(option="", value=0, *, of=""):
    """A schema of every kind of view, with one option of one declaration."""

    def options(name):
        return {option: value} if of == name else {}

    class Member(Model[int]):
        number: Key[int]
        name: str = ""

    class Post(Model[int]):
        number: Key[int]
        town: TownShown
        at: datetime
        locals().update(options("Post"))

    class Membership(Model[int, int]):
        in_town: Key[int]
        of_member: Key[int]
        town: Ref[Town]

    class Newest(Index[Post]):
        at: datetime = newest(Post.at)
        town: TownShown = shown(Post.town)
        locals().update(options("Newest"))

    class PostsOfTown(Aggregate[Post]):
        town: TownShown = by(Post.town)
        posts: int = count()
        last: datetime | None = greatest(Post.at)
        locals().update(options("PostsOfTown"))

    class Largest(Index[PostsOfTown]):
        posts: int = by(PostsOfTown.posts)

    class Home(Feed[Post]):
        member: int = by(Membership.of_member)
        at: datetime = newest(Post.at)
        joined = on(Post.town, Membership.town)
        locals().update(options("Home"))

    return Schema(Town, Member, Post, Membership, Newest, PostsOfTown, Largest, Home)


@pytest.mark.parametrize("span", ["rows", "row"])
@pytest.mark.parametrize(
    ("name", "option", "value"),
    [("Post", "spread", 4), ("Newest", "spread", 16), ("PostsOfTown", "shards", 8), ("Home", "large_group", 500)],
)
def test_it_is_what_a_schema_that_declares_it_costs(span, name, option, value):
    plain, wanted = made(), made(option, value, of=name)
    catalog = plain.unstored()
    if span == "row":
        catalog = plain.catalog(msgspec.structs.replace(catalog.numbers, form=ROW_FORM))
    before = declared.of(plain, span).table()
    costs = ChangedCosts(catalog, plain.inline, span)
    found = costs.after(plain.named()[name], option, value).table()
    assert found == declared.of(wanted, span).table()
    assert costs.before.table() == before
    assert (found != before) == (option != "shards" or span == "row")


def test_what_stays_is_said_once():
    tables = [declared.of(made("spread", value, of="Newest")).table() for value in (1, 8)]
    pages = [next(each for each in table if each.name == "page(limit=50) Newest") for table in tables]
    assert compared("a page of 50", *pages) == (
        "a page of 50 costs 408 rows in 8 requests of 1 round at most, before 51 in 1 of 1"
    )
    assert (
        compared("a page of 50", pages[0], pages[0]) == "a page of 50 costs what it did, 51 rows in 1 request at most"
    )
