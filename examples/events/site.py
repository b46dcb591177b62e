"""The whole site: pages for people, JSON at /api, one store behind both."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

from examples.events.api import api
from examples.events.pages import FOLLOWED, PAGES, ROUTES
from examples.events.schema import EVENTS
from examples.forms import ROWS
from oneread import connect_async
from oneread.web import BudgetMiddleware, lifespan


def application(url: str) -> Starlette:
    """The site over the store at this URL, which is opened when a server starts it."""
    bounded = [Middleware(BudgetMiddleware, requests=FOLLOWED, rows=ROWS)]
    routes = [Mount("/api", api, middleware=bounded), *PAGES.static, *ROUTES]
    return Starlette(routes=routes, lifespan=lifespan(connect_async(url, EVENTS)), exception_handlers=PAGES.handlers)
