"""The examples on each kind of store: only the URL differs. Every number is counted again."""

import re
import shlex
import warnings
from uuid import uuid4

import pytest

from examples.community.site import application as community_site
from examples.qa.site import application as qa_site
from examples.shop.api import application as shop_api

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
