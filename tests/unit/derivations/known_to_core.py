"""Models that compiled code knows whole: each kind of value, key and view that is in its programs."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from uuid import UUID

from oneread import (
    CREATED,
    GENERATED,
    UPDATED,
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
    count,
    descending,
    expires,
    field,
    greatest,
    least,
    mean,
    newest,
    on,
    reference,
    rollup,
    shown,
    total,
    within,
)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1
    HIGH = 200


class Place(Model[str]):
    code: Key[str]
    name: str
    area: Decimal | None
    since: date
    people: int = rollup(lambda: PeopleOfPlace.people)
    stalls: int = rollup(lambda: PeopleOfPlace.stalls)
    lines: int = rollup(lambda: LinesOfPlace.lines)


class Seen(Copy[Place]):
    name: str
    area: Decimal | None


class Stall(Model[int]):
    """Goes with its place, and holds a person."""

    spread = 3

    number: Key[int]
    place: Ref[Place] | None = reference(on_delete="delete")
    keeper: Ref["Person"] | None = reference(on_delete="refuse")
    title: str = ""


class Person(Model[int]):
    number: Key[int]
    name: str
    home: Seen | None
    friend: Ref["Person"] | None = None
    stalls: int = rollup(lambda: StallsOfKeeper.stalls)


class PeopleOfPlace(Aggregate[Person]):
    """Shown by places, and made of totals that people show."""

    home: Seen = by(Person.home)
    people: int = count()
    stalls: int = total(Person.stalls)


class Busy(Index[Person]):
    stalls: int = descending(Person.stalls)
    friend: Ref[Person] | None = by(Person.friend, none="first")


class Known(Copy[Person]):
    name: str
    friend: Ref[Person] | None
    place: str | None = shown(within(Person.home, Place.name))


class Pass(Model[str]):
    """Expires, and is referred to."""

    ttl = expires("until", after=timedelta(seconds=5))

    code: Key[str]
    until: datetime | None


class Season(Pass):
    """A variant, with a field that others copy."""

    title: str | None


class Held(Copy[Pass]):
    until: datetime | None


class Titles(Copy[Season]):
    title: str | None
    until: datetime | None


class Visit(Model[Ref[Person], date, UUID]):
    person: Key[Ref[Person]]
    day: Key[date]
    id: Key[UUID]
    place: Seen
    by: Known | None
    ticket: Held | None
    guide: Ref[Person] | None
    at: datetime
    left: datetime | None
    price: Decimal
    tip: Decimal | None
    weight: float
    rank: int | None
    is_paid: bool
    colour: Colour
    level: Level | None
    note: str
    raw: bytes
    tags: list[str]
    made: datetime = CREATED
    changed: datetime = UPDATED


class Line(Model[Ref[Place], int]):
    """A child of a place, which gives it a number, and shows how many there are."""

    child_of = Place

    place: Key[Ref[Place]]
    number: Key[int] = GENERATED
    by: Ref[Person] | None
    text: str
    season: Titles | None
    shown: Ref[Pass] | None = reference(on_delete="refuse")


class LinesOfPlace(Aggregate[Line]):
    place: Ref[Place] = by(Line.place)
    lines: int = count()


class StallsOfKeeper(Aggregate[Stall]):
    keeper: Ref[Person] = by(Stall.keeper)
    stalls: int = count()


class VisitsOfPlace(Index[Visit]):
    place: Seen = by(Visit.place)
    at: datetime = newest(Visit.at)
    price: Decimal = shown(Visit.price)
    by_whom: Known | None = shown(Visit.by)
    tags: list[str] = shown(Visit.tags)
    person: Ref[Person] = shown(Visit.person)


class ByName(Index[Visit]):
    name: str = by(within(Visit.place, Place.name))
    area: Decimal | None = by(within(Visit.place, Place.area), none="first")
    weight: float = descending(Visit.weight)


class ByNote(Index[Visit]):
    note: str = by(Visit.note, hashed=True)
    rank: int | None = descending(Visit.rank, none="last")
    is_paid: bool = by(Visit.is_paid)
    raw: bytes = by(Visit.raw)


class ByGuide(Index[Visit]):
    spread = 4

    guide: Ref[Person] | None = by(Visit.guide, none="last")
    colour: Colour = by(Visit.colour)
    level: Level | None = descending(Visit.level, none="first")
    day: date = descending(Visit.day)
    id: UUID = by(Visit.id)


class Titled(Index[Stall]):
    where = (field(Stall.number) > 3) | (field(Stall.title) == "a")

    title: str = by(Stall.title, hashed=True)
    keeper: Ref[Person] | None = shown(Stall.keeper)


class Numbers(Aggregate[Stall]):
    place: Ref[Place] | None = by(Stall.place, none="last")
    stalls: int = count()
    titled: int = count(where=field(Stall.title) != "")
    high: int = total(Stall.number, where=field(Stall.number) > 2)
    least_titled: int | None = least(Stall.number, where=field(Stall.title) != "")


class ByMonth(Index[Visit]):
    month: datetime = bucket(Visit.at, "month")
    week: datetime = bucket(Visit.left, "week")
    tip: Decimal | None = shown(Visit.tip)


class Days(Aggregate[Visit]):
    place: Seen = by(Visit.place)
    day: datetime = bucket(Visit.at, "day")
    visits: int = count()
    tips: int = count(Visit.tip)
    tipped: Decimal = total(Visit.tip)
    income: Decimal = total(Visit.price)
    ranks: int = total(Visit.rank)
    usual: Decimal | None = mean(Visit.price)
    lightest: float | None = least(Visit.weight)
    dearest: Decimal | None = greatest(Visit.price)
    last: date | None = greatest(Visit.day)
    first_tip: Decimal | None = least(Visit.tip)


class All(Aggregate[Visit]):
    visits: int = count()
    year: datetime | None = greatest(Visit.left)


class Years(Aggregate[Visit]):
    year: datetime = bucket(Visit.at, "year")
    hour: datetime = bucket(Visit.made, "hour")
    minute: datetime = bucket(Visit.changed, "minute")
    visits: int = count()


MODELS = [Place, Person, Pass, Season, Stall, Visit, Line]
VIEWS = [
    LinesOfPlace,
    StallsOfKeeper,
    PeopleOfPlace,
    Busy,
    VisitsOfPlace,
    ByName,
    ByNote,
    ByGuide,
    Titled,
    Numbers,
    ByMonth,
    Days,
    All,
    Years,
]
KNOWN = Schema(*MODELS, *VIEWS, inline=6)


@dataclass
class Chance:
    """Entities of random values: the usual ones, and those at the edges."""

    random: object

    def one(self, *values):
        return self.random.choice(values)

    def often(self, usual, *edges):
        """The usual value, or now and then one at an edge."""
        return usual if self.random.random() < 0.9 else self.one(*edges)

    def text(self):
        usual = self.one("", "a", "b", "Zürich", "a" * 31, "a" * 40)
        return self.often(usual, "\x00", "\x01\x00", "x\x00y" * 30, "e" * 190, "e" * 400)

    def decimal(self):
        whole = Decimal(self.random.randrange(-(10**6), 10**6)).scaleb(-self.random.randrange(8))
        texts = (
            "0",
            "0.00",
            "-0",
            "1.10",
            "1.1",
            "10",
            "1E+2",
            "1E-9",
            "0.000001",
            "0.0000001",
            "1" * 30,
            "2e40",
            "NaN",
        )
        return self.often(self.one(whole, Decimal("2.50"), Decimal(7)), *map(Decimal, texts))

    def instant(self):
        far = timedelta(
            seconds=self.random.randrange(-(10**9), 5 * 10**9), microseconds=self.one(0, 0, 1, 999_999, 5000)
        )
        return self.often(
            datetime(2010, 12, 1, tzinfo=UTC) + far,
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(1600, 2, 29, 23, 59, 59, tzinfo=UTC),
            datetime(2000, 3, 1, tzinfo=UTC),
            datetime(1999, 12, 31, 23, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        )

    def day(self):
        edges = date(1, 1, 1), date(2000, 2, 29), date(2024, 12, 31), date(9999, 12, 31)
        return self.often(self.instant().date(), *edges)

    def integer(self):
        usual = self.one(0, 1, -1, 127, 128, 255, 256, -32, -33, -129, 70_000, -70_000, 2**31, -(2**40))
        return self.often(usual, 2**63 - 1, 2**64, -(2**63), True)

    def weight(self):
        return self.often(self.one(1.5, -1.5, 1e300), 0.0, -0.0, 5e-324, float("inf"), float("nan"), 2)

    def place(self):
        return Place(
            code=self.one(*"ABCD"), name=self.text()[:60], area=self.one(None, self.decimal()), since=self.day()
        )

    def person(self):
        home = self.one(None, Seen.of(self.one(*"ABCDX")))
        friend = self.one(None, Person.at(self.random.randrange(5)))
        return Person(number=self.random.randrange(4), name=self.one("Ann", "Bea", "Eve"), home=home, friend=friend)

    def a_pass(self):
        at = datetime.fromtimestamp(self.random.randrange(990, 1010), UTC)
        code, until = self.one(*"pqrs"), self.one(None, at)
        return self.one(Pass(code=code, until=until), Season(code=code, until=until, title=self.one(None, "a", "b")))

    def stall(self):
        place = self.one(None, Place.at(self.one(*"ABCD")))
        keeper = self.one(None, Person.at(self.random.randrange(5)))
        return Stall(number=self.random.randrange(5), place=place, keeper=keeper, title=self.text())

    def visit(self):
        return Visit(
            person=Person.at(self.random.randrange(4)), day=self.one(date(2000, 2, 29), self.day()),
            id=UUID(int=self.random.randrange(2)), place=Seen.of(self.one(*"ABCD")),
            by=self.one(None, Known.of(self.random.randrange(4))), ticket=self.one(None, Held.of(self.one(*"pqr"))),
            guide=self.one(None, Person.at(self.random.randrange(6))), at=self.instant(),
            left=self.one(None, self.instant()), price=self.decimal(), tip=self.one(None, self.decimal()),
            weight=self.weight(), rank=self.one(None, self.integer()), is_paid=self.one(True, False),
            colour=self.one(*Colour), level=self.one(None, *Level), note=self.text(), raw=self.text().encode(),
            tags=self.one([], ["a"], ["b", "\x00"], ["x"] * 20),
        )  # fmt: skip

    def passes(self):
        code = self.one(*"pqrs")
        return {"season": self.one(None, Titles.of(code)), "shown": self.one(None, Pass.at(code))}

    def line(self):
        number = self.one(GENERATED, GENERATED, GENERATED, 1, 2, 3)
        by_whom = self.one(None, Person.at(self.random.randrange(5)))
        return Line(
            place=Place.at(self.one(*"ABCD")), number=number, by=by_whom, text=self.text()[:60], **self.passes()
        )

    def entity(self):
        usual = self.place, self.person, self.a_pass, self.stall, self.line
        return self.one(*usual, self.visit, self.visit, self.visit)()


class Club(Model[str]):
    """A group of feeds, which is logged, and shows totals: what changes these is logged as well."""

    logged = timedelta(hours=1)

    code: Key[str]
    name: str
    posts: int = rollup(lambda: PostsOfClub.posts)
    fans: int = rollup(lambda: FansOfClub.fans)


class Fan(Model[int]):
    number: Key[int]
    name: str


class ClubName(Copy[Club]):
    name: str


class FanName(Copy[Fan]):
    name: str


class Post(Model[UUID]):
    """An item of feeds, which is logged, and follows the names that it shows."""

    logged = timedelta(hours=1)

    id: Key[UUID]
    club: ClubName
    second: Ref[Club] | None
    at: datetime
    text: str
    price: Decimal | None
    rank: int | None
    by: FanName | None


class Remark(Model[Ref[Club], int]):
    """A child, whose number changes the row of its club, and not the club."""

    child_of = Club

    club: Key[Ref[Club]]
    number: Key[int] = GENERATED
    text: str


class Joining(Model[int]):
    """A membership of feeds: a fan may have several in one club."""

    number: Key[int]
    fan: Ref[Fan]
    club: Ref[Club] = reference(on_delete="delete")
    role: str | None
    since: date


class PostsOfClub(Aggregate[Post]):
    club: ClubName = by(Post.club)
    posts: int = count()


class FansOfClub(Aggregate[Joining]):
    club: Ref[Club] = by(Joining.club)
    fans: int = count()


class PostsByText(Index[Post]):
    watched = timedelta(hours=1)

    text: str = by(Post.text, hashed=True)
    price: Decimal | None = shown(Post.price)


class RowsOfFan(Index[Joining]):
    watched = timedelta(hours=1)

    fan: Ref[Fan] = by(Joining.fan)
    since: date = descending(Joining.since)


class News(Feed[Post]):
    expires_after = None
    watched = timedelta(hours=1)
    marks = True

    fan: Ref[Fan] = by(Joining.fan)
    at: datetime = newest(Post.at)
    club: ClubName = shown(Post.club)
    text: str = shown(Post.text)
    price: Decimal | None = shown(Post.price)
    rank: int | None = shown(Post.rank)
    by: FanName | None = shown(Post.by)
    joined = on(Post.club, Joining.club)


class Asked(Feed[Post]):
    """By fan and role, of the second club of what has a price."""

    where = field(Post.text) != "b"
    expires_after = None

    fan: Ref[Fan] = by(Joining.fan)
    role: str = by(Joining.role)
    at: datetime = newest(Post.at)
    joined = on(Post.second, Joining.club)


class Notice(Model[int]):
    """An item that is soon too old for its feed."""

    number: Key[int]
    club: Ref[Club]
    at: datetime


class Recent(Feed[Notice]):
    expires_after = timedelta(seconds=4)

    fan: Ref[Fan] = by(Joining.fan)
    at: datetime = newest(Notice.at)
    number: int = shown(Notice.number)
    joined = on(Notice.club, Joining.club)


class Ending(Model[int]):
    """An item that expires."""

    ttl = expires("until")

    number: Key[int]
    club: Ref[Club]
    until: datetime | None


class Endings(Feed[Ending]):
    expires_after = timedelta(days=800_000)

    fan: Ref[Fan] = by(Joining.fan)
    until: datetime = newest(Ending.until)
    joined = on(Ending.club, Joining.club)


class Last(Feed[Post]):
    """Of few entries."""

    expires_after = None
    at_most = 3

    fan: Ref[Fan] = by(Joining.fan)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(Post.club, Joining.club)


class Loud(Feed[Post]):
    """Three fans make a club large, and a page merges one."""

    expires_after = None
    large_group = 2
    merged_groups = 1

    fan: Ref[Fan] = by(Joining.fan)
    at: datetime = newest(Post.at)
    by: FanName | None = shown(Post.by)
    joined = on(Post.club, Joining.club)


FED_MODELS = [Club, Fan, Post, Joining, Remark]
_FED = [*FED_MODELS, PostsOfClub, FansOfClub, PostsByText, RowsOfFan, News, Asked, Notice, Recent, Ending, Endings]
FED = Schema(*_FED, inline=4)
"""Feeds and change logs that follow in compiled code."""
FED_BY_PYTHON = Schema(*_FED, Last, Loud, inline=4)
"""Where feeds of other kinds follow as well."""
FED_WIDELY = Schema(*_FED, inline=200)
"""Where many follow in the commit."""


class FedChance(Chance):
    """Few clubs, fans and instants, so that items and memberships meet."""

    def club(self):
        return Club(code=self.one(*"ABC"), name=self.text()[:60])

    def fan(self):
        return Fan(number=self.random.randrange(5), name=self.one("Ann", "Bea", "Eve"))

    def post(self):
        at = self.often(datetime(2020, 1, self.random.randrange(1, 5), tzinfo=UTC), self.instant())
        return Post(
            id=UUID(int=self.random.randrange(12)), club=ClubName.of(self.one(*"ABC")),
            second=self.one(None, Club.at(self.one(*"ABC"))), at=at, text=self.text(),
            price=self.one(None, self.decimal()), rank=self.one(None, self.integer()),
            by=self.one(None, FanName.of(self.random.randrange(5))),
        )  # fmt: skip

    def joining(self):
        return Joining(
            number=self.random.randrange(14), fan=Fan.at(self.random.randrange(5)), club=Club.at(self.one(*"ABC")),
            role=self.one(None, "", "x", self.text()), since=date(2020, 1, self.random.randrange(1, 4)),
        )  # fmt: skip

    def notice(self):
        at = datetime.fromtimestamp(self.random.randrange(995, 1030), UTC)
        club = Club.at(self.one(*"ABC"))
        number = self.random.randrange(9)
        return self.one(Notice(number=number, club=club, at=at), Ending(number=number, club=club, until=at))

    def entity(self):
        usual = self.post, self.post, self.post, self.joining, self.joining, self.joining
        return self.one(
            *usual, *usual, self.club, self.club, self.fan, self.fan, self.notice, self.notice, self.remark
        )()

    def remark(self):
        return Remark(club=Club.at(self.one(*"ABC")), text=self.text()[:60])
