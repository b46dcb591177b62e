"""The examples on each kind of store: only the URL differs. Every number is counted again."""

import re
import shlex
import warnings
from uuid import uuid4

import pytest

from examples.community.site import application as community_site
from examples.events import mailing
from examples.events.schema import EVENTS
from examples.events.site import application as events_site
from examples.qa.site import application as qa_site
from examples.shop.api import application as shop_api
from oneread import connect

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette would rather have a client that is not released widely yet
    from starlette.testclient import TestClient

LINES = 60


@pytest.fixture(params=["memory", "lmdb", "row", "hbase", "bigtable"])
def url(request, monkeypatch, tmp_path):
    """A place where no store is yet."""
    name = f"x{uuid4().hex[:12]}"
    if request.param == "lmdb":
        return f"lmdb://{tmp_path}/{name}"
    if request.param in {"memory", "row"}:
        return f"memory://{name}{'?span=row' if request.param == 'row' else ''}"
    if request.param == "hbase":
        return f"hbase://{request.getfixturevalue('hbase').place}/default?compression=none&prefix={name}_"
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", request.getfixturevalue("emulator").host)
    return f"bigtable://test/{name}"


def test_the_shop(shop, url, tmp_path):
    ran = shop("demo", "--db", url, "--limit", LINES, "--folder", tmp_path / "peer")
    assert ran.code == 0, ran.err
    assert "0 with another name" in ran.out
    crosses = "every request of the store crosses a network" in ran.out
    assert crosses == url.startswith(("hbase:", "bigtable:"))
    (renamed,) = re.findall(r"7\. A rename\. (\S+),", ran.out)
    differing = shop("check", "--db", url, "--limit", LINES)
    assert differing.code == 1
    assert f"products: name of {renamed}: " in differing.out
    typed_next = re.findall(r"python -m examples\.shop (.*)", ran.out)
    assert bool(typed_next) != url.startswith("memory:")  # such a store ends with its program
    for typed in typed_next or [f"rename --db {url} {renamed} 'A NEW NAME'"]:
        assert shop(*shlex.split(typed)).code == 0
    with TestClient(shop_api(url)) as client:
        page = client.get(f"/products/{renamed}")
        assert (page.status_code, page.json()["product"]["name"]) == (200, "A NEW NAME")


def test_the_site_of_questions(qa, url):
    assert qa("load", "--db", url, "--data", "generated:3:2").code == 0
    assert " 0 entities stored" in qa("load", "--db", url, "--data", "generated:3:2").out
    checked = qa("check", "--db", url, "--data", "generated:3:2")
    assert checked.code == 0, checked.out
    assert "0 numbers differ" in checked.out
    assert re.search(r"verify: 70 entities, [\d,]+ rows: clean", checked.out)
    assert qa("check", "--db", url, "--data", "generated:3:3").code == 1
    with TestClient(qa_site(url)) as client:
        assert client.get("/users").status_code == 200


def test_the_community(community, url):
    assert community("load", "--db", url, "--data", "generated:3:1").code == 0
    checked = community("check", "--db", url, "--data", "generated:3:1")
    assert checked.code == 0, checked.out
    assert re.search(r"[\d,]{3,} compared: 0 differ", checked.out)
    assert re.search(r"verify: [\d,]+ entities, [\d,]+ rows: clean", checked.out)
    assert community("feed", "nashville:1", "--db", url).code == 0
    with TestClient(community_site(url)) as client:
        assert client.get("/members/nashville:1").status_code == 200


def test_the_events(events, url, tmp_path):
    """Two come to one place, one of them leaves, the event is moved, a look is counted, and all is made again."""
    data, mails = "generated:3:4", tmp_path / "mails"
    assert events("load", "--db", url, "--data", data).code == 0
    with TestClient(events_site(url)) as client:
        (event, *_) = client.get("/api/groups/nashville:1/events?limit=1").json()["rows"]
        key, guest, other = event["source"], "nashville:1", "nashville:2"
        assert client.patch(f"/api/events/{key}", json={"starts_at": "2098-01-01T00:00:00Z"}).status_code == 200
        for person in (guest, other):
            assert client.delete(f"/api/events/{key}/guests/{person}").status_code in (204, 404)
            sent = client.post(f"/api/events/{key}/guests", json={"person": person, "seats": 1})
            assert sent.status_code == 201, sent.text
        assert client.delete(f"/api/events/{key}/guests/{guest}").status_code == 204
        moved = client.patch(f"/api/events/{key}", json={"starts_at": "2099-01-01T00:00:00Z"})
        assert (moved.status_code, moved.json()["starts_at"]) == (200, "2099-01-01T00:00:00Z")
        assert client.get(f"/events/{key}").status_code == 200
        home = client.get(f"/api/members/{guest}/home").json()["rows"]
        assert home
        assert not {"yes", "taken"} & home[0].keys()
    with connect(url, EVENTS, workers=0) as db:
        done = db.run_jobs(mailing.mailers(mails))
    assert (done.failed, done.done) == (0, len(mailing.sent(mails)))
    assert [each.about for each in mailing.sent(mails)].count("rescheduled") == 2
    checked = events("check", "--db", url, "--data", data, "--mails", mails)
    assert checked.code == 0, checked.out
    assert re.search(r"[\d,]{3,} compared: 0 differ", checked.out)
    assert re.search(r"verify: [\d,]+ entities, [\d,]+ rows: clean", checked.out)
    for command in (["home", guest], ["event", key], ["top"]):
        assert events(*command, "--db", url).code == 0
