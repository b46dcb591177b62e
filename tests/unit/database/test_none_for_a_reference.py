"""None for a reference that must be given is refused in words of the declared types, whichever way it is written."""

from typing import Annotated

import msgspec
import pytest

from oneread import Copy, Key, Model, Ref, Schema, connect
from oneread.errors import InvalidValue


class Club(Model[str]):
    code: Key[str]
    name: str = ""


class Side(Copy[Club]):
    name: str


class Player(Model[int]):
    number: Key[int]
    club: Side
    home: Ref[Club]
    others: Annotated[list[Ref[Club]], msgspec.Meta(max_length=3)] = msgspec.field(default_factory=list)
    once: Side | None = None


GIVEN = {"number": 1, "club": Side.of("a"), "home": Club.at("a")}


@pytest.fixture
def db(url):
    with connect(url, Schema(Club, Player)) as opened:
        opened.save(Club(code="a"))
        opened.save(Player(**GIVEN))
        yield opened


@pytest.mark.parametrize("field", ["club", "home", "others"])
@pytest.mark.parametrize("verb", ["save", "create", "save_all", "patch"])
def test_it_is_refused(db, verb, field):
    player = Player(**GIVEN | {"number": 2, field: None})
    write = {
        "patch": lambda: db.patch(Player, 1, **{field: None}),
        "save_all": lambda: db.save_all([player]),
        "save": lambda: db.save(player),
        "create": lambda: db.create(player),
    }[verb]
    with pytest.raises(InvalidValue) as error:
        write()
    said = "it must refer to an entity: give a reference, not None, or declare the field with | None"
    key = (1,) if verb == "patch" else (2,)
    assert error.value.facts.items() >= {"model": "Player", "field": field, "reason": said, "key": key}.items()
    assert db.patch(Player, 1, once=None).once is None
