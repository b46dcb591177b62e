import pytest

from tests.unit.counters.handles import SCHEMA
from tests.unit.database.faces import FACES


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self):
        self.now = 1_700_000_000_000

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def asked():
    return []


@pytest.fixture(params=FACES.values(), ids=FACES)
def face(request, url, clock, asked):
    def observe(made, answer):
        count = answer if isinstance(answer, list) else getattr(made, "rows", ())
        asked.append(f"{type(made).__name__} {len(count)}")

    opened = request.param(url, SCHEMA, workers=0, clock=clock, observers=(observe,))
    yield opened
    opened.close()
