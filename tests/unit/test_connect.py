"""URLs become databases, and what is wrong with one is said before anything is opened."""

import asyncio
import sys

import pytest

from oneread import Index, Key, Model, Schema, by, connect, connect_async, field
from oneread.database.open import opened
from oneread.errors import Closed, InvalidQuery, InvalidUrl, SchemaMismatch, UsageError


class Customer(Model[int]):
    number: Key[int]
    name: str


SCHEMA = Schema(Customer)
ADA = Customer(number=7, name="Ada")


def test_every_option_of_an_lmdb_url_is_taken(tmp_path):
    url = f"lmdb://{tmp_path}/shop?durability=none&map_size=1G&prefix=a_&max_readers=64&timeout=5"
    with connect(url, SCHEMA) as db:
        db.save(ADA)
    with connect(f"lmdb://{tmp_path}/shop?prefix=a_&read_only=true", SCHEMA, workers=2) as db:
        assert db.get(Customer, 7) == ADA


@pytest.mark.parametrize(
    "url", ["foo://x", "memory", "memory://x?a=1", "memory://?a=1", "lmdb://", "lmdb:///x#y", "lmdb:///x?a=1", "", None]
)
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(InvalidUrl):
        connect(url, SCHEMA)


@pytest.mark.parametrize(
    "options",
    [
        "span=row",
        "span=rows",
        "span=row&deletes=hide",
        "span=row&deletes=remove",
        "span=row&latency_ms=0",
        "span=row&deletes=remove&latency_ms=1",
        "span=row&grace_s=840",
    ],
)
def test_every_option_of_a_memory_url_is_taken(options):
    with connect(f"memory://?{options}", SCHEMA) as db:
        db.save(ADA)
        assert db.get(Customer, 7) == ADA
        assert db._driver.engine.capabilities.spans_rows == ("span=row&" not in options + "&")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("span=two", "two"),
        ("span=", "span"),
        ("deletes=hide", "deletes"),
        ("span=rows&deletes=hide", "deletes"),
        ("latency_ms=1", "latency_ms"),
        ("span=row&deletes=maybe", "maybe"),
        ("span=row&latency_ms=-1", "-1"),
        ("span=row&latency_ms=x", "x"),
        ("span=row&latency_ms=1000000", "1000000"),
        ("span=row&grace_s=839", "839"),
        ("span=row&grace_s=x", "grace_s"),
        ("span=row&other=1", "other"),
        ("span=row&span=row", "span"),
    ],
)
def test_an_option_of_a_memory_url_that_cannot_be_is_named(options, named):
    with pytest.raises(InvalidUrl) as refusal:
        connect(f"memory://?{options}", SCHEMA)
    assert named in str(refusal.value)


def test_a_named_store_of_one_row_is_shared_and_its_rules_are_part_of_its_name():
    def found(options):
        with connect(f"memory://one-row-shop?span=row&{options}", SCHEMA) as db:
            kept = db.find(Customer, 7)
            db.save(ADA)
            return kept

    assert [found(options) for options in ("deletes=hide", "latency_ms=0", "deletes=remove")] == [None, ADA, None]
    with connect("memory://one-row-shop", SCHEMA) as db:
        assert db.find(Customer, 7) is None


def test_the_clock_stamps_what_is_written_either_way():
    with connect("memory://", SCHEMA, clock=lambda: 77_000) as db:
        assert db.version(db.save(ADA)) == 77_000

    async def written():
        async with connect_async("memory://", SCHEMA, clock=lambda: 77_000) as db:
            return db.version(await db.save(ADA))

    assert asyncio.run(written()) == 77_000


def test_an_asynchronous_database_is_for_await_as_well():
    async def closed():
        db = await connect_async("memory://", SCHEMA)
        await db.save(ADA)
        assert await db.get(Customer, 7) == ADA
        await db.close()
        with pytest.raises(Closed):
            await db.get(Customer, 7)

    asyncio.run(closed())


def test_what_does_not_open_leaves_nothing_to_close():
    async def refused():
        async with connect_async("foo://x", SCHEMA):
            raise AssertionError

    with pytest.raises(InvalidUrl):
        asyncio.run(refused())


@pytest.mark.parametrize("given", [1, Customer, None], ids=["a number", "a class", "nothing"])
def test_only_entities_are_saved(given):
    with connect("memory://", SCHEMA) as db, pytest.raises(UsageError):
        db.save(given)


class CustomerOfName(Index[Customer]):
    name: str = by(Customer.name)


def test_a_store_that_may_not_be_written_takes_no_new_view(tmp_path):
    connect(f"lmdb://{tmp_path}/shop", SCHEMA).close()
    with pytest.raises(SchemaMismatch):
        connect(f"lmdb://{tmp_path}/shop?read_only=true", Schema(Customer, CustomerOfName))


def test_a_page_is_narrowed_by_its_own_fields():
    with connect("memory://", Schema(Customer, CustomerOfName)) as db:
        db.save(ADA)
        assert len(db.page(CustomerOfName, where=field(CustomerOfName.name) == "Ada")) == 1
        with pytest.raises(InvalidQuery):
            db.page(CustomerOfName, where=field(Customer.name) == "Ada")
        with pytest.raises(InvalidQuery):
            db.page(Customer, where=field(CustomerOfName.name) == "Ada")


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("workers", -1),
        ("workers", "x"),
        ("workers", True),
        ("observers", 5),
        ("observers", (5,)),
        ("timeout", -1),
        ("timeout", "x"),
        ("timeout", float("nan")),
        ("clock", 5),
    ],
)
def test_an_option_that_cannot_be_is_named(option, given):
    async def refused():
        async with connect_async("memory://", SCHEMA, **{option: given}):
            raise AssertionError

    for call in (lambda: connect("memory://", SCHEMA, **{option: given}), lambda: asyncio.run(refused())):
        with pytest.raises(UsageError) as refusal:
            call()
        assert option in refusal.value.facts


def test_an_option_that_stands_in_a_url_twice_is_named(tmp_path):
    with pytest.raises(InvalidUrl) as refusal:
        connect(f"lmdb://{tmp_path}/shop?read_only=true&read_only=false", SCHEMA)
    assert refusal.value.facts["option"] == "read_only"
    assert not (tmp_path / "shop").exists()


def test_a_transaction_that_is_not_a_function_is_refused():
    async def refused():
        async with connect_async("memory://", SCHEMA) as db:
            await db.transact(5)

    with connect("memory://", SCHEMA) as db:
        for call in (lambda: db.transact(5), lambda: asyncio.run(refused())):
            with pytest.raises(UsageError) as refusal:
                call()
            assert refusal.value.facts["given"] == 5


def test_a_transaction_reads_classes():
    with connect("memory://", SCHEMA) as db, pytest.raises(UsageError):
        db.transact(lambda transaction: transaction.find([], 1))


@pytest.mark.parametrize(
    "cache",
    [
        "memcached://",
        "memcached://host:port",
        "memcached://one:1,two:2",
        "memcached://user:secret@host",
        "memcached://host:0",
        "memcached://host:65536",
        "memcached://host/path",
        "memcached://host?x=1",
        "memcached://host?timeout=0",
        "memcached://host?timeout=-1",
        "memcached://host?timeout=nan",
        "memcached://host?timeout=31",
        "memcached://host?timeout=1&timeout=2",
        "memcached://host#x",
        "valkey://host",
        "redis://",
        "redis://host:port",
        "redis://host/name",
        "redis://host/1/2",
        "redis://host:0",
        "redis://one:1,two:2",
        "redis://host?db=1",
        "redis://host?timeout=0",
        "rediss://host/-1",
        "memory://?x=1",
        "",
        7,
    ],
    ids=str,
)
def test_a_cache_url_that_is_none_is_refused_and_the_store_is_closed(cache, tmp_path):
    for url in ("memory://", f"lmdb://{tmp_path}/store"):
        with pytest.raises(InvalidUrl):
            connect(url, SCHEMA, cache=cache)

        async def opened(url=url):
            async with connect_async(url, SCHEMA, cache=cache):
                pass

        with pytest.raises(InvalidUrl):
            asyncio.run(opened())


@pytest.mark.parametrize("host", ["cache.example", "cache.example:11211", "127.0.0.1", "[::1]:11211", "[::1]", "host/"])
def test_nothing_is_asked_of_a_cache_before_it_is_needed(host):
    with connect("memory://", SCHEMA, cache=f"memcached://{host}?timeout=0.5&namespace=copy") as db:
        db.save(ADA)
        assert repr(db._driver.cache).endswith(":11211>")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://cache.example", "cache.example:6379/0"),
        ("redis://cache.example:7000/12?timeout=0.5&namespace=copy", "cache.example:7000/12"),
        ("rediss://user:secret@[::1]", "::1:6379/0"),
    ],
)
def test_nothing_is_asked_of_redis_before_it_is_needed(url, shown):
    with connect("memory://", SCHEMA, cache=url) as db:
        assert repr(db._driver.cache) == f"<RedisCache {shown}>"


def test_an_error_of_a_redis_url_does_not_show_its_password():
    with pytest.raises(InvalidUrl) as caught:
        connect("memory://", SCHEMA, cache="redis://user:secret@host:0")
    assert "secret" not in str(caught.value)


def test_redis_without_its_client_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "oneread.caches.redis", raising=False)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(UsageError, match=r"pip install 'oneread\[redis\]'"):
        connect("memory://", SCHEMA, cache="redis://host")


def test_a_cache_without_its_client_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "oneread.caches.memcached", raising=False)
    monkeypatch.setitem(sys.modules, "pymemcache.client.base", None)
    with pytest.raises(UsageError, match=r"pip install 'oneread\[cache\]'"):
        connect("memory://", SCHEMA, cache="memcached://host")


def test_stores_that_share_a_cache_are_apart_and_programs_of_one_store_are_not(tmp_path):
    def counted(url, cache):
        with connect(url, SCHEMA, cache=cache) as db:
            db.cache_counter("views", chance_to_write=1e-6).add()
            return db.cache_counter("views").read()

    one, two = (f"lmdb://{tmp_path}/{name}?durability=none" for name in ("one", "two"))
    assert [counted(one, "memory://shared") for _ in range(3)] == [1, 2, 3]
    assert counted(two, "memory://shared") == 1
    assert counted(one + "&prefix=tenant_", "memory://shared") == 1
    assert counted(one, "memory://shared?namespace=copy") == 2, "one is stored, and this is another place in the cache"
    assert counted(one, "memory://shared") == 4


def test_a_closed_database_has_closed_its_cache():
    async def closed():
        db = await connect_async("memory://", SCHEMA, cache="memory://")
        await db.cache_counter("views").add()
        await db.close()
        with pytest.raises(Closed):
            await db.cache_counter("views").read()

    asyncio.run(closed())
    db = connect("memory://", SCHEMA, cache="memory://")
    db.cache_counter("views").add()
    db.close()
    with pytest.raises(Closed):
        db.cache_counter("views").read()


def test_stores_of_one_process_share_nothing_that_recovery_remembers(monkeypatch):
    committers = []
    opening = opened

    def noting(*given, committer, **options):
        committers.append(committer)
        return opening(*given, committer=committer, **options)

    monkeypatch.setattr("oneread.database.open.opened", noting)
    for _ in range(2):
        connect("memory://?span=row", SCHEMA).close()
    first, second = committers
    assert first is not second
    assert first.journal.logs is not second.journal.logs
