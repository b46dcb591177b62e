"""What `python -m examples.shop serve` does: the API behind uvicorn, in this process.

Imported only by `serve`, because servers are not among what the demo needs.
"""

from __future__ import annotations

from argparse import Namespace

import uvicorn

from examples.shop import stores
from examples.shop.api import application


def serve(given: Namespace) -> None:
    """Serves until it is interrupted; the store must have been loaded."""
    stores.for_reading(given.db).close()
    uvicorn.run(application(given.db), host=given.host, port=given.port, log_level="warning")
