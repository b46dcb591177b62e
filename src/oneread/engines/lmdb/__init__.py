"""The LMDB engine in its rooms: engine, environment, writer, turn, transaction, row format, options, errors.

Knows rows, requests and LMDB. Must not know models or plans. The law is docs/formats/lmdb.md and "The store contract"
of the architecture page.
"""

from oneread.engines.lmdb.engine import LmdbEngine
from oneread.engines.lmdb.options import options_from_url

__all__ = ["LmdbEngine", "options_from_url"]
