"""The console: see a store in a browser. See docs/reference/console.md."""

try:
    from oneread.console.application import console
except ModuleNotFoundError as error:
    error.add_note("install what oneread.console needs: pip install 'oneread[console]'")
    raise
from oneread.console.access import TokenAccess, proxy_user

__all__ = ["TokenAccess", "console", "proxy_user"]
