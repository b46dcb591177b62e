"""Two processes with two versions of a schema write to one folder at once, for hundreds of steps each."""

import multiprocessing
from random import Random

import msgspec

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, connect, shown, total
from oneread.errors import SchemaMismatch

SPAWN = multiprocessing.get_context("spawn")
STEPS, LASTING, ALL = 300, range(4), range(8)


def version(*, newer):
    """Classes of one name and two contents: the newer ones have more fields, in front and between."""
    if newer:

        class Owner(Model[int]):
            born: int | None = None
            number: Key[int]
            name: str

        class OwnedBy(Copy[Owner]):
            name: str

        class Item(Model[int]):
            tags: list[str] = msgspec.field(default_factory=list)
            number: Key[int]
            owner: OwnedBy
            size: int | None = None
            count: int = 0

    else:

        class Owner(Model[int]):
            number: Key[int]
            name: str

        class OwnedBy(Copy[Owner]):
            name: str

        class Item(Model[int]):
            number: Key[int]
            owner: OwnedBy
            count: int = 0

    class ItemsOfCount(Index[Item]):
        count: int = by(Item.count)
        owner: OwnedBy = shown(Item.owner)

    class CountOfOwner(Aggregate[Item]):
        owner: OwnedBy = by(Item.owner)
        count: int = total(Item.count)

    return Schema(Owner, Item, ItemsOfCount, CountOfOwner), Owner, OwnedBy, Item


def write_old(url, seed, ready, results):
    """Saves, patches, deletes and transactions; opens the store again now and then. Sends the last `count` of items."""
    schema, owner, owned_by, item = version(newer=False)
    chance, counts = Random(seed), {}
    db = connect(url, schema, workers=0)
    ready.wait(60)
    for step in range(STEPS):
        number, count = chance.choice(ALL), step + 1
        match chance.randrange(5):
            case 0:
                db.save(item(number=number, owner=owned_by.of(chance.choice(LASTING)), count=count))
            case 1:
                db.upsert(item(number=number, owner=owned_by.of(0), count=count), count=count)
            case 2:
                db.transact(lambda t, n=number, c=count: t.save(msgspec.structs.replace(t.get(item, n % 4), count=c)))
                number %= 4
            case 3:
                db.save(owner(number=number % 4, name=f"old {step}"))
                continue
            case _:
                db.delete(item, 4 + number % 4)
                continue
        counts[number] = count
        if not step % 60:
            db.close()
            db = connect(url, schema, workers=0)
    db.close()
    results.put(("old", counts))


def write_new(url, seed, ready, results):
    """Patches and transactions that leave `count` alone. Sends the last `size` of items, and `born` of owners."""
    schema, owner, _owned_by, item = version(newer=True)
    chance, sizes, borns = Random(seed), {}, {}
    with connect(url, schema, workers=0) as db:
        ready.wait(60)
        for step in range(STEPS):
            number, size = chance.choice(LASTING), chance.choice([step, 2**70 + step])
            match chance.randrange(3):
                case 0:
                    db.patch(item, number, size=size, tags=[f"t{size}"])
                    sizes[number] = size
                case 1:
                    change = {"size": size, "tags": [f"t{size}"]}
                    db.transact(
                        lambda t, n=number, c=change: t.save(msgspec.structs.replace(t.get(item, n), **c)), attempts=100
                    )
                    sizes[number] = size
                case _:
                    db.patch(owner, number, born=size)
                    borns[number] = size
    results.put(("new", (sizes, borns)))


def open_old(url, results):
    schema, *_classes = version(newer=False)
    try:
        connect(url, schema, workers=0).close()
    except SchemaMismatch as error:
        results.put(("refused", error.message))


def test_two_processes_of_two_versions_write_at_once_and_nothing_is_lost(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    schema, owner, owned_by, item = version(newer=False)
    with connect(url, schema, workers=0) as db:
        db.save_all([owner(number=number, name="first") for number in LASTING])
        db.save_all([item(number=number, owner=owned_by.of(number)) for number in LASTING])
    ready, results = SPAWN.Barrier(2), SPAWN.Queue()
    programs = [SPAWN.Process(target=each, args=(url, 5, ready, results)) for each in (write_old, write_new)]
    for each in programs:
        each.start()
    found = dict(results.get(timeout=240) for _ in programs)
    for each in programs:
        each.join(60)
    (sizes, borns), counts = found["new"], found["old"]
    schema, owner, _owned_by, item = version(newer=True)
    with connect(url, schema, workers=0) as db:
        db.drain()
        for number in LASTING:
            row = db.get(item, number)
            assert (row.size, row.tags) == (sizes[number], [f"t{sizes[number]}"])
            assert row.count == counts[number]
            assert db.get(owner, number).born == borns[number]
        assert db.verify().clean
        assert db.backfill(fence=True).done
        assert db.verify().clean
    last = SPAWN.Process(target=open_old, args=(url, results))
    last.start()
    kind, message = results.get(timeout=60)
    last.join(60)
    assert (kind, "start the newer program" in message) == ("refused", True)
