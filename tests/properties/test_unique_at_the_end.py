"""A transaction is accepted exactly when unique values are unique at its end, whatever it did before."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from oneread import Index, Key, Model, Schema, by, connect, connect_async
from oneread.errors import NotUnique
from oneread.testing.audit import Audit


class Person(Model[int]):
    number: Key[int]
    mail: str | None = None
    nick: str | None = None


class Mails(Index[Person]):
    unique = True

    mail: str = by(Person.mail)


class Nicks(Index[Person]):
    unique = True

    nick: str = by(Person.nick)


SCHEMA = Schema(Person, Mails, Nicks)
NUMBERS = st.integers(1, 4)
VALUES = st.sampled_from([None, "a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), NUMBERS, VALUES, VALUES),
        st.tuples(st.just("patch"), NUMBERS, VALUES),
        st.tuples(st.just("delete"), NUMBERS),
    ),
    min_size=1,
    max_size=8,
)


def after(state, step):
    """What people there are behind one step, recomputed without the library; a step that finds nobody does nothing."""
    verb, number, *values = step
    people = dict(state)
    if verb == "save":
        people[number] = tuple(values)
    elif verb == "patch" and number in people:
        people[number] = (values[0], people[number][1])
    elif verb == "delete":
        people.pop(number, None)
    return people


def is_unique(people):
    return all(
        len({pair[place] for pair in people.values() if pair[place] is not None})
        == sum(pair[place] is not None for pair in people.values())
        for place in (0, 1)
    )


def whole(state, steps):
    for step in steps:
        state = after(state, step)
    return state


def stored(pages):
    return {each.number: (each.mail, each.nick) for each in pages}


def write(target, step):
    verb, number, *values = step
    if verb == "save":
        return target.save(Person(number=number, mail=values[0], nick=values[1]))
    if verb == "patch":
        return target.patch(Person, number, mail=values[0])
    return target.delete(Person, number)


def applicable(state, steps):
    """The steps without patches of nobody, which are refused for another reason."""
    kept = []
    for step in steps:
        if step[0] != "patch" or step[1] in state:
            kept.append(step)
        state = after(state, step)
    return kept


def prepare(db, before):
    """Writes the steps that are allowed one by one; returns the people then."""
    state = {}
    for step in before:
        if applicable(state, [step]) and is_unique(after(state, step)):
            state = after(state, step)
            write(db, step)
    return state


@given(before=STEPS, steps=STEPS)
def test_of_a_transaction(before, steps):
    with connect("memory://", SCHEMA, workers=0) as db:
        start = prepare(db, before)
        steps = applicable(start, steps)
        wanted = whole(start, steps)

        def body(tx):
            for step in steps:
                write(tx, step)

        try:
            db.transact(body)
        except NotUnique:
            accepted = False
        else:
            accepted = True
        assert accepted == is_unique(wanted)
        assert stored(db.page(Person)) == (wanted if accepted else start)
        Audit(db._driver.engine, db.operations).check()


@given(steps=STEPS)
def test_of_a_transaction_on_an_event_loop(steps):
    async def main():
        async with connect_async("memory://", SCHEMA, workers=0) as db:

            async def body(tx):
                for step in applicable({}, steps):
                    await write(tx, step)

            try:
                await db.transact(body)
            except NotUnique:
                return {}
            return stored(await db.page(Person))

    wanted = whole({}, steps)
    assert asyncio.run(main()) == (wanted if is_unique(wanted) else {})


@given(before=STEPS, steps=STEPS, batch=st.sampled_from([1, 3, 100]))
def test_of_a_batch_of_which_only_refused_changes_are_left_out(before, steps, batch):
    """A batch that is unique at its end is stored; of another one each change is judged after those before it."""
    with connect("memory://", SCHEMA, workers=0) as db:
        state = prepare(db, before)
        refused = []
        with db.bulk(batch=batch, on_refused=refused.append) as bulk:
            for step in steps:
                write(bulk, step)
        for start in range(0, len(steps), batch):
            several = steps[start : start + batch]
            if several == applicable(state, several) and is_unique(whole(state, several)):
                state = whole(state, several)
                continue
            for step in several:
                if applicable(state, [step]) and is_unique(after(state, step)):
                    state = after(state, step)
        assert stored(db.page(Person)) == state
        assert bulk.tally.stored + len(refused) == len(steps)
        Audit(db._driver.engine, db.operations).check()
