"""The console: see a store in a browser. See docs/reference/console.md."""

from oneread.console.access import TokenAccess, proxy_user
from oneread.console.application import console

__all__ = ["TokenAccess", "console", "proxy_user"]
