"""What a commit guesses before it decides never refuses an entity that it can store, on any store."""

from datetime import datetime

import pytest

from oneread import (
    CREATED,
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    count,
    descending,
    field,
    rollup,
    shown,
    total,
    within,
)


class Place(Model[int]):
    number: Key[int]
    name: str = ""
    visits: int = rollup(lambda: VisitsOf.visits)


class At(Copy[Place]):
    name: str


class Visit(Model[int]):
    number: Key[int]
    place: At
    next: Ref["Visit"] | None = None
    stars: int = 0
    made: datetime = CREATED
    guests: int = rollup(lambda: GuestsOf.guests)

    def check(self):
        if self.guests > 99:
            raise ValueError("too many")


class Guest(Model[int]):
    number: Key[int]
    visit: Ref[Visit]


class GuestsOf(Aggregate[Guest]):
    visit: Ref[Visit] = by(Guest.visit)
    guests: int = count()


class VisitsOf(Aggregate[Visit]):
    place: At = by(Visit.place)
    visits: int = count()
    stars: int = total(Visit.stars)


class ByName(Aggregate[Visit]):
    name: str = by(within(Visit.place, At.name))
    guests: int = total(Visit.guests)


class Crowded(Index[Visit]):
    where = field(Visit.guests) > 0
    place: At = by(Visit.place)
    guests: int = descending(Visit.guests)
    name: str = shown(within(Visit.place, At.name))


class Newest(Index[Visit]):
    place: At = by(Visit.place)
    made: datetime = descending(Visit.made)
    guests: int = shown(Visit.guests)


MODELS = (Place, Visit, Guest, GuestsOf, VisitsOf, ByName, Crowded, Newest)
VERBS = {
    "save": lambda db, made: db.save(made),
    "save_all": lambda db, made: db.save_all([made]),
    "create": lambda db, made: db.create(made),
    "get_or_create": lambda db, made: db.get_or_create(made),
    "transact": lambda db, made: db.transact(lambda work: work.save(made)),
}


def bulk(db, made):
    with db.bulk() as several:
        several.save(made)


@pytest.mark.parametrize("store", [*VERBS.values(), bulk], ids=[*VERBS, "bulk"])
def test_a_new_entity_with_totals_and_copies_is_stored_by_every_verb(url, store):
    with connect(url, Schema(*MODELS), workers=0) as db:
        store(db, Place(number=1, name="here"))
        store(db, Visit(number=1, place=At.of(1), stars=3))
        store(db, Visit(number=2, place=At.of(1), next=Visit.at(1)))
        store(db, Guest(number=1, visit=Visit.at(1)))
        db.drain()
        assert sorted(row.guests for row in db.page(Newest, 1)) == [0, 1]
        assert db.get(Place, 1).visits == 2
        assert [(row.guests, row.name) for row in db.page(Crowded, 1)] == [(1, "here")]
        assert db.get(ByName, "here").guests == 1
        assert db.verify().clean
