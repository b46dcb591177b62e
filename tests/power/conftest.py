"""What the tests of this folder share: the shim, and the process that opens what power failures leave."""

from contextlib import closing

import pytest

from tests.power.failures import Opener
from tests.power.recording import build


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    return build(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def world(tmp_path):
    """The folder that the shim watches; the store is a folder in it."""
    folder = tmp_path / "world"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def opener():
    with closing(Opener()) as one:
        yield one
