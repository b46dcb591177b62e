"""What the sites of the examples share: pages of HTML that are made here, say what they cost, and errors in words.

What someone wrote is text in them: Jinja escapes every value, and nothing is marked as safe.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from oneread import Page
from oneread.costs.budgets import budget
from oneread.errors import InvalidKey, OnereadError
from oneread.web import BudgetMiddleware, problem

HERE = Path(__file__).parent
ROWS, FEW, MOST = 20, 10, 100
"""Rows of a list, of a list that is a part of a page, and those that an address may ask for."""
WORDS = {
    400: ("This address cannot be right", "Follow a link from one of the lists above."),
    404: ("There is no such page", "It may have been deleted, or the address has a slip in it."),
    405: ("Pages can only be read", "Programs write through the JSON API under /api."),
    422: ("This address cannot be right", "Numbers in addresses are whole numbers, and months look like 2018-05."),
    503: ("This page is not ready yet", "It will be in a moment: please try again."),
}
"""What a person is stated, by status."""
FAILED = ("Something failed here", "It is not your fault, and it has been written down.")

Context = dict[str, object]
Read = Callable[[Request], Awaitable[Context]]


class Site:
    """The pages of one example, made of its templates and the shared ones.

    Arguments:
        folder: the example's, with its `templates` and its `static` files.
        policy: what a browser may do besides loading style sheets and pictures of the site: directives of a
            `Content-Security-Policy`.
        words: what a person is stated besides `WORDS`, by status.
        values: what every template has.
    """

    def __init__(
        self,
        folder: Path,
        *policy: str,
        words: dict[int, tuple[str, str]] | None = None,
        values: dict[str, object] | None = None,
    ) -> None:
        directives = ("default-src 'none'", "style-src 'self'", "img-src 'self'", "base-uri 'none'", *policy)
        self.safe = {
            "Content-Security-Policy": "; ".join(directives),
            "Referrer-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
        }
        self._words = WORDS | (words or {})
        self.environment = _environment(folder / "templates")
        self.environment.globals.update(values or {})
        self._templates = Jinja2Templates(env=self.environment)
        self._log = logging.getLogger(f"examples.{folder.name}")
        self.handlers: dict[Any, Any] = {
            OnereadError: self.refuse,
            HTTPException: self.refuse,
            Exception: self.refuse,
        }
        self.static: list[BaseRoute] = [
            Mount("/static/own", StaticFiles(directory=folder / "static")),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]

    def page(self, path: str, template: str, read: Read, *, requests: int = 1, rows: int = MOST + 1) -> Route:
        """A page that may ask this much of the store, and says at its foot what it did ask."""

        async def answer(request: Request) -> Response:
            with budget() as spent:
                context = await read(request)
            shown = {"requests": spent.requests, "rows_read": spent.rows, **context}
            return self._templates.TemplateResponse(request, template, shown, headers=self.safe)

        bound = Middleware(BudgetMiddleware, requests=requests, rows=rows)
        return Route(path, answer, name=read.__name__, middleware=[bound])

    def part(self, template: str, name: str, *values: object) -> str:
        """The HTML that one macro of a template makes."""
        made: str = getattr(self.environment.get_template(template).module, name)(*values)
        return str(made)

    async def refuse(self, request: Request, error: Exception) -> Response:
        """An error as a page in words, with the status that the JSON API answers."""
        headers = dict(self.safe)
        if isinstance(error, OnereadError):
            answer = await problem(request, error)
            status, detail = answer.status_code, msgspec.json.decode(answer.body)["detail"]
            headers |= {"Retry-After": answer.headers["Retry-After"]} if "Retry-After" in answer.headers else {}
        elif isinstance(error, HTTPException):
            status, detail = error.status_code, ""
        else:
            status, detail = 500, ""
            self._log.error("%s: %r", request.url.path, error, exc_info=error)
        title, words = self._words.get(status, FAILED)
        context = {
            "title": title,
            "at": None,
            "words": words,
            "detail": detail if status in (400, 422) else "",
            "status": status,
        }
        return self._templates.TemplateResponse(request, "error.html", context, status_code=status, headers=headers)


def number_of(request: Request, name: str = "number") -> int:
    """A whole number of an address.

    Raises:
        InvalidKey: it is written in another way.
    """
    text = request.path_params[name]
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 16):
        raise InvalidKey("a number is a whole number", field=name)
    return int(text)


def ways(request: Request, found: Page[Any]) -> dict[str, str | None]:
    """Where the pages before and after this one are."""

    def way(cursor: str | None) -> str | None:
        if cursor is None:
            return None
        kept = [
            (name, value) for name, value in request.query_params.multi_items() if name not in ("cursor", "backward")
        ]
        return f"{quote(request.url.path)}?{urlencode([*kept, ('cursor', cursor)])}"

    return {"previous": way(found.previous), "next": way(found.next)}


# --- How a page is made ----------------------------------------------------------------------------------------------


def _day(instant: datetime) -> str:
    return f"{instant.day} {instant:%B %Y}"


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _signed(number: int) -> str:
    return f"{number:,}".replace("-", "\N{MINUS SIGN}")


def _quoted(part: str) -> str:
    """A part of a path, its slashes too."""
    return quote(part, safe="")


def _environment(templates: Path) -> Environment:
    made = Environment(
        loader=FileSystemLoader([templates, HERE / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., str]] = {"day": _day, "many": _many, "signed": _signed, "path": _quoted}
    made.filters.update(filters)
    return made
