"""The LMDB engine. See docs/formats/lmdb.md and "The store contract" of the architecture page."""

from oneread.engines.lmdb.engine import LmdbEngine
from oneread.engines.lmdb.options import options_from_url

__all__ = ["LmdbEngine", "options_from_url"]
