"""What `python -m examples.events serve` does."""

from __future__ import annotations

from argparse import Namespace

from examples import serving
from examples.events import stores
from examples.events.site import application


def serve(given: Namespace) -> int:
    """Serves until it is interrupted; the store must have been loaded."""
    stores.for_reading(given.db).close()
    return serving.serve(given, application)
