"""The pages of the events: what they show, what they cost, what their forms do, and what is said of mistakes."""

import re
import warnings
from collections import Counter
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from examples.events import attending, loading, source
from examples.events.schema import EVENTS, Answer, Event, GroupName, Home, Rsvp
from examples.events.site import application
from oneread import connect
from tests.examples.browsing import Tags
from tests.examples.conftest import EVENTS as DATA

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette would rather have a client that is not released widely yet
    from starlette.testclient import TestClient

MEMBER, GROUP = "nashville:1", "nashville:1"
KEY = "site:walk"


@pytest.fixture(scope="module")
def read():
    return source.read(DATA)


@pytest.fixture
def db(events_copy):
    with connect(events_copy, EVENTS, workers=0) as opened:
        yield opened


@pytest.fixture
def event(db):
    """An event of two places, ahead."""
    made = Event(
        event=KEY,
        group=GroupName.of(GROUP),
        title="<b>Walk</b> & talk",
        announced_at=attending.now(),
        starts_at=attending.now() + timedelta(days=3),
        places=2,
    )
    return db.save(made)


@pytest.fixture
def client(events_copy, event):  # noqa: ARG001 - it is there
    with TestClient(application(events_copy), follow_redirects=False) as opened:
        yield opened


def at(kind, key, rest=""):
    return f"/{kind}/{quote(key, safe='')}{rest}"


def text(html):
    main = "<main" + html.partition("<main")[2].partition("</main>")[0] + "</main>"
    return " ".join("".join(Tags(main).texts).split())


def send(client, path, **fields):
    return client.post(path, data=fields).status_code


def test_the_front_page_shows_what_is_ahead_at_the_clock(client, db, read):
    shown = text(client.get("/").text)
    moved = loading.as_loaded(db, read)
    ahead = [each for each in moved.events if each.starts_at > datetime.now(UTC)]
    html = client.get("/?limit=100").text
    assert [html.count(f'href="{at("events", each.key)}"') for each in ahead] == [1] * len(ahead)
    assert html.count('class="score"') == len(ahead) + 1
    assert "The busiest groups" in shown


def test_an_event_shows_its_places_its_line_and_its_comments(client, db):
    for person in ("nashville:1", "nashville:2", "rladies:1"):
        assert send(client, at("events", KEY, "/guests"), member=person, seats="1") == 303
    assert send(client, at("events", KEY, "/comments"), member=MEMBER, text="Until <i>then</i>") == 303
    shown = text(client.get(at("events", KEY)).text)
    assert "2 of 2 seats taken. 2 members come, 1 waits; 0 views." in shown
    assert "Who waits rladies:1 1 comment Until <i>then</i>#1 by nashville:1" in shown
    assert send(client, at("events", KEY, "/leave"), member="nashville:2") == 303
    shown = text(client.get(at("events", KEY)).text)
    assert "Who waits" not in shown
    assert re.search(r"Who comes\s*nashville:1\s*rladies:1", shown)
    assert [each.kind for each in db.jobs()] == ["Promoted"]
    db.drain()
    assert "2 views" in text(client.get(at("events", KEY)).text)


def test_an_event_that_is_moved_into_the_past_has_begun_and_takes_no_answers(client, db):
    assert send(client, at("events", KEY, "/time"), starts_at="2999-01-01T10:00") == 303
    assert "1 January 2999, 10:00 UTC" in text(client.get(at("events", KEY)).text)
    assert [each.kind for each in db.jobs()] == ["Rescheduled"]
    db.patch(Event, KEY, announced_at=attending.now() - timedelta(days=2), starts_at=attending.now())
    html = client.get(at("events", KEY)).text
    assert "has begun" in html
    assert "/guests" not in html
    assert send(client, at("events", KEY, "/guests"), member=MEMBER, seats="1") == 422


def test_a_home_shows_what_is_new_and_who_comes(client, db):
    assert send(client, at("groups", GROUP, "/members"), member="rladies:1") in (303, 409)
    page = db.page(Home, MEMBER, limit=20)
    shown = client.get(at("members", MEMBER)).text
    assert shown.count("new · ") == len(page)
    number = re.search(r'id="unread">([^<]*)<', shown)[1]
    assert number == db.unread(Home, MEMBER, limit=99).unseen_text
    assert "&lt;b&gt;Walk&lt;/b&gt; &amp; talk" in shown
    assert send(client, at("events", KEY, "/guests"), member=MEMBER, seats="2") == 303
    shown = client.get(at("members", MEMBER)).text
    assert re.search(r"<b>1</b> comes</span>\s*<div>\s*<h3><a href=\"/events/site%3Awalk\"", shown)
    assert "My events" in shown


def test_a_home_is_seen(client):
    path = at("members", MEMBER)
    assert send(client, f"{path}/seen") == 303
    html = client.get(path).text
    assert 'id="unread"' not in html
    assert "new · " not in html


def test_a_group_shows_its_events_the_last_first(client, read):
    of_group = Counter(each.group for each in read.events)
    html = client.get(at("groups", GROUP, "?limit=100")).text
    assert f"{of_group[GROUP] + 1} events" in html
    assert html.count('class="score"') == of_group[GROUP] + 1
    assert html.count(">ahead</span>") == 1
    assert html.index("site%3Awalk") < html.index("nashville%3A", html.index("<ol"))


def test_each_page_is_a_fixed_number_of_requests(client):
    costs = {
        "/": 3,
        at("groups", GROUP): 2,
        "/tags/dancing": 2,
        at("members", MEMBER): 7,
    }
    found = {
        path: int(client.get(path).headers["X-Oneread-Cost"].partition("=")[2].partition(",")[0]) for path in costs
    }
    assert found == costs


def test_pages_are_well_formed_and_what_people_wrote_is_text(client):
    send(client, at("events", KEY, "/comments"), member=MEMBER, text="<script>alert(1)</script>")
    for path in ("/", at("groups", GROUP), at("events", KEY), at("members", MEMBER), "/tags/dancing", "/nowhere"):
        html = client.get(path).text
        tags = Tags(html)
        assert {"p", "html"} >= {*tags.open}, path  # a paragraph may stay open
        assert tags.names.count("h1") == tags.names.count("main") == tags.names.count("title") == 1
        assert "<b>Walk" not in html
        assert "<b>Bold" not in html
        assert "<script" not in html


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        (at("events", KEY, "/guests"), {"member": "nobody", "seats": "1"}, 422),
        (at("events", KEY, "/guests"), {"member": MEMBER, "seats": "4"}, 422),
        (at("events", KEY, "/guests"), {"member": MEMBER}, 422),
        (at("events", "nothing", "/guests"), {"member": MEMBER, "seats": "1"}, 404),
        (at("events", KEY, "/leave"), {"member": MEMBER}, 404),
        (at("events", KEY, "/time"), {"starts_at": "soon"}, 422),
        (at("events", KEY, "/time"), {"starts_at": "2001-01-01T00:00"}, 422),
        (at("events", KEY, "/comments"), {"member": MEMBER, "text": "x" * 2_001}, 422),
        (at("groups", "nothing", "/members"), {"member": MEMBER}, 422),
        (at("members", "nobody", "/seen"), {}, 404),
    ],
)
def test_what_is_refused_is_said_in_words_and_leaves_nothing(client, db, path, fields, status):
    answer = client.post(path, data=fields)
    assert (answer.status_code, "Traceback" in answer.text) == (status, False)
    assert "<h1>" in answer.text
    assert db.jobs() == []
    assert not db.page(Rsvp, KEY).rows


def test_who_has_answered_is_not_asked_again(client, db):
    assert send(client, at("events", KEY, "/guests"), member=MEMBER, seats="1") == 303
    assert send(client, at("events", KEY, "/guests"), member=MEMBER, seats="2") == 409
    assert (db.get(Rsvp, KEY, MEMBER).answer, db.get(Rsvp, KEY, MEMBER).seats) == (Answer.YES, 1)


def test_a_form_of_another_site_is_refused(client):
    answer = client.post(
        at("events", KEY, "/guests"), data={"member": MEMBER, "seats": "1"}, headers={"Origin": "https://x"}
    )
    assert answer.status_code == 403


def test_programs_do_the_same_in_json(client, db, read):
    answered = [
        client.post(f"/api/events/{KEY}/guests", json={"person": each, "seats": 1})
        for each in ("nashville:1", "nashville:2", "rladies:1")
    ]
    assert [each.json()["answer"] for each in answered] == ["yes", "yes", "waiting"]
    assert client.post(f"/api/events/{KEY}/guests", json={"person": "rladies:1", "seats": 1}).status_code == 409
    assert client.post(f"/api/events/{KEY}/guests", json={"person": "rladies:1"}).status_code == 422
    sent = {"person": "rladies:1", "seats": 1, "answer": "yes"}
    assert client.post(f"/api/events/{KEY}/guests", json=sent).status_code == 422
    assert client.delete(f"/api/events/{KEY}/guests/nashville:1").status_code == 204
    assert [row["source"] for row in client.get(f"/api/events/{KEY}/guests").json()["rows"]] == [
        [KEY, "nashville:2"],
        [KEY, "rladies:1"],
    ]
    comment = client.post(f"/api/events/{KEY}/comments", json={"author": "nashville:2", "text": "Hello"})
    assert (comment.status_code, comment.json()["number"]) == (201, 1)
    history = client.get(f"/api/events/{KEY}/history").json()["rows"]
    assert [each["what"] for each in history] == ["came", "came", "came", "left"]
    event = client.get(f"/api/events/{KEY}").json()
    assert (event["yes"], event["waits"], event["taken"], event["waiting"]) == (2, 0, 2, [])
    for changes in ({}, {"starts_at": "2001-01-01T00:00:00Z"}, {"title": "Another"}, {"starts_at": None}):
        assert client.patch(f"/api/events/{KEY}", json=changes).status_code == 422, changes
    assert client.patch(f"/api/events/{KEY}", json={"starts_at": "2099-01-01T00:00:00Z"}).status_code == 200
    assert sorted(each.kind for each in db.jobs()) == ["Promoted", "Rescheduled"]
    month = f"{loading.as_loaded(db, read).events[0].starts_at:%Y-%m}"
    assert client.get(f"/api/months/{month}/tags").json()["rows"]
    assert client.get("/api/openapi.json").status_code == 200
    for path in (
        "ahead",
        "busiest",
        f"groups/{GROUP}",
        f"groups/{GROUP}/events",
        f"members/{MEMBER}/home",
        "tags/dancing/events",
        "members/nashville:2/agenda",
        f"events/{KEY}/comments",
    ):
        assert client.get(f"/api/{path}").status_code == 200, path
