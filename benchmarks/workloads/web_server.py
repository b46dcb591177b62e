"""A web server in a process of its own: product pages from a store, from SQLite, and the same bytes from memory.

One process, one thread, uvloop and httptools.
"""

from __future__ import annotations

import multiprocessing
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.peers.shop_rows import price_of
from benchmarks.peers.sqlite import Sqlite
from benchmarks.workloads.shop_schema import SHOP, Product, ProductSales, PurchasesOfProduct
from benchmarks.workloads.times import instant
from oneread import AsyncDatabase, connect_async, to_json
from oneread.web import BudgetMiddleware, OnereadResponse, database, exception_handlers, lifespan

SPAWN = multiprocessing.get_context("spawn")
RECENT = 10
PATIENCE_SECONDS = 10
encode = msgspec.json.Encoder().encode
WAYS = ("page", "bounded", "sqlite", "bytes")
"""From the store; from the store, within a budget; from SQLite; from memory."""


async def product_page(db: AsyncDatabase, code: str) -> dict[str, Any]:
    """A product, what became of it, and who bought it last."""
    product = await db.get(Product, code)
    sales = await db.get(ProductSales, code)
    recent = await db.page(PurchasesOfProduct, code, limit=RECENT)
    return {"product": product, "sales": sales, "recent": recent}


async def from_store(request: Request) -> Response:
    return OnereadResponse(await product_page(database(request), request.path_params["code"]))


def page_from_sqlite(shop: Sqlite, code: str) -> bytes:
    """The same page, as one would write it by hand for SQLite: three selects, one of which is a row longer."""
    (_code, name, description), (orders, units, prices, dearest) = shop.product(code), shop.product_sales(code)
    found = shop.sold(code, RECENT + 1)
    shown = [
        {
            "source": (order, line),
            "product": {"ref": code},
            "ordered_at": instant(at),
            "quantity": quantity,
            "unit_price": price_of(price),
        }
        for at, order, line, quantity, price in found[:RECENT]
    ]
    at, order, line, *_ = found[:RECENT][-1]
    return encode(
        {
            "product": {"code": code, "name": name, "description": description},
            "sales": {
                "product": {"ref": code},
                "orders": orders,
                "units": units,
                "mean_price": price_of(prices) / orders,
                "dearest": price_of(dearest),
            },
            "recent": {
                "rows": shown,
                "next": f"{at}/{order}/{line}" if len(found) > RECENT else None,
                "previous": None,
            },
        }
    )


def application(path: Path, sqlite: Path, codes: Sequence[str]) -> Starlette:
    """All ways to the pages of these products."""
    ready: dict[str, bytes] = {}
    shop = Sqlite(sqlite)

    async def from_sqlite(request: Request) -> Response:
        return Response(page_from_sqlite(shop, request.path_params["code"]), media_type="application/json")

    async def from_memory(request: Request) -> Response:
        return Response(ready[request.path_params["code"]], media_type="application/json")

    opened = lifespan(connect_async(f"lmdb://{path}?read_only=true", SHOP))

    @asynccontextmanager
    async def filled(app: Any) -> AsyncGenerator[Any]:
        async with opened(app) as state:
            ready.update({code: to_json(await product_page(state["db"], code)) for code in codes})
            yield state

    routes = [
        Route("/page/{code}", from_store),
        Route("/bounded/{code}", from_store, middleware=[Middleware(BudgetMiddleware, requests=4, rows=14)]),
        Route("/sqlite/{code}", from_sqlite),
        Route("/bytes/{code}", from_memory),
    ]
    return Starlette(routes=routes, lifespan=filled, exception_handlers=exception_handlers)


class Server:
    """The server; a context manager. Listens at `port` of the loopback address."""

    def __init__(self, path: Path, sqlite: Path, codes: Sequence[str]) -> None:
        here, there = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_serve, args=(path, sqlite, codes, there), daemon=True)
        self._process.start()
        there.close()
        self.port: int = here.recv()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.join(PATIENCE_SECONDS)
        self._process.kill()


def _serve(path: Path, sqlite: Path, codes: Sequence[str], parent: Connection) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    parent.send(listening.getsockname()[1])  # who connects now waits until the server accepts
    config = uvicorn.Config(
        application(path, sqlite, codes),
        loop="uvloop",
        http="httptools",
        lifespan="on",
        log_level="warning",
        access_log=False,
    )
    uvicorn.Server(config).run([listening])
