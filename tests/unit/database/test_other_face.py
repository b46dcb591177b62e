"""Code for the other face, without an `await`, or behind `close` is told what to write."""

import asyncio
import inspect

import pytest

from oneread import Index, Key, Model, Schema, by, connect, connect_async
from oneread.errors import Closed, UsageError


class Item(Model[int]):
    number: Key[int]
    name: str = ""


class Named(Index[Item]):
    watched = None
    name: str = by(Item.name)


SCHEMA = Schema(Item, Named)
ITEM = Item(number=1)
WRITE = "write `async with connect_async"
ASYNC, SYNC = "this is asynchronous", "this is synchronous"


@pytest.fixture
def db(url):
    with connect(url, SCHEMA) as opened:
        yield opened


def run(url, body):
    """Runs `body(db)` with an asynchronous database."""

    async def opened():
        async with connect_async(url, SCHEMA) as db:
            return await body(db)

    return asyncio.run(opened())


def verbs(face):
    return [name for name, _verb in inspect.getmembers(face, inspect.isroutine) if not name.startswith("_")]


def test_every_verb_of_a_database_that_is_not_open_says_what_to_write(new_url, db):
    opening = connect_async(new_url(), SCHEMA)
    for name in verbs(type(db)):
        with pytest.raises(UsageError, match=WRITE):
            getattr(opening, name)
    with pytest.raises(UsageError, match=WRITE), opening:  # type: ignore[attr-defined]
        pass
    assert not hasattr(opening, "get")


def test_with_is_of_the_synchronous_face(url):
    async def body(db):
        for entered in (db, db.bulk(), *[attempt async for attempt in one_attempt(db)]):
            with pytest.raises(UsageError, match=ASYNC), entered:
                pass
        with pytest.raises(UsageError, match=ASYNC):
            list(db.group(Item, 1))

    run(url, body)


async def one_attempt(db):
    async for attempt in db.group(Item, 1):
        yield attempt
        async with attempt:
            pass


def test_async_with_is_of_the_asynchronous_face(db):
    async def enter(entered):
        async with entered:
            pass

    async def follow(attempts):
        async for _each in attempts:
            pass

    attempts = db.group(Item, 1)
    for entered in (db, db.bulk(), next(attempts)):
        with pytest.raises(UsageError, match=SYNC):
            asyncio.run(enter(entered))
    with pytest.raises(UsageError, match=SYNC):
        asyncio.run(follow(db.group(Item, 1)))


async def save_later(transaction):
    await transaction.save(ITEM)


@pytest.mark.parametrize(
    "call",
    [
        lambda db: db.transact(save_later),
        lambda db: db.transact(lambda transaction: save_later(transaction)),  # noqa: PLW0108 - no async function itself
        lambda db: db.together(lambda: save_later(db)),
        lambda db: db.dump(save_later),
        lambda db: db.verify(progress=save_later),
    ],
    ids=["transact", "lambda", "together", "dump", "verify"],
)
def test_an_async_function_is_refused_where_nothing_would_run_it(db, call):
    with pytest.raises(UsageError, match="takes a plain function"):
        call(db)
    assert db.find(Item, 1) is None


@pytest.mark.parametrize("verb", ["transact", "together"])
def test_a_plain_function_is_refused_where_its_result_is_awaited(url, verb):
    async def body(db):
        with pytest.raises(UsageError, match="takes an async function here"):
            await getattr(db, verb)(lambda *_given: 1)

    run(url, body)


def test_an_async_observer_is_refused(url):
    with pytest.raises(UsageError, match="takes a plain function"):
        connect(url, SCHEMA, observers=(save_later,))


async def use(db, verb, given):
    found = getattr(db, verb)(given, **({"name": "x"} if verb == "upsert" else {}))
    if inspect.isawaitable(found):
        await found


@pytest.mark.parametrize("verb", ["save", "create", "get_or_create", "upsert", "version", "cost", "tasks"])
def test_a_result_that_was_not_awaited_is_refused(url, verb):
    async def body(db):
        with pytest.raises(UsageError, match=r"not awaited yet.*find"):
            await use(db, verb, db.find(Item, 1))

    run(url, body)


USES = {
    "backfill": (), "cache_counters": (), "counters": (), "create": (ITEM,), "delete": (Item, 1), "drain": (),
    "dump": (print,), "dump_csv": (print, Item), "exists": (Item, 1), "find": (Item, 1), "get": (Item, 1),
    "get_many": (Item, [(1,)]), "get_or_create": (ITEM,), "page": (Named, "a"), "repair": (), "save": (ITEM,),
    "save_all": ([ITEM],), "set_aside": (), "survey": (), "sweep": (), "verify": (),
}  # fmt: skip


def use_bulk(db):
    with db.bulk() as bulk:
        bulk.save(ITEM)


def use_group(db):
    for attempt in db.group(Item, 1):
        with attempt as group:
            group.get(Item, 1)


MORE = {
    "patch": lambda db: db.patch(Item, 1, name="x"),
    "upsert": lambda db: db.upsert(ITEM, name="x"),
    "scan": lambda db: list(db.scan(Named, "a")),
    "transact": lambda db: db.transact(lambda transaction: transaction.get(Item, 1)),
    "together": lambda db: db.together(lambda: db.find(Item, 1)),
    "counter": lambda db: db.counter("x").add(1),
    "bulk": use_bulk,
    "group": use_group,
}


def test_every_verb_of_a_closed_database_says_that_it_is_closed(url):
    db = connect(url, SCHEMA)
    db.close()
    db.close()
    for use in (*(lambda db, verb=verb: getattr(db, verb)(*USES[verb]) for verb in USES), *MORE.values()):
        with pytest.raises(Closed, match="was closed before this call"):
            use(db)


def test_the_same_of_the_asynchronous_face(url):
    async def closed():
        db = await connect_async(url, SCHEMA)
        await db.close()
        for verb, given in USES.items():
            with pytest.raises(Closed, match="was closed before this call"):
                await getattr(db, verb)(*given)
        with pytest.raises(Closed):
            await db.patch(Item, 1, name="x")

    asyncio.run(closed())
