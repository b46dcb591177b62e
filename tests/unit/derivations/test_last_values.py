"""A source that is deleted before a change reached all its holders leaves them its last values."""

from __future__ import annotations

import pytest

from oneread import Copy, Database, Index, Key, Model, Ref, Schema, by, connect, reference, shown, within


class Town(Model[int]):
    number: Key[int]
    name: str
    size: int = 0


class Lives(Copy[Town]):
    name: str


class MayLive(Copy[Town]):
    missing_ok = True
    name: str | None


class Visitor(Model[int]):
    number: Key[int]
    lives: MayLive


class Person(Model[int]):
    number: Key[int]
    lives: Lives
    born: Ref[Town]


class Works(Copy[Person]):
    town: str = within(Person.lives, Lives.name)


class Job(Model[int]):
    number: Key[int]
    works: Works


class ByBirth(Index[Person]):
    town: str = by(within(Person.born, Town.name))
    lives: Lives = shown(Person.lives)


class JobsIn(Index[Job]):
    town: str = by(within(Job.works, Works.town))


def _filled(url, inline: int) -> Database:
    db = connect(url, Schema(Town, Person, Job, ByBirth, JobsIn, inline=inline))
    db.save_all([Town(number=1, name="old"), Town(number=2, name="other")])
    db.save_all([Person(number=number, lives=Lives.of(1), born=Town.at(1)) for number in range(5)])
    db.save_all([Job(number=number, works=Works.of(number)) for number in range(5)])
    return db


@pytest.mark.parametrize("batches", [0, 1])
@pytest.mark.parametrize("inline", [0, 2, 100])
def test_a_rename_that_is_still_a_task_survives_the_delete(url, inline: int, batches: int) -> None:
    with _filled(url, inline) as db:
        db.patch(Town, 1, name="new" * 10)
        for _ in range(batches):
            db.run(db.operations.drain_step(2))
        db.delete(Town, 1)
        db.drain()
        for number in range(5):
            assert db.get(Person, number).lives == Lives(ref=Town.at(1), deleted=True, name="new" * 10)
            assert db.get(Job, number).works.town == "new" * 10
        assert len(db.page(ByBirth, "new" * 10)) == 5
        assert len(db.page(JobsIn, "new" * 10)) == 5
        assert len(db.page(ByBirth, "old")) == len(db.page(JobsIn, "old")) == 0


def test_a_town_made_again_updates_its_copies(url) -> None:
    with _filled(url, 0) as db:
        db.patch(Town, 1, name="new")
        db.delete(Town, 1)
        db.save(Town(number=1, name="newest"))
        db.drain()
        assert db.get(Person, 0).lives == Lives(ref=Town.at(1), name="newest")


def test_a_reference_that_is_new_takes_nothing_from_a_tombstone(url) -> None:
    class Guest(Model[int]):
        number: Key[int]
        born: Ref[Town] = reference(missing_ok=True)

    class Guests(Index[Guest]):
        town: str = by(within(Guest.born, Town.name))

    with connect(url, Schema(Town, Guest, Guests)) as db:
        db.save(Town(number=1, name="old"))
        db.save(Guest(number=1, born=Town.at(1)))
        db.delete(Town, 1)
        db.save(Guest(number=2, born=Town.at(1)))
        assert [row.source.key for row in db.page(Guests)] == [(1,)]


def test_a_copy_that_is_made_behind_a_delete_takes_nothing_from_its_task(url) -> None:
    with connect(url, Schema(Town, Visitor, inline=0)) as db:
        db.save(Town(number=1, name="old"))
        db.save(Visitor(number=1, lives=MayLive.of(1)))
        db.delete(Town, 1)
        db.save(Visitor(number=2, lives=MayLive.of(1)))
        db.drain()
        assert db.get(Visitor, 1).lives == MayLive(ref=Town.at(1), deleted=True, name="old")
        assert db.get(Visitor, 2).lives == MayLive(ref=Town.at(1), deleted=True, name=None)
