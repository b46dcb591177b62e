"""The site's JSON API: what it answers and costs, what it writes, and a client that is generated from its document."""

import importlib
import json
import subprocess
import sys
import warnings

import pytest
from openapi_spec_validator import validate

from examples.qa.api import api
from examples.qa.recount import recount
from examples.qa.schema import SITE
from examples.qa.site import application
from oneread import connect

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette would rather have a client that is not released widely yet
    from starlette.testclient import TestClient

LISTS = [
    "/questions",
    "/unanswered",
    "/users",
    "/questions/10/answers",
    "/questions/10/comments",
    "/users/1/questions",
    "/months/2018-05/tags",
]


@pytest.fixture
def client(site):
    with TestClient(application(site[0])) as opened:
        opened.base_url = "http://testserver/api"
        yield opened


@pytest.fixture
def changing(site_copy):
    """A client of a store that may be changed; afterwards every view of it must be right."""
    with TestClient(application(site_copy)) as opened:
        opened.base_url = "http://testserver/api"
        yield opened
    with connect(site_copy, SITE, workers=0) as db:
        db.drain()
        assert db.verify().clean


@pytest.fixture(scope="module")
def expected(site):
    return recount(site[1])


@pytest.mark.parametrize("path", LISTS)
def test_every_list_is_one_range_read_with_links(client, path):
    answer = client.get(path, params={"limit": 1})
    assert answer.headers["X-Oneread-Cost"].startswith("requests=1, rows=")
    body = answer.json()
    assert set(body) >= {"rows", "next", "previous"}
    assert (body["next"] is not None) == ('rel="next"' in answer.headers.get("Link", ""))


def test_links_lead_through_a_list(client, expected):
    walked, path = [], "/questions?limit=15"
    while path:
        answer = client.get(path)
        walked += [row["source"] for row in answer.json()["rows"]]
        path = answer.links.get("next", {}).get("url", "").removeprefix("/api")
    assert walked == expected.by_score


def test_months_list_how_often_tags_were_used(client, expected):
    for month, words in expected.tags_of_month.items():
        rows = client.get(f"/months/{month:%Y-%m}/tags?limit=100").json()["rows"]
        found = [(row["tag"], row["questions"]) for row in rows]
        assert found == [(word, expected.tag_months[month, word]) for word in words]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
def test_what_pages_of_other_sites_can_send_is_not_taken_for_json(changing, kind):
    body, headers = b'{"number": 900000, "post": 10, "kind": "up"}', {} if kind is None else {"Content-Type": kind}
    score = changing.get("/questions/10").json()["score"]
    assert changing.post("/votes", content=body, headers=headers).status_code == 422
    assert changing.get("/questions/10").json()["score"] == score


def test_a_question_has_a_tag_that_follows_its_totals(changing):
    first = changing.get("/questions/10")
    assert changing.get("/questions/10", headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    voted = changing.post("/votes", json={"number": 900_000, "post": 10, "kind": "up"})
    assert (voted.status_code, voted.json()["value"]) == (201, 1)
    again = changing.get("/questions/10", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.json()["score"]) == (200, first.json()["score"] + 1)
    own = {"If-Match": first.headers["ETag"]}  # a vote is no change of the question's own fields
    edited = changing.patch("/questions/10", json={"title": "Edited?"}, headers=own)
    assert (edited.status_code, edited.json()["title"]) == (200, "Edited?")
    assert changing.patch("/questions/10", json={"title": "Late?"}, headers=own).status_code == 412


def test_a_question_is_asked_answered_voted_for_and_deleted(changing):
    assert (
        changing.post("/users", json={"number": 900, "name": "Ada", "joined_at": "2024-05-01T00:00:00Z"}).status_code
        == 201
    )
    new = {"number": 5_000, "author": {"ref": 900}, "text": "<b>", "title": "What is new?", "tags": ["qubit"]}
    asked = changing.post("/questions", json=new)
    assert (asked.status_code, asked.json()["author"]["name"], asked.json()["answers"]) == (201, "Ada", 0)
    assert changing.get("/unanswered").json()["rows"][0]["source"] == 5_000
    new = {"number": 5_001, "author": {"ref": 900}, "text": "That.", "question": {"ref": 5_000}}
    assert changing.post("/answers", json=new).status_code == 201
    said = changing.post("/comments", json={"number": 90_000, "post": 5_001, "author": {"ref": 900}, "text": "Ah."})
    assert (said.status_code, said.json()["thread"]) == (201, 5_000)
    assert changing.post("/votes", json={"number": 900_001, "post": 5_001, "kind": "up"}).status_code == 201
    assert changing.get("/users/900").json()["reputation"] == 1
    assert changing.get("/questions/5000").json()["answers"] == 1
    assert changing.patch("/users/900", json={"name": "Ada L."}).status_code == 200
    assert changing.get("/questions/5000/answers").json()["rows"][0]["author"]["name"] == "Ada L."
    assert changing.delete("/posts/5000").status_code == 204
    changing.portal.call(changing.app_state["db"].drain)
    assert changing.get("/questions/5000").status_code == 404
    assert changing.get("/users/900").json()["reputation"] == 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "loc"),
    [
        ("GET", "/questions/999999", None, 404, None),
        ("GET", "/questions/x", None, 422, ["path", "number"]),
        ("GET", "/questions?limit=0", None, 400, ["query", "limit"]),
        ("GET", "/months/May/tags", None, 422, None),
        ("POST", "/votes", {"number": 1, "post": 10, "kind": "up"}, 409, None),
        ("POST", "/votes", {"number": 900_000, "post": 10, "kind": "bribe"}, 422, ["body", "kind"]),
        ("POST", "/votes", {"number": 900_000, "post": 999_999, "kind": "up"}, 422, ["body", "post"]),
        ("POST", "/comments", {"number": 1, "post": 10, "author": None, "text": ""}, 422, ["body", "text"]),
        ("POST", "/comments", {"number": 90_000, "post": 999_999, "author": None, "text": "x"}, 422, ["body", "post"]),
        ("POST", "/comments", {"number": 90_000, "post": 1, "author": None, "text": "x"}, 422, ["body", "thread"]),
        ("POST", "/comments", {"number": 90_000, "post": "x", "author": None, "text": "x"}, 422, ["body", "post"]),
        ("POST", "/comments", {"number": 90_000}, 422, ["body", "post"]),
        ("POST", "/questions", {"number": 1, "score": 7}, 422, ["body", "author"]),
        ("PATCH", "/questions/10", {"score": 7}, 422, ["body", "score"]),
    ],
)
def test_what_is_wrong_is_a_problem_that_says_where(client, method, path, body, status, loc):
    answer = client.request(method, path, json=body)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")
    problem = answer.json()
    assert problem["status"] == status
    if loc is not None:
        assert loc in [each["loc"] for each in problem["errors"]]


def test_the_document_is_valid_and_names_its_components():
    document = api.openapi()
    validate(document)
    components = document["components"]["schemas"]
    assert {"Question", "QuestionsByScore", "NewVote", "EditedQuestion", "Problem", "Author-Output"} <= set(components)
    assert components["Question"]["properties"]["tags"]["maxItems"] == 5
    assert "score" not in components["NewQuestion"]["properties"]


# --- A generated client ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The folder of the generated package `qa_client`."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(api.openapi()))
    (folder / "config.yml").write_text("post_hooks: []\n")  # no formatter: it is not to be looked at
    ran = subprocess.run(
        [
            sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json",
            "--config", "config.yml", "--meta", "none", "--output-path", "qa_client",
        ],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, "Generating qa_client", "")  # and no warning
    return folder


def test_mypy_accepts_the_generated_client(generated):
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=cache", "qa_client"],
        cwd=generated, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout


def test_the_generated_client_talks_to_the_site(generated, changing, expected, monkeypatch):
    monkeypatch.syspath_prepend(str(generated))
    client = importlib.import_module("qa_client.client").Client(base_url="http://testserver/api")
    client.set_httpx_client(changing)
    models = importlib.import_module("qa_client.models")

    def ask(operation, **arguments):
        return importlib.import_module(f"qa_client.api.default.{operation}").sync(client=client, **arguments)

    page = ask("questions_by_score", limit=5)
    assert [row.source for row in page.rows] == expected.by_score[:5]
    more = ask("questions_by_score", limit=5, cursor=page.next_)
    assert [row.source for row in more.rows] == expected.by_score[5:10]
    best = ask("question", number=expected.by_score[0])
    assert isinstance(best, models.Question)
    assert (best.score, best.answers) == (expected.scores[best.number], expected.answers[best.number])
    vote = ask("vote", body=models.NewVote(number=900_000, post=best.number, kind=models.Kind.UP))
    assert (vote.value, ask("question", number=best.number).score) == (1, best.score + 1)
    edited = ask("edit_question", number=best.number, body=models.EditedQuestion(title="Edited?"))
    assert (edited.title, edited.tags) == ("Edited?", best.tags)
    comment = ask("comment", body=models.NewComment(number=90_000, post=best.number, author=None, text="Ah."))
    assert (comment.thread, comment.author) == (best.number, None)
    refused = ask("vote", body=models.NewVote(number=900_001, post=999_999, kind=models.Kind.UP))
    assert isinstance(refused, models.Problem)
    assert [each.loc for each in refused.errors] == [["body", "post"]]
    assert ask("user", number=999_999).status == 404
    assert ask("delete_post", number=best.number) is None
    changing.portal.call(changing.app_state["db"].drain)
    assert ask("question", number=best.number).status == 404
