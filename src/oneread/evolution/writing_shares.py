"""The share of entities for which a launched view is written: who may have one, and how it is changed.

The schema row has it, so that every commit knows it by the fence that it asks anyway. See
docs/decisions/0149-writes-by-percent.md.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.derivations.derivation import CompiledView
from oneread.errors import UsageError
from oneread.evolution.changing import change_schema
from oneread.evolution.formers import keyspaces_of
from oneread.models.versions import ALL, StoredSchema, ViewState
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Sleep
from oneread.plans.plan import Plan
from oneread.transactions.commit import SystemCommitter

UNREAD_SECONDS: Final = 5.0
"""How long a view is written after it was not to be read any more: two until programs look, three for a read since."""


def refuse_share(catalog: Catalog, view: CompiledView) -> None:
    """Raises UsageError for a view that is written for all entities or for none, as others depend on it."""
    if getattr(view.cls, "unique", False):
        raise UsageError("a unique index is written for all entities, or two could have one value", view=view.cls)
    if view.groups is not None:
        raise UsageError("a view of groups is written for all groups: no entity is in it", view=view.cls)
    readers = [each.cls for each in catalog.views.values() if each.groups is view]
    shown = [
        each.cls
        for each in catalog.entity_types.values()
        if any(one.number is not None and one.number.view is view.cls for one in each.rollups)
    ]
    if readers or shown:
        raise UsageError(
            "this view is written for all entities, since others show it", view=view.cls, by=readers + shown
        )


def change_share(committer: SystemCommitter, name: str, percent: float) -> Plan[StoredSchema]:
    """Changes the share of a view, by its stored name; returns the schema as it is stored then.

    A view that was readable is read no more first, for as long as programs may not know that.
    """
    while True:
        stored = yield from change_schema(committer, partial(_with_share, name=name, percent=percent))
        if stored.views[name].writes == percent:
            return stored
        yield from Sleep(UNREAD_SECONDS)


def _with_share(_store: CountedStore, stored: StoredSchema, name: str, percent: float) -> StoredSchema:
    """The schema after one of these steps; what is added to a view has the same share."""
    view, shared = stored.views[name], stored.shared
    if view.writes == percent:
        return stored
    state: ViewState = view.state
    writes = percent
    if percent < ALL and view.state == "readable":
        state, writes = "building", view.writes
    else:
        shared = stored.changes + 1
    several = {each: stored.views[each] for each in keyspaces_of(stored.views, name)}
    several = {each: msgspec.structs.replace(found, state=state, writes=writes) for each, found in several.items()}
    return msgspec.structs.replace(stored, views={**stored.views, **several}, shared=shared)
