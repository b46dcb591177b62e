"""The console of the community in Chromium on the other kinds of store: the same pages and clicks as on LMDB."""

from itertools import product
from uuid import uuid4

import pytest

from examples.community import source
from tests.examples.browsing import DESKTOP, PHONE
from tests.examples.conftest import load_community
from tests.examples.touring import check_pages, enter, mend_a_fault, serve

LOOKS = {
    "memory": list(product([DESKTOP, PHONE], ["light", "dark"])),
    "row": list(product([DESKTOP, PHONE], ["light", "dark"])),
    "hbase": [(DESKTOP, "light"), (PHONE, "dark")],
    "bigtable": [(DESKTOP, "dark"), (PHONE, "light")],
}
"""Sizes and schemes; of the stores with a server, whose pages take longer, each size and each scheme once."""


@pytest.fixture(params=LOOKS)
def kind(request):
    return request.param


@pytest.fixture
def url(kind, request, monkeypatch):
    """A store with a small community."""
    name = f"x{uuid4().hex[:12]}"
    if kind == "hbase":
        url = f"hbase://{request.getfixturevalue('hbase').place}/default?compression=none&prefix={name}_"
    elif kind == "bigtable":
        monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", request.getfixturevalue("emulator").host)
        url = f"bigtable://test/{name}"
    else:
        url = f"memory://{name}{'?span=row' if kind == 'row' else ''}"
    load_community(url, source.read("generated:3:1"))
    return url


def test_each_page_is_readable_and_a_fault_is_mended_by_clicks(browser, kind, url):
    with serve(url) as base:
        enter(browser, base)
        for size, scheme in LOOKS[kind]:
            check_pages(browser, base, size, scheme)
        browser.get(base)
        mend_a_fault(browser, url)
