"""A client that openapi-python-client generates from the document: mypy accepts it, and it talks to the application."""

import importlib
import json
import subprocess
import sys

import pytest

from tests.unit.web.applications import TestClient
from tests.unit.web.posts import Tag, User, fastapi


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The folder of the generated package `posts_client`."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(fastapi().openapi()))
    (folder / "config.yml").write_text("post_hooks: []\n")  # no formatter: it is not to be looked at
    ran = subprocess.run(
        [
            sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json",
            "--config", "config.yml", "--meta", "none", "--output-path", "posts_client",
        ],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, "Generating posts_client", "")  # and no warning
    return folder


def test_mypy_accepts_it(generated):
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=cache", "posts_client"],
        cwd=generated, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout


def test_it_talks_to_the_application(generated, monkeypatch):
    monkeypatch.syspath_prepend(str(generated))
    api = "posts_client.api.default"
    client = importlib.import_module("posts_client.client").Client(base_url="http://testserver")
    models = importlib.import_module("posts_client.models")

    def ask(operation, **arguments):
        return importlib.import_module(f"{api}.{operation}").sync(client=client, **arguments)

    with TestClient(fastapi()) as server:
        client.set_httpx_client(server)
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
