"""The verb that says where an entity is shown, on the asynchronous face.

The synchronous face is generated from this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from oneread.database.lists import Asked, Copied, Exact, KeyTypes, Located
from oneread.database.operations import Operations
from oneread.database.place_reader import PlacesQuery, PlacesRead
from oneread.database.places import EntityPlaces
from oneread.database.results import Outcome, attach_outcome
from oneread.models.model import Model
from oneread.models.references import Copy, Ref
from oneread.plans.trace import Observer, Trace
from oneread.store.limits import DEFAULT_LIMIT

if TYPE_CHECKING:
    from oneread.database.cursors import CursorCipher
    from oneread.plans.async_driver import AsyncDriver

E = TypeVar("E", bound=Model[*tuple[Any, ...]])
R = TypeVar("R")


class AsyncPlaceVerbs:
    """The verb of an open store that says where an entity is shown."""

    operations: Operations
    _driver: AsyncDriver
    _observers: tuple[Observer, ...]
    _cipher: CursorCipher

    @overload
    async def places(
        self, model: Exact[R], at: Ref[R], /, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None,
        check: bool = False,
    ) -> EntityPlaces: ...  # fmt: skip
    @overload
    async def places(
        self, model: Copied[E], at: Copy[E], /, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None,
        check: bool = False,
    ) -> EntityPlaces: ...  # fmt: skip
    @overload
    async def places(
        self, model: Located[Any, *KeyTypes], /, *key: *KeyTypes, limit: int = DEFAULT_LIMIT,
        cursor: str | None = None, check: bool = False,
    ) -> EntityPlaces: ...  # fmt: skip
    async def places(  # type: ignore[misc]  # mypy: a TypeVarTuple here
        self, model: Asked, /, *key: Asked, limit: int = DEFAULT_LIMIT, cursor: str | None = None, check: bool = False
    ) -> Asked:
        """Where an entity is shown: every row that follows from it, its shares in groups, and who refers to it.

        Its root row has a record of all rows that were derived from it, so one request of one row names them, whatever
        their number; a second one reads a page of the rows that say who refers to it. Of each place it says which
        fields change it.

        Costs two requests: one row, and `limit` + 1 of those that refer to it; one more where references forbid its
        delete, and one for each group in which it is an item of a feed, of `limit` + 1 memberships. With `check` one
        for the schema and one for each table with places, of a row for each place. Of a deleted entity two more, and
        with feeds up to four, of `limit` rows each: what still follows from its delete. On a store that changes one row
        at a time a child is read with its root, and with `check` once more behind its places.

        Arguments:
            model: its class, or that of its model.
            *key: the parts of its key, or a reference.
            limit: how many of those that refer to it, 1 to 1,000, and how far the members of a group are counted.
            cursor: `next` of an earlier result: the places are those of now, and the holders continue.
            check: reads the rows, too, and says what `verify` would say of each. Copies, totals and groups are not
                compared.

        Raises:
            NotFound: there is no such entity, and was none; of a deleted one the row is shown.
            Corrupt: its row cannot be read.
            InvalidKey: the key has other parts than declared, or the reference is to another class.
            InvalidQuery: the limit is out of bounds.
            InvalidCursor: the cursor was tampered with or belongs to another entity.
            SchemaMismatch: with `check`, a newer program has changed a model or a view.

        Examples:
            ```python
            found = await db.places(Customer, 12347)
            print([place.view for place in found.places], [holder.model for holder in found.holders])
            ```
        """
        trace = Trace(self._observers, self._driver.deadline())
        query = PlacesQuery(model, key, limit, cursor, check)
        found = await self._driver.run(PlacesRead(self.operations, self._cipher, query).read(), trace)
        attach_outcome(found, Outcome(0, trace))
        if found.entity is not None:
            attach_outcome(found.entity, Outcome(found.versions.own, trace))
        return found
