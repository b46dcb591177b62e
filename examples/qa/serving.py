"""What `python -m examples.qa serve` does: the site behind uvicorn, in this process."""

from __future__ import annotations

from argparse import Namespace

import uvicorn

from examples.qa import stores
from examples.qa.site import application


def serve(given: Namespace) -> int:
    """Serves until it is interrupted; the store must have been loaded."""
    stores.for_reading(given.db).close()
    print(f"serving {given.db} at http://{given.host}:{given.port}/", flush=True)
    uvicorn.run(application(given.db), host=given.host, port=given.port, log_level="warning")
    return 0
