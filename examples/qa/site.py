"""The whole site: pages for people, JSON at /api, one store behind both."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

from examples.qa.api import api
from examples.qa.pages import PAGES, ROUTES
from examples.qa.schema import SITE
from oneread import connect_async
from oneread.web import BudgetMiddleware, lifespan

REQUESTS, ROWS = 100, 10_000
"""What any request to the API may ask of the store at most, the writes among them."""


def application(url: str) -> Starlette:
    """The site over the store at this URL, which is opened when a server starts it."""
    bounded = [Middleware(BudgetMiddleware, requests=REQUESTS, rows=ROWS)]
    routes = [Mount("/api", api, middleware=bounded), *PAGES.static, *ROUTES]
    return Starlette(routes=routes, lifespan=lifespan(connect_async(url, SITE)), exception_handlers=PAGES.handlers)
