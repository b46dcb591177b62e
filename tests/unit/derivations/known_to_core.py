"""Models that compiled code knows whole: each kind of value, key and view that is in its programs."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated
from uuid import UUID

import msgspec

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
    counter,
    descending,
    each,
    expires,
    field,
    greatest,
    least,
    mean,
    newest,
    newest_values,
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
    opened: datetime | None = None
    helpers: Annotated[set[Ref["Person"]], msgspec.Meta(max_length=3)] = msgspec.field(default_factory=set)


class Person(Model[int]):
    number: Key[int]
    name: str
    home: Seen | None
    friend: Ref["Person"] | None = None
    stalls: int = rollup(lambda: StallsOfKeeper.stalls)
    helped: int = rollup(lambda: HelpedStalls.stalls)


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
    times: list[datetime | None] | None
    made: datetime = CREATED
    changed: datetime = UPDATED


class Trip(Model[int]):
    """Has rows that end, unique values, and hidden copies, which the core decides and does not compare."""

    number: Key[int]
    by: Ref[Person]
    ticket: Held | None
    times: list[datetime | None] | None
    views: int = rollup(counter("trip:{number}"), every=10)
    likes: int = rollup(counter("likes:{number}"), every=5)


class Offer(Model[str]):
    """Expires, and so do its rows and its unique values."""

    ttl = expires("until", after=timedelta(seconds=5))

    code: Key[str]
    until: datetime | None


class Sale(Offer):
    title: str | None


class Line(Model[Ref[Place], int]):
    """A child of a place, which gives it a number, and shows how many there are."""

    child_of = Place

    place: Key[Ref[Place]]
    number: Key[int] = GENERATED
    by: Ref[Person] | None
    text: str
    season: Titles | None
    shown: Ref[Pass] | None = reference(on_delete="refuse")
    passes: Annotated[list[Ref[Pass]], msgspec.Meta(max_length=3)] | None = None


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
    where = (field(Stall.number) > 3) | field(Stall.title).starts_with("a")  # Python is asked

    title: str = by(Stall.title, hashed=True)
    keeper: Ref[Person] | None = shown(Stall.keeper)


class Numbers(Aggregate[Stall]):
    place: Ref[Place] | None = by(Stall.place, none="last")
    stalls: int = count()
    titled: int = count(where=field(Stall.title) != "")
    high: int = total(Stall.number, where=field(Stall.number) > 2)
    least_titled: int | None = least(Stall.number, where=field(Stall.title) != "")


class Crowded(Index[Place]):
    """A condition on totals, which follow their groups."""

    where = (field(Place.people) > 1) | ((field(Place.stalls) == 1) & ~(field(Place.name) < "b"))

    people: int = descending(Place.people)
    area: Decimal | None = shown(Place.area)


class Homes(Aggregate[Person]):
    """Conditions on a total and on copied fields."""

    number: int = by(Person.number)
    busy: int = count(where=field(Person.stalls) >= 1)
    wide: int = total(Person.number, where=field(within(Person.home, Place.area)) > Decimal("2.5"))
    named: int = count(where=field(within(Person.home, Place.name)).one_of("a", "b", "Zürich"))


class Chosen(Index[Visit]):
    """A condition on each kind of value."""

    where = (
        (field(Visit.price) <= Decimal(7))
        | (field(Visit.left) > datetime(2010, 12, 1, tzinfo=UTC))
        | ((field(Visit.day) != date(2000, 2, 29)) & (field(Visit.weight) > 1.5))
        | ((field(Visit.colour) == Colour.RED) & field(Visit.level).one_of(Level.LOW, Level.HIGH))
        | ((field(Visit.id) >= UUID(int=1)) & (field(Visit.raw) < b"b") & (field(Visit.is_paid) == True))  # noqa: E712
        | (field(Visit.by).is_not_none() & field(within(Visit.by, Person.name)).one_of("Ann", "Eve"))
        | ~(field(Visit.rank) < 128)
    )

    at: datetime = by(Visit.at)


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


class Latest(Aggregate[Visit]):
    """The newest values of each kind, in the order of instants that are copied or absent."""

    place: Seen = by(Visit.place)
    visits: int = count()
    prices: list[Decimal] = newest_values(Visit.price, by=Visit.at, most=3)
    notes: list[str] = newest_values(Visit.note, by=Visit.left, most=2, where=field(Visit.rank).is_none())
    guides: list[Ref[Person]] = newest_values(Visit.guide, by=within(Visit.ticket, Pass.until), most=2)
    last: list[UUID] = newest_values(Visit.id, by=Visit.at, most=1)
    tagged: list[list[str]] = newest_values(Visit.tags, by=Visit.at, most=1)


class Ahead(Index[Trip]):
    """Rows that end with the trip's ticket, or never."""

    ttl = expires(within(Trip.ticket, Pass.until), after=timedelta(seconds=2))

    person: Ref[Person] = by(Trip.by)
    until: datetime | None = shown(within(Trip.ticket, Pass.until))


class Sorts(Aggregate[Visit]):
    """Groups that an index lists, with keys of each type that the core reads."""

    guide: Ref[Person] | None = by(Visit.guide, none="last")
    level: Level | None = by(Visit.level, none="first")
    colour: Colour = by(Visit.colour)
    is_paid: bool = by(Visit.is_paid)
    hour: datetime = bucket(Visit.at, "hour")
    visits: int = count()
    ranks: int = total(Visit.rank)
    tips: int = count(Visit.tip)


class BySort(Index[Sorts]):
    spread = 2
    where = (field(Sorts.visits) > 1) | (field(Sorts.colour) == Colour.RED)

    ranks: int = descending(Sorts.ranks)
    guide: Ref[Person] | None = by(Sorts.guide, none="first")
    hour: datetime = bucket(Sorts.hour, "hour")
    level: Level | None = shown(Sorts.level)
    visits: int = shown(Sorts.visits)


class Raws(Aggregate[Visit]):
    raw: bytes = by(Visit.raw)
    id: UUID = by(Visit.id)
    day: date = by(Visit.day)
    person: Ref[Person] = by(Visit.person)
    left: datetime | None = by(Visit.left, none="last")
    rank: int | None = by(Visit.rank, none="first")
    name: str = by(within(Visit.place, Place.name))
    visits: int = count()
    income: Decimal = total(Visit.price)


class ByRaw(Index[Raws]):
    day: date = descending(Raws.day)
    raw: bytes = by(Raws.raw)
    name: str = by(Raws.name)
    left: datetime | None = shown(Raws.left)
    rank: int | None = shown(Raws.rank)


class ByPerson(Index[Raws]):
    person: Ref[Person] = descending(Raws.person)
    id: UUID = by(Raws.id)
    visits: int = shown(Raws.visits)


class LongPlaces(Index[LinesOfPlace]):
    """Lists groups that entities show as well."""

    lines: int = descending(LinesOfPlace.lines)
    place: Ref[Place] = shown(LinesOfPlace.place)


class Waiting(Aggregate[Line]):
    """An aggregate whose contributions end with what is copied."""

    ttl = expires(within(Line.season, Season.until))

    place: Ref[Place] = by(Line.place)
    lines: int = count()


class Valid(Index[Offer]):
    """Rows that end with their entity, or before it."""

    ttl = expires(Offer.until)

    code: str = by(Offer.code)


class Over(Index[Offer]):
    """Rows that end with their entity, which expires before they would."""

    ttl = expires(Offer.until, after=timedelta(seconds=9))

    code: str = descending(Offer.code)


class Behind(Index[Line]):
    """Values behind references and copies that do not show them: hidden copies."""

    friend: Ref[Person] | None = descending(within(Line.by, Person.friend), none="last")
    since: date = descending(within(Line.place, Place.since))
    home: Ref[Place] | None = shown(within(Line.by, within(Person.home, Seen.ref)))
    name: str | None = shown(within(Line.by, Person.name))


class AtHome(Aggregate[Stall]):
    """Groups by what keepers refer to."""

    home: Ref[Place] = by(within(Stall.keeper, within(Person.home, Seen.ref)))
    stalls: int = count()
    areas: Decimal = total(within(Stall.place, Place.area))
    widest: Decimal | None = greatest(within(Stall.place, Place.area))
    named: list[str] = newest_values(within(Stall.keeper, Person.name), by=Stall.opened, most=2)


class Liked(Index[Trip]):
    views: int = descending(Trip.views)
    likes: int = shown(Trip.likes)


class ByTag(Index[Visit]):
    tag: str = by(each(Visit.tags))
    at: datetime = newest(Visit.at)
    place: Seen = shown(Visit.place)


class Tags(Aggregate[Visit]):
    tag: str = by(each(Visit.tags))
    visits: int = count()
    income: Decimal = total(Visit.price)
    last: datetime | None = greatest(Visit.at)


class Tagged(Index[Tags]):
    where = field(Tags.visits) > 1

    visits: int = descending(Tags.visits)
    tag: str = shown(Tags.tag)


class ByWeek(Index[Trip]):
    spread = 2
    ttl = expires(within(Trip.ticket, Pass.until))

    name: str = by(within(Trip.by, Person.name))
    week: datetime = bucket(each(Trip.times), "week")


class ByDay(Index[Visit]):
    day: datetime = bucket(each(Visit.times), "day")


class ByHelper(Index[Stall]):
    helper: Ref[Person] = descending(each(Stall.helpers))
    title: str = by(Stall.title, hashed=True)


class HelpedStalls(Aggregate[Stall]):
    """Shown by each of the helpers."""

    helper: Ref[Person] = by(each(Stall.helpers))
    stalls: int = count()


class ByPass(Index[Line]):
    a_pass: Ref[Pass] = by(each(Line.passes))
    text: str = by(Line.text)


class ByOpening(Index[Stall]):
    """A unique value of two parts, one of which may be absent."""

    unique = True

    place: Ref[Place] = by(Stall.place)
    opened: datetime | None = by(Stall.opened, none="last")


class ByUntil(Index[Offer]):
    """A unique value that ends with its entity, or before it."""

    unique = True
    ttl = expires(Offer.until, after=timedelta(seconds=3))

    until: datetime | None = by(Offer.until, none="first")


class ByTitle(Index[Sale]):
    """A unique value of a variant, where a condition holds."""

    unique = True
    where = field(Sale.title) != "b"

    title: str = by(Sale.title)


class AtTimes(Index[Trip]):
    """Unique values of an entity, as many as it has times."""

    unique = True

    person: Ref[Person] = by(Trip.by)
    time: datetime = bucket(each(Trip.times), "minute")


class All(Aggregate[Visit]):
    visits: int = count()
    year: datetime | None = greatest(Visit.left)


class Years(Aggregate[Visit]):
    year: datetime = bucket(Visit.at, "year")
    hour: datetime = bucket(Visit.made, "hour")
    minute: datetime = bucket(Visit.changed, "minute")
    visits: int = count()


MODELS = [Place, Person, Pass, Season, Stall, Visit, Trip, Offer, Sale, Line]
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
    Crowded,
    Homes,
    Chosen,
    ByMonth,
    Days,
    Latest,
    Ahead,
    Waiting,
    Valid,
    Over,
    Behind,
    AtHome,
    Liked,
    ByTag,
    Sorts,
    BySort,
    Raws,
    ByRaw,
    ByPerson,
    LongPlaces,
    Tagged,
    Tags,
    ByWeek,
    ByDay,
    ByHelper,
    HelpedStalls,
    ByPass,
    ByOpening,
    ByUntil,
    ByTitle,
    AtTimes,
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

    def until(self):
        at = datetime.fromtimestamp(self.random.randrange(990, 1150), UTC)
        return self.often(self.one(None, at), datetime(1969, 12, 31, tzinfo=UTC))

    def a_pass(self):
        code, until = self.one(*"pqrs"), self.until()
        return self.one(Pass(code=code, until=until), Season(code=code, until=until, title=self.one(None, "a", "b")))

    def offer(self):
        code, until = self.one(*"pqrs"), self.until()
        return self.one(
            Offer(code=code, until=until), Sale(code=code, until=until, title=self.one(None, "a", "b", "c"))
        )

    def stall(self):
        place = self.one(None, Place.at(self.one(*"ABCD")))
        keeper = self.one(None, Person.at(self.random.randrange(5)))
        helpers = {Person.at(self.random.randrange(5)) for _ in range(self.one(0, 0, 1, 2, 3))}
        opened = self.one(None, self.instant(), datetime(2000, 3, 1, tzinfo=UTC))
        return Stall(
            number=self.random.randrange(5), place=place, keeper=keeper, title=self.text(), opened=opened,
            helpers=helpers,
        )  # fmt: skip

    def visit(self):
        return Visit(
            person=Person.at(self.random.randrange(4)), day=self.one(date(2000, 2, 29), self.day()),
            id=UUID(int=self.random.randrange(2)), place=Seen.of(self.one(*"ABCD")),
            by=self.one(None, Known.of(self.random.randrange(4))), ticket=self.one(None, Held.of(self.one(*"pqr"))),
            guide=self.one(None, Person.at(self.random.randrange(6))), at=self.instant(),
            left=self.one(None, self.instant()), price=self.decimal(), tip=self.one(None, self.decimal()),
            weight=self.weight(), rank=self.one(None, self.integer()), is_paid=self.one(True, False),
            colour=self.one(*Colour), level=self.one(None, *Level), note=self.note(), raw=self.text().encode(),
            tags=self.one([], ["a"], ["b", "\x00", "a"], ["x"] * 20, ["c", "b", "c"]),
            times=self.times(),
        )  # fmt: skip

    def note(self):
        """A text, of which some are as long as a row of newest values may be, or longer."""
        return self.often(self.text(), *("n" * size for size in (996, 997, 1200)))

    def times(self):
        usual, at = datetime(2000, 3, 1, tzinfo=UTC), self.instant()
        return self.one(None, [], [None, at], [usual, at], [usual + timedelta(hours=5), at, usual])

    def trip(self):
        ticket = self.one(None, Held.of(self.one(*"pqr")))
        number, by_whom = self.random.randrange(4), Person.at(self.random.randrange(4))
        return Trip(number=number, by=by_whom, ticket=ticket, times=self.times())

    def passes(self):
        code = self.one(*"pqrs")
        return {
            "season": self.one(None, None, Titles.of(code)),
            "shown": self.one(None, Pass.at(code)),
            "passes": self.several(code),
        }

    def several(self, code):
        return self.one(None, None, [], [], [Pass.at(code)], [Pass.at("p"), Pass.at(code), Pass.at("p")])

    def line(self):
        number = self.one(GENERATED, GENERATED, GENERATED, 1, 2, 3)
        by_whom = self.one(None, Person.at(self.random.randrange(4)))
        return Line(
            place=Place.at(self.one(*"ABCD")), number=number, by=by_whom, text=self.text()[:60], **self.passes()
        )

    def entity(self):
        usual = (
            self.place,
            self.person,
            self.person,
            self.a_pass,
            self.stall,
            self.line,
            self.line,
            self.trip,
            self.offer,
        )
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
