"""The page of costs: what nothing bounds is marked and first, and then what costs most rows."""

from oneread import connect
from tests.unit.console.places import links, opened
from tests.unit.costs.test_usual_fan_outs import SCHEMA


def rows(document):
    (table,) = [each for each in document["page"]["blocks"] if each["type"] == "table"]
    return table["rows"]


def test_what_is_dearest_is_first(url):
    with connect(url, SCHEMA, workers=0) as db:
        bounds = {each.name: each for each in db.operations.costs.table()}
    with opened(url, schema=SCHEMA) as browser:
        found = rows(browser.json("/costs"))
        shown = [bounds[f"{row[1][0]['text']} {row[0][0]['text']}"] for row in found]
        assert sorted(map(str, bounds)) == sorted(each.name for each in shown)
        order = [(not each.unlimited, -each.rows, -each.requests) for each in shown]
        assert order == sorted(order)
        marked = [row for row in found if row[2][0].get("tone") == "warn"]
        unlimited = [each for each in shown if each.unlimited]
        assert found[: len(unlimited)] == marked
        assert {row[2][0]["text"] for row in marked} == {"unbounded"}
        one = rows(browser.json("/costs", of="Event"))
        assert one == [row for row in found if row[0][0]["text"] == "Event"]
        assert "/costs?of=Event" in links(browser.get("/costs"))
