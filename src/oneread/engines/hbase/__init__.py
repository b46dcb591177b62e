"""The HBase engine. See docs/how-to/run-on-hbase.md and "The store contract" of the architecture page."""

from oneread.engines.hbase.engine import HbaseEngine
from oneread.engines.hbase.options import HbaseOptions, options_from_url

__all__ = ["HbaseEngine", "HbaseOptions", "options_from_url"]
