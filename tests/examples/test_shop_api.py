"""The shop's JSON API: every page within its budget, changes seen by the next page, and the command that serves it."""

import argparse
import warnings
from datetime import UTC, datetime

import pytest

from examples.shop import __main__ as shop_command
from examples.shop import loading, serving, stores
from examples.shop.api import application
from examples.shop.loading import Source
from examples.shop.schema import Customer, Product

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette would rather have a client that is not released widely yet
    from starlette.testclient import TestClient


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    url = f"lmdb://{tmp_path_factory.mktemp('stock')}/shop"
    with stores.for_loading(url) as db:
        loading.load(db, Source(limit=2_000))
    return url


@pytest.fixture(scope="module")
def known(url):
    """A customer and a product that were loaded."""
    with stores.for_reading(url) as db:
        return db.page(Customer, limit=1).rows[0].number, db.page(Product, limit=1).rows[0].code


@pytest.fixture
def client(url, known):  # noqa: ARG001 - closed before: a process opens a store with one set of options
    with TestClient(application(url)) as client:
        yield client


def sent(number, code, order="Z1", **more):
    usual = {
        "order": order, "line": 1, "buyer": {"ref": [number]}, "product": {"ref": [code]}, "quantity": 2,
        "unit_price": "2.50", "amount": "0", "country": "France",
        "ordered_at": datetime(2020, 1, 1, tzinfo=UTC).isoformat(),
    }  # fmt: skip
    return usual | more


def test_every_page_is_answered_within_its_budget(client, known):
    number, code = known
    page = client.get(f"/products/{code}")
    assert page.headers["x-oneread-cost"].startswith("requests=4, rows=")
    assert page.json()["sales"]["orders"] >= len(page.json()["recent"]["rows"]) > 0
    buyer = client.get(f"/buyers/{number}")
    assert buyer.headers["x-oneread-cost"].startswith("requests=3, rows=")
    assert buyer.json()["totals"]["orders"] >= len(buyer.json()["recent"]["rows"]) > 0
    for path in ("/products?starts_with=2&limit=100", "/countries?limit=100", f"/buyers/{number}/purchases?limit=100"):
        assert client.get(path).headers["x-oneread-cost"].startswith("requests=1, rows="), path


def test_a_purchase_is_put_read_listed_and_deleted(client, known):
    number, code = known
    before = client.get(f"/products/{code}").json()["sales"]
    saved = client.put("/purchases/Z1/1", json=sent(number, code), headers={"If-None-Match": "*"})
    assert saved.json()["amount"] == "5.00"
    assert client.put("/purchases/Z1/1", json=sent(number, code), headers={"If-None-Match": "*"}).status_code == 412
    assert client.get(f"/products/{code}").json()["sales"]["units"] == before["units"] + 2
    again = client.get("/purchases/Z1/1")
    assert again.headers["etag"] == saved.headers["etag"]
    assert client.get("/purchases/Z1/1", headers={"If-None-Match": again.headers["etag"]}).status_code == 304
    assert client.put("/purchases/Z1/2", json=sent(number, code)).json()["field"] == "order"
    assert client.delete("/purchases/Z1/1", headers={"If-Match": again.headers["etag"]}).status_code == 204
    assert client.get("/purchases/Z1/1").status_code == 404
    assert client.get(f"/products/{code}").json()["sales"] == before


def test_a_rename_is_seen_by_the_next_page(client, known):
    number, code = known
    client.put("/purchases/Z2/1", json=sent(number, code, "Z2"))
    assert client.patch(f"/products/{code}", json={"name": "RENAMED"}).json()["name"] == "RENAMED"
    db = client.app_state["db"]
    client.portal.call(db.drain)
    assert client.get("/purchases/Z2/1").json()["product"]["name"] == "RENAMED"
    client.delete("/purchases/Z2/1")


def test_a_client_that_has_the_old_name_is_given_the_new_one(client, known):
    number, code = known
    client.put("/purchases/Z3/1", json=sent(number, code, "Z3"))
    paths = ["/purchases/Z3/1", f"/products/{code}", f"/products?starts_with={code}", f"/buyers/{number}/purchases"]
    tags = {path: client.get(path).headers["etag"] for path in paths}
    again = {path: client.get(path, headers={"If-None-Match": tag}) for path, tag in tags.items()}
    assert [answer.status_code for answer in again.values()] == [304] * len(paths)
    client.patch(f"/products/{code}", json={"name": "NEW NAME"})
    client.portal.call(client.app_state["db"].drain)
    again = {path: client.get(path, headers={"If-None-Match": tag}) for path, tag in tags.items()}
    assert [answer.status_code for answer in again.values()] == [200] * len(paths)
    assert all("NEW NAME" in answer.text for answer in again.values())
    client.delete("/purchases/Z3/1")


@pytest.mark.parametrize(
    "path", ["/buyers/x", "/buyers/-1", "/buyers/99999999999999", "/purchases/a/x", "/purchases/a/²"]
)
def test_a_key_that_is_none_is_the_clients_fault(client, path):
    assert client.get(path).status_code == 422


@pytest.mark.parametrize("path", ["/buyers/999999999", "/products/%00", "/products/" + "x" * 150, "/purchases/none/1"])
def test_what_is_not_there_is_not_found(client, path):
    assert client.get(path).status_code == 404


def test_a_limit_beyond_the_routes_is_refused_before_it_costs(client):
    answer = client.get("/products?limit=101")
    assert (answer.status_code, answer.json()["max_limit"]) == (400, 100)


def test_serve_opens_a_loaded_store_only(shop, tmp_path):
    found = shop("serve", "--db", f"lmdb://{tmp_path}/none")
    assert found.code == 2
    assert "shop serve: " in found.err
    assert shop("serve", "--port", "70000").code == 2


def test_serve_says_what_is_missing(monkeypatch, shop):
    def missing(_name):
        raise ModuleNotFoundError("no", name="uvicorn")

    monkeypatch.setattr(shop_command.importlib, "import_module", missing)
    assert "uvicorn is missing" in shop("serve").err


def test_serve_hands_the_store_to_the_server(monkeypatch, url):
    served = []
    monkeypatch.setattr(serving.uvicorn, "run", lambda app, **options: served.append((app, options)))
    serving.serve(argparse.Namespace(db=url, host="127.0.0.1", port=8000))
    assert served[0][1] == {"host": "127.0.0.1", "port": 8000, "log_level": "warning"}
