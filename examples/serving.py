"""What the commands `serve` of the examples share: an application behind uvicorn, in this process."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

GRACE = 3
"""Seconds that open streams have to end when the server stops."""


def serve(given: Namespace, application: Callable[[str], ASGIApp]) -> int:
    """Serves the application over the store until it is interrupted."""
    print(f"serving {given.db} at http://{given.host}:{given.port}/", flush=True)
    uvicorn.run(
        application(given.db),
        host=given.host,
        port=given.port,
        log_level="warning",
        timeout_graceful_shutdown=GRACE,
    )
    return 0
