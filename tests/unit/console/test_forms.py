"""Forms: what was done is a page that can be loaded again, and what was refused is the form again, as it was typed."""

import re
from html import unescape

import pytest

from oneread import connect
from oneread.console.log import log_action
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import RowMutation
from oneread.transactions.system_rows import CONSOLE_LOG
from tests.unit.console.places import SITE, Evening, fill, inputs_of, links, opened

PATCH = {"of": "Evening", "key": "1", "field": "town"}


@pytest.fixture
def filled(url):
    fill(url, 6)
    return url


def changed_by(page, **changed):
    """What the form of a page would send."""
    return [*[each for each in inputs_of(page) if each[0] not in changed], *changed.items()]


def log_of(browser):
    return browser.json("/log")["page"]["blocks"][0]["rows"]


def test_what_was_done_is_said_however_often_it_is_loaded(filled):
    with opened(filled) as browser:
        sent = changed_by(browser.get("/do/patch", **PATCH), value="York")
        browser.post("/do/patch?of=Evening&key=1&field=town", sent, 303)
        location = browser.location
        assert re.fullmatch(r"/entity/Evening\?key=1&did=[0-9a-f]{24}", location)
        for _each in range(2):
            page = browser.get(location)
            assert '<div class="find ok"><bdi>Evening 1: town is York</bdi> <a href="/do/patch?' in page
            assert "by token," in page
            assert "and 1 request, 1 row for what was done" in page
        assert len(log_of(browser)) == 1
        assert "town is York" not in browser.get("/entity/Evening", key="1")


def test_it_is_not_offered_to_undo_where_nothing_may_be_written(filled):
    with opened(filled) as browser:
        browser.send("/do/patch", changed={"value": "York"}, **PATCH)
        location = browser.location
    with opened(filled, writes=False) as browser:
        page = browser.get(location)
        assert "town is York" in page
        assert not [each for each in links(page) if "/do/" in each]


def test_a_page_is_shown_when_the_log_has_forgotten_what_was_done(filled):
    with opened(filled) as browser:
        browser.send("/do/patch", changed={"value": "York"}, **PATCH)
        location = browser.location
        with connect(filled, SITE, workers=0) as db:

            def forget():
                for key, row in (yield from Scan("system", CONSOLE_LOG, 10)):
                    deletes = {name: cell.stamp for name, cell in row.items()}
                    yield from Mutate("system", [RowMutation(key, deletes=deletes)])

            db.run(forget())
        page = browser.get(location)
        assert "town is York" not in page
        assert "York" in page
        for wrong in ("x", "00", "0" * 26):
            assert "not a place of the log" in browser.get("/entity/Evening", 400, key="1", did=wrong)


def test_a_program_is_led_to_json(filled):
    with opened(filled) as browser:
        sent = changed_by(browser.get("/do/patch", **PATCH), value="York")
        browser.post("/do/patch?of=Evening&key=1&field=town&json", sent, 303)
        (done, *_others) = browser.client.get(browser.location).json()["page"]["blocks"]
        assert done["text"][0]["text"] == "Evening 1: town is York"
        again = browser.client.post("/do/patch?of=Evening&key=1&field=town&json", data=dict(sent))
        assert (again.status_code, again.json()["error"]) == (409, "Conflict")


def test_a_list_says_what_was_deleted_from_it(filled):
    with opened(filled) as browser:
        assert "Evening 1 is deleted" in browser.send("/do/delete", of="Evening", key="1")
        assert browser.location.startswith("/data/Evening?did=")


REFUSED = [
    ("/do/patch", {"of": "Evening", "key": "1", "field": "starts_at"}, {"value": "soon <b>"}, 422, "not a value", True),
    (
        "/do/patch",
        {"of": "Evening", "key": "1", "field": "title"},
        {"value": "Evening 2"},
        409,
        "another entity has it",
        True,
    ),
    ("/do/shards", {"name": "views:1"}, {"shards": ""}, 400, "a whole number", True),
    ("/do/shards", {"name": "views:1"}, {"shards": "1000000"}, 422, "shards=1000000", True),
    ("/do/verify", {}, {"pace": "fast"}, 400, "a number of rows a second", False),
    ("/do/repair", {"of": ["Evening", "Circle"]}, {"pace": "0"}, 400, "a number of rows a second", False),
]


@pytest.mark.parametrize(("path", "query", "typed", "status", "said", "has_now"), REFUSED)
def test_what_is_refused_is_shown_with_what_was_typed(filled, path, query, typed, status, said, has_now):
    with opened(filled) as browser:
        first = browser.get(path, **query)
        again = browser.send(path, status, changed=typed, **query)
        ((name, value),) = typed.items()
        label = re.search(rf'<label>(?:(?!<label>).)*?name="{name}".*?</label>', again, re.DOTALL)[0]
        assert unescape(re.search(r' value="([^"]*)"', label)[1]) == value
        assert 'aria-invalid="true" aria-describedby="wrong" autofocus' in label
        assert said in re.search('<span class="bad" id="wrong">(.*?)</span>', label)[1]
        assert again.count(said) == first.count(said) + 1
        assert ("<span>now <bdi>" in label) == has_now
        action = r'<form method="post" action="([^"]*)">'
        assert re.search(action, again)[1] == re.search(action, first)[1]
        assert dict(inputs_of(again)) == {**dict(inputs_of(first)), **typed}
        assert log_of(browser) == []


def test_a_form_of_another_console_is_shown_again(filled):
    with opened(filled) as browser:
        page = browser.get("/do/patch", **PATCH)
        csrf = dict(inputs_of(page))["csrf"]
        again = browser.submit(page, 403, changed={"csrf": "0" * 64, "value": "York"})
        assert "not one of this console, or it is too old" in again
        assert dict(inputs_of(again))["csrf"] == csrf
        assert "town is York" in browser.submit(again)


def test_what_is_not_there_any_more_has_no_form(filled):
    with opened(filled) as browser:
        page = browser.get("/do/patch", **PATCH)
        browser.send("/do/delete", of="Evening", key="1")
        gone = browser.submit(page, 404, changed={"value": "York"})
        assert "there is none of this key" in gone
        assert '<form method="post"' not in gone


def test_an_address_has_what_a_form_begins_with(filled):
    with opened(filled) as browser:
        page = browser.get("/do/patch", value="York", **PATCH)
        assert dict(inputs_of(page))["value"] == "York"
        assert "now <bdi>Nashville</bdi>" in page
        assert "<span>now" not in browser.get("/do/patch", value="Nashville", **PATCH)


def log_one(db, number):
    db.run(log_action(db.operations.committer, "token", ("delete", "x"), f"{number}", ""))


COSTS = [
    ("/do/patch?of=Evening&key={}&field=town", {"value": "York"}, lambda db, at: db.patch(Evening, at, town="York")),
    ("/do/delete?of=Evening&key={}", {}, lambda db, at: db.delete(Evening, at)),
    ("/do/shards?name=views:1", {"shards": "{}"}, lambda db, at: db.counter("views:1").configure(shards=at)),
]


@pytest.mark.parametrize(("path", "typed", "do"), COSTS)
def test_a_form_that_is_sent_costs_one_request_more_than_what_it_does(new_url, path, typed, do):
    """The one reads the version or the state: the page that described it is not made again."""
    requests, alone = [], new_url()
    for url in (alone, by_console := new_url()):
        fill(url, 6)

    def note(request, _answer):
        requests.append(request)

    def count(do, *given):
        do(*given, 1)  # what a connection reads once is read by this one
        requests.clear()
        do(*given, 3)
        return len(requests)

    with connect(alone, SITE, workers=0, observers=(note,)) as db:
        expected = 1 + count(do, db) + count(log_one, db)
    with opened(by_console, observers=(note,)) as browser:

        def send(at):
            sent = changed_by(browser.get(path.format(at)), **{name: value.format(at) for name, value in typed.items()})
            requests.clear()
            browser.post(path.format(at), sent, 303)

        send(1)
        send(3)
        assert len(requests) == expected
