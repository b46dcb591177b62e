"""A schema with a key of every type, for the command line to find: `tests.cli.notes:NOTES`."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from uuid import UUID

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    bucket,
    by,
    connect,
    count,
    greatest,
    newest,
    shown,
    total,
)


class Mood(Enum):
    GLAD = "glad"
    SAD = "sad"


class Person(Model[int]):
    number: Key[int]
    name: str
    email: str


class Author(Copy[Person]):
    name: str


class Note(Model[UUID]):
    id: Key[UUID]
    author: Author | None
    mood: Mood
    when: datetime
    body: str
    topic: str | None = None
    answers: Ref["Note"] | None = None


class Sample(Model[bool, float, Decimal, bytes, date, timedelta]):
    """Nothing but a key of all the other types."""

    known: Key[bool]
    size: Key[float]
    price: Key[Decimal]
    seal: Key[bytes]
    day: Key[date]
    lasting: Key[timedelta]
    big: int = 2**70


class NotesOfAuthor(Index[Note]):
    author: Author = by(Note.author)
    when: datetime = newest(Note.when)
    body: str = shown(Note.body)


class NotesOfTopic(Index[Note]):
    topic: str | None = by(Note.topic, none="last")
    mood: Mood = by(Note.mood)
    author: Author | None = shown(Note.author)


class NotesByBody(Index[Note]):
    body: str = by(Note.body, hashed=True)


class PersonByEmail(Index[Person], frozen=True):
    unique = True
    email: str = by(Person.email)
    name: str = shown(Person.name)


class Days(Aggregate[Note]):
    day: datetime = bucket(Note.when, "day")
    notes: int = count()
    latest: datetime | None = greatest(Note.when)


class People(Aggregate[Person]):
    people: int = count()
    numbers: int = total(Person.number)


NOTES = Schema(Person, Note, Sample, NotesOfAuthor, NotesOfTopic, NotesByBody, PersonByEmail, Days, People, inline=2)
BEFORE = Schema(Person, Note, Sample, NotesOfAuthor, NotesOfTopic, NotesByBody, Days, inline=2)
OTHER = Schema(Person)
MISFIT = Schema(Person, Sample)

ADA, BOB = 1, 2
IDS = [UUID(int=number) for number in range(1, 6)]
START = datetime(2026, 1, 31, 22, tzinfo=UTC)
SEAL = b"\x00\xff"


def note(place: int) -> Note:
    return Note(
        id=IDS[place],
        author=Author.of(ADA) if place < 4 else None,
        mood=Mood.GLAD if place % 2 else Mood.SAD,
        when=START + timedelta(hours=place),
        body=f"body {place}",
        topic="tea" if place < 3 else None,
    )


def fill(url: str, schema: Schema = NOTES) -> None:
    """Two people, five notes - four of them Ada's, the last without an author - and a sample."""
    with connect(url, schema, workers=0) as db:
        db.save(Person(number=ADA, name="Ada", email="ada@example.org"))
        db.save(Person(number=BOB, name="Bob", email="bob@example.org"))
        db.save_all(note(place) for place in range(5))
        db.save(
            Sample(
                known=True,
                size=-2.5,
                price=Decimal("2.55"),
                seal=SEAL,
                day=date(2026, 1, 31),
                lasting=timedelta(seconds=90),
            )
        )
