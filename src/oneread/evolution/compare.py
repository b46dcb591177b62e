"""Compares a declared entity class with its stored layout: where each field is in stored rows, and what is refused.

See "Schema history" of the decisions page and docs/explanation/schema-evolution.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from oneread.derivations.entity_groups import CHILD_OF
from oneread.evolution.declare import NUMBERS, SPREAD, DeclaredModel, DeclaredRollup
from oneread.models.descriptions import DescribedField, Nested, Types, fields_of, same_type, widens
from oneread.models.evolving import latest_names
from oneread.models.versions import Origin, StoredField, StoredLayout, Type

_OF_A_KEY: Final = (
    "key fields can be renamed and nothing else, but one may become a reference by a key of its type; declare another "
    "model and load the data into it"
)
_OF_PARTS: Final = (
    "the key that this key refers by has other parts than stored entities have; declare it as it was, or declare "
    "another model and load the data into it"
)
_OF_A_GROUP: Final = (
    "entities that are stored cannot enter, leave or change their entity group, nor how it numbers them; declare it as "
    "it was, or load their dump into another store"
)

_OF_A_SPREAD: Final = (
    "stored entities are where `spread` has put them; declare it as it was, or load their dump into another store"
)

What: TypeAlias = Literal[
    "added", "dropped", "undeclared", "renamed", "retyped", "widened", "changed", "reordered", "new generation"
]

_WHOLE: Final = "#"
"""In a path: the fields of a copy and their order."""

_DECLARE_AS_WAS: Final = "declare it as it was"
_OTHER_TYPE: Final = (
    "not every stored value is one of this type; declare it as it was, or declare how to convert it: "
    "evolution = (retyped(name, was=..., by=...),)"
)
_LACKING: Final = (
    "stored entities do not have this value until they are rewritten, and never will where the source is deleted; "
    "declare it `| None` in the Copy"
)


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One difference between the declared schema and the stored one.

    `field` is empty when the whole model or view differs; `refused` says why the change is impossible and what to do,
    and is empty when it is possible; `loses` warns that a backfill will delete stored values.
    """

    what: What
    of: Literal["model", "view"]
    name: str
    field: str = ""
    before: str = ""
    after: str = ""
    refused: str = ""
    loses: bool = False


class _Change(NamedTuple):
    """How the type of a value changed; `was` is the stored type where `retyped` declares how to convert it."""

    what: Literal["same", "widened", "retyped", "changed"]
    was: tuple[Type, ...] = ()


class Comparison:
    """Compares one entity class with its stored layout.

    `aliases` maps the name of a model's class, stored or declared, to its stored name. When `free`, the store has
    no rows of the class and every change is possible. `layouts` are all that are stored now. `origins` maps each
    declared path to its place in the stored layout, `moved` maps stored paths to declared ones; `touched` are the
    declared paths whose values are new or mean something else.
    """

    def __init__(
        self,
        stored: StoredLayout,
        declared: DeclaredModel,
        aliases: Mapping[str, str],
        *,
        free: bool,
        layouts: Mapping[str, StoredLayout],
    ) -> None:
        self.stored = stored
        self.declared = declared
        self.free = free
        self._parts = parts_behind(layouts, stored)
        self.differences: list[Difference] = []
        self.origins: dict[str, Origin] = {}
        self.touched: set[str] = set()
        self._old_nested = Nested(frozenset(), frozenset(stored.arrays), aliases)
        self._new_nested = Nested(declared.nested, frozenset(declared.arrays), aliases)
        self.old = fields_of(stored.fields)
        self.new = fields_of(declared.fields)
        self._old_types = Types((each.type for each in self.old.values()), self._old_nested)
        self._new_types = Types((each.type for each in self.new.values()), self._new_nested)
        self.names = latest_names(declared.steps, self.old, self.new)
        self.moved: dict[str, str] = dict(self.names)
        self.inner_names: dict[str, dict[str, str]] = {}
        for before, after in self.names.items():
            if self.old[before].copy is not None and self.new[after].copy is not None:
                self._name_inner(before, after)

    def _name_inner(self, before: str, after: str) -> None:
        steps = self.declared.copy_steps.get(after, ())
        names = self.inner_names[after] = latest_names(steps, self.old[before].inner, self.new[after].inner)
        self.moved |= {f"{before}.{old}": f"{after}.{new}" for old, new in names.items()}

    def compare(self, routes: Mapping[str, Mapping[str, str]]) -> None:
        """Compares field by field; `routes` maps, for each target, its stored paths to the declared ones."""
        former = {after: before for before, after in self.names.items()}
        self._compare_keys()
        for name, field in self.new.items():
            if name not in former:
                self._add(name, field)
                continue
            before = former[name]
            if before != name:
                self._report("renamed", name, before, name)
            self._compare_field(before, name, routes)
        for name, field in self.old.items():
            if name not in self.names and field.type.name != "Key":
                self._report("dropped", name, str(field.type))
        order = [self.names[name] for name in self.old if name in self.names]
        if order != [name for name in self.new if name in former]:
            self._report("reordered", "", ", ".join(order), ", ".join(self.new))
        self._compare_promises()
        self._compare_group()
        self._compare_spread()
        promises = dict(self.stored.promises)
        for each in self.declared.rollups:
            if each.field in former and promises.get(former[each.field], "") != each.promise:
                self.report_rebuilt(each)

    def _report(self, what: What, field: str, before: str = "", after: str = "", refused: str = "") -> None:
        is_own = "." not in field  # a value that was copied is still in its source
        self.differences.append(
            Difference(
                what, "model", self.declared.name, field, before, after, "" if self.free else refused,
                loses=what == "dropped" and is_own and not self.free,
            )
        )  # fmt: skip

    def _compare_keys(self) -> None:
        before = tuple(self.names.get(name, name) for name, each in self.old.items() if each.type.name == "Key")
        if before != self.declared.keys:
            self._report("changed", "", ", ".join(before), ", ".join(self.declared.keys), _OF_A_KEY)

    def _add(self, name: str, field: DescribedField) -> None:
        self.touched.add(name)
        lacking = "stored entities lack this field; give it a default, or declare it `| None`"
        gone = [each for each in self.old if self.names.get(each, each) not in self.new]
        if gone and "." not in name:
            lacking += f'; if it is a stored field under a new name, declare `renamed("{gone[0]}", to="{name}")`'
        self._report("added", name, after=str(field.type), refused="" if name in self.declared.blanks else lacking)

    def _compare_field(self, before: str, name: str, routes: Mapping[str, Mapping[str, str]]) -> None:
        old, new = self.old[before], self.new[name]
        self._refuse_other_target(before, name)
        if old.copy is not None and new.copy is not None:
            self.origins[name] = Origin(name, before)
            self._compare_copies(before, name, routes)
        elif old.copy is not None or new.copy is not None:
            self._compare_mixed(before, name)
        else:
            self._compare_plain(before, name)

    def _refuse_other_target(self, before: str, name: str) -> None:
        old, new = dict(self.stored.targets).get(before), dict(self.declared.targets).get(name)
        if old and new and old != new:
            refused = "a field cannot change the model it refers to; add another field"
            self._report("changed", name, old, new, refused)

    def _compare_plain(self, before: str, name: str) -> None:
        old, new = self.old[before], self.new[name]
        change = self._change_of(name, (self._old_types, old.type), (self._new_types, new.type))
        keeps_part = self._keeps_part(before, name)
        self.origins[name] = Origin(name, before, () if keeps_part else change.was)
        is_key = name in self.declared.keys
        if change.what in ("retyped", "changed"):
            self.touched.add(name)
        if change.what == "changed" or (is_key and change.what == "retyped"):
            refused = "" if keeps_part else _OF_A_KEY if is_key else _OTHER_TYPE
            self._report("changed", name, str(old.type), str(new.type), refused)
        elif before in self._parts and not self._keeps_parts(before, name):
            self._report("changed", name, str(old.type), str(new.type), _OF_PARTS)
        elif change.what != "same":
            self._report(change.what, name, str(old.type), str(new.type))

    def _keeps_part(self, before: str, name: str) -> bool:
        """Whether a part of the key became a reference by that part, or the other way round, so that keys stay."""
        old, new = self.old[before].type, self.new[name].type
        if not old.name == new.name == "Key" or (before in self._parts) == (name in self.declared.parts):
            return False
        return self._keeps_parts(before, name)

    def _keeps_parts(self, before: str, name: str) -> bool:
        """Whether a field of the key has parts that can be read as before."""
        old = self._parts.get(before, self.old[before].type.arguments[:1])
        new = self.declared.parts.get(name, self.new[name].type.arguments[:1])
        return len(old) == len(new) and all(
            widens(self._old_types, one, self._new_types, other) for one, other in zip(old, new, strict=True)
        )

    def _change_of(self, path: str, old: tuple[Types, Type], new: tuple[Types, Type]) -> _Change:
        """Finds how a value's type changed."""
        is_kept = widens(*old, *new)
        if is_kept and widens(*new, *old):
            return _Change("same")
        for given in self.declared.was.get(path, ()):
            if same_type(given, old[1], self._new_nested):
                return _Change("retyped", (given,))
        return _Change("widened" if is_kept else "changed")

    def _compare_copies(self, before: str, name: str, routes: Mapping[str, Mapping[str, str]]) -> None:
        old, new = self.old[before], self.new[name]
        self._compare_copy_promises(name, old, new)
        target = dict(self.declared.targets).get(name, "")
        former = {after: inner for inner, after in self.inner_names[name].items()}
        for inner, field in new.inner.items():
            path = f"{name}.{inner}"
            if inner not in former:
                self.report_lacking(path, after=str(field))
                continue
            if former[inner] != inner:
                self._report("renamed", path, f"{before}.{former[inner]}", path)
            self._compare_copied(path, old.inner[former[inner]], field, routes.get(target, {}))
        for inner, field in old.inner.items():
            if inner not in self.inner_names[name]:
                self._report("dropped", f"{name}.{inner}", str(field))
        self._compare_inner_order(name, list(old.inner), list(new.inner))

    def _compare_inner_order(self, name: str, old: list[str], new: list[str]) -> None:
        """An index row that shows a whole copy holds its fields in this order."""
        order = [self.inner_names[name].get(inner, "") for inner in old]
        if order != new:
            self.touched.add(f"{name}.{_WHOLE}")
        if [inner for inner in order if inner] != [inner for inner in new if inner in order]:
            self._report("reordered", name, ", ".join(order), ", ".join(new))

    def _compare_copied(self, path: str, old: StoredField, new: StoredField, routes: Mapping[str, str]) -> None:
        first, second = Types([old.type], self._old_nested), Types([new.type], self._new_nested)
        change = self._change_of(path, (first, old.type), (second, new.type))
        if change.what == "changed" or renamed_route(old.of, routes) != new.of:
            self.report_lacking(path, str(old), str(new))  # the value of another field, or of another type
            return
        self.origins[path] = Origin(path, old.name, change.was)
        if change.what == "retyped":
            self.touched.add(path)
        if change.what != "same":
            self._report(change.what, path, str(old.type), str(new.type))

    def has_path(self, path: str) -> bool:
        """Whether the declared class has a field, of a copy in it too, at this path."""
        name, _, rest = path.partition(".")
        field, inner = self.new.get(name), rest.partition(".")[0]
        if field is None or field.copy is None or not rest:
            return field is not None
        return inner == "ref" or inner in field.inner

    def report_rebuilt(self, rollup: DeclaredRollup) -> None:
        """Reports a total that stored rows do not have, or have of another group: a backfill computes it."""
        self.origins.pop(rollup.field, None)
        self.touched.add(rollup.field)
        self._report("changed", rollup.field, after=rollup.promise)

    def report_lacking(self, path: str, before: str = "", after: str = "") -> None:
        """Reports a copied value that stored rows do not have: a backfill takes it from the source."""
        self.origins.pop(path, None)
        self.touched.add(path)
        top, _, inner = path.partition(".")
        field = self.new[top].inner[inner]
        fits = top in self.declared.nullable or any(each.name == "None" for each in (field.type, *field.type.arguments))
        after = after or str(field)
        self._report("changed" if before else "added", path, before, after, "" if fits else _LACKING)

    def _compare_copy_promises(self, name: str, old: DescribedField, new: DescribedField) -> None:
        assert old.copy is not None
        assert new.copy is not None
        before, after = dict(old.copy.limits), dict(new.copy.limits)
        texts = (str(old.type), str(new.type))
        if before != after:
            tighter = (before["missing_ok"], after["missing_ok"]) == (True, False)
            tighter = tighter or (before["on_delete"] == "clear" != after["on_delete"])
            refused = f"copies without values may be stored, which this option forbids; {_DECLARE_AS_WAS}"
            self._report("changed", name, *texts, refused=refused if tighter else "")
        self._compare_optional(name, old, new)

    def _compare_optional(self, name: str, old: DescribedField, new: DescribedField) -> None:
        if old.optional and not new.optional:
            self._report(
                "changed", name, str(old.type), str(new.type), refused=f"None may be stored here; {_DECLARE_AS_WAS}"
            )
        elif new.optional and not old.optional:
            self._report("widened", name, str(old.type), str(new.type))

    def _compare_mixed(self, before: str, name: str) -> None:
        """Compares a reference that became a copy, or a copy that became a reference."""
        old, new = self.old[before], self.new[name]
        reference = new if old.copy is not None else old
        bare = [each for each in (reference.type, *reference.type.arguments) if each.name == "Ref"]
        if not bare:
            self.touched.add(name)
            self._report(
                "changed", name, str(old.type), str(new.type), f"this was another kind of field; {_DECLARE_AS_WAS}"
            )
            return
        self.origins[name] = Origin(name, before)
        self.touched.add(name)
        self._report("changed", name, str(old.type), str(new.type))
        self._compare_optional(name, old, new)
        for inner in new.inner:
            self.report_lacking(f"{name}.{inner}")

    def _compare_promises(self) -> None:
        before = {self.names[name]: text for name, text in self.stored.promises if name in self.names}
        rollups = {each.field for each in self.declared.rollups}
        for name, text in self.declared.promises:
            if name in before and before[name] != text and name not in rollups:
                self._report("changed", name, before[name], text)

    def _compare_group(self) -> None:
        """Compares the root and the number of a child: stored entities may have no such root, or any numbers.

        The part of the key that is the number may have another name.
        """
        before, after = (dict(each.promises).get(CHILD_OF, "") for each in (self.stored, self.declared))
        rest, numbers, part = before.rpartition(NUMBERS)
        if f"{rest}{numbers}{self.names.get(part, part)}" != after:
            self._report("changed", CHILD_OF, before, after, _OF_A_GROUP)

    def _compare_spread(self) -> None:
        before, after = (dict(each.promises).get(SPREAD, "1") for each in (self.stored, self.declared))
        if before != after:
            self._report("changed", SPREAD, before, after, _OF_A_SPREAD)

    def is_compatible(self, difference: Difference, taken: AbstractSet[str]) -> bool:
        """Whether programs that do not know a difference may continue.

        They may beside another order of fields, a field more, and another name of one that no entity copies, unless
        the new name is `taken` by a field that programs of before still know under it.
        """
        name = difference.field
        if difference.what == "reordered":
            return not name
        if name in taken:
            return False
        if difference.what == "renamed":
            return self._is_plain(name)
        return difference.what == "added" and name in self.declared.addable

    def _is_plain(self, name: str) -> bool:
        """Whether a field's name is in no row: it is not of the key, refers to nothing, and no entity copies it."""
        noted = dict(self.declared.promises).keys() | dict(self.declared.targets).keys() | {*self.declared.keys}
        noted |= {each.field for each in self.declared.rollups}
        copied = {path.partition(".")[0] for path in self.declared.copied_from}
        return "." not in name and name not in noted | copied

    def renamed_fields(self) -> set[str]:
        """The stored names of fields that are declared under another name."""
        return {before for before, after in self.names.items() if before != after}


def parts_behind(layouts: Mapping[str, StoredLayout], layout: StoredLayout) -> dict[str, tuple[Type, ...]]:
    """The types of the parts of each key field of a layout that refers."""
    targets = dict(layout.targets)
    return {
        each.name: tuple(_key_parts(layouts, layouts.get(targets[each.name])))
        for each in layout.fields
        if each.type.name == "Key" and each.type.arguments[0].name == "Ref"
    }


def _key_parts(layouts: Mapping[str, StoredLayout], layout: StoredLayout | None) -> Iterator[Type]:
    """The types of the parts of a key; none of a model that was dropped."""
    if layout is None:
        return
    behind = parts_behind(layouts, layout)
    for each in layout.fields:
        if each.type.name == "Key":
            yield from behind.get(each.name, each.type.arguments)


def renamed_route(route: str, names: Mapping[str, str]) -> str:
    """The declared name of a stored path; of an unknown path only the first field is renamed."""
    if route in names:
        return names[route]
    first, dot, rest = route.partition(".")
    return f"{names.get(first, first)}{dot}{rest}"
