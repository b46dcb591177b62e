"""Indexes: an entity's rows in other orders, each with the fields that a list shows.

A row's key is the view's prefix, the values of the key rules and the entity's key; its value is a whole instance of the
index class, so a page is one range read. See docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import msgspec

from oneread.derivations.access import Access, Accesses, ValuePath
from oneread.derivations.derivation import (
    CompiledView,
    Compiling,
    Keyspace,
    RowForm,
    key_paths,
    key_values,
    owner_offset,
)
from oneread.derivations.emitted_record import ROWS, UNIQUE, view_token
from oneread.derivations.expiry import own_expiry, row_expiries
from oneread.derivations.keyed import KeyRule, ViewKey
from oneread.derivations.operations import (
    CompiledCondition,
    ExpiresAt,
    FirstExpiry,
    Operation,
    SkipExpired,
    ViewProgram,
)
from oneread.derivations.row_operations import (
    OwnKey,
    PutClaim,
    PutRow,
    ShownCopy,
    ShownItem,
    ShownReference,
    ShownValue,
)
from oneread.derivations.rules import Rule, rules_of
from oneread.derivations.shown_rows import ShownRows, copy_shown
from oneread.derivations.views import Index, View
from oneread.errors import InvalidDeclaration, InvalidKey
from oneread.errors import shown as text_of
from oneread.models.expiry import is_living_row
from oneread.models.expressions import Expression
from oneread.models.expressions import compile as compiled_condition
from oneread.models.paths import path_of
from oneread.models.references import Copy, copied_names
from oneread.models.registry import EntityKind
from oneread.models.types import Names, field_types, type_of, types_of, unwrap
from oneread.models.versions import Description
from oneread.models.wide import pack_wide
from oneread.plans.effects import Now, Together
from oneread.plans.plan import Plan
from oneread.store.limits import KEY_BYTES, VALUES_BYTES
from oneread.store.rows import VALUE, RowRange
from oneread.transactions.first_rows import first_row

_pack = msgspec.msgpack.Encoder(uuid_format="bytes").encode


class IndexView(ShownRows):
    """One index, compiled."""

    parts: tuple[type[View[Any]], ...] = ()
    merged: tuple[bytes, ...] = ()
    pack_row: Callable[[tuple[Any, ...]], bytes] = staticmethod(_pack)
    """The value of a row; raises OverflowError for one with ints beyond 64 bits."""
    is_framed = False
    """Whether that is in parts, behind their lengths."""

    def __init__(self, cls: type[Index[Any]], compiling: Compiling) -> None:
        prefix, accesses = compiling.prefix, compiling.accesses
        self.model = compiling.model
        self.groups = compiling.groups
        self.prefix = prefix
        self._source: type = self.model if self.groups is None else self.groups.cls
        self._expiries = row_expiries(cls, self._source)
        rules = rules_of(cls)
        if folds := [name for name, rule in rules.items() if rule.kind == "fold"]:
            raise InvalidDeclaration("an index has no totals; declare an Aggregate", view=cls, field=folds[0])
        keyed = {name: self._with_bucket(rule) for name, rule in rules.items() if rule.kind == "key"}
        self.key = ViewKey(cls, self._source, keyed, accesses, compiling.kinds)
        if self.groups is not None:
            _check_groups(cls, self.groups, self.key)
        if cls.unique and not self.key.parts:
            raise InvalidDeclaration("a unique index needs a key rule: by(...)", view=cls)
        only_refer = keyed if self.groups is None else rules  # a group has no values of its copies
        super().__init__(cls, only_refer, compiling, has_expiries=bool(self._expiries))
        self.unique = self.can_find = cls.unique
        if self.unique and any(part.access.through is not None or part.access.rank for part in self.key.parts):
            raise InvalidDeclaration("a unique value is the entity's own, never copied or rolled up", view=cls)
        rows, claims = view_token(ROWS, prefix), view_token(UNIQUE, prefix)
        self.tokens: tuple[int, ...] = (rows, claims) if self.unique else (rows,)
        self._shows = _row_items(self, self._source, accesses)
        self._where = compile_where(cls, self._source, accesses)
        own = own_expiry(cls)
        expiries = self._expiries or (() if own is None else (own,))
        self._ends = tuple(ExpiresAt(rule, accesses.of_route(self._source, rule.path).value) for rule in expiries)

    def _with_bucket(self, rule: Rule) -> Rule:
        """A rule that takes a time bucket of groups, as one of that size: any instant finds its bucket."""
        steps = path_of(rule.field).names
        group = None if self.groups is None or len(steps) != 1 else rules_of(self.groups.cls).get(steps[0])
        if group is None or group.size is None or rule.size is not None or rule.hashed:
            return rule
        return msgspec.structs.replace(rule, size=group.size)

    def program(self) -> ViewProgram:
        ends = self._ends
        if self._expiries:
            once: list[Operation] = [FirstExpiry(ends)]
        else:
            once = [SkipExpired(ends)] if ends else []
        most = None if self.groups is None else VALUES_BYTES + KEY_BYTES + self.key.spread_bytes
        rows: list[Operation] = [
            PutRow(
                self.tokens[0], self.prefix, self._shows, self.pack_row, self._pack_wide, bool(self._expiries), most,
                self._refuse_long, self.is_framed,
            )
        ]  # fmt: skip
        if self.unique:
            claimed = tuple(part.access.value for part in self.key.parts)
            rows.append(PutClaim(self.tokens[1], self.prefix, claimed))
        return self.key.program(self._where, once, rows)

    def _refuse_long(self, length: int) -> NoReturn:
        raise InvalidKey(
            "the values of an index row and the key of its group are too long together",
            view=self.cls,
            length=length,
            limit=VALUES_BYTES + KEY_BYTES,
        )

    def _pack_wide(self, row: tuple[Any, ...]) -> bytes:
        return self.layout.wide_prefix + pack_wide(row)

    def keyspaces(self, kind: EntityKind) -> tuple[Keyspace, ...]:
        name, values = self.cls.__name__, key_values(self.key)
        rows = Keyspace(
            self.prefix, "views", name, kind, values, owner_offset(self.key),
            fields=self.named_values, groups=b"" if self.groups is None else self.groups.prefix,
        )  # fmt: skip
        return (rows, Keyspace(self.prefix, "counts", name, kind, values)) if self.unique else (rows,)

    def probed_values(self) -> Iterable[tuple[str, Access, Callable[[Any], object]]]:
        return [(part.field, part.access, part.check()) for part in self.key.parts]

    def find_many(self, wanted: Sequence[tuple[Any, ...]]) -> Plan[list[Any]]:
        ranges = [self.key.codec.prefix_range(values, prefix=self.prefix) for values in wanted]
        scans = [first_row("views", RowRange(within.start, within.stop or b"")) for within in ranges]
        found = [(yield from scans[0])] if len(scans) == 1 else (yield from Together(scans))
        if self._expiries:
            now = yield from Now()
            found = [None if each is None or not is_living_row(each[1][VALUE].value, now) else each for each in found]
        return [None if each is None else self.decode_rows([each[1][VALUE].value])[0] for each in found]

    def explain_find(self, place: bytes) -> list[str]:
        return [f"scan views for the first row of {self.cls.__name__}{text_of(key_values(self.key)(place))}"]

    def forms(self) -> tuple[RowForm, ...]:
        place = key_paths(self.key)
        shown = frozenset(path_of(rule.field).names for rule in rules_of(self.cls).values() if rule.kind == "shown")
        shown |= {rule.path for rule in self._expiries}
        name = self.cls.__name__
        rows = RowForm(
            name, "index rows", "index row", "index rows", "views", place, shown, "row",
            found="scan" if self.unique else None, paged="rows",
        )  # fmt: skip
        if not self.unique:
            return (rows,)
        return (rows, RowForm(name, "claim", "claim", "claims", "counts", place, frozenset(), "owner"))


def check_index(view: type[Index[Any]], _names: Names) -> None:
    """Raises InvalidDeclaration for wrong options of an index."""
    if type(view.unique) is not bool:
        raise InvalidDeclaration("unique: expected True or False", view=view)
    if view.unique and view.spread > 1:
        raise InvalidDeclaration(
            "a unique index is not spread: a value is looked up in one range, and its claim is one row; leave `spread` "
            "out, or page another index that is spread",
            view=view, spread=view.spread,
        )  # fmt: skip


def index_options(view: type[Index[Any]]) -> Description:
    """What the store keeps of an index's options."""
    unique = (("unique", "true"),) if view.unique else ()
    return (*unique, ("spread", str(view.spread))) if view.spread > 1 else unique


def _row_items(index: IndexView, source: type, accesses: Accesses) -> tuple[ShownItem, ...]:
    """What a row shows, in the order of the class's fields."""
    cls = index.cls
    shows: list[ShownItem] = [OwnKey()]
    types = field_types(cls, accesses.names)
    parts = {part.field: part for part in index.key.parts}
    for name, rule in rules_of(cls).items():
        part = parts.get(name)
        if part is not None:
            check_type(cls, name, types[name], part.access, optional=rule.none is not None)
            shows.append(_key_item(part, copy_shown(cls, name, accesses.names)))
        else:
            access = accesses.of_path(cls, name, rule.field, source)
            item = _shown_item(cls, name, rule, access, types[name], accesses)
            shows.append(_referring(access.value, access, access.copy) if name in index.referring else item)
    return tuple(shows)


def _check_groups(cls: type[Index[Any]], groups: CompiledView, key: ViewKey) -> None:
    """Refuses what an index over groups cannot be."""
    if not groups.key.parts:
        raise InvalidDeclaration("this aggregate has one group only: read it with get", view=cls, aggregate=groups.cls)
    if cls.unique:
        raise InvalidDeclaration("an index over groups is never unique: a group is found by its own key", view=cls)
    several = [part.field for part in key.parts if part.access.many]
    if several:
        raise InvalidDeclaration(
            "an index over groups has one row for each group: show the whole list with shown(...), without each(...)",
            view=cls, field=several[0],
        )  # fmt: skip


def _key_item(part: KeyRule, copy: type[Copy[Any]] | None) -> ShownItem:
    """A key rule's value as the row shows it; a copy only refers, else its fields would have to follow their source."""
    value = None if part.access.many else part.access.value
    return ShownValue(value, bucket=part.rule.size) if copy is None else _referring(value, part.access, copy)


def _referring(value: ValuePath | None, access: Access, copy: type[Copy[Any]] | None) -> ShownReference:
    """A copy that only refers."""
    return ShownReference(value, access.copy is not None, 0 if copy is None else len(copied_names(copy)))


def _shown_item(
    cls: type[View[Any]], name: str, rule: Rule, access: Access, annotation: object, accesses: Accesses
) -> ShownItem:
    if rule.kind != "shown":
        raise InvalidDeclaration("an index has key rules and shown(...) fields only", view=cls, field=name)
    if access.stands_for is not None:
        raise InvalidDeclaration(
            "a copy two entities away shows nothing; show one of its fields: "
            "shown(within(Comment.post, within(Post.author, Author.name))), or ...Author.ref",
            view=cls, field=name, path=str(path_of(rule.field)),
        )  # fmt: skip
    check_type(cls, name, annotation, access, optional=access.optional)
    if access.copy is None:
        return ShownValue(access.value, holds_sets=type_of(annotation, accesses.names).holds_sets)
    copied = types_of(access.copy, accesses.names)
    return ShownCopy(access.value, tuple((field, copied[field].holds_sets) for field in copied_names(access.copy)))


def check_type(cls: type[View[Any]], name: str, annotation: object, access: Access, *, optional: bool) -> None:
    """Raises InvalidDeclaration unless a view's field has its source's type, and allows None if that is possible."""
    bare, allowed, _metadata = unwrap(annotation)
    if bare != access.type and (access.stands_for is None or bare is not access.stands_for):
        raise InvalidDeclaration(
            "this field of a view has another type than its source",
            view=cls,
            field=name,
            declared=bare,
            source=access.type,
        )
    if optional and not allowed:
        raise InvalidDeclaration("this value may be None: declare it as `| None`", view=cls, field=name)


def compile_where(cls: type[View[Any]], model: type, accesses: Accesses) -> CompiledCondition | None:
    """Compiles the `where` of a view; None without one."""
    return None if cls.where is None else compile_condition(cls, "where", cls.where, model, accesses)


def compile_condition(
    cls: type[View[Any]], field: str, given: object, model: type, accesses: Accesses
) -> CompiledCondition:
    """Compiles the condition of a view, which `field` has: `where`, or a number of an aggregate."""
    if not isinstance(given, Expression):
        raise InvalidDeclaration(
            "`where` is a condition: where = field(Purchase.quantity) > 0", view=cls, field=field, given=given
        )
    for path in given.paths():
        if accesses.of_path(cls, field, path, model).hidden is not None:
            raise InvalidDeclaration(
                "a condition sees an entity and the fields of its copies; let a copy show this field",
                view=cls, field=field, path=str(path),
            )  # fmt: skip
    return CompiledCondition(given, compiled_condition(given))
