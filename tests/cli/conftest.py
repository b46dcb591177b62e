"""A filled store, and the command line run in this process or as a process of its own."""

import os
import subprocess
import sys
from typing import Any, NamedTuple

import msgspec
import pytest
from typer.testing import CliRunner

from oneread.cli.program import app
from tests.cli import notes

SCHEMA = "tests.cli.notes:NOTES"


class Failure(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    message: str
    facts: dict[str, Any]
    retryable: bool
    hint: str
    cursor: str


class Failed(msgspec.Struct, forbid_unknown_fields=True):
    error: Failure


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    def document(self, shape):
        """The one JSON document on stdout."""
        assert self.out.count("\n") == 1, self.out
        return msgspec.json.decode(self.out, type=shape, strict=True)

    def failure(self):
        return self.document(Failed).error


@pytest.fixture(autouse=True)
def nothing_from_outside(monkeypatch):
    for name in ("ONEREAD_SCHEMA", "ONEREAD_DB"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def bare():
    """Runs a command line as it is given; whatever escapes is an error of the test."""

    def run(*arguments, **options) -> Ran:
        result = CliRunner().invoke(
            app, [str(each) for each in arguments], prog_name="oneread", catch_exceptions=False, **options
        )
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def url(kind_of_store, url, tmp_path):
    """The URL of a store that `notes.fill` filled."""
    if kind_of_store == "lmdb":
        url = f"lmdb://{tmp_path}/notes"
    notes.fill(url)
    return url


@pytest.fixture
def oneread(bare, url):
    """Runs a command on the filled store."""
    return lambda *arguments, **options: bare(arguments[0], "--schema", SCHEMA, "--db", url, *arguments[1:], **options)


@pytest.fixture
def process(url):
    """Starts a command on the filled store as a process of its own."""
    started = []

    def start(*arguments, **options):
        command = [sys.executable, "-m", "oneread", arguments[0], "--schema", SCHEMA, "--db", url, *arguments[1:]]
        environment = os.environ | options.pop("env", {})
        running = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options
        )
        started.append(running)
        return running

    yield start
    for running in started:
        if running.poll() is None:
            running.kill()
        running.communicate()
