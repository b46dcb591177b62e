"""The whole site: pages, what is done by their forms, and streams of what changes in them."""

from __future__ import annotations

from starlette.applications import Starlette

from examples.community.acting import ACTIONS
from examples.community.live import STREAMS
from examples.community.pages import PAGES, ROUTES
from examples.community.schema import COMMUNITY
from oneread import connect_async
from oneread.web import lifespan


def application(url: str) -> Starlette:
    """The site over the store at this URL, which is opened when a server starts it."""
    routes = [*PAGES.static, *STREAMS, *ACTIONS, *ROUTES]
    return Starlette(routes=routes, lifespan=lifespan(connect_async(url, COMMUNITY)), exception_handlers=PAGES.handlers)
