"""One shop for the tests of the web, as a Starlette and as a FastAPI application with the same routes."""

import warnings
from typing import Annotated

from fastapi import Body, Depends, FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from oneread import Aggregate, AsyncDatabase, Copy, Index, Key, Model, Page, Schema, by, connect_async, count, shown
from oneread.web import (
    BudgetMiddleware,
    OnereadResponse,
    PageQuery,
    changes_of,
    database,
    entity_of,
    exception_handlers,
    if_version,
    lifespan,
    respond,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette would rather have a client that is not released widely yet
    from starlette.testclient import TestClient, WebSocketDenialResponse  # noqa: F401 - the tests' client


class Maker(Model[int]):
    number: Key[int]
    name: str


class MadeBy(Copy[Maker]):
    name: str


class Thing(Model[str]):
    code: Key[str]
    maker: MadeBy
    size: int = 1

    def check(self):
        if self.size < 0:
            raise ValueError("a size is not negative")


class ThingsOfMaker(Index[Thing]):
    max_limit = 50
    maker: MadeBy = by(Thing.maker)
    size: int = by(Thing.size)
    whole: str = shown(Thing.code)


class Made(Aggregate[Thing]):
    maker: MadeBy = by(Thing.maker)
    things: int = count()


class Note(Model[int]):
    """Its copy is a leaf: no view depends on it, so it follows while the note's version stays."""

    number: Key[int]
    maker: MadeBy
    text: str = ""


SCHEMA = Schema(Maker, Thing, ThingsOfMaker, Made, Note)
Db = Annotated[AsyncDatabase, Depends(database)]


async def get_thing(request: Request) -> Response:
    return respond(request, await database(request).get(Thing, request.path_params["code"]))


async def put_thing(request: Request) -> Response:
    sent = await entity_of(request, Thing, most_bytes=1000)
    return respond(request, await database(request).save(sent, if_version=if_version(request)))


async def patch_thing(request: Request) -> Response:
    changes = await changes_of(request, Thing)
    return respond(request, await database(request).patch(Thing, request.path_params["code"], **changes))


async def get_note(request: Request) -> Response:
    return respond(request, await database(request).get(Note, int(request.path_params["number"])))


async def put_note(request: Request) -> Response:
    sent = await entity_of(request, Note)
    return respond(request, await database(request).save(sent, if_version=if_version(request)))


async def notes(request: Request) -> Response:
    return respond(request, await PageQuery.of(request).page(database(request), Note, limit=2, most=20))


async def group(request: Request) -> Response:
    return respond(request, await database(request).get(Made, 1))


async def several_results(request: Request) -> Response:
    db = database(request)
    return respond(request, {"note": await db.get(Note, 1), "things": [await db.page(ThingsOfMaker, 1)]})


async def refused(request: Request) -> Response:
    return respond(request, {"not": "there"}, status_code=404)


async def things(request: Request) -> Response:
    query = PageQuery.of(request, others=("colour",))
    return respond(request, await query.page(database(request), ThingsOfMaker, 1, limit=2, most=20))


async def summary(request: Request) -> Response:
    db = database(request)
    return OnereadResponse({"maker": await db.get(Maker, 1), "made": await db.get(Made, 1)})


READS = {
    "/notes/{number}": get_note,
    "/notes": notes,
    "/listed": things,
    "/group": group,
    "/several": several_results,
    "/refused": refused,
}
"""Routes that answer by `respond`, in both frameworks."""


def starlette(url="memory://"):
    routes = [
        Route("/things/{code}", get_thing),
        Route("/things/{code}", put_thing, methods=["PUT"]),
        Route("/things/{code}", patch_thing, methods=["PATCH"]),
        Route("/things", things),
        Route("/notes/{number}", put_note, methods=["PUT"]),
        *(Route(path, endpoint) for path, endpoint in READS.items()),
        Route("/summary", summary),
        Route("/dear", summary, middleware=[Middleware(BudgetMiddleware, requests=1)]),
        Route("/bounded", summary, middleware=[Middleware(BudgetMiddleware, requests=2, rows=2, headers=False)]),
    ]
    return Starlette(
        routes=routes,
        lifespan=lifespan(connect_async(url, SCHEMA)),
        exception_handlers=exception_handlers,
        middleware=[Middleware(BudgetMiddleware, requests=50)],
    )


def fastapi(url="memory://"):
    app = FastAPI(lifespan=lifespan(connect_async(url, SCHEMA)), exception_handlers=exception_handlers)
    app.add_middleware(BudgetMiddleware, requests=50)

    @app.get("/things/{code}")
    async def get_one(code: str, db: Db, request: Request):
        return respond(request, await db.get(Thing, code))

    @app.get("/typed/{code}")
    async def get_typed(code: str, db: Db) -> Thing:
        return await db.get(Thing, code)

    @app.put("/things/{code}")  # noqa: FAST003 - the key in the body decides
    async def put_one(db: Db, thing: Annotated[Thing, Body()], request: Request) -> Thing:
        return await db.save(thing, if_version=if_version(request))

    @app.patch("/things/{code}")  # noqa: FAST003 - read from the request
    async def patch_one(request: Request):
        return await patch_thing(request)

    @app.get("/things")
    async def several(db: Db, query: Annotated[PageQuery, Depends()]) -> Page[ThingsOfMaker]:
        return await query.page(db, ThingsOfMaker, 1, limit=2, most=20)

    @app.put("/notes/{number}")  # noqa: FAST003 - read from the request
    async def put_noted(request: Request):
        return await put_note(request)

    for path, endpoint in READS.items():
        app.add_route(path, endpoint, methods=["GET"])

    @app.get("/made")
    async def groups(db: Db) -> list[Made]:
        return (await db.page(Made)).rows

    return app


def thing(code="a", **more):
    return {"code": code, "maker": {"ref": [1]}} | more
