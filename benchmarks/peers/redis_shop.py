"""Redis through redis-py and hiredis: the shop in hashes and sorted sets, each save one script, thus one round trip.

The page's columns are in the members of the customer's sorted set, so a page is one command as well. Redis keeps all of
it in memory. A save inserts: it neither replaces nor takes back, and `dearest` is right while nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from redis import Redis

from benchmarks.peers.floor import number4
from benchmarks.peers.promises import Durability, redis_options
from benchmarks.peers.shop_rows import PAGE, BoughtRow, PurchaseRow, price_of, tenths_of_pence
from benchmarks.workloads.lines import Shop
from benchmarks.workloads.times import instant, microseconds
from examples.shop.source import Line
from tools.servers.redis import redis_server

FIELDS: Final = (
    "customer", "customer_name", "country", "code", "product_name", "quantity", "unit_price", "ordered_at",
)  # fmt: skip

SAVE: Final = """
local buyer, code, units, price, newest, key = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local product = redis.call('HGET', 'product:' .. code, 'name')
local row = {'code', code, 'product_name', product, 'quantity', units, 'unit_price', price, 'ordered_at', ARGV[7]}
local function count(group)
    redis.call('HINCRBY', group, 'orders', 1)
    redis.call('HINCRBY', group, 'units', units)
    redis.call('HINCRBY', group, 'prices', price)
    local dearest = redis.call('HGET', group, 'dearest')
    if not dearest or tonumber(dearest) < tonumber(price) then
        redis.call('HSET', group, 'dearest', price)
    end
end
if buyer ~= '' then
    local person = redis.call('HMGET', 'customer:' .. buyer, 'name', 'country')
    for _, part in ipairs({'customer', buyer, 'customer_name', person[1], 'country', person[2]}) do
        row[#row + 1] = part
    end
    redis.call('ZADD', 'bought:' .. buyer, newest, key .. cmsgpack.pack({code, product, tonumber(units)}))
    count('buyer_sales:' .. buyer)
end
redis.call('HSET', KEYS[1], unpack(row))
redis.call('ZADD', 'sold:' .. code, newest, key .. cmsgpack.pack({tonumber(units), tonumber(price)}))
count('product_sales:' .. code)
"""

decode_shown = msgspec.msgpack.Decoder(tuple[str, str, int]).decode


@contextmanager
def redis_shop(durability: Durability = "none") -> Generator[str]:
    """A private server that logs each save; yields its URL."""
    with redis_server(redis_options(durability)) as url:
        yield url


class RedisShop:
    """One connection. How durable a save is, is the server's setting.

    Arguments:
        url: where the server is.
    """

    def __init__(self, url: str) -> None:
        self.client: Any = Redis.from_url(url)
        self._save = self.client.register_script(SAVE)

    def close(self) -> None:
        self.client.close()

    def get(self, order: str, line: int) -> PurchaseRow:
        customer, name, country, code, product, units, price, at = self.client.hmget(_hash(order, line), FIELDS)
        if code is None:
            raise KeyError(order, line)
        if customer is not None:
            customer, name, country = int(customer), name.decode(), country.decode()
        return (
            order, line, customer, name, country, code.decode(), product.decode(), int(units), price_of(int(price)),
            instant(int(at)),
        )  # fmt: skip

    def page(self, customer: int) -> list[BoughtRow]:
        """The customer's newest purchases: one range of a sorted set."""
        found = self.client.zrange(f"bought:{customer}", 0, PAGE - 1, withscores=True)
        return [_bought(member, score) for member, score in found]

    def save(self, line: Line) -> None:
        """Writes a new purchase, its members of two sorted sets and its sums."""
        self._save(keys=[_hash(line.invoice, line.line)], args=_arguments(line))

    def stock(self, shop: Shop) -> None:
        pipeline = self.client.pipeline(transaction=False)
        for number, (name, country) in shop.customers.items():
            pipeline.hset(f"customer:{number}", mapping={"name": name, "country": country})
        for code, name in shop.products.items():
            pipeline.hset(f"product:{code}", "name", name)
        pipeline.execute()

    def load(self, _shop: Shop, batch: Sequence[Line]) -> None:
        """The saves of a batch in one pipeline."""
        pipeline = self.client.pipeline(transaction=False)
        for line in batch:
            self._save(keys=[_hash(line.invoice, line.line)], args=_arguments(line), client=pipeline)
        pipeline.execute()

    def settle(self) -> None:
        """Redis has nothing to settle."""

    def sales(self, group: str) -> tuple[int, ...]:
        """Orders, units, and the sum and the greatest of the prices, in tenths of a penny."""
        return tuple(map(int, self.client.hmget(group, "orders", "units", "prices", "dearest")))

    def size(self) -> int:
        return int(self.client.info("memory")["used_memory"])


def _hash(order: str, line: int) -> str:
    return f"purchase:{order}:{line}"


def _arguments(line: Line) -> tuple[object, ...]:
    """The score of a purchase puts the newest first, and its member begins with the key, which decides ties."""
    buyer = "" if line.customer is None else line.customer
    at = microseconds(line.at)
    key = line.invoice.encode() + b"\0" + number4(line.line)
    return buyer, line.code, line.quantity, tenths_of_pence(line.unit_price), -at, key, at


def _bought(member: bytes, score: float) -> BoughtRow:
    end = member.index(0)
    line = int.from_bytes(member[end + 1 : end + 5], "big")
    code, product, units = decode_shown(member[end + 5 :])
    return instant(int(-score)), member[:end].decode(), line, code, product, units
