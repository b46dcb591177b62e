"""A web server in a process of its own: product pages from a store, and the same bytes from memory.

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

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.workloads.shop_schema import SHOP, Product, ProductSales, PurchasesOfProduct
from oneread import AsyncDatabase, connect_async, to_json
from oneread.web import BudgetMiddleware, OnereadResponse, database, exception_handlers, lifespan

SPAWN = multiprocessing.get_context("spawn")
RECENT = 10
PATIENCE_SECONDS = 10
WAYS = ("page", "bounded", "bytes")
"""From the store; from the store, within a budget; from memory."""


async def product_page(db: AsyncDatabase, code: str) -> dict[str, Any]:
    """A product, what became of it, and who bought it last."""
    product = await db.get(Product, code)
    sales = await db.get(ProductSales, code)
    recent = await db.page(PurchasesOfProduct, code, limit=RECENT)
    return {"product": product, "sales": sales, "recent": recent}


async def from_store(request: Request) -> Response:
    return OnereadResponse(await product_page(database(request), request.path_params["code"]))


def application(path: Path, codes: Sequence[str]) -> Starlette:
    """Both ways to the pages of these products."""
    ready: dict[str, bytes] = {}

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
        Route("/bytes/{code}", from_memory),
    ]
    return Starlette(routes=routes, lifespan=filled, exception_handlers=exception_handlers)


class Server:
    """The server; a context manager. Listens at `port` of the loopback address."""

    def __init__(self, path: Path, codes: Sequence[str]) -> None:
        here, there = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_serve, args=(path, codes, there), daemon=True)
        self._process.start()
        there.close()
        self.port: int = here.recv()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.join(PATIENCE_SECONDS)
        self._process.kill()


def _serve(path: Path, codes: Sequence[str], parent: Connection) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    parent.send(listening.getsockname()[1])  # who connects now waits until the server accepts
    config = uvicorn.Config(
        application(path, codes), loop="uvloop", http="httptools", lifespan="on", log_level="warning", access_log=False
    )
    uvicorn.Server(config).run([listening])
