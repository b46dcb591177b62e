"""What can be done from a console, and by whom: forms, what they write down, and two people at once."""

import time

import pytest

from oneread import connect
from oneread.console.pages import SHOWN_PAGES
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import RowMutation, RowRange
from tests.unit.console.places import SITE, Evening, EveningsOfTown, fill, inputs_of, links, opened


@pytest.fixture
def filled(url):
    fill(url, 6)
    return url


def wait_for(browser, path, words, seconds=30):
    """Looks at a page until it says something."""
    until = time.monotonic() + seconds
    while words not in (page := browser.get(path)):
        assert time.monotonic() < until, page[-3000:]
        time.sleep(0.1)
    return page


def undoing(page):
    """The links of a page that undo a change of a field."""
    return [each for each in links(page) if each.startswith("/do/patch") and "value=" in each]


def test_a_field_is_changed_and_changed_back(filled):
    with opened(filled) as browser:
        done = browser.send("/do/patch", changed={"value": "York"}, of="Evening", key="1", field="town")
        assert "Evening 1: town is York" in done
        assert "Evening 1<" in browser.get("/data/EveningsOfTown", key="York")
        assert "Evening 1: town is York" in browser.get("/log")
        (undo,) = undoing(browser.get("/log"))
        page = browser.get(undo)
        assert 'value="Nashville"' in page
        assert "Evening 1: town is Nashville" in browser.send(undo)
        assert "Evening 1<" in browser.get("/data/EveningsOfTown", key="Nashville")


def test_an_empty_text_comes_back(filled):
    with opened(filled) as browser:
        browser.send("/do/patch", changed={"value": ""}, of="Evening", key="1", field="town")
        done = browser.send("/do/patch", changed={"value": "York"}, of="Evening", key="1", field="town")
        (undo,) = undoing(done)
        assert 'name="value" value=""' in browser.get(undo)


def test_a_field_becomes_none_and_a_text_that_begins_with_an_at_sign(filled):
    with opened(filled) as browser:
        browser.send("/do/patch", changed={"value": "@@home"}, of="Evening", key="1", field="note")
        assert "@home" in browser.get("/entity/Evening", key="1")
        browser.send("/do/patch", changed={"value": "@none"}, of="Evening", key="1", field="note")
        assert "@home" not in browser.get("/entity/Evening", key="1")


@pytest.mark.parametrize("text", ["two\nlines", "a\ttab", "\u202eturned"])
def test_a_text_that_a_form_would_change_is_refused(filled, text):
    with connect(filled, SITE, workers=0) as db:
        db.patch(Evening, 1, note=text)
    with opened(filled) as browser:
        assert "which a form would change" in browser.get("/do/patch", 400, of="Evening", key="1", field="note")
        assert "note, @none for none" in browser.get("/do/patch", of="Evening", key="2", field="note")
        assert "@none" not in browser.get("/do/patch", of="Evening", key="1", field="town")


def test_a_long_text_is_logged_by_its_beginning_and_has_no_address_that_undoes_it(filled):
    with opened(filled) as browser:
        browser.send("/do/patch", changed={"value": "x" * 9_000}, of="Evening", key="1", field="note")
        assert "/do/patch" in str(links(browser.get("/log")))
        done = browser.send("/do/patch", changed={"value": "short"}, of="Evening", key="1", field="note")
        assert not undoing(done)
        page = browser.get("/log")
        assert "x" * 900 in page
        assert "x" * 1_001 not in page
        assert len([each for each in links(page) if "/do/patch" in each]) == 1


def test_what_stays_as_it_was_is_not_said_to_be_changed(filled):
    with opened(filled) as browser:
        same = browser.send("/do/patch", of="Evening", key="1", field="town")
        assert "nothing was changed" in same
        assert not undoing(same)
        assert "nothing was changed" in browser.send("/do/shards", name="views:1")


def test_a_delete_says_who_refers(filled):
    with opened(filled) as browser:
        assert "Evening 1" in browser.get("/do/delete", of="Circle", key="chess")


def test_a_job_that_waits_for_its_pace_is_stopped(filled):
    with opened(filled) as browser:
        browser.send("/do/verify", changed={"pace": "0.01"})
        browser.send("/do/stop", kind="verify")
        wait_for(browser, "/verify", "stopped by hand", seconds=10)


def test_an_entity_is_deleted_and_one_that_others_need_is_not_hidden(filled):
    with opened(filled) as browser:
        assert "there is no way back" in browser.get("/do/delete", of="Evening", key="1")
        assert "Evening 1 is deleted" in browser.send("/do/delete", of="Evening", key="1")
        assert "Evening 1<" not in browser.get("/data/EveningsOfTown", key="Nashville")


def test_two_people_who_act_at_once_learn_of_each_other(filled):
    with opened(filled) as browser:
        page = browser.get("/do/patch", of="Evening", key="1", field="town")
        assert page
        browser.send("/do/patch", changed={"value": "York"}, of="Evening", key="1", field="town")
        sent = [("of", "Evening"), ("key", "1"), ("field", "town"), ("value", "Bath")]
        hidden = [(name, value) for name, value in inputs_of(page) if name in ("csrf", "seen")]
        said = browser.post("/do/patch", [*sent, *hidden], 409)
        assert "this was changed meanwhile; look again" in said
        assert "did=&#39;Evening 1: town is York&#39;" in said
        assert "now <bdi>York</bdi>" in said
        assert "York" in browser.get("/entity/Evening", key="1")
        assert dict(inputs_of(said))["value"] == "Bath"
        assert "town is Bath" in browser.submit(said)


def test_nothing_is_done_without_the_form_of_the_page(filled):
    with opened(filled) as browser:
        sent = [("of", "Evening"), ("key", "1"), ("field", "town"), ("value", "Bath")]
        assert "this form is not one of this console" in browser.post("/do/patch", sent, 403)
        assert "not one of this console" in browser.post("/do/patch", [*sent, ("csrf", "0" * 64)], 403)
        page = browser.get("/do/patch", of="Evening", key="1", field="town")
        whole = [*sent, *[each for each in inputs_of(page) if each[0] in ("csrf", "seen")]]
        assert "sent by another site" in browser.post("/do/patch", whole, 403, **{"sec-fetch-site": "cross-site"})
        assert "Nashville" in browser.get("/entity/Evening", key="1")
        browser.client.post("/do/patch", content=b"\xff" * 10)
        assert browser.client.post("/do/patch", content=b"x" * 2_000_001).status_code == 413
        assert browser.client.put("/do/patch").status_code == 405
        assert browser.client.post("/data/Evening").status_code == 405


ACTIONS = [
    ("/do/repair", {}),
    ("/do/backfill", {}),
    ("/do/drain", {}),
    ("/do/retry", {}),
    ("/do/sweep", {}),
    ("/do/shards", {"name": "views:1"}),
    ("/do/patch", {"of": "Evening", "key": "1", "field": "town"}),
    ("/do/delete", {"of": "Evening", "key": "1"}),
]


@pytest.mark.parametrize(("path", "query"), ACTIONS)
def test_a_console_that_only_reads_does_nothing(filled, path, query):
    with opened(filled) as browser:
        form = inputs_of(browser.get(path, **query))
    with opened(filled, writes=False) as browser:
        assert "read-only" in browser.get("/")
        assert "this console is read-only" in browser.get(path, 403, **query)
        assert "this console is read-only" in browser.post(path, form, 403)
        assert not [each for each in links(browser.get("/entity/Evening", key="1")) if "/do/" in each]


def test_a_console_that_only_reads_says_which_command_does_it(filled):
    with opened(filled, writes=False) as browser:
        assert "oneread repair" in browser.get("/verify")
        assert "oneread counter views:1 --shards N" in browser.get("/counter", name="views:1")


def test_rows_of_a_counter_are_changed_and_changed_back(filled):
    with opened(filled) as browser:
        assert "views:1: 2 -&gt; 4 rows" in browser.send("/do/shards", changed={"shards": "4"}, name="views:1")
        assert "4 rows" in browser.get("/counter", name="views:1")
        assert "a whole number" in browser.send("/do/shards", 400, changed={"shards": "x"}, name="views:1")


def remove_a_row(url):
    """Deletes a row of an index behind the library's back."""
    with connect(url, SITE, workers=0) as db:
        prefix = db.operations.catalog.views[EveningsOfTown].prefix

        def remove():
            ((key, row),) = yield from Scan("views", RowRange.under(prefix), 1)
            yield from Mutate("views", [RowMutation(key, deletes={name: cell.stamp for name, cell in row.items()})])

        db.run(remove())


def test_a_fault_is_found_and_mended_by_forms(filled):
    remove_a_row(filled)
    with opened(filled) as browser:
        assert "the rows were not compared yet" in browser.get("/")
        assert "the verification of everything was begun" in browser.send("/do/verify")
        page = wait_for(browser, "/verify", "1 fault in")
        assert 'class="ok"><bdi>1 fault' not in page
        assert "the first 1" not in page
        assert {"/data/EveningsOfTown", "/do/repair?of=EveningsOfTown"} <= set(links(page.partition("1 fault")[2]))
        assert "EveningsOfTown" in page
        assert "repair mends it" in page
        browser.send("/do/repair")
        repaired = wait_for(browser, "/verify", "1 fault mended")
        assert "mended</bdi></td>" in repaired.replace("\n", "") or ">mended<" in repaired
        assert "1 fault mended: EveningsOfTown" in browser.get("/log")
        browser.send("/do/verify")
        page = wait_for(browser, "/verify", "no faults in")
        assert "Last verification" in page
        assert "clean" in page
        assert "everything is as it should be" in browser.get("/")
        assert "the verification of everything was begun" in browser.get("/log")


def test_a_console_that_only_reads_verifies_too(filled):
    with opened(filled, writes=False) as browser:
        browser.send("/do/verify")
        assert browser.location == "/verify"
        wait_for(browser, "/verify", "no faults in")
        assert "nothing was done by consoles" in browser.get("/log")


def test_a_job_is_stopped_and_only_one_of_a_kind_runs(filled):
    with opened(filled) as browser:
        browser.send("/do/verify", changed={"pace": "0.5"})
        assert "this is under way already" in browser.send("/do/verify", 409)
        assert ">stop<" in browser.get("/verify")
        assert "verify stops" in browser.send("/do/stop", kind="verify")
        page = browser.get("/verify")
        assert ">stop<" not in page
        assert "stops after its current batch" in page or "stopped by hand" in page
        wait_for(browser, "/verify", "stopped by hand")
        assert "no such job runs" in browser.get("/do/stop", 404, kind="verify")
        for pace in ("fast", "0", "-1", "nan", "inf"):
            assert "a number of rows a second" in browser.send("/do/verify", 400, changed={"pace": pace})


DONE = {"drain": "batches done", "retry": "batches done", "sweep": "deleted"}


@pytest.mark.parametrize(("action", "words"), DONE.items())
def test_tasks_are_run_and_what_has_expired_is_swept(filled, action, words):
    with opened(filled) as browser:
        browser.send(f"/do/{action}")
        wait_for(browser, "/tasks", words)


def test_pages_answer_while_everything_is_compared_and_written(filled):
    with opened(filled) as browser:
        browser.send("/do/verify", changed={"pace": "20"})
        for path in [each.path for each in SHOWN_PAGES]:
            browser.send("/do/shards", changed={"shards": "2"}, name="views:1")
            browser.get(path)
        assert "running" in browser.get("/verify")
        browser.send("/do/stop", kind="verify")
        wait_for(browser, "/verify", "stopped by hand")


def test_a_backfill_is_run(filled):
    with opened(filled) as browser:
        browser.send("/do/backfill")
        wait_for(browser, "/schema", "all is built")
