"""Newest values: what a group keeps, in which order, what follows, what it costs exactly, and what may be declared."""

import asyncio
import random
import types
from datetime import UTC, datetime, timedelta

import msgspec
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
    bucket,
    by,
    connect,
    connect_async,
    count,
    descending,
    each,
    field,
    greatest,
    least,
    newest,
    newest_values,
    on,
    renamed,
    rollup,
    shown,
    to_json,
    total,
    within,
)
from oneread.costs import declared as costs
from oneread.costs.budgets import budget
from oneread.errors import InvalidDeclaration, InvalidValue
from oneread.models.json_form import form
from oneread.store.limits import NEWEST_BYTES
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.testing.oracle import Oracle, look

DAY = datetime(2019, 5, 1, tzinfo=UTC)


class Member(Model[int]):
    number: Key[int]
    name: str


class Person(Copy[Member]):
    name: str


class Membership(Model[int]):
    number: Key[int]
    group: int = 1
    member: Ref[Member] | None = None
    friend: Person | None = None
    joined_at: datetime | None = None
    word: str | None = None
    size: int = 0


class JoinsOfDay(Aggregate[Membership]):
    group: int = by(Membership.group)
    day: datetime = bucket(Membership.joined_at, "day")
    people: int = count()
    last: datetime | None = greatest(Membership.joined_at)
    actors: list[Ref[Member]] = newest_values(Membership.member, by=Membership.joined_at, most=3)
    names: list[str] = newest_values(within(Membership.member, Member.name), by=Membership.joined_at, most=2)
    friends: list[str] = newest_values(within(Membership.friend, Person.name), by=Membership.joined_at, most=2)


class JoinLines(Index[JoinsOfDay]):
    group: int = by(JoinsOfDay.group)
    last: datetime | None = descending(JoinsOfDay.last)
    people: int = shown(JoinsOfDay.people)
    actors: list[Ref[Member]] = shown(JoinsOfDay.actors)
    names: list[str] = shown(JoinsOfDay.names)


SITE = Schema(Member, Membership, JoinsOfDay, JoinLines)


@pytest.fixture
def db(url):
    with connect(url, SITE, workers=0) as database:
        database.save_all([Member(number=number, name=f"m{number}") for number in range(6)])
        yield database


def join(number, **fields):
    given = {"member": Member.at(number % 6), "joined_at": DAY + timedelta(hours=number)}
    return Membership(number=number, **given | fields)


def line(db):
    (row,) = db.page(JoinLines, 1)
    return row.people, [ref.key[0] for ref in row.actors], row.names


def spent(call, *given, **named):
    with budget() as cost:
        call(*given, **named)
    return cost.cost.requests, cost.cost.rows


# What a group keeps.


def test_the_newest_values_come_first_and_no_more_than_declared(db):
    for number in (2, 0, 4, 1, 3):
        db.save(join(number))
    group = db.get(JoinsOfDay, 1, DAY)
    assert [ref.key[0] for ref in group.actors] == [4, 3, 2]
    assert repr(group.actors[0]) == "Member.at(4)"
    assert group.names == ["m4", "m3"]
    assert line(db) == (5, [4, 3, 2], ["m4", "m3"])
    assert db.page(JoinsOfDay).rows == [group] == db.get_many(JoinsOfDay, [(1, DAY)])
    assert db.verify().clean


def test_values_of_one_instant_are_in_the_order_of_the_sources_keys(db):
    db.save_all([join(number, joined_at=DAY) for number in (3, 1, 2)])
    assert line(db) == (3, [1, 2, 3], ["m1", "m2"])


def test_edits_and_deletes_follow(db):
    db.save_all([join(number) for number in range(6)])
    db.patch(Member, 5, name="Zed")
    assert line(db) == (6, [5, 4, 3], ["Zed", "m4"])
    db.delete(Membership, 4)
    assert line(db) == (5, [5, 3, 2], ["Zed", "m3"])
    db.patch(Membership, 0, joined_at=DAY + timedelta(hours=20))
    assert line(db) == (5, [0, 5, 3], ["m0", "Zed"])
    db.patch(Membership, 0, member=Member.at(2))
    assert line(db) == (5, [2, 5, 3], ["m2", "Zed"])
    for number in (0, 5, 3):
        db.delete(Membership, number)
    assert line(db) == (2, [2, 1], ["m2", "m1"])
    assert db.verify().clean


def test_an_empty_group_has_none_and_absent_values_are_left_out(db):
    assert db.get(JoinsOfDay, 1, DAY).actors == []
    db.save_all([join(0, member=None), join(1), join(2, joined_at=None)])
    assert line(db) == (2, [1], ["m1"])
    db.delete(Membership, 1)
    assert line(db) == (1, [], [])


def test_a_value_of_several_entities_is_there_several_times(db):
    db.save_all([join(number, member=Member.at(1)) for number in range(3)])
    assert line(db) == (3, [1, 1, 1], ["m1", "m1"])


def test_a_list_of_a_group_is_the_readers_own(db):
    db.save(join(1))
    db.get(JoinsOfDay, 1, DAY).actors.clear()
    assert len(db.get(JoinsOfDay, 1, DAY).actors) == 1


def test_all_faces_show_the_same(url):
    async def run():
        async with await connect_async(url, SITE, workers=0) as database:
            await database.save_all([Member(number=number, name=f"m{number}") for number in range(6)])
            await database.save_all([join(number) for number in range(5)])
            await database.delete(Membership, 4)
            group = await database.get(JoinsOfDay, 1, DAY)
            (row,) = await database.page(JoinLines, 1)
            return group.names, row.names, row.actors == group.actors

    assert asyncio.run(run()) == (["m3", "m2"], ["m3", "m2"], True)


def test_json_and_its_schema(db):
    db.save_all([join(number) for number in range(5)])
    assert to_json(db.page(JoinLines)[0]) == (
        b'{"source":[1,"2019-05-01T00:00:00Z"],"group":1,"last":"2019-05-01T04:00:00Z","people":5,'
        b'"actors":[4,3,2],"names":["m4","m3"]}'
    )
    schema = form(JoinsOfDay).schema().schema["properties"]
    assert schema["actors"] == {"type": "array", "items": {"type": "integer"}}
    assert schema["names"] == {"type": "array", "items": {"type": "string"}}


VALUES = [
    (str, Membership.word, ["", "a\0b", "ä" * 300]),
    (int, Membership.size, [0, -1, 2**70, -(2**900)]),
]


@pytest.mark.parametrize(("kind", "path", "values"), VALUES)
def test_values_come_back_as_they_were(url, kind, path, values):
    class Kept(Aggregate[Membership]):
        group: int = by(Membership.group)
        values: list[kind] = newest_values(path, by=Membership.joined_at, most=100)

    class Listed(Index[Kept]):
        values: list[kind] = shown(Kept.values)

    with connect(url, Schema(Member, Membership, Kept, Listed), workers=0) as db:
        name = "word" if kind is str else "size"
        db.save_all([join(number, member=None, **{name: value}) for number, value in enumerate(values)])
        assert db.get(Kept, 1).values == values[::-1]
        assert db.page(Listed)[0].values == values[::-1]
        assert db.verify().clean


@pytest.mark.parametrize("inline", [1000, 0])
def test_a_value_that_is_too_long_is_refused_where_it_is_written(url, inline):
    with connect(url, Schema(Member, Membership, JoinsOfDay, JoinLines, inline=inline), workers=0) as db:
        db.save_all([Member(number=1, name="a"), Member(number=2, name="b" * NEWEST_BYTES)])
        db.save(join(1))
        with pytest.raises(InvalidValue, match=r"too long .*field='names', length=1004, limit=1000"):
            db.save(join(2))
        with pytest.raises(InvalidValue, match="a copy of this value in another entity cannot hold the new value"):
            db.patch(Member, 1, name="b" * NEWEST_BYTES)
        db.patch(Member, 1, name="c" * (NEWEST_BYTES - 10))
        db.drain()
        assert line(db) == (1, [1], ["c" * (NEWEST_BYTES - 10)])


# What it costs.


class WordsOf(Aggregate[Membership]):
    group: int = by(Membership.group)
    words: list[str] = newest_values(Membership.word, by=Membership.joined_at, most=5)


class Words(Index[WordsOf]):
    group: int = by(WordsOf.group)
    words: list[str] = shown(WordsOf.words)


LISTED = Schema(Member, Membership, WordsOf, Words)


def words(url, schema=LISTED):
    db = connect(url, schema, workers=0)
    db.save_all([Membership(number=number, word="a", joined_at=DAY + timedelta(number)) for number in range(20)])
    return db


def test_a_read_costs_one_request_and_a_row_for_each_value(url):
    with words(url) as db:
        assert spent(db.get, WordsOf, 1) == (2, 1 + 5)
        assert spent(db.get, WordsOf, 2) == (2, 1)
        assert spent(db.page, WordsOf) == (2, 1 + 5)
        assert spent(db.page, Words) == (1, 1)
        bounds = costs.of(LISTED)
        assert (bounds.get(WordsOf).requests, bounds.get(WordsOf).rows) == (2, 6)
        assert (bounds.get_many(WordsOf, 3).requests, bounds.get_many(WordsOf, 3).rows) == (4, 18)
        page = bounds.page(WordsOf, limit=10)
        assert (page.requests, page.rows) == (11, 11 + 50)


def test_a_commit_writes_a_row_and_reads_the_first_ones_only_for_an_index(new_url):
    with words(new_url(), Schema(Member, Membership, WordsOf)) as plain, words(new_url()) as listed:
        there = plain.get(Membership, 19)
        new = msgspec.structs.replace(there, word="b")
        before, after = spent(plain.save, new), spent(listed.save, new)
        assert after[0] - before[0] == 2  # the group, of which no sum changes, and its first rows
        assert after[1] - before[1] == 1 + (5 + 1) + 1  # behind the row that changes; and the row of the index
        assert listed.page(Words, 1)[0].words[0] == "b"
        bound = costs.of(LISTED).save(Membership)
        assert after <= (bound.requests, bound.rows)
        patch = costs.of(LISTED).patch(Membership, "word")
        spent_here = spent(listed.patch, Membership, 0, word="c")
        assert spent_here[0] == patch.requests
        assert spent_here[1] <= patch.rows
        assert ("scan", "newest values", "WordsOf.words", 5 + 2) in [
            (term.act, term.what, term.because, term.rows) for term in patch.terms
        ]


def test_explain_says_how_many_rows_are_read(db):
    plan = db.explain.get(JoinsOfDay, 1, DAY).plan
    assert plan[2].startswith("scan views for the first 3 rows of JoinsOfDay.actors(1, ")
    assert plan[1].startswith("scan views for the first row of JoinsOfDay.last(1, ")


# An entity may show them.


class Team(Model[int]):
    number: Key[int]
    title: str = ""
    words: list[str] = rollup(lambda: WordsOfTeam.words)


class WordsOfTeam(Aggregate[Membership]):
    number: int = by(Membership.group)
    words: list[str] = newest_values(Membership.word, by=Membership.joined_at, most=2)


class TeamsOfWord(Index[Team]):
    word: str = by(each(Team.words))


def test_an_entity_shows_them(url):
    with connect(url, Schema(Member, Membership, Team, WordsOfTeam, TeamsOfWord), workers=0) as db:
        db.save(Team(number=1, title="x"))
        assert db.get(Team, 1).words == []
        db.save_all([join(number, member=None, word=f"w{number}") for number in range(4)])
        assert db.get(Team, 1).words == ["w3", "w2"]
        db.delete(Membership, 3)
        db.patch(Membership, 1, word="new")
        assert db.get(Team, 1).words == ["w2", "new"]
        assert [row.word for row in db.page(TeamsOfWord)] == ["new", "w2"]
        assert db.verify().clean


def test_an_entity_shows_no_references():
    class Kept(Aggregate[Membership]):
        number: int = by(Membership.group)
        actors: list[Ref[Member]] = newest_values(Membership.member, by=Membership.joined_at, most=2)

    class Club(Model[int]):
        number: Key[int]
        actors: list[Ref[Member]] = rollup(Kept.actors)

    with pytest.raises(InvalidDeclaration, match="a rollup shows no references"):
        Schema(Member, Membership, Club, Kept)


# Views built later, and built again.


def line_of(most):
    class Kept(Aggregate[Membership]):
        group: int = by(Membership.group)
        words: list[str] = newest_values(Membership.word, by=Membership.joined_at, most=most)

    class Lines(Index[Kept]):
        words: list[str] = shown(Kept.words)

    return Kept, Lines, Schema(Member, Membership, Kept, Lines)


def test_another_number_of_values_is_another_view(url):
    with connect(url, Schema(Member, Membership), workers=0) as db:
        db.save_all([join(number, member=None, word=f"w{number}") for number in range(5)])
    for most in (2, 4):
        kept, lines, schema = line_of(most)
        with connect(url, schema, workers=0) as db:
            db.backfill(quiet=0)
            expected = ["w4", "w3", "w2", "w1"][:most]
            assert (db.get(kept, 1).words, db.page(lines)[0].words) == (expected, expected)
            assert db.verify().clean
    kept, lines, schema = line_of(4)
    with connect(url, schema, workers=0) as db:  # the same again: nothing to build
        assert db.page(lines)[0].words == ["w4", "w3", "w2", "w1"]


def called(*, field="word", instant="joined_at", values="words", changed=()):
    """A model and its aggregate, with fields that may be called otherwise; the same names in the store."""

    class Joined(Model[int]):
        stored_as = "Joined"
        evolution = changed
        number: Key[int]
        __annotations__ |= {field: str, instant: datetime}

    space = {
        "__annotations__": {values: list[str], "number": int},
        "__module__": __name__,
        "number": by(Joined.number),
        values: newest_values(getattr(Joined, field), by=getattr(Joined, instant), most=2),
    }
    kept = types.new_class("Kept", (Aggregate[Joined],), exec_body=lambda given: given.update(space))
    return Joined, kept, Schema(Joined, kept)


RENAMED = [
    ({"field": "term"}, (renamed("word", to="term"),)),
    ({"instant": "since"}, (renamed("joined_at", to="since"),)),
    ({"values": "terms"}, ()),
]


@pytest.mark.parametrize(("names", "changed"), RENAMED)
def test_fields_that_are_called_otherwise_keep_the_rows(url, names, changed):
    joined, kept, schema = called()
    with connect(url, schema, workers=0) as db:
        db.save(joined(number=1, word="a", joined_at=DAY))
        before = db.operations.catalog.views[kept].extrema[0].prefix
    joined, kept, schema = called(**names, changed=changed)
    with connect(url, schema, workers=0) as db:
        assert db.operations.catalog.views[kept].extrema[0].prefix == before
        assert getattr(db.get(kept, 1), names.get("values", "words")) == ["a"]
        assert db.verify().clean


def test_the_bytes_of_a_row(url):
    with connect(url, LISTED, workers=0, clock=lambda: 1_000) as db:
        db.save(Membership(number=3, word="ab", joined_at=DAY))
        db.save(Membership(number=4, word="a longer word than that", joined_at=DAY))
        (view,) = db.operations.catalog.views[WordsOf].extrema
        rows = db.run(Scan("views", RowRange.under(view.prefix), 9, families="dm").__iter__())
        group, instant = "1501", "cd7ffa7837cd249fff"
        assert [(key[4:].hex(), row[b"d:b"].value) for key, row in rows] == [
            (f"{group}{instant}1503", b"\x91\xa2ab"),
            (f"{group}{instant}1504", b"\x91\xb7a longer word than that"),
        ]


# What may be declared.


def refusal(annotation, rule, index=None):
    class Kept(Aggregate[Membership]):
        group: int = by(Membership.group)
        values: annotation = rule

    views = [Kept]
    if index is not None:

        class Listed(Index[Kept]):
            value: str = index(Kept.values)

        views.append(Listed)
    with pytest.raises(InvalidDeclaration) as error:
        Schema(Member, Membership, *views)
    return str(error.value)


def test_how_many_is_from_1_to_100():
    for most in (0, 101, -1, True, 3.0, "3", None):
        given = newest_values(Membership.word, by=Membership.joined_at, most=most)
        assert "expected a whole number from 1 to 100" in refusal(list[str], given)


def test_the_order_is_that_of_an_instant():
    for wrong in (None, Membership.size, Membership.word):
        given = newest_values(Membership.word, by=wrong, most=3)
        assert "expected the field of an instant" in refusal(list[str], given)


def test_the_field_is_a_list_of_the_values():
    given = newest_values(Membership.word, by=Membership.joined_at, most=3)
    for wrong in (str, list, list[int], set[str], tuple[str, ...], list[str | None], list[str] | None):
        assert "gives a list of the field's values, without None" in refusal(wrong, given)


def test_whole_copies_are_refused_and_their_parts_are_not():
    given = newest_values(Membership.friend, by=Membership.joined_at, most=3)
    for declared in (list[Person], list[Ref[Member]]):
        assert "newest values are never copies" in refusal(declared, given)


def test_other_mistakes():
    at = Membership.joined_at
    assert "this fold takes a field" in refusal(list[str], newest_values(None, by=at, most=3))
    assert "this fold takes a field" in refusal(int, total(None))
    assert "this fold takes a field" in refusal(int | None, least(None))
    assert "this path starts at another model" in refusal(list[str], newest_values(Member.name, by=at, most=3))
    given = newest_values(Membership.word, by=at, most=3)
    assert "an index over groups has one row for each group" in refusal(
        list[str], given, lambda values: by(each(values))
    )
    assert "a key is made of" in refusal(list[str], given, descending)
    assert "this is not a field" in refusal(list[str], newest_values(Membership.word, by="joined_at", most=3))


def test_a_condition_of_a_list_sees_other_fields(url):
    class Few(Index[JoinsOfDay]):
        where = field(JoinsOfDay.people) < 3

        names: list[str] = shown(JoinsOfDay.names)

    with connect(url, Schema(Member, Membership, JoinsOfDay, Few), workers=0) as db:
        db.save_all([Member(number=number, name=f"m{number}") for number in range(6)])
        db.save_all([join(number) for number in range(2)])
        assert [row.names for row in db.page(Few)] == [["m1", "m0"]]
        db.save(join(3))
        assert db.page(Few).rows == []


# Against the naive oracle, in the densest way: few values, many ties, groups that empty and come back.


def changed(chance, to, number):
    at = DAY + timedelta(hours=chance.randrange(30))
    acts = [
        lambda: to.save(join(number, group=chance.randrange(2), joined_at=at, member=Member.at(chance.randrange(3)))),
        lambda: to.save(join(number, group=1, joined_at=None, friend=Person.of(chance.randrange(3)))),
        lambda: to.patch(Member, (chance.randrange(3),), {"name": chance.choice(["a", "b", "c"])}),
        lambda: to.delete(Membership, number),
    ]
    chance.choices(acts, [6, 1, 2, 3])[0]()


class Patching:
    """A database whose `patch` is written as the oracle's."""

    def __init__(self, db):
        self.save, self.delete = db.save, db.delete
        self.patch = lambda model, key, changes: db.patch(model, *key, **changes)


@pytest.mark.parametrize("inline", [0, 1000])
@pytest.mark.parametrize("seed", range(3))
def test_they_equal_what_the_oracle_folds(url, seed, inline):
    with connect(url, Schema(Member, Membership, JoinsOfDay, JoinLines, inline=inline), workers=0) as db:
        oracle = Oracle(Member, Membership, JoinsOfDay, JoinLines)
        for to in (db, oracle):
            for number in range(6):
                to.save(Member(number=number, name="a"))
        here, there = random.Random(seed), random.Random(seed)
        chance = random.Random(seed + 100)
        for _step in range(150):
            number = chance.randrange(8)
            changed(here, Patching(db), number)
            changed(there, oracle, number)
            db.drain()
            assert look(db.page(JoinLines).rows) == look(oracle.rows(JoinLines))
            assert look(db.page(JoinsOfDay).rows) == look(oracle.groups(JoinsOfDay))
        assert db.verify().clean


# In a feed of groups.


class Attendance(Model[int]):
    number: Key[int]
    group: Ref["Club"]
    member: Ref[Member]
    joined_at: datetime


class JoinsOfClub(Aggregate[Attendance]):
    group: Ref["Club"] = by(Attendance.group)
    day: datetime = bucket(Attendance.joined_at, "day")
    people: int = count()
    last: datetime | None = greatest(Attendance.joined_at)
    names: list[str] = newest_values(within(Attendance.member, Member.name), by=Attendance.joined_at, most=2)


class Lines(Feed[JoinsOfClub]):
    member: Ref[Member] = by(Attendance.member)
    at: datetime = newest(JoinsOfClub.last)
    people: int = shown(JoinsOfClub.people)
    names: list[str] = shown(JoinsOfClub.names)

    joined = on(JoinsOfClub.group, Attendance.group)
    expires_after = None


class Club(Model[int]):
    number: Key[int]


@pytest.mark.parametrize("inline", [2, 1000])
def test_a_feed_of_groups_has_one_line_for_many(url, inline):
    def lines(number):
        db.drain()
        return [(row.people, row.names) for row in db.page(Lines, Member.at(number))]

    with connect(url, Schema(Member, Club, Attendance, JoinsOfClub, Lines, inline=inline), workers=0) as db:
        db.save_all([*(Member(number=number, name=f"m{number}") for number in range(5)), Club(number=1)])
        for number in range(5):
            at = DAY + timedelta(hours=number)
            db.save(Attendance(number=number, group=Club.at(1), member=Member.at(number), joined_at=at))
        assert lines(0) == [(5, ["m4", "m3"])]
        db.patch(Member, 4, name="Zed")
        assert lines(0) == lines(4) == [(5, ["Zed", "m3"])]
        db.delete(Attendance, 3)
        assert lines(0) == [(4, ["Zed", "m2"])]
        assert lines(3) == []
        assert db.verify().clean
