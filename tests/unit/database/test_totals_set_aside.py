"""A number of a group that cannot be shown: it holds up no other group, and is named.

Where a commit spans rows it refuses the commit that would make it. Where rows are changed one at a time that commit is
made, and what cannot show the number is set aside. See docs/explanation/rollups.md.
"""

from datetime import timedelta
from decimal import Decimal

import pytest

from oneread import Aggregate, Index, Key, Model, Ref, Schema, by, connect, descending, rollup, shown, total
from oneread.errors import InvalidKey, LimitExceeded, StaleCopies


class Work(Model[int]):
    number: Key[int]
    person: Ref["Person"]
    span: timedelta = timedelta(1)
    pay: Decimal = Decimal(1)


class WorkOf(Aggregate[Work]):
    person: Ref["Person"] = by(Work.person)
    span: timedelta = total(Work.span)
    pay: Decimal = total(Work.pay)


class Person(Model[int]):
    number: Key[int]
    span: timedelta = rollup(WorkOf.span)
    pay: Decimal = rollup(WorkOf.pay)


class Busiest(Index[WorkOf]):
    span: timedelta = descending(WorkOf.span)
    person: Ref[Person] = shown(WorkOf.person)


class Richest(Index[Person]):
    pay: Decimal = descending(Person.pay)


KINDS = {
    "a sum too large for a timedelta": ({"span": timedelta.max}, LimitExceeded),
    "an ordering key too long": ({"pay": Decimal("1." + "1" * 600)}, InvalidKey),
}


@pytest.mark.parametrize("inline", [1000, 0], ids=["within the bound", "as a task"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_refused_or_named_and_the_others_are_shown(url, inline, kind):
    fields, error = KINDS[kind]
    with connect(url, Schema(Work, WorkOf, Person, Busiest, Richest, inline=inline), workers=0) as db:
        db.save_all([Person(number=number) for number in (1, 2, 3)])
        db.save_all([Work(number=number, person=Person.at(number)) for number in (1, 2, 3)])
        db.drain()
        if db._driver.engine.capabilities.spans_rows:
            with pytest.raises(error):
                db.save(Work(number=4, person=Person.at(2), **fields))
        else:
            left = db.tasks(db.save(Work(number=4, person=Person.at(2), **fields)))
            db.drain()
            with pytest.raises(StaleCopies, match="set aside"):
                left.wait()
        db.save_all([Work(number=10 + number, person=Person.at(number)) for number in (1, 3)])
        db.drain()
        assert {number: db.get(Person, number).span for number in (1, 2, 3)} == {
            1: timedelta(2), 2: timedelta(1), 3: timedelta(2)
        }  # fmt: skip
        aside = db.set_aside()
        assert {(each.source, each.error) for each in aside} <= {("WorkOf(2)", error.__name__)}
        assert bool(aside) == bool(db.find(Work, 4))
        assert db.verify().clean == (not aside)
        if aside:
            assert "Person(2)" in {each.holder for each in aside}
            assert not db.repair().clean
            db.drain(retry=True)
            assert min(each.tries for each in db.set_aside()) > 1
            db.delete(Work, 4)
            db.drain(retry=True)
        assert db.set_aside() == []
        assert db.verify().clean
        assert [(row.person.key, row.span.days) for row in db.page(Busiest)] == [((1,), 2), ((3,), 2), ((2,), 1)]
