"""The Bigtable engine. See "The store contract" of the architecture page."""

import os

# gRPC reads this when it is imported: without it a child of a fork cannot open connections of its own.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "1")

from oneread.engines.bigtable.engine import BigtableEngine
from oneread.engines.bigtable.options import BigtableOptions, options_from_url
from oneread.engines.bigtable.servers import Server, emulated, google

__all__ = ["BigtableEngine", "BigtableOptions", "Server", "emulated", "google", "options_from_url"]
