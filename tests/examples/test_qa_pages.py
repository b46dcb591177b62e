"""The site's pages: what they show, what they cost, where they lead, and what is said where there is no page."""

import re
import warnings

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount

from examples.qa import pages
from examples.qa.recount import recount
from examples.qa.schema import SITE, User
from examples.qa.site import application
from oneread import connect
from oneread.errors import NotReady
from oneread.web import BudgetMiddleware
from tests.examples.browsing import Tags

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette would rather have a client that is not released widely yet
    from starlette.testclient import TestClient

LISTS = ["/", "/unanswered", "/users", "/tags/months/2018-05"]


@pytest.fixture
def client(site):
    with TestClient(application(site[0])) as opened:
        yield opened


@pytest.fixture
def expected(site):
    return recount(site[1])


def links(html, prefix):
    """The numbers of a list's links, once each, in order."""
    main = html.partition("<main")[2].partition("</main>")[0]
    return list(dict.fromkeys(int(each) for each in re.findall(rf'<h2><a href="{prefix}(-?\d+)"', main)))


# --- What they show --------------------------------------------------------------------------------------------------


def test_lists_show_what_the_data_say(client, expected):
    assert links(client.get("/?limit=100").text, "/questions/") == expected.by_score
    assert links(client.get("/unanswered?limit=100").text, "/questions/") == expected.unanswered
    users = client.get("/users?limit=100").text
    shown = re.findall(r'<th scope="row"><a href="/users/(-?\d+)">.*?</a></th><td class="number">([^<]*)<', users)
    top = [(number, expected.reputations[number]) for number in expected.top_users]
    assert [(int(number), int(points.replace("\N{MINUS SIGN}", "-"))) for number, points in shown] == top


def test_a_month_shows_its_tags_most_used_first(client, expected):
    for month, words in expected.tags_of_month.items():
        html = client.get(f"/tags/months/{month:%Y-%m}?limit=100").text
        rows = re.findall(r'<a href="/tags/([\w-]+)">[\w-]+</a></th><td class="number">(\d+)<', html)
        assert rows == [(word, str(expected.tag_months[month, word])) for word in words]
    latest = max(expected.tags_of_month)
    assert client.get("/tags").url.path == f"/tags/months/{latest:%Y-%m}"


def test_a_question_shows_its_answers_by_score_and_all_comments(client, site, expected):
    number = max(expected.answers, key=expected.answers.get)
    html = client.get(f"/questions/{number}").text
    answers = sorted(
        (each.number for each in site[1].answers if each.question == number),
        key=lambda each: (-expected.scores[each], each),
    )
    assert [int(each) for each in re.findall(r'id="answer-(\d+)"', html)] == answers
    assert f"<h2>{len(answers)} answers</h2>" in html
    thread = [each.number for each in site[1].comments if site[1].threads[each.post] == number]
    assert sorted(int(each) for each in re.findall(r'id="comment-(\d+)"', html)) == sorted(thread)
    assert len(thread) > 10
    own = html.partition("</article>")[0]
    asked = [each.number for each in site[1].comments if each.post == number]
    assert sorted(int(each) for each in re.findall(r'id="comment-(\d+)"', own)) == sorted(asked)


def test_comments_that_do_not_fit_are_a_link_away(client, expected, monkeypatch):
    number = max(expected.answers, key=expected.answers.get)
    assert "All comments" not in client.get(f"/questions/{number}").text
    monkeypatch.setattr(pages, "MOST", 5)
    assert f'<a href="/questions/{number}/comments">All comments</a>' in client.get(f"/questions/{number}").text
    first = client.get(f"/questions/{number}/comments").text
    assert first.count('id="comment-') == 5
    assert 'rel="next"' in first


def test_a_user_shows_their_best_posts(client, site, expected):
    number = expected.top_users[0]
    html = client.get(f"/users/{number}").text
    asked = [each for each in site[1].questions if each.author == number]
    answered = [each for each in site[1].answers if each.author == number]
    assert f"<b>{expected.reputations[number]}</b> points" in html
    assert re.search(rf"<h2>{len(asked)} questions?</h2>", html)
    assert re.search(rf"<h2>{len(answered)} answers?</h2>", html)
    for kind, posts in (("questions", asked), ("answers", answered)):
        rows = client.get(f"/users/{number}/{kind}?limit=100").text
        scores = [int(each.replace("\N{MINUS SIGN}", "-")) for each in re.findall(r'class="score"><b>([^<]*)<', rows)]
        assert scores == sorted((expected.scores[each.number] for each in posts), reverse=True)


def test_a_tag_shows_what_is_known_and_its_questions(client, site, expected):
    tag = next(each for each in site[1].tags if each.about is not None)
    html = client.get(f"/tags/{tag.word}?limit=100").text
    assert f"For questions about {tag.word}." in html
    assert len(links(html, "/questions/")) == expected.tags[tag.word] > 0


# --- What they cost --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", LISTS)
def test_every_list_is_one_range_read_and_says_so(client, path):
    answer = client.get(path)
    found = re.fullmatch(r"requests=1, rows=(\d+), bytes=\d+", answer.headers["X-Oneread-Cost"])
    rows = len(re.findall(r"<h2><a |<th scope=\"row\">", answer.text))
    assert rows <= int(found[1]) <= rows + 1
    assert f'<strong id="cost">1 request, {found[1]} rows</strong>' in answer.text


def test_other_pages_are_a_get_and_a_range_read_for_each_list(client, expected):
    costs = {
        f"/questions/{expected.by_score[0]}": 3,
        f"/questions/{expected.by_score[0]}/comments": 1,
        f"/users/{expected.top_users[0]}": 3,
        f"/users/{expected.top_users[0]}/answers": 1,
        f"/users/{expected.top_users[0]}/questions": 1,
        "/tags/qubit": 2,
    }
    for path, requests in costs.items():
        answer = client.get(path)
        assert answer.headers["X-Oneread-Cost"].startswith(f"requests={requests}, "), path
        assert f'<strong id="cost">{requests} request' in answer.text


# --- Where they lead -------------------------------------------------------------------------------------------------


def test_pages_are_walked_forth_and_back(client, expected):
    def way(html, rel):
        found = re.search(rf'<a rel="{rel}" href="([^"]+)"', html)
        return found and found[1].replace("&amp;", "&")

    path, walked, before = "/?limit=7", [], []
    while path:
        html = client.get(path).text
        walked.append(links(html, "/questions/"))
        before.append(way(html, "prev"))
        path = way(html, "next")
    assert [each for page in walked for each in page] == expected.by_score
    assert (before[0], len(walked)) == (None, 6)
    assert links(client.get(before[-1]).text, "/questions/") == walked[-2]


def test_every_link_leads_to_a_page(client):
    seen, waiting = set(), ["/", "/unanswered", "/users", "/tags"]
    while waiting:
        path = waiting.pop()
        if path in seen or path.startswith(("#", "/static/")):
            continue
        seen.add(path)
        answer = client.get(path)
        assert answer.status_code == 200, path
        if answer.headers["content-type"].startswith("text/html") and "months" not in path:
            found = Tags(answer.text).links
            waiting += [each.partition("#")[0] for each in found if not re.search(r"cursor=|/users/|comment", each)]
            assert all(each.startswith(("/", "#")) for each in found)
    assert len(seen) > 60


# --- Text that is hostile --------------------------------------------------------------------------------------------


def test_text_of_users_is_never_markup(client, site):
    hostile = [each for each in site[1].questions if re.search(r"<script|<img|</main>", each.title + each.text)]
    assert hostile
    for each in hostile:
        html = client.get(f"/questions/{each.number}").text
        tags = Tags(html)
        assert {"script", "img"}.isdisjoint(tags.names)
        assert [html.count(part) for part in ("</main>", "</body>", "</html>")] == [1, 1, 1]
        assert each.title in "".join(tags.texts)
        assert "49" not in each.title


def test_names_and_tags_are_never_markup(client, site_copy):
    name = "\"><script>x()</script>'{{ 7 * 7 }}"
    with connect(site_copy, SITE, workers=0) as db:
        db.patch(User, 1, name=name)
        db.drain()
    with TestClient(application(site_copy)) as changed:
        for path in ("/users", "/users/1", "/", "/unanswered"):
            tags = Tags(changed.get(path).text)
            assert "script" not in tags.names
            assert path.startswith("/users") <= (name in "".join(tags.texts))
    assert client.get("/tags/%3Cscript%3E").status_code == 404


@pytest.mark.parametrize("path", ["/", "/questions/x", "/nowhere"])
def test_a_browser_runs_no_script_whatever_a_page_has(client, path):
    headers = client.get(path).headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'")
    assert headers["X-Content-Type-Options"] == "nosniff"


# --- Where there is no page ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/questions/999999", 404, "There is no such page"),
        ("/users/999999", 404, "There is no such page"),
        ("/tags/nothing", 404, "There is no such page"),
        ("/tags/a%00b", 404, "There is no such page"),
        ("/nowhere", 404, "There is no such page"),
        ("/questions/1/nothing", 404, "There is no such page"),
        ("/questions/x", 422, "a number is a whole number"),
        ("/questions/--1", 422, "a number is a whole number"),
        ("/questions/99999999999999999999", 422, "a number is a whole number"),
        ("/questions/²", 422, "a number is a whole number"),
        ("/tags/months/2018-13", 422, "a month is written like 2018-05"),
        ("/tags/months/2018-5", 422, "a month is written like 2018-05"),
        ("/tags/months/0000-01", 422, "a month is written like 2018-05"),
        ("/?cursor=x", 400, "This address cannot be right"),
        ("/?limit=x", 400, "This address cannot be right"),
        ("/?limit=101", 400, "the limit is larger than this list allows"),
        ("/?page=2", 400, "unknown parameter"),
        ("/tags/months/2018-05?page=2", 400, "unknown parameter"),
    ],
)
def test_an_address_without_a_page_is_answered_in_words(client, path, status, said):
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert said in answer.text
    assert '<a href="/">All questions</a>' in answer.text


@pytest.mark.parametrize("path", ["/tags/months/0001-01", "/tags/months/9999-12"])
def test_the_first_and_the_last_month_have_a_page(client, path):
    assert "No question was asked in this month" in client.get(path).text


def test_pages_can_only_be_read(client):
    answer = client.post("/users")
    assert (answer.status_code, "Pages can only be read" in answer.text) == (405, True)
    assert client.head("/users").status_code == 200


def test_an_empty_site_has_pages(tmp_path):
    with TestClient(application(f"lmdb://{tmp_path}/qa")) as empty:
        for path in ("/", "/unanswered", "/users"):
            assert empty.get(path).status_code == 200
        assert empty.get("/tags").status_code == 404


def failing(site, error):
    """The site with a route that fails."""

    async def broken(_request):
        raise error

    route = pages.PAGES.page("/broken", "users.html", broken)
    whole = application(site[0])
    whole.router.routes.insert(0, route)
    return TestClient(whole, raise_server_exceptions=False)


def test_a_list_that_is_being_built_is_answered_503_in_words(site):
    with failing(site, NotReady("this view is being built")) as client:
        answer = client.get("/broken")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "This page is not ready yet" in answer.text


def test_a_page_beyond_its_budget_is_answered_503_in_words(site):
    bounded = Middleware(BudgetMiddleware, requests=0)
    app = Starlette(
        routes=[Mount("/", application(site[0]))],
        middleware=[bounded],
        lifespan=application(site[0]).router.lifespan_context,
    )
    with TestClient(app, raise_server_exceptions=False) as client:
        answer = client.get("/users")
    assert (answer.status_code, "This page is not ready yet" in answer.text) == (503, True)


def test_an_error_of_the_program_is_answered_500_in_words_and_logged(site, caplog):
    with failing(site, ZeroDivisionError("secret")) as client:
        answer = client.get("/broken")
    assert (answer.status_code, "Something failed here" in answer.text) == (500, True)
    assert "secret" not in answer.text
    assert "ZeroDivisionError" in caplog.text


def test_pages_are_well_formed_and_say_their_language(client, expected):
    for path in [
        *LISTS,
        f"/questions/{expected.by_score[0]}",
        f"/users/{expected.top_users[0]}",
        "/tags/qubit",
        "/nowhere",
    ]:
        html = client.get(path).text
        tags = Tags(html)
        assert {"p", "html"} >= {*tags.open}, path  # a paragraph may stay open
        assert '<html lang="en">' in html
        assert tags.names.count("h1") == tags.names.count("main") == tags.names.count("title") == 1
        assert '<a class="skip" href="#main">' in html
