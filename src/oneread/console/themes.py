"""How pages look: as the system prefers, light, or dark; what differs from the system is kept in a cookie."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from oneread.costs.graph_svg import DARK_GRAPH, LIGHT_GRAPH

SYSTEM: Final = "system"
THEMES: Final = (SYSTEM, "light", "dark")
THEME: Final = "oneread-theme"
"""The name of the cookie."""
GRAPH_STYLE: Final = (
    f"{LIGHT_GRAPH}@media (prefers-color-scheme: dark) {{\n:root:not([data-theme=light]) {{\n{DARK_GRAPH}}}\n}}\n"
    f":root[data-theme=dark] {{\n{DARK_GRAPH}}}\n"
)
"""The rules of pictures within a page."""
_YEAR: Final = 365 * 24 * 3_600
_OF_THIS_HOST: Final = re.compile(r"/(?![/\\])[!-~]*").fullmatch
"""Browsers take `//` and `/\\` for the beginning of another host."""


def theme_of(request: Request) -> str:
    """How this browser is to show pages."""
    kept = request.cookies.get(THEME, "")
    return kept if kept in THEMES else SYSTEM


def keep_theme(request: Request, given: Mapping[str, str]) -> Response:
    """Keeps what a form has chosen, and leads back to its page."""
    theme, back = given.get("theme", ""), given.get("back", "")
    if theme not in THEMES or not _OF_THIS_HOST(back):
        raise HTTPException(400, "expected a theme, and a page of the console to lead back to")
    answer = RedirectResponse(back, 303, {"Cache-Control": "no-store"})
    secure, path = request.url.scheme == "https", request.scope.get("root_path") or "/"
    options: dict[str, Any] = {"path": path, "secure": secure, "httponly": True, "samesite": "strict"}
    if theme == SYSTEM:
        answer.delete_cookie(THEME, **options)
    else:
        answer.set_cookie(THEME, theme, _YEAR, **options)
    return answer
