"""Query parameters of a list: `?limit=20&since=2011-01-01T00:00:00Z&cursor=...` to the arguments of `page`.

See "Lists" in docs/reference/web.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final, TypeVar

import msgspec
from starlette.requests import HTTPConnection
from starlette.responses import Response

from oneread.database.async_database import AsyncDatabase
from oneread.database.lists import list_of
from oneread.database.pages import Page
from oneread.derivations.views import AnyView
from oneread.errors import InvalidQuery
from oneread.models.expressions import Expression
from oneread.models.json_numbers import IS_NUMBER, SPELLINGS
from oneread.models.model import Model
from oneread.store.limits import BUDGET
from oneread.web.links import links_of, note_page

P = TypeVar("P", bound="Model[*tuple[Any, ...]] | AnyView")

BOUNDS: Final = ("since", "after", "until", "through", "starts_with")
NAMES: Final = ("limit", "cursor", "backward", *BOUNDS)
_NONE: Final[Any] = None  # FastAPI gives a request and a response only where no other type is in the annotation
_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}
_TWICE: Final = "the parameter is given twice"
_DIGITS: Final = 9
_AWARE: Final = msgspec.Meta(tz=True)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(eq=False)
class PageQuery:
    """The query parameters of a list: in FastAPI `Annotated[PageQuery, Depends()]`, else `PageQuery.of(request)`.

    Arguments:
        limit: rows of the page; the view's `max_limit` is the most.
        cursor: `next` or `previous` of the page before.
        backward: without a cursor, the last page of the list.
        request, response: given by FastAPI; the response gets the links to the pages around the one that is read,
            whatever the route returns.
        since, after, until, through, starts_with: bounds of the next key field, as text of the field's declared type; a
            date alone is midnight in UTC where the field is an instant.
    """

    limit: int | None = None
    cursor: str | None = None
    backward: bool = False
    since: str | None = None
    until: str | None = None
    starts_with: str | None = None
    after: str | None = None
    through: str | None = None
    request: HTTPConnection = field(default=_NONE, repr=False)
    response: Response = field(default=_NONE, repr=False)

    @classmethod
    def of(cls, connection: HTTPConnection, *, others: Collection[str] = ()) -> PageQuery:
        """The query of a request.

        Arguments:
            connection: the request.
            others: names of other parameters that the route reads itself.

        Raises:
            InvalidQuery: a parameter is unknown, is given twice, or has another type.
        """
        given: dict[str, str] = {}
        for name, text in connection.query_params.multi_items():
            if name in given and name in NAMES:
                raise InvalidQuery(_TWICE, field=name)
            if name not in NAMES and name not in others:
                raise InvalidQuery("unknown parameter", field=name[:64])
            given[name] = text
        return cls(
            _number(given["limit"]) if "limit" in given else None,
            given.get("cursor"),
            _truth(given.get("backward", "false")),
            since=given.get("since"),
            after=given.get("after"),
            until=given.get("until"),
            through=given.get("through"),
            starts_with=given.get("starts_with"),
            request=connection,
        )

    async def page(
        self,
        db: AsyncDatabase,
        view: type[P],
        *equal: object,
        limit: int | None = None,
        most: int | None = None,
        where: Expression | None = None,
        budget: int = BUDGET,
    ) -> Page[P]:
        """Reads the page; costs what `db.page` costs. The response links to the pages around it.

        Arguments:
            db: the database.
            view: the list.
            equal: values of its first key fields, as for `db.page`.
            limit: the default, for a client that sends none.
            most: the largest limit a client may send, where that is less than the view's `max_limit`.
            where: a condition on the rows.
            budget: rows that may be read beyond the limit.

        Raises:
            InvalidQuery: the limit is out of bounds, a bound does not fit the key field's type, or the request gives a
                parameter of lists twice.
            InvalidCursor: the text is not a cursor, or one of a different query.
        """
        if self.request is not _NONE:
            for name in NAMES:
                if len(self.request.query_params.getlist(name)) > 1:  # FastAPI takes the last
                    raise InvalidQuery(_TWICE, field=name)
        if most is not None and self.limit is not None and self.limit > most:
            raise InvalidQuery("the limit is larger than this list allows", field="limit", max_limit=most)
        bounded = {name: getattr(self, name) for name in BOUNDS}
        if any(text is not None for text in bounded.values()):
            bounded = _convert_bounds(db, view, equal, bounded)
        found = await db.page(
            view,
            *equal,
            limit=limit if self.limit is None else self.limit,
            cursor=self.cursor,
            backward=self.backward,
            where=where,
            budget=budget,
            **bounded,
        )
        if self.request is not _NONE:
            note_page(self.request, found)
            if self.response is not _NONE and (links := links_of(self.request, found)):
                self.response.headers["Link"] = links
        return found


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise InvalidQuery("limit must be a whole number", field="limit")
    return int(text)


def _truth(text: str) -> bool:
    known = _TRUTH.get(text.lower())
    if known is None:
        raise InvalidQuery("backward must be true or false", field="backward")
    return known


def _convert_bounds(
    db: AsyncDatabase, view: Any, equal: tuple[object, ...], texts: dict[str, str | None]
) -> dict[str, Any]:
    """Converts bounds to values of the next key field."""
    of = list_of(db.operations, view)
    given = len(of.flat(equal))
    if given >= of.width:
        raise InvalidQuery("every key field is given: there is none left to bound", view=view)
    element = of.codec.elements[given]
    found: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            found[name] = None if text is None else _convert_bound(text, element.type)
        except (msgspec.ValidationError, ValueError, OverflowError) as error:
            raise InvalidQuery("the bound does not fit the type of the key field", field=name, view=view) from error
    return found


def _convert_bound(text: str, kind: type) -> object:
    """A bound as a value of the key field's type; for an instant a date alone is its midnight in UTC."""
    if kind in (Decimal, float) and not IS_NUMBER(text) and (kind is Decimal or text not in SPELLINGS):
        raise ValueError(text)
    if kind is not datetime:
        return msgspec.convert(text, kind, strict=False)
    return msgspec.convert(f"{text}T00:00:00Z" if _DATE.fullmatch(text) else text, Annotated[datetime, _AWARE])
