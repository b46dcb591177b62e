"""Changes that follow from others: an entity gets what its sources, its groups and the time say of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.derivations.changes import WritingChange, stale_sources
from oneread.derivations.copies import Refs
from oneread.derivations.decisions import CommitAttempt, decision, deletion, is_same
from oneread.derivations.entity_state import FillInputs
from oneread.derivations.plain_commits import PlainTypes
from oneread.derivations.source_cache import SourceCache
from oneread.errors import OnereadError
from oneread.store.keys import kind_part
from oneread.transactions.commit import NO_CHANGE, CommittedRows, Decision, FollowChanges
from oneread.transactions.derived_writes import Group
from oneread.transactions.refusals import raises_again
from oneread.transactions.root import Root


class FollowingChange(WritingChange):
    """Gives an entity what others say of it.

    Its own version stays, since its own fields did not change; that of its row grows, so that a transaction that read
    it conflicts. Views missing in the entity's record are left to the backfill: adding it to one may be refused, and a
    task has no caller to raise that to.
    """

    def links(self, seen: Root) -> Iterable[bytes]:
        return stale_sources(self._catalog, self.key, seen)

    def _follow(
        self,
        attempt: CommitAttempt,
        rows: CommittedRows,
        refs: Refs,
        through: tuple[str, ...],
        changed: Sequence[bytes],
    ) -> Decision:
        """Takes the totals of the groups that were read, and the values of `changed` sources.

        Only views are emitted that look behind the references `through` which these are reached, or at a total.
        """
        seen, before = attempt.seen, attempt.before
        entity_type = self._catalog.type_of(before.entity)
        entity = entity_type.with_totals(self.key, before.entity, before.entity, rows.groups)
        missing = entity_type.tokens.missing_views(before.record)
        differing = entity_type.seen_through(through)
        inputs = FillInputs(before, SourceCache(self._catalog, rows), changed, missing, rows.now, differing)
        filled = entity_type.fill(self.key, entity, refs, inputs)
        found = decision(self._catalog, entity_type, self.key, filled, msgspec.structs.replace(attempt, own=seen.own))
        return NO_CHANGE if is_same(found, seen) and not found.fans_out else found


class FollowGroups(FollowingChange):
    """Gives an entity the new numbers of groups that it shows; an absent one is left alone."""

    def __init__(self, catalog: Catalog, key: bytes, groups: Sequence[Group]) -> None:
        super().__init__(catalog, key, None)
        self._groups = groups

    def groups(self, seen: Root) -> Sequence[Group]:
        return list(dict.fromkeys([*self._groups, *super().groups(seen)]))

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        attempt = self._attempt(seen, version)
        entity = attempt.before.entity
        if entity is None:
            return NO_CHANGE
        return self._follow(attempt, sources, self._catalog.type_of(entity).refs(entity), (), ())


class FollowSource(FollowingChange):
    """Gives a holder the new values of a source that it refers to, or deletes it with the source."""

    def __init__(self, catalog: Catalog, source: bytes, key: bytes) -> None:
        super().__init__(catalog, key, None)
        self._source = source

    def hints(self) -> Iterable[bytes]:
        return (self._source,)

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        attempt = self._attempt(seen, version)
        entity = attempt.before.entity
        if entity is None:
            return NO_CHANGE
        entity_type = self._catalog.type_of(entity)
        refs = entity_type.refs(entity)
        through = tuple([name for name, keys in refs.items() if self._source in keys])
        if not through:
            return NO_CHANGE
        source = SourceCache(self._catalog, sources)[self._source]
        if entity_type.going and entity_type.goes_with(refs, self._source, source):
            if sources.going is None:
                return deletion(self._catalog, self.key, attempt, sources, erases=source.erased)
            sources.going.setdefault(self._source, {})[self.key] = None
            return NO_CHANGE
        if source.entity is None and entity_type.never_had(entity, through):
            return NO_CHANGE
        return self._follow(attempt, sources, refs, through, (self._source,))


class Expire(FollowingChange):
    """Deletes an entity that has expired; one that has not loses the index rows and contributions that have.

    A sweep does this; `has_deleted` and `has_removed` say which of the two it did. With `keeps` no entity is deleted:
    one that others refer to is in no group for longer because of that.
    """

    def __init__(self, catalog: Catalog, key: bytes, *, keeps: bool = False) -> None:
        super().__init__(catalog, key, None)
        self._keeps = keeps
        self.has_deleted = self.has_removed = False

    def is_due(self, entity: object, now: int) -> bool:
        """Whether the entity has expired; it may live longer since the sweep found it."""
        return self._catalog.is_expired(self.key, entity, now)

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        attempt = self._attempt(seen, version)
        entity = attempt.before.entity
        self.has_deleted = self.has_removed = False
        if entity is None:
            return NO_CHANGE
        self.has_deleted = not self._keeps and self.is_due(entity, sources.now)
        if self.has_deleted:
            return deletion(self._catalog, self.key, attempt, sources)
        found = self._follow(attempt, sources, self._catalog.type_of(entity).refs(entity), (), ())
        self.has_removed = found.root is not None
        return found


def _accepts(catalog: Catalog, key: bytes, document: bytes) -> bool:
    """Whether a holder may be stored so; of one that may not, Python's own decision says why, and sets it aside."""
    step = partial(_check_holder, catalog, key, document)
    try:
        step()
    except OnereadError:
        return False
    except Exception as error:
        if not raises_again(step, error):
            raise
        return False
    return True


def _check_holder(catalog: Catalog, key: bytes, document: bytes) -> None:
    entity = catalog.layouts_at(key).whole(document)
    entity_type = catalog.type_of(entity)
    entity_type.layout.validated(entity)
    catalog.probes.check(entity_type.kind.cls, entity, {})


def followers(catalog: Catalog) -> FollowChanges:
    """Makes the changes that follow from others."""

    def give_up(key: bytes) -> FollowGroups | None:
        # What has expired has no index rows, and so no claims, once it is committed again.
        return FollowGroups(catalog, key, ()) if kind_part(key) in catalog.releasing else None

    made = FollowChanges(partial(FollowSource, catalog), partial(FollowGroups, catalog), give_up, catalog.group_at)
    return made._replace(
        plain=PlainTypes(catalog).holders, read_source=catalog.source, accepts=partial(_accepts, catalog)
    )
