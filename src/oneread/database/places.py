"""Where an entity is shown: what `places` returns.

See docs/how-to/see-where-an-entity-is-shown.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from oneread.plans.progress import Fault
from oneread.store.rows import Table

PlaceKind: TypeAlias = Literal[
    "index", "unique", "extremum", "share", "feed item", "membership", "back-reference", "hold", "feed entry"
]
PlaceState: TypeAlias = Literal["there", "missing", "other value", "dangling"]


class RawCell(msgspec.Struct, frozen=True):
    """One cell of a root row, as it is stored.

    Arguments:
        column: its family and name: `d:v` is the version, `d:b` the document, `m:e` the record of what was derived.
        stamp: milliseconds since 1970.
        data: the stored bytes.
    """

    column: bytes
    stamp: int
    data: bytes


class EntityVersions(msgspec.Struct, frozen=True):
    """The versions of an entity, milliseconds since 1970, and what its root row says besides.

    Arguments:
        own: that of the last change of its own fields, as `db.version` says; 0 of a deleted one.
        row: that of the last commit of its row: copies and totals that followed count, too.
        created: the value of its field that is CREATED; None without such a field.
        waits: whether what follows from its last commit is not all written yet, so that places may lack it.
        deleted: whether it is deleted; its row is kept, so that its version never goes back.
        expired: whether it counts as absent, and waits for a sweep.
    """

    own: int
    row: int
    created: datetime | None = None
    waits: bool = False
    deleted: bool = False
    expired: bool = False


class ShownPlace(msgspec.Struct, frozen=True):
    """One row that follows from an entity, or the share that it has in a group.

    Arguments:
        kind: `index`, or a row of a `unique` value that names its owner; `extremum`, a row of which a group shows the
            first ones; `share` in a group; `feed item` and `membership`, which entries of a feed are made of;
            `back-reference` and `hold`, by which a source knows who copies it and who forbids its delete; of a deleted
            entity `feed entry`, one of a feed that still shows it, until the task is done that removes it.
        view: the name of the view, `View.field` of an extremum, `View~1` of a former generation; the model of the
            source of a back-reference or hold.
        key: the values of the view's key, and then the entity's own key if the row ends in it; of a group and of a
            unique value the view's alone; of a back-reference or hold the source's key. Empty where the
            row is of a view that this program does not have.
        equal: values by which `db.page(view, *equal)` begins with the rows of this key; `db.get` of a group. Shorter
            than the view's key where that has a digest.
        field: of a row for each element, the list's field; of a back-reference or hold, the fields that refer.
        share: of a group, what it has of the entity, by the fields of the aggregate.
        changes: the fields whose change writes or deletes rows here, each with how many of them at most, of this one
            place: 2 where the row moves.
        follow: what may follow of a change here within the same call, at most: entries of a feed, or entities that show
            a group.
        members: of a feed's item, how many memberships its group has, counted up to the limit of the call.
        more_members: whether there are more than were counted.
        table: where the row is.
        row: its key there.
        state: with `check`: whether the row is there, missing, has another value, or is there and should not be
            (`dangling`); None where nothing was compared.
        fault: with `check`: what verify says of it.
    """

    kind: PlaceKind
    view: str
    key: tuple[Any, ...]
    equal: tuple[Any, ...] = ()
    field: str = ""
    share: Mapping[str, Any] = {}
    changes: Mapping[str, int] = {}
    follow: int = 0
    members: int | None = None
    more_members: bool = False
    table: Table = "views"
    row: bytes = b""
    state: PlaceState | None = None
    fault: Fault | None = None


class ShownNumber(msgspec.Struct, frozen=True):
    """A number that an entity shows, or gives to its children.

    Arguments:
        kind: a `total` of a group, a named `counter`, or a `sequence`.
        field: of the entity; empty for the sequence of its children.
        name: of the aggregate, the counter, or the model of the children.
        key: of the group, or of the root that gives the numbers; empty for a counter.
        last: the last number of a sequence, as the root's own row says; None elsewhere.
    """

    kind: Literal["total", "counter", "sequence"]
    field: str
    name: str
    key: tuple[Any, ...] = ()
    last: int | None = None


class Holder(msgspec.Struct, frozen=True):
    """A row that says: another entity refers to this one.

    On a store that changes one row at a time, a save that was refused, or died, may have left such a row.

    Arguments:
        kind: `back-reference` of one that takes values of it, or goes with it; `hold` of one that forbids its delete.
        model: of the other entity, or a variant's model.
        key: of the other entity; empty where this program does not know its model.
        fields: those of the model by which it may refer: several where they take the same values.
        takes: the values that these take of the entity, by their paths.
    """

    kind: Literal["back-reference", "hold"]
    model: str
    key: tuple[Any, ...]
    fields: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


class LeftTask(msgspec.Struct, frozen=True):
    """What is still to follow from the delete of an entity, or could not.

    Arguments:
        kind: `follow`, the task by which its holders learn of it; `feed`, the one by which entries of a feed are
            removed; `set aside` of a holder that could not follow, or of the whole task.
        of: what the task is about: the entity, or its row in the feed; the holder that was set aside. Empty for a task
            that was set aside as a whole.
        done: holders, or entries, that have followed.
        since: when the task was added, or set aside for the first time.
        error: of one that was set aside, what the last try said; what is wrong with a task that cannot be read.
        tries: how often a holder was tried.
    """

    kind: Literal["follow", "feed", "set aside"]
    of: str
    done: int = 0
    since: datetime | None = None
    error: str = ""
    tries: int = 0


class EntityPlaces(msgspec.Struct, frozen=True, dict=True):
    """Where an entity is shown, from the record in its root row.

    Arguments:
        model: the name of its class.
        key: its key.
        entity: as `get` returns it; None for a deleted one.
        versions: those of the entity and of its row.
        cells: the row as it is stored.
        places: every row that was derived from it, and its shares in groups.
        shows: totals, counters and sequences.
        hidden: the copies that it keeps for its views and does not show, by the path that a view names.
        holders: one page of the entities that refer to it.
        next: for `cursor=`, the next page of these; None at the end.
        checked: with `check`: False where it was being changed, so that nothing was compared; None without.
        faults: with `check`: what verify says of the row itself and of rows that follow from it.
        last: of a deleted entity, the values that its row keeps for its holders, by their paths.
        tasks: of a deleted entity, what is still to follow from its delete, or could not.
    """

    model: str
    key: tuple[Any, ...]
    entity: Any
    versions: EntityVersions
    cells: tuple[RawCell, ...]
    places: tuple[ShownPlace, ...]
    shows: tuple[ShownNumber, ...] = ()
    hidden: Mapping[str, Any] = {}
    holders: tuple[Holder, ...] = ()
    next: str | None = None
    checked: bool | None = None
    faults: tuple[Fault, ...] = ()
    last: Mapping[str, Any] = {}
    tasks: tuple[LeftTask, ...] = ()
