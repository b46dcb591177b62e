"""Writes: the bounds of the writing verbs.

A commit reads the fence, the rows it is about with what they refer to, then the back-references and carriers of what
changed, then groups and unique values; and it writes each table in one request. The arithmetic is that of
`transactions.native` and `transactions.unit`; a property holds the two together. See docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from oneread.costs.bounds import Bound, BoundBuilder
from oneread.costs.fans import FanOut, FanOuts
from oneread.costs.shares import EntityCost, EntityCosts, Fields, ViewCost, touched
from oneread.costs.sizes import Size, greatest
from oneread.derivations.entity_type import EntityType
from oneread.store.limits import KEY_BYTES
from oneread.store.rows import Table

Verb: TypeAlias = Literal["save", "create", "get_or_create", "upsert", "patch", "delete"]

FENCE: Final = Size(20, 3)
"""The fence row: two numbers."""

TASK: Final = Size(1100, 60)
"""A task: its key, the source's key and a cursor."""

_PROBED: Final = 5
"""Times the inline bound of back-references that one commit reads at most of sources that fan out too far."""


class WrittenRows(NamedTuple):
    """Rows of one declaration that one change writes or takes away, at most."""

    share: ViewCost
    rows: int


class Writes:
    """Bounds of writes of one schema."""

    def __init__(self, weights: EntityCosts, inline: int) -> None:
        self._weights = weights
        self._catalog = weights.catalog
        self._fans = FanOuts(weights)
        self._inline = inline

    def bound(
        self,
        verb: Verb,
        cls: Any,
        *,
        fields: Iterable[str] | None = None,
        entities: int = 1,
        carriers: int | None = None,
        named: str | None = None,
    ) -> Bound:
        """The bound of one write.

        Arguments:
            verb: what is done.
            cls: the model; a patch or delete may find any of its variants.
            fields: that a patch changes; None for any.
            entities: changes of this kind in one transaction.
            carriers: of each, when it is known how many there are: at most `inline` follow in the commit.
            named: what the bound is called.
        """
        found = [each for each in self._catalog.models if issubclass(each, cls)]
        written = found if verb in ("patch", "delete", "upsert") else [cls]
        own = self._own(verb, cls, written, fields)
        fan = self._fan(verb, written, fields)
        total = BoundBuilder()
        total.add("fence", "read", "system", "fence", "every commit", 1, FENCE)
        self._read(total, verb, cls, written, entities, fields)
        following, tasks = (0, 0) if fan is None else self._followed(total, fan, entities, carriers)
        if verb == "delete" and self._catalog.may_be_held(self._catalog.kinds[cls].prefix):
            self._held(total, cls, entities)
        self._settle(total, own, fan, entities, following)
        self._write(total, cls, own, fan, entities, following)
        total.add("tasks", "write", "system", "tasks", _because(fan), tasks, TASK)
        return total.bound(named or verb, cls.__name__)

    def transact(self, writes: Sequence[Bound], reads: int) -> Bound:
        """The commit of a transaction: everything that its body looked at is read again, then the writes are done.

        Each write sees the back-references of those before it.
        """
        total = BoundBuilder()
        anything = greatest(each.whole for each in self._weights.of.values())
        total.add("check", "read", "roots", "what the body read", "transact", reads, anything)
        if writes and not reads:
            total.more("read", "roots", "what the body read", "transact", 1)
        for bound in writes:
            for term in bound.terms:
                total.take(term)
            total.missing(frozenset(bound.undeclared))
        scans = sum(term.requests for bound in writes for term in bound.terms if term.act == "scan")
        if len(writes) > 1 and scans:
            rows = scans * len(writes)
            size = Size(2 * KEY_BYTES + 10, 60)
            total.add("overlay", "scan", "views", "back-references of other writes", "transact", rows, size, 0)
        return total.bound("transact", f"{len(writes)} writes")

    def _whole(self, cls: Any) -> Size:
        """A commit row with its record, of whatever variant lies there."""
        kind = self._catalog.kinds[cls]
        return greatest(
            self._weights.of[each].whole for each in self._catalog.models if self._catalog.kinds[each] is kind
        )

    def _read(
        self,
        total: BoundBuilder,
        verb: Verb,
        cls: Any,
        written: Sequence[type],
        entities: int,
        fields: Iterable[str] | None,
    ) -> None:
        """The commit rows, and what they refer to: with them where that is given, else when they have been seen."""
        total.add("rows", "read", "roots", "entity", cls.__name__, entities, self._whole(cls))
        if verb not in ("patch", "delete"):
            self._sources(total, "rows", self._weights.of[cls], entities, None)
        if verb in ("patch", "upsert"):
            widest = max(written, key=lambda each: self._weights.of[each].sources)
            self._sources(total, "links", self._weights.of[widest], entities, fields)

    def _sources(
        self, total: BoundBuilder, request: str, weight: EntityCost, entities: int, fields: Iterable[str] | None
    ) -> None:
        references = self._catalog.entity_types[weight.cls].references
        for reference in references:
            if fields is None or reference.name in fields:
                rows = weight.references[reference.name] * entities
                because = f"{weight.cls.__name__}.{reference.name}"
                each = 1 if request == "rows" else entities
                total.add(request, "read", "roots", "sources", because, rows, self._whole(reference.kind.cls), each)

    def _fan(self, verb: Verb, written: Sequence[type], fields: Iterable[str] | None) -> FanOut | None:
        for cls in written:
            change = None if verb != "patch" or fields is None else self._fields(cls, fields)
            found = self._fans.of(self._catalog.entity_types[cls], change)
            if found is not None:
                return found
        return None

    def _fields(self, cls: type, fields: Iterable[str] | None) -> Fields:
        """What a save or patch changes; the instant of the newest save as well."""
        weight = self._weights.of[cls]
        return Fields(None if fields is None else frozenset(fields) | weight.updated, weight.keys)

    def _followed(self, total: BoundBuilder, fan: FanOut, entities: int, carriers: int | None) -> tuple[int, int]:
        """Finding carriers and reading them: how many follow in the commit, and how many tasks may be left, at most.

        One source that nobody else copies on is found by one scan, and its carriers are all done or none: then one row
        more is read and a task left, which is less. Several sources, or carriers that are sources themselves, share the
        inline bound: each that has too many is found out by reading one more than are left, until that was done often
        enough.
        """
        inline, because = self._inline, _because(fan)
        if not inline:
            return 0, entities
        known = None if carriers is None or carriers * entities > inline else carriers * entities
        following = inline if known is None else known
        told = entities + (following if fan.far else 0)
        circle = told * entities if fan.circular else 0
        single = entities == 1 and not fan.far
        if single and known is None and carriers is not None:
            following, scanned, tasks = 0, inline + 1, 1
        elif single or known is not None:
            scanned, tasks = following, 0
        else:
            scanned, tasks = following + min(_PROBED * inline, told * (inline + 1)), told
        whole = fan.whole._replace(most=max(fan.whole.most, TASK.most + fan.found.most))
        self._found(total, because, scanned + circle, fan.found, told)
        total.add("carriers", "read", "roots", "carriers", because, following, whole, min(told, max(1, following)))
        return following, tasks

    def _found(self, total: BoundBuilder, because: str, rows: int, size: Size, requests: int) -> None:
        if rows:
            total.add("scan", "scan", "views", "back-references", because, rows, size, requests)
        else:
            total.more("scan", "views", "back-references", because, requests)

    def _held(self, total: BoundBuilder, cls: Any, entities: int) -> None:
        """Whether anybody forbids the delete: one row of a range that must be empty."""
        kind = self._catalog.kinds[cls]
        key = self._weights.key(kind)
        holds = [
            f"{each.__name__}.{reference.name}"
            for each, entity_type in self._catalog.entity_types.items()
            for reference in entity_type.holding
            if reference.kind is kind
        ]
        rows = entities * (
            1 + (entities if any(self._holds_itself(each, kind) for each in self._catalog.models) else 0)
        )
        total.add("holds", "scan", "views", "holds", ", ".join(holds), rows, Size(2 * key.most + 203, 30), entities)

    def _holds_itself(self, cls: type, kind: Any) -> bool:
        entity_type: EntityType = self._catalog.entity_types[cls]
        return entity_type.kind is kind and any(reference.kind is kind for reference in entity_type.holding)

    def _own(self, verb: Verb, cls: Any, written: Sequence[type], fields: Iterable[str] | None) -> list[WrittenRows]:
        """The rows of views and counts that one change of an entity touches itself, by declaration."""
        kind = self._catalog.kinds[cls]
        if verb in ("create", "get_or_create"):
            return [WrittenRows(share, share.rows) for share in self._weights.of[cls].shares]
        found: dict[tuple[str, str], WrittenRows] = {}
        for each in self._catalog.models:
            if self._catalog.kinds[each] is not kind or (verb == "patch" and each not in written):
                continue
            change = self._fields(each, fields if verb == "patch" else None)
            for share in self._weights.of[each].shares:
                rows = self._of_share(verb, share, change, new=each is cls or (verb != "save" and each in written))
                before = found.get((share.form.name, share.form.sort))
                if rows and (before is None or before.rows < rows):
                    found[share.form.name, share.form.sort] = WrittenRows(share, rows)
        return list(found.values())

    def _of_share(self, verb: Verb, share: ViewCost, change: Fields, *, new: bool) -> int:
        """Rows of one share; what an entity had as another variant is only taken away."""
        if verb == "delete" or not new:
            return share.rows
        if verb == "patch":
            return touched(share, change)
        return max(share.rows, touched(share, change))

    def _settle(
        self, total: BoundBuilder, own: list[WrittenRows], fan: FanOut | None, entities: int, following: int
    ) -> None:
        """Groups and unique values are read before they are added to and compared."""
        for share, rows in own:
            if share.form.table == "counts":
                total.missing(share.undeclared)
                many = 1 if share.alone else rows * entities
                total.add("settle", "read", "counts", share.form.sort, share.form.name, many, share.held)
        if fan is not None:
            counts = fan.counts
            rows = counts.rows * following + (counts.once if following else 0)
            total.add("settle", "read", "counts", "groups of carriers", counts.because, rows, counts.size)

    def _write(
        self, total: BoundBuilder, cls: Any, own: list[WrittenRows], fan: FanOut | None, entities: int, following: int
    ) -> None:
        """One request for each table."""
        size = self._weights.key(self._catalog.kinds[cls]).plus(self._whole(cls))
        total.add("roots", "write", "roots", "entity", cls.__name__, entities, size)
        if fan is not None:
            carriers = fan.key.plus(fan.whole)
            total.add("roots", "write", "roots", "carriers", _because(fan), following, carriers)
        tables: tuple[Table, ...] = ("views", "counts")
        for table in tables:
            for share, rows in own:
                if share.form.table == table:
                    total.missing(share.undeclared)
                    many = 1 if share.alone else rows * entities
                    total.add(table, "write", table, share.form.sort, share.form.name, many, share.key.plus(share.held))
            if fan is not None:
                touch = fan.views if table == "views" else fan.counts
                rows = touch.rows * following + (touch.once if following else 0)
                total.missing(touch.undeclared)
                total.add(table, "write", table, "rows of carriers", touch.because, rows, touch.size)


def _because(fan: FanOut | None) -> str:
    return "" if fan is None else f"copies in {', '.join(fan.holders)}"
