import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import Route

from oneread.errors import UsageError
from oneread.launches.sides import STICKY, UNSET
from oneread.web import StickyMiddleware
from tests.unit.web.applications import TestClient


async def show(_request):
    return JSONResponse(STICKY.get())


def test_all_launches_of_a_request_have_one_key():
    def key(scope):
        return int(scope["query_string"])

    app = Starlette(routes=[Route("/", show)], middleware=[Middleware(StickyMiddleware, key=key)])
    with TestClient(app) as client:  # its lifespan passes through
        assert client.get("/?88213").json() == 88213
        assert client.get("/?7").json() == 7
    assert STICKY.get() is UNSET


def test_a_key_is_a_function():
    with pytest.raises(UsageError, match="expected a function"):
        StickyMiddleware(show, key="user")
