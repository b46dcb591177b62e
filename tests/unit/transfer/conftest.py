import pytest

from tests.stores import KINDS, forget, make_url


@pytest.fixture(params=KINDS)
def target(request, tmp_path):
    """The address of a store of each kind that something is loaded into."""
    made = make_url(request.param, tmp_path)
    yield made
    forget(made)
