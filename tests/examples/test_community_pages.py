"""The pages of the community: what they show, what they cost, what their forms do, and what is said of mistakes."""

import re
import warnings
from html import unescape
from urllib.parse import quote

import pytest

from examples.community import joining, source
from examples.community.joining import JOINED
from examples.community.schema import COMMUNITY, GroupsBySize, Member, Participation, TopThreads
from examples.community.site import application
from oneread import connect
from tests.examples.browsing import Tags
from tests.examples.conftest import COMMUNITY as DATA

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette would rather have a client that is not released widely yet
    from starlette.testclient import TestClient

GROUP, MEMBER, WRITER = "nashville:1", "nashville:1", "lean:1"
LISTS = ["/", "/threads", "/members"]


@pytest.fixture(scope="module")
def read():
    return source.read(DATA)


@pytest.fixture(scope="module")
def homes(read):
    return {home.member: home.entries for home in joining.homes(read)}


@pytest.fixture
def client(community_copy):
    with TestClient(application(community_copy), follow_redirects=False) as opened:
        yield opened


def rows(html):
    """The texts of a list's rows, without those around."""
    listed = html.partition('<ol class="comments"')[2].partition(">")[2].partition("</ol>")[0]
    return [" ".join("".join(Tags(f"<li {each}").texts).split()) for each in listed.split("<li ")[1:]]


def at(kind, key, rest=""):
    return f"/{kind}/{quote(str(key), safe='')}{rest}"


def unread(client, member):
    found = re.search(r'id="unread"[^>]*>([^<]*)<', client.get(at("members", member)).text)
    return found[1]


# --- What they show --------------------------------------------------------------------------------------------------


def test_a_home_page_shows_what_all_groups_of_a_member_have_published(client, homes):
    member = max(homes, key=lambda each: len({entry[2] for entry in homes[each]}))
    expected = homes[member]
    assert len({entry[2] for entry in expected}) > 2
    shown = rows(client.get(at("members", member, "?limit=100")).text)
    assert len(shown) == min(len(expected), 100) > 20
    for text, (_at, _key, group, title, by) in zip(shown, expected, strict=False):
        assert text.startswith(title if by is None else f"{by} {title}")
        assert group in text


def test_notifications_show_the_threads_in_which_a_member_has_written(client, read):
    expected = next(each.lines for each in joining.notifications(read) if each.member == WRITER)
    shown = rows(client.get(at("members", WRITER, "/notifications?limit=100")).text)
    for text, (_at, _thread, stream, title) in zip(shown, expected, strict=True):
        assert text.startswith(f"{title} {stream}, the last message ")


def test_a_line_says_how_many_joined_a_group_in_a_day(client, read):
    names = {group.key: group.name for group in read.meetups.groups}
    member, expected = max(joining.joins(read), key=lambda each: len(each.joins))
    assert len(expected) > 20
    shown = rows(client.get(at("members", member, "/joins?limit=100")).text)
    assert len(shown) == min(len(expected), 100)
    for text, (_last, group, people, actors) in zip(shown, expected, strict=False):
        joined = f"{people} {'person' if people == 1 else 'people'} joined {names[group]} {', '.join(actors)}, "
        assert text.startswith(joined + ("and others, " if people > 3 else ""))
    assert any(people > 1 for _last, _group, people, _actors in expected)


def test_pages_of_a_feed_lead_to_the_next_and_back(client, homes):
    path, texts = at("members", MEMBER, "?limit=7"), []
    while path:
        html = client.get(path).text
        texts += rows(html)
        found = re.search(r'<link rel="next" href="([^"]*)"', html)
        path = found and unescape(found[1])
    assert len(texts) == len(homes[MEMBER])
    previous = unescape(re.search(r'<link rel="prev" href="([^"]*)"', html)[1])
    assert rows(client.get(previous).text) == texts[-len(rows(html)) - 7 : -len(rows(html))]


def test_only_the_newest_page_is_live(client):
    html = client.get(at("members", MEMBER, "?limit=7")).text
    assert "data-live=" in html
    following = unescape(re.search(r'<link rel="next" href="([^"]*)"', html)[1])
    assert "data-live=" not in client.get(following).text


def test_a_group_and_a_thread_show_their_numbers(client, community_copy):
    with connect(community_copy, COMMUNITY) as db:
        group, thread = db.page(GroupsBySize, limit=1)[0], db.page(TopThreads, limit=1)[0]
    html = client.get(at("groups", group.source.key[0], "?limit=100")).text
    assert f"{group.members} members, {group.activities} activities" in html
    assert len(rows(html)) == min(group.activities, 100)
    html = client.get(at("threads", thread.source.key[0], "?limit=100")).text
    assert f"{thread.messages} messages" in html
    assert re.fullmatch(r"\d+ characters?#1 by lean:\d+, \d+ March 2018", rows(html)[0])


def test_every_list_is_one_range_read(client):
    for path in LISTS:
        assert client.get(path).headers["X-Oneread-Cost"].startswith("requests=1, rows=")


def test_pages_are_well_formed_and_what_people_wrote_is_text(client):
    paths = [*LISTS, at("groups", GROUP), "/threads/1", at("members", MEMBER), at("members", WRITER, "/notifications")]
    for path in [*paths, at("members", MEMBER, "/joins"), at("members", MEMBER, "/groups"), "/nowhere"]:
        html = client.get(path).text
        tags = Tags(html)
        assert {"p", "html"} >= {*tags.open}, path  # a paragraph may stay open
        assert tags.names.count("h1") == tags.names.count("main") == tags.names.count("title") == 1
        assert "<b>Bold" not in html
    assert "&lt;b&gt;Bold&lt;/b&gt;" in client.get(at("members", MEMBER, "?limit=100")).text


# --- What is done by forms -------------------------------------------------------------------------------------------


def test_an_event_is_in_the_home_page_of_each_member_and_of_no_one_else(client, homes, read):
    title = "A <i>new</i> walk"
    sent = client.post(at("groups", GROUP, "/events"), data={"member": MEMBER, "title": title})
    assert (sent.status_code, sent.headers["location"]) == (303, at("groups", GROUP))
    joined = {each.member for each in read.meetups.memberships if each.group == GROUP}
    assert len(joined) > 10
    for member in (*sorted(joined)[:5], *sorted({*homes} - joined)[:5]):
        found = [each for each in rows(client.get(at("members", member)).text) if title in each]
        assert len(found) == (member in joined), member


def test_who_joins_a_group_sees_at_once_what_it_has_published(client, homes, read):
    member = next(each for each in homes if not homes[each] and each.startswith("lean:"))
    sent = client.post(at("groups", GROUP, "/members"), data={"member": member})
    assert (sent.status_code, sent.headers["location"]) == (303, at("members", member))
    shown = rows(client.get(at("members", member, "?limit=100")).text)
    assert shown[0].startswith(f"{member} {JOINED}")
    assert len(shown) == 1 + sum(each.group == GROUP for each in read.meetups.events)
    assert client.post(at("groups", GROUP, "/members"), data={"member": member}).status_code == 409


def test_a_message_is_news_for_all_who_have_written_in_the_thread_and_its_writer_is_one_of_them(client, community_copy):
    with connect(community_copy, COMMUNITY) as db:
        before = {each.person for each in db.page(Participation, 1, limit=1_000)}
        newcomer = next(each.member for page in db.scan(Member) for each in page if each.member not in before)
    for member in (WRITER, newcomer):
        client.post(at("members", member, "/seen"))
        assert unread(client, member) == "0"
    sent = client.post("/threads/1/messages", data={"member": newcomer, "text": "Hello <all>"})
    assert (sent.status_code, sent.headers["location"]) == (303, "/threads/1")
    for member in (WRITER, newcomer):
        shown = rows(client.get(at("members", member, "/notifications")).text)
        assert "topic <1>" in shown[0]
        assert unread(client, member) == "1"
    client.post("/threads/1/messages", data={"member": newcomer, "text": "and again"})
    assert unread(client, WRITER) == "1"  # one thread has news
    client.post("/threads/2/messages", data={"member": WRITER, "text": "and here"})
    assert unread(client, WRITER) == "2"
    seen = client.post(at("members", WRITER, "/seen"))
    assert (seen.status_code, seen.headers["location"]) == (303, at("members", WRITER, "/notifications"))
    assert (unread(client, WRITER), unread(client, newcomer)) == ("0", "1")


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        (at("groups", "nowhere", "/events"), {"member": MEMBER, "title": "x"}, 422),
        (at("groups", GROUP, "/events"), {"member": "nobody:1", "title": "x"}, 422),
        (at("groups", GROUP, "/events"), {"member": MEMBER}, 422),
        (at("groups", GROUP, "/events"), {"member": MEMBER, "title": "x" * 301}, 422),
        (at("groups", GROUP, "/events"), {"member": MEMBER, "title": "x" * 30_000}, 422),
        (at("groups", GROUP, "/events"), {"member": f"a{chr(0)}b", "title": "x"}, 422),
        (at("groups", GROUP, "/members"), {"member": "x" * 10_000}, 422),
        ("/threads/99999/messages", {"member": WRITER, "text": "x"}, 404),
        ("/threads/x/messages", {"member": WRITER, "text": "x"}, 422),
        ("/threads/1/messages", {"member": WRITER, "text": " "}, 422),
        ("/threads/1/messages", {"member": "nobody:1", "text": "x"}, 422),
        (at("members", "nobody:1", "/seen"), {}, 404),
    ],
)
def test_a_form_that_cannot_be_right_is_answered_in_words_and_writes_nothing(
    client, community_copy, path, fields, status
):
    with connect(community_copy, COMMUNITY) as db:
        before = db.verify()
        answer = client.post(path, data=fields)
        after = db.verify()
    assert (answer.status_code, "<h1>" in answer.text) == (status, True), answer.text
    assert (after.entities, after.rows) == (before.entities, before.rows)


FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JOIN = at("groups", GROUP, "/members")


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", FORM, 422),
        (b"&", FORM, 422),
        (b"member=", FORM, 422),
        (b"member=lean%3A1&text=t", FORM, 422),
        (b"member=lean%3A1&", FORM, 422),
        (b"member=lean%3A1&text=", FORM, 422),
        (b"member=lean%3A1&member=lean%3A1", FORM, 422),
        (b"other=lean%3A1", FORM, 422),
        (b"member", FORM, 422),
        (b"&".join(b"member=%d" % number for number in range(1_000)), FORM, 422),
        (b"member=" + b"x" * 1_000_000, FORM, 422),
        (b"member=%ff", FORM, 422),
        (b"member=\xff", FORM, 422),
        (b"member=%00", FORM, 422),
        (b"member=lean%3A1", {}, 415),
        (b"member=lean%3A1", {"Content-Type": "text/plain"}, 415),
        (b'{"member": "lean:1"}', {"Content-Type": "application/json"}, 415),
        (b"--x\r\n", {"Content-Type": "multipart/form-data; boundary=x"}, 415),
    ],
)
def test_what_any_visitor_can_send_in_place_of_a_form_is_answered_in_words(client, body, headers, status):
    answer = client.post(JOIN, content=body, headers=headers)
    assert (answer.status_code, "<h1>" in answer.text) == (status, True)
    assert "Something failed" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://testserver"},
        {"Origin": "http://other.example"},
        {"Origin": "http://other.example", "Referer": "http://testserver/"},
        {"Origin": "null"},
        {"Origin": "http://testserver:81"},
        {"Origin": "http://testserver.other.example"},
        {"Origin": "http://["},
        {"Referer": "http://other.example/?http://testserver/"},
        {"Referer": "http://testserver@other.example/"},
        {"Referer": "about:blank"},
        {"Origin": "null", "Host": ""},
    ],
)
@pytest.mark.parametrize("path", [JOIN, at("members", WRITER, "/seen")])
def test_a_form_of_another_site_is_refused(client, path, headers):
    answer = client.post(path, data={"member": WRITER}, headers=headers)
    assert (answer.status_code, "This form is of another site" in answer.text) == (403, True)


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://testserver"},
        {"Sec-Fetch-Site": "same-origin", "Host": "behind.a.proxy", "Origin": "https://testserver"},
        {"Origin": "http://testserver"},
        {"Origin": "http://TestServer"},
        {"Referer": "http://testserver/members?limit=1"},
        {},  # a program
    ],
)
def test_a_form_of_the_site_is_taken_whichever_headers_a_browser_sends(client, headers):
    assert client.post(at("members", WRITER, "/seen"), headers=headers).status_code == 303


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (at("members", "nobody:1"), 404),
        (at("members", "nobody:1", "/notifications"), 404),
        (at("members", "nobody:1", "/groups"), 404),
        (at("groups", "nowhere"), 404),
        ("/threads/99999", 404),
        ("/threads/x", 422),
        (at("members", MEMBER, "?cursor=x"), 400),
        (at("members", MEMBER, "?limit=1000"), 400),
    ],
)
def test_an_address_that_cannot_be_right_is_answered_in_words(client, path, status):
    answer = client.get(path)
    assert (answer.status_code, "<h1>" in answer.text) == (status, True)
