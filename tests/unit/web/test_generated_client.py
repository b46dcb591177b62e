"""Clients that openapi-python-client generates from documents: mypy accepts them, and they talk to the application."""

import importlib
import json
import subprocess
import sys

import pytest

from tests.unit.web import questions
from tests.unit.web.applications import TestClient
from tests.unit.web.posts import Tag, User, fastapi

APPLICATIONS = {"posts_client": fastapi, "questions_client": questions.fastapi}
PROGRAM = '''
"""What a user writes with the generated client; mypy knows that no variant is forgotten."""

from typing import assert_never

from questions_client.models import (
    AnswerOutput, AuthorInput, PlainPostOutput, PlainQuestionInput, PlainQuestionOutput, PollOutput, PostPage,
)

asked = PlainQuestionInput(number=1, author=AuthorInput(ref=1), title="t")


def title(post: PlainPostOutput | PlainQuestionOutput | PollOutput | AnswerOutput) -> str:
    if isinstance(post, (PlainQuestionOutput, PollOutput)):
        return post.title
    if isinstance(post, AnswerOutput):
        return f"answer to {post.question}"
    if isinstance(post, PlainPostOutput):
        return post.text
    assert_never(post)


def titles(page: PostPage) -> list[str]:
    return [title(row) for row in page.rows]
'''


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The folder of the generated packages, and of a program that uses one."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "config.yml").write_text("post_hooks: []\n")  # no formatter: it is not to be looked at
    (folder / "program.py").write_text(PROGRAM)
    for package, application in APPLICATIONS.items():
        (folder / "openapi.json").write_text(json.dumps(application().openapi()))
        ran = subprocess.run(
            [
                sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json",
                "--config", "config.yml", "--meta", "none", "--output-path", package,
            ],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, f"Generating {package}", "")  # and no warning
    return folder


def test_mypy_accepts_them(generated):
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=cache", *APPLICATIONS, "program.py"],
        cwd=generated, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout


class Asking:
    """The synchronous operations of a generated client, by name."""

    def __init__(self, package, server):
        self._operations = f"{package}.api.default"
        self._client = importlib.import_module(f"{package}.client").Client(base_url="http://testserver")
        self._client.set_httpx_client(server)

    def __call__(self, operation, **arguments):
        module = importlib.import_module(f"{self._operations}.{operation}")
        return module.sync(client=self._client, **arguments)


def test_it_talks_to_the_application(generated, monkeypatch):
    monkeypatch.syspath_prepend(str(generated))
    models = importlib.import_module("posts_client.models")
    with TestClient(fastapi()) as server:
        ask = Asking("posts_client", server)
        server.portal.call(server.app_state["db"].save, Tag(name="a"))
        server.portal.call(server.app_state["db"].save, User(number=1, name="Ada"))
        made = ask("create_posts_post", body=models.NewPost(title="t", topic="a", tags=["a"]))
        assert isinstance(made, models.Post)
        assert (made.author.ref, made.author.name, made.tags, made.mood.value) == (1, "Ada", ["a"], "glad")
        again = ask("edit_posts_key_patch", key=made.id, body=models.EditedPost(title="u"))
        assert (again.title, again.topic) == ("u", "a")
        page = ask("posts_posts_get", limit=1)
        assert [row.title for row in page.rows] == ["u"]
        refused = ask("create_posts_post", body=models.NewPost(title="t", topic="nowhere"))
        assert isinstance(refused, models.Problem)
        assert [(each.loc, each.msg) for each in refused.errors] == [
            (["body", "topic"], "this refers to an entity that does not exist")
        ]
        missing = ask("user_users_number_get", number=9)
        assert (missing.status, missing.title) == (404, "Not found")


def test_it_reads_and_makes_variants(generated, monkeypatch):
    monkeypatch.syspath_prepend(str(generated))
    models, program = (importlib.import_module(each) for each in ("questions_client.models", "program"))
    with TestClient(questions.fastapi()) as server:
        server.portal.call(server.app_state["db"].save, questions.User(number=1, name="Ada"))
        ask = Asking("questions_client", server)
        made = ask("put_posts_put", body=program.asked)
        assert isinstance(made, models.PlainQuestionOutput)
        assert (made.type_, made.title, made.author.name) == ("Question", "t", "Ada")
        answer = models.AnswerCreate(number=2, author=models.AuthorInput(ref=1), question=1)
        assert isinstance(ask("create_posts_post", body=answer), models.AnswerOutput)
        mine = ask("create_mine_mine_post", body=models.NewPostPoll(number=3, title="p", choices=5))
        assert isinstance(mine, models.PublicPostPoll)
        assert (mine.type_, mine.choices) == ("vote", 5)
        said = models.PlainPostInput(number=4, author=models.AuthorInput(ref=1), text="x")
        assert isinstance(ask("put_posts_put", body=said), models.PlainPostOutput)
        assert program.titles(ask("posts_posts_get")) == ["t", "answer to 1", "p", "x"]
        edited = ask("edit_posts_number_patch", number=3, body=models.PlainPostPatch(text="any"))
        assert isinstance(edited, models.PollOutput)
        assert edited.text == "any"
        edited = ask("edit_posts_number_patch", number=3, body=models.PollPatch(choices=6))
        assert edited.choices == 6
        missing = ask("edit_posts_number_patch", number=3, body=models.AnswerPatch(text="y"))
        assert (missing.status, missing.title) == (404, "Not found")
        alone = ask("put_answer_answers_put", body=models.AnswerInput(number=5, author=said.author, question=1))
        assert isinstance(alone, models.AnswerOutput)
        refused = ask("put_posts_put", body=models.AnswerInput(number=6, author=said.author, question=9))
        assert [each.loc for each in refused.errors] == [["body", "question"]]
