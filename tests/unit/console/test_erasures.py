"""The receipts of erasures, and where personal values are stored."""

from __future__ import annotations

from typing import Annotated

from oneread import Copy, Index, Key, Model, Personal, Ref, Schema, by, connect, shown
from tests.unit.console.places import links, opened


class Guest(Model[int]):
    number: Key[int]
    name: Annotated[str, Personal()]


class GuestName(Copy[Guest]):
    name: str


class Visit(Model[int]):
    number: Key[int]
    guest: GuestName
    host: Ref[Guest]


class VisitsOfGuest(Index[Visit]):
    guest: GuestName = by(Visit.guest)
    host: Ref[Guest] = shown(Visit.host)


SCHEMA = Schema(Guest, Visit, VisitsOfGuest)


def test_receipts_and_places_are_listed(url):
    with connect(url, SCHEMA, workers=0) as db:
        for number in (7, 8):
            db.save(Guest(number=number, name=f"<b>{number}</b>"))
        db.save(Visit(number=1, guest=GuestName.of(7), host=Guest.at(7)))
        db.drain()
        receipt = db.erase(Guest, 7)
    with opened(url, schema=SCHEMA, writes=False) as browser:
        page = browser.get("/erasures")
        assert "/entity/Guest?key=7" in links(page)
        assert "Visit.host may refer to it as well, by its key alone:" in browser.get("/entity/Guest", key="8")
        table, kept, places = [each for each in browser.json("/erasures")["page"]["blocks"] if each["type"] == "table"]
        (row,) = table["rows"]
        texts = [cell[0]["text"] for cell in row]
        assert [texts[0], *texts[3:]] == ["Guest 7", f"{receipt.rows}", f"{receipt.holders}", "0", "0", "0"]
        assert any("Visit.host of entities that refer to it by its key" in cell[1][0]["text"] for cell in kept["rows"])
        fields = {(cell[0][0]["text"], cell[1][0]["text"], cell[2][0]["text"]) for cell in places["rows"]}
        assert ("Guest.name", "copy", "Visit.guest.name") in fields
        cost = browser.json("/erasures")["cost"]
        assert cost["requests"] == 1


def test_a_store_without_receipts_says_so(url):
    with connect(url, SCHEMA, workers=0):
        pass
    with opened(url, schema=SCHEMA) as browser:
        assert "nothing was erased, or its receipt was removed" in browser.get("/erasures")
