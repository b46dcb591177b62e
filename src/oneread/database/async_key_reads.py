"""The verbs that read by key, on the asynchronous face: `get`, `find`, `exists` and `get_many`.

The synchronous face is generated from this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from oneread.database.async_view_launches import AsyncViewLaunch
from oneread.database.fast_path import ABSENT, Finder
from oneread.database.lists import K1, K2, K3, K4, AnyRows, Asked, Copied, Exact, KeyedRows, KeyTypes, Located
from oneread.database.operations import Operations, one_key
from oneread.database.pages import Query
from oneread.database.replaced_pages import launched_key
from oneread.database.results import Outcome, attach_outcome
from oneread.errors import NotFound, UsageError
from oneread.models.model import Model
from oneread.models.references import Copy, Ref, ViewKeyValue
from oneread.plans.arguments import Age, check_iterable
from oneread.plans.trace import Observer, Trace

if TYPE_CHECKING:
    from oneread.plans.async_driver import AsyncDriver
    from oneread.store.cache import CacheUse

E = TypeVar("E", bound=Model[*tuple[Any, ...]])
R = TypeVar("R")

NO_CLASS = "not a class of the schema"


class AsyncKeyReads:
    """The verbs of an open store that read by key."""

    operations: Operations
    _driver: AsyncDriver
    _observers: tuple[Observer, ...]
    _finders: dict[type, Finder]
    _view_launches: Mapping[type, AsyncViewLaunch]

    @overload
    async def get(self, model: Exact[R], at: Ref[R], /, *, fresh: bool = False, max_age: Age = None) -> R: ...
    @overload
    async def get(self, model: Copied[E], at: Copy[E], /, *, fresh: bool = False, max_age: Age = None) -> E: ...
    @overload
    async def get(
        self, model: Located[R, *KeyTypes], /, *key: *KeyTypes, fresh: bool = False, max_age: Age = None
    ) -> R: ...
    @overload
    async def get(
        self,
        view: KeyedRows[R, K1, K2, K3, K4],
        first: K1 = ...,
        second: K2 = ...,
        third: K3 = ...,
        fourth: K4 = ...,
        /,
        *key: ViewKeyValue,
        fresh: bool = False,
        max_age: Age = None,
    ) -> R: ...
    async def get(self, model: Asked, /, *key: Asked, fresh: bool = False, max_age: Age = None) -> Asked:  # type: ignore[misc]  # mypy: a TypeVarTuple here
        """The entity with this key, the group of an aggregate, or the row of a unique index.

        `db.get(Purchase, "537626", 1)`, by a reference `db.get(Product, row.source)`, or by a copy
        `db.get(Customer, purchase.buyer)`.

        Costs one request and one row; for an aggregate, one request and row more for each `least` and `greatest`, and
        one request and `most` rows for each `newest_values`. An empty group is not an error: counts and totals are 0,
        newest values [], the rest None.

        With `fresh=True` a child of an entity group shows every commit that was acknowledged before, of any process:
        on a store that changes one row at a time a commit is made in the group's root, and its children's rows follow.
        One request more there, and what writing those rows takes; nothing on other stores, and for other entities.

        A database that was opened with `max_age` answers from its cache, without a request, where that has an answer
        that is young enough; a `max_age` here, in seconds, is of this read alone. With `fresh=True` or `max_age=0` it
        reads the store, and puts what it finds into the cache. Without such a cache every answer is of now.

        Raises:
            UsageError: `max_age` is not a number of seconds from 0 to 30 days.
            NotFound: there is no such entity.
            InvalidKey: the key has other parts than declared, or the reference is to another class.
            InvalidQuery: `fresh` of a view, or not True or False.
            NotReady: the view is still being built.

        Examples:
            ```python
            purchase = await db.get(Purchase, "537626", 1)
            sales = await db.get(ProductSales, "85123A")
            ```
        """
        try:
            find = self._finders.get(model)
        except TypeError:
            raise UsageError(NO_CLASS, given=model) from None
        found: Any = None if find is None or fresh is not False or max_age is not None else find(key)
        if found is None and model in self._view_launches:
            found = await AsyncKeyReads.find(self, model, *key, fresh=fresh, max_age=max_age)
            if found is None:
                raise NotFound("there is no such entity", model=model, key=key)
        elif found is None:
            trace = self._trace()
            read = await self._driver.read(self.operations.get(model, key, fresh=fresh), trace, max_age, fresh=fresh)
            found = self._with_outcome(read, trace)
        elif found is ABSENT:
            raise NotFound("there is no such entity", model=model, key=key)
        return found

    @overload
    async def find(self, model: Exact[R], at: Ref[R], /, *, fresh: bool = False, max_age: Age = None) -> R | None: ...
    @overload
    async def find(self, model: Copied[E], at: Copy[E], /, *, fresh: bool = False, max_age: Age = None) -> E | None: ...
    @overload
    async def find(
        self, model: Located[R, *KeyTypes], /, *key: *KeyTypes, fresh: bool = False, max_age: Age = None
    ) -> R | None: ...
    @overload
    async def find(
        self,
        view: KeyedRows[R, K1, K2, K3, K4],
        first: K1 = ...,
        second: K2 = ...,
        third: K3 = ...,
        fourth: K4 = ...,
        /,
        *key: ViewKeyValue,
        fresh: bool = False,
        max_age: Age = None,
    ) -> R | None: ...
    async def find(self, model: Asked, /, *key: Asked, fresh: bool = False, max_age: Age = None) -> Asked:  # type: ignore[misc]  # mypy: a TypeVarTuple here
        """Like `get`, but None when there is none.

        Examples:
            ```python
            customer = await db.find(Customer, 99)
            assert customer is None
            ```
        """
        try:
            find = self._finders.get(model)
        except TypeError:
            raise UsageError(NO_CLASS, given=model) from None
        found: Any = None if find is None or fresh is not False or max_age is not None else find(key)
        if found is None:
            chosen = self._launched_by_keys(model, [key])
            if chosen is not None:
                again = partial(AsyncKeyReads.find, self, model, *key, fresh=fresh, max_age=max_age)
                return await self._view_launches[model].find(chosen, again)
            trace = self._trace()
            read = await self._driver.read(self.operations.find(model, key, fresh=fresh), trace, max_age, fresh=fresh)
            found = ABSENT if read[0] is None else self._with_outcome(read, trace)
        return None if found is ABSENT else found

    def _launched_by_keys(self, model: Asked, keys: Sequence[Asked]) -> tuple[Any, ...] | None:
        """The values by which the launch of a view chooses a side for rows with these keys; None without a launch."""
        if not isinstance(model, type) or model not in self._view_launches:
            return None
        each = [launched_key(self.operations, model, Query(one_key(model, key))) for key in keys]
        return each[0] if len(each) == 1 else None if None in each else tuple(each)

    @property
    def cache_use(self) -> CacheUse | None:
        """What this program's reads had of the cache, since it opened the database; None if it does not read one.

        No request.
        """
        return None if self._driver.reads is None else self._driver.reads.use

    def _trace(self) -> Trace:
        """The trace of one call, which ends in time."""
        return Trace(self._observers, self._driver.deadline())

    def _with_outcome(self, found: tuple[Any, int], trace: Trace) -> Any:
        entity, version = found
        attach_outcome(entity, Outcome(version, trace))
        return entity

    @overload
    async def exists(self, model: Exact[R], at: Ref[R], /) -> bool: ...
    @overload
    async def exists(self, model: Copied[E], at: Copy[E], /) -> bool: ...
    @overload
    async def exists(self, model: Located[Any, *KeyTypes], /, *key: *KeyTypes) -> bool: ...
    @overload
    async def exists(
        self,
        view: KeyedRows[Any, K1, K2, K3, K4],
        first: K1 = ...,
        second: K2 = ...,
        third: K3 = ...,
        fourth: K4 = ...,
        /,
        *key: ViewKeyValue,
    ) -> bool: ...
    async def exists(self, model: Asked, /, *key: Asked) -> Asked:  # type: ignore[misc]  # mypy: a TypeVarTuple here
        """Whether there is such an entity. One request, one row.

        Examples:
            ```python
            assert await db.exists(Customer, 12347)
            ```
        """
        return await self.find(model, *key) is not None

    @overload
    async def get_many(self, model: Exact[R], at: Iterable[Ref[R]], /, *, max_age: Age = None) -> list[R | None]: ...
    @overload
    async def get_many(self, model: Copied[E], at: Iterable[Copy[E]], /, *, max_age: Age = None) -> list[E | None]: ...
    @overload
    async def get_many(
        self, model: Located[R, *KeyTypes], keys: Iterable[tuple[*KeyTypes]], /, *, max_age: Age = None
    ) -> list[R | None]: ...
    @overload
    async def get_many(
        self, view: AnyRows[R], keys: Iterable[tuple[ViewKeyValue, ...]], /, *, max_age: Age = None
    ) -> list[R | None]: ...
    @overload
    async def get_many(
        self,
        view: KeyedRows[R, K1, K2, K3, K4],
        keys: Iterable[tuple[K1] | tuple[K1, K2] | tuple[K1, K2, K3] | tuple[K1, K2, K3, K4]],
        /,
        *,
        max_age: Age = None,
    ) -> list[R | None]: ...
    async def get_many(self, model: Asked, keys: Asked, /, *, max_age: Age = None) -> Asked:
        """Entities, groups of an aggregate or rows of a unique index, in the order of `keys`; None for absent ones.

        Keys are tuples, `db.get_many(User, [(1,), (2,)])`, references or copies. Costs one request, and a row for each
        key; for an aggregate what `get` costs for each `least`, `greatest` and `newest_values` of each key, and for a
        unique index one request for each key; all of them in one round. Through a cache, only what that lacks is read;
        `max_age` as for `get`.

        Raises:
            InvalidKey: a key has other parts than declared, or refers to another class.
            InvalidQuery: the view only has pages.
            NotReady: the view is still being built.

        Examples:
            ```python
            ada, absent = await db.get_many(Customer, [(12347,), (99,)])
            assert absent is None
            ```
        """
        check_iterable(keys, "get_many takes keys as tuples, or references: [(1,), (2,)]")
        keys = list(keys)
        chosen = self._launched_by_keys(model, keys)
        if chosen is not None:
            return await self._view_launches[model].get_many(
                chosen, partial(AsyncKeyReads.get_many, self, model, keys, max_age=max_age)
            )
        trace = self._trace()
        found = await self._driver.read(self.operations.get_many(model, keys), trace, max_age)
        return [None if entity is None else self._with_outcome((entity, version), trace) for entity, version in found]
