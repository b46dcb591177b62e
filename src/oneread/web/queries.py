"""Query parameters of a list: `?limit=20&since=2011-01-01T00:00:00Z&cursor=...` to the arguments of `page`.

See "Lists" in docs/reference/web.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import HTTPConnection

from oneread.database.async_database import AsyncDatabase
from oneread.database.lists import listed
from oneread.database.pages import Page
from oneread.derivations.views import View
from oneread.errors import InvalidQuery
from oneread.models.expressions import Expression
from oneread.models.model import Model
from oneread.store.limits import BUDGET

P = TypeVar("P", bound="Model[*tuple[Any, ...]] | View[Any]")

BOUNDS: Final = ("since", "after", "until", "through", "starts_with")
NAMES: Final = ("limit", "cursor", "backward", *BOUNDS)
_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}
_DIGITS: Final = 9


@dataclass(eq=False)
class PageQuery:
    """The query parameters of a list: in FastAPI `Annotated[PageQuery, Depends()]`, else `PageQuery.of(request)`.

    Arguments:
        limit: rows of the page; the view's `max_limit` is the most.
        cursor: `next` or `previous` of the page before.
        backward: without a cursor, the last page of the list.
        since, until, starts_with, after, through: bounds of the next key field, as text of the field's declared type.
    """

    limit: int | None = None
    cursor: str | None = None
    backward: bool = False
    since: str | None = None
    until: str | None = None
    starts_with: str | None = None
    after: str | None = None
    through: str | None = None

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
                raise InvalidQuery("the parameter is given twice", field=name)
            if name not in NAMES and name not in others:
                raise InvalidQuery("unknown parameter", field=name[:64])
            given[name] = text
        return cls(
            _number(given["limit"]) if "limit" in given else None,
            given.get("cursor"),
            _truth(given.get("backward", "false")),
            **{name: given[name] for name in BOUNDS if name in given},
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
        """Reads the page; costs what `db.page` costs.

        Arguments:
            db: the database.
            view: the list.
            equal: values of its first key fields, as for `db.page`.
            limit: the default, for a client that sends none.
            most: the largest limit a client may send, where that is less than the view's `max_limit`.
            where: a condition on the rows.
            budget: rows that may be read beyond the limit.

        Raises:
            InvalidQuery: the limit is out of bounds, or a bound does not fit the key field's type.
            InvalidCursor: the cursor belongs to a different query.
        """
        if most is not None and self.limit is not None and self.limit > most:
            raise InvalidQuery("the limit is larger than this list allows", field="limit", max_limit=most)
        bounded = {name: getattr(self, name) for name in BOUNDS}
        if any(text is not None for text in bounded.values()):
            bounded = _convert_bounds(db, view, equal, bounded)
        return await db.page(
            view,
            *equal,
            limit=limit if self.limit is None else self.limit,
            cursor=self.cursor,
            backward=self.backward,
            where=where,
            budget=budget,
            **bounded,
        )


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
    of = listed(db.operations, view)
    given = len(of.flat(equal))
    if given >= of.width:
        raise InvalidQuery("every key field is given: there is none left to bound", view=view)
    element = of.codec.elements[given]
    found: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            found[name] = None if text is None else msgspec.convert(text, element.type, strict=False)
        except (msgspec.ValidationError, ValueError, OverflowError) as error:
            raise InvalidQuery("the bound does not fit the type of the key field", field=name, view=view) from error
    return found
