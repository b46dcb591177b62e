"""What `python -m examples.community serve` does."""

from __future__ import annotations

from argparse import Namespace

from examples import serving
from examples.community import stores
from examples.community.counting import Clock
from examples.community.site import application


def serve(given: Namespace) -> int:
    """Serves until it is interrupted; the store must have been loaded."""
    stores.for_reading(given.db, Clock()).close()
    return serving.serve(given, application)
