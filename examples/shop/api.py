"""The shop as a JSON API: every page is a fixed number of reads, and its route says how many."""

from __future__ import annotations

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from examples.shop.schema import (
    SHOP,
    BuyerTotals,
    CountryRevenue,
    Customer,
    Product,
    ProductSales,
    Purchase,
    PurchasesOfBuyer,
    PurchasesOfProduct,
)
from oneread import connect_async
from oneread.errors import InvalidKey, InvalidValue
from oneread.web import (
    BudgetMiddleware,
    PageQuery,
    changes_of,
    database,
    entity_of,
    exception_handlers,
    if_version,
    lifespan,
    respond,
)

RECENT = 10
MOST = 100
"""Rows that a client may ask of a list."""


async def product_page(request: Request) -> Response:
    """Everything a product's page shows: the product, what became of it, and who bought it last."""
    db, code = database(request), request.path_params["code"]
    product = await db.get(Product, code)
    sales = await db.get(ProductSales, code)
    recent = await db.page(PurchasesOfProduct, code, limit=RECENT)
    return respond(request, {"product": product, "sales": sales, "recent": recent})


async def buyer_page(request: Request) -> Response:
    """A customer, their totals, and their last purchases."""
    db, number = database(request), _number(request)
    customer = await db.get(Customer, number)
    totals = await db.get(BuyerTotals, number)
    recent = await db.page(PurchasesOfBuyer, number, limit=RECENT)
    return respond(request, {"customer": customer, "totals": totals, "recent": recent})


async def buyers_purchases(request: Request) -> Response:
    """A customer's purchases, newest first, page by page: `?limit=20`, then the `next` of the page before."""
    query = PageQuery.of(request)
    found = await query.page(database(request), PurchasesOfBuyer, _number(request), limit=RECENT, most=MOST)
    return respond(request, found)


async def products(request: Request) -> Response:
    """Products by code: `?starts_with=85`."""
    return respond(request, await PageQuery.of(request).page(database(request), Product, limit=RECENT, most=MOST))


async def countries(request: Request) -> Response:
    """What came in from each country."""
    return respond(request, await PageQuery.of(request).page(database(request), CountryRevenue, limit=MOST, most=MOST))


async def purchase(request: Request) -> Response:
    """One purchase, with the names of its buyer and its product; its ETag is for If-Match as well."""
    return respond(request, await database(request).get(Purchase, *_place(request)))


async def put_purchase(request: Request) -> Response:
    """Saves a purchase as a whole. `If-None-Match: *` when there must be none, `If-Match` when it must be as read."""
    sent = await entity_of(request, Purchase)
    if (sent.order, sent.line) != _place(request):
        raise InvalidValue("the key in the body is not that of the path", field="order")
    amount = sent.quantity * sent.unit_price
    saved = await database(request).save(msgspec.structs.replace(sent, amount=amount), if_version=if_version(request))
    return respond(request, saved)


async def delete_purchase(request: Request) -> Response:
    """Takes a purchase away, from every list and every total; quiet when there is none."""
    await database(request).delete(Purchase, *_place(request), if_version=if_version(request))
    return Response(status_code=204)


async def patch_product(request: Request) -> Response:
    """Changes a product: a new name is in every copy before the answer, or a task of the outbox away."""
    changes = await changes_of(request, Product)
    code = request.path_params["code"]
    return respond(request, await database(request).patch(Product, code, if_version=if_version(request), **changes))


def _number(request: Request) -> int:
    text = request.path_params["number"]
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidKey("a customer's number is a whole number", field="number")
    return int(text)


def _place(request: Request) -> tuple[str, int]:
    line = request.path_params["line"]
    if not (line.isascii() and line.isdigit() and len(line) < 10):
        raise InvalidKey("a line is a whole number", field="line")
    return request.path_params["order"], int(line)


def bounded(requests: int, rows: int) -> list[Middleware]:
    """What a route may ask of the store: more, and it answers 503 instead of being slow."""
    return [Middleware(BudgetMiddleware, requests=requests, rows=rows)]


ROUTES = [
    # The product, its group and the group's dearest price, and a range of ten and one that says if there is more.
    Route("/products/{code}", product_page, middleware=bounded(4, 14)),
    Route("/products/{code}", patch_product, methods=["PATCH"]),
    Route("/products", products, middleware=bounded(1, MOST + 1)),
    Route("/buyers/{number}", buyer_page, middleware=bounded(3, 13)),
    Route("/buyers/{number}/purchases", buyers_purchases, middleware=bounded(1, MOST + 1)),
    Route("/purchases/{order}/{line}", purchase, middleware=bounded(1, 1)),
    Route("/purchases/{order}/{line}", put_purchase, methods=["PUT"]),
    Route("/purchases/{order}/{line}", delete_purchase, methods=["DELETE"]),
    Route("/countries", countries, middleware=bounded(1, MOST + 1)),
]


def application(url: str) -> Starlette:
    """The API over the store at this URL, which is opened when a server starts it."""
    return Starlette(routes=ROUTES, lifespan=lifespan(connect_async(url, SHOP)), exception_handlers=exception_handlers)
