"""The shim, built once for all tests of this folder."""

import pytest

from tests.power.recording import build


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    return build(tmp_path_factory.mktemp("shim"))
