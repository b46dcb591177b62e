"""A taken value is refused with the view, the field, the value and the owner, also on the web."""

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from oneread import Index, Key, Model, Schema, by, connect
from oneread.errors import NotUnique
from oneread.web import exception_handlers
from tests.unit.web.applications import TestClient


class Club(Model[str]):
    code: Key[str]
    name: str
    city: str = "Oslo"
    motto: str = "Run"


class ClubByName(Index[Club]):
    unique = True

    name: str = by(Club.name)


class ClubByMotto(Index[Club]):
    unique = True

    city: str = by(Club.city)
    motto: str = by(Club.motto)


@pytest.fixture
def db(url):
    with connect(url, Schema(Club, ClubByName, ClubByMotto), workers=0) as database:
        database.save(Club(code="B", name="Bees"))
        yield database


WRITES = {
    "save": lambda db, club: db.save(club),
    "save_all": lambda db, club: db.save_all([club]),
    "transact": lambda db, club: db.transact(lambda tx: tx.save(club)),
}


@pytest.mark.parametrize("verb", WRITES)
def test_a_taken_value_is_named(db, verb):
    with pytest.raises(NotUnique) as refused:
        WRITES[verb](db, Club(code="C", name="Bees", motto="Hop"))
    taken = {"view": ClubByName, "field": "name", "value": "Bees", "owner": "Club('B')"}
    assert refused.value.facts.items() >= taken.items()
    with pytest.raises(NotUnique) as refused:
        WRITES[verb](db, Club(code="C", name="Cats"))
    taken = {"view": ClubByMotto, "fields": ["city", "motto"], "value": ("Oslo", "Run"), "owner": "Club('B')"}
    assert all(refused.value.facts[name] == value for name, value in taken.items())


def test_a_response_says_the_field_and_neither_value_nor_owner(db):
    async def create(request: Request) -> Response:
        body = await request.json()
        db.create(Club(code="C", **body))
        return Response()

    app = Starlette(routes=[Route("/", create, methods=["POST"])], exception_handlers=exception_handlers)
    client = TestClient(app)
    found = client.post("/", json={"name": "Bees", "motto": "Hop"})
    assert found.status_code == 409
    assert (found.json()["view"], found.json()["field"]) == ("ClubByName", "name")
    assert [each["loc"] for each in found.json()["errors"]] == [["body", "name"]]
    assert "Bees" not in found.text
    assert "Club('B')" not in found.text
    assert "errors" not in client.post("/", json={"name": "Cats"}).json()
