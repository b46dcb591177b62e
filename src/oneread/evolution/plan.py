"""How a declared schema becomes the next version of the stored one, or why it cannot.

Everything is compared before anything is refused, so that all differences are reported together. See "Schema history"
and "View states" of the decisions page and docs/explanation/schema-evolution.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal

import msgspec

from oneread.errors import SchemaMismatch
from oneread.evolution.compare import Comparison, Difference, What, added_origins, renamed_route
from oneread.evolution.declare import DeclaredModel, DeclaredRule, DeclaredSchema, DeclaredView, rule_text
from oneread.models.descriptions import Nested, same_type
from oneread.models.expressions import rerouted
from oneread.models.versions import (
    Past,
    Retired,
    StoredLayout,
    StoredSchema,
    StoredView,
    ViewState,
)
from oneread.store.limits import LAST_NUMBER

_CLASS_MISSING: Final = (
    "the store holds this and the schema does not declare it; declare it (`stored_as` after a rename of the class), "
    "or drop it first: oneread migrate apply --drop NAME, in Python migration(url, schema).apply(drop=[NAME])"
)
_UNDECLARED: Final = (
    "stored rows hold this field as another type; declare retyped(...) until a backfill has rewritten them"
)


_BREAKING: Final[dict[What, str]] = {
    "added": "it is copied, guarded, stamped or a total, or needs a value, which they do not do",
    "dropped": "they expect it",
    "renamed": "they know it under its old name",
    "retyped": "they write values of its old type",
    "widened": "they cannot read every value that may be stored now",
    "changed": "they keep to what was declared before",
    "reordered": "they keep its values in the old order",
}
"""Why a program that does not know a difference may not write any more."""


_LOGGING: Final = {
    True: "its changes are logged now, and they would not log what they write",
    False: "its changes are not logged any more, and they would wait for them",
}
"""Why programs that declare a view watched, or a model logged, and others never write at the same time."""


class Evolved(msgspec.Struct, frozen=True):
    """The next version of the stored schema, and every difference, refused ones included.

    `reasons` say why programs with an older schema may not write any more once it is stored; without one they may.
    """

    stored: StoredSchema
    differences: tuple[Difference, ...]
    reasons: tuple[str, ...] = ()


def evolve(
    stored: StoredSchema,
    declared: DeclaredSchema,
    populated: Mapping[str, bool],
    now: int,
    drop: Collection[str] = (),
) -> Evolved:
    """Compares the declared schema with the stored one.

    `populated` says which stored kinds have rows, `now` is in milliseconds since 1970, and `drop` holds the stored
    names of models and views to remove.
    """
    return _Evolution(stored, declared, populated, frozenset(drop)).result(now)


def refuse(evolved: Evolved) -> None:
    """Raises SchemaMismatch for the first impossible difference; nothing has been written."""
    refused = [each for each in evolved.differences if each.refused]
    if not refused:
        return
    first = refused[0]
    raise SchemaMismatch(
        first.refused,
        **{first.of: first.name},
        **({"field": first.field} if first.field else {}),
        **({"stored": first.before} if first.before else {}),
        **({"declared": first.after} if first.after else {}),
        changed=[each.field or each.name for each in refused],
    )


def undeclared(stored: StoredSchema, declared: DeclaredSchema) -> list[tuple[str, str, str]]:
    """(model, field, type) for each conversion that stored rows need and the schema no longer declares."""
    missing: list[tuple[str, str, str]] = []
    for model in declared.models:
        nested = Nested(model.nested, frozenset(model.arrays))
        for layout in stored.older.get(model.name, ()):
            missing.extend(
                (model.name, origin.field, str(was))
                for origin in layout.origins
                for was in origin.was
                if not any(same_type(was, each, nested) for each in model.was.get(origin.field, ()))
            )
    return missing


def refuse_undeclared(stored: StoredSchema, declared: DeclaredSchema) -> None:
    """Raises SchemaMismatch where the schema lacks a conversion without which stored rows cannot be read."""
    for model, field, was in undeclared(stored, declared)[:1]:
        raise SchemaMismatch(_UNDECLARED, model=model, field=field, was=was)


class _Evolution:
    def __init__(
        self, stored: StoredSchema, declared: DeclaredSchema, populated: Mapping[str, bool], drop: frozenset[str]
    ) -> None:
        self._stored = stored
        self._declared = declared
        self._populated = populated
        self._drop = drop
        self._differences: list[Difference] = []
        self._last = stored.last
        self._reasons: list[str] = []
        self._kinds = dict(stored.kinds)
        self._layouts = dict(stored.layouts)
        self._older = dict(stored.older)
        self._former = stored.former
        self._views = dict(stored.views)
        self._retired = list(stored.retired)
        self._kind_of = {each.name: each.kind for each in declared.models}
        self._touched: set[tuple[str, str]] = set()
        self._renew: set[str] = set()
        self._notify_again: set[str] = set()
        self._logged: dict[str, int] = {}
        aliases = {layout.cls: name for name, layout in stored.layouts.items() if layout.cls}
        aliases |= {each.cls: each.name for each in declared.models}
        self._compared = {
            model.name: Comparison(
                stored.layouts[model.name], model, aliases, free=not populated.get(model.kind, False)
            )
            for model in declared.models
            if model.name in stored.layouts
        }
        self._routes = self._all_routes()
        self._declared_views = {view.name: view for view in declared.views}

    def _all_routes(self) -> dict[str, dict[str, str]]:
        """For each model, stored paths to declared ones, those of its variants included."""
        by_kind: dict[str, dict[str, str]] = {}
        for name, each in self._compared.items():
            kind = by_kind.setdefault(self._kind_of[name], {})
            for before, after in each.moved.items():
                kind.setdefault(before, after)
        return {name: by_kind.get(kind, {}) for name, kind in self._kind_of.items()}

    def result(self, now: int) -> Evolved:
        self._find_missing()
        for each in self._compared.values():
            each.compare(self._routes)
            kind = each.declared.kind
            if each.stored.kind != kind:
                why = "an entity class cannot move to another model; declare another class"
                kinds = each.stored.kind, kind
                self._differences.append(Difference("changed", "model", each.declared.name, "", *kinds, why))
            self._touched |= {(kind, path) for path in each.touched}
        self._spread_changes()
        for model in self._declared.models:
            self._next_layout(model)
        self._next_logs()
        for view in self._declared.views:
            self._next_view(view)
        self._differences[:0] = [one for each in self._compared.values() for one in each.differences]
        return Evolved(self._next(now), tuple(self._differences), tuple(self._reasons))

    def _find_missing(self) -> None:
        declared = {each.name for each in self._declared.models}
        for name in self._stored.layouts:
            if name not in declared:
                self._report_missing("model", name)
                if name in self._drop:
                    del self._layouts[name]
                    self._older.pop(name, None)
                    self._former = {each: layouts for each, layouts in self._former.items() if each != name}
        kinds = {layout.kind for layout in self._layouts.values()}
        self._kinds = {name: number for name, number in self._kinds.items() if name in kinds}
        declared = {each.name for each in self._declared.views}
        hidden = {name for each in self._declared.views for name in each.hidden}
        for name in self._stored.views:
            owner = name.rpartition(".")[0]
            if name in declared or name in hidden or owner in declared:
                continue  # the hidden index of an extremum is retired with its view's generation
            if owner not in self._stored.views:
                self._report_missing("view", name)
            if name in self._drop or owner in self._drop:
                self._retire(name)
                del self._views[name]

    def _report_missing(self, of: Literal["model", "view"], name: str) -> None:
        is_dropped = not self._drop.isdisjoint((name, name.rpartition(".")[0]))  # a ttl's index with its model
        why = "" if is_dropped else _CLASS_MISSING
        self._differences.append(Difference("dropped", of, name, refused=why, loses=of == "model"))
        self._reasons.append(f"{name} is dropped, and they still use it")

    def _retire(self, name: str) -> None:
        known = self._stored.views[name]
        if self._populated.get(known.kind, False):
            self._retired.append(Retired(name, known.number, known.generation))

    def _spread_changes(self) -> None:
        """Marks every copied value, shown or hidden, as changed when its source's value is."""
        grown = True
        while grown:
            grown = False
            for each in self._compared.values():
                grown |= self._spread_to(each)
        for each in self._compared.values():
            if any(self._is_touched(each.declared.kind, path, whole=True) for path in each.declared.copied_from):
                self._notify_again.add(each.declared.kind)

    def _spread_to(self, each: Comparison) -> bool:
        kind, before = each.declared.kind, len(self._touched)
        for rollup in each.declared.rollups:
            if rollup.view and rollup.field in each.origins and not self._keeps_groups(rollup.view):
                each.report_rebuilt(rollup)
                self._touched.add((kind, rollup.field))
        for far in each.declared.copied:
            origin = each.origins.get(far.path)
            has_value = origin is not None and not origin.was
            if has_value and self._is_touched(self._kind(far.target), far.route, whole=True):
                each.report_lacking(far.path, far.path, far.path)
                self._touched.add((kind, far.path))
        for far in each.declared.hidden:
            if self._is_touched(self._kind(far.target), far.route, whole=True):
                self._touched.add((kind, far.path))
                self._renew.add(each.declared.name)
        return len(self._touched) > before

    def _kind(self, model: str) -> str:
        return self._kind_of.get(model, model)

    def _is_touched(self, kind: str, path: str, *, whole: bool) -> bool:
        """Whether a path or one it leads through has changed; with `whole`, anything below it too."""
        return any(
            of == kind and (path == each or path.startswith(f"{each}.") or (whole and each.startswith(f"{path}.")))
            for of, each in self._touched
        )

    def _number(self) -> int:
        self._last += 1
        if self._last > LAST_NUMBER:
            raise SchemaMismatch(
                "this store has had too many models and views; dump it and load it into a new one", limit=LAST_NUMBER
            )
        return self._last

    def _next_layout(self, model: DeclaredModel) -> None:
        if model.kind not in self._kinds:
            self._kinds[model.kind] = self._number()
        each = self._compared.get(model.name)
        if each is None:
            self._layouts[model.name] = _layout(self._number(), model)
            if self._binds_others(model):
                self._reasons.append(
                    f"{model.name} copies from entities that exist, or guards them, and they do not look after it"
                )
            return
        renew, notify_again = model.name in self._renew, model.kind in self._notify_again
        if not each.differences and not (renew or notify_again):
            self._layouts[model.name] = _layout(each.stored.number, model)
            return
        breaking = _why_breaking(each, renew=renew, notify_again=notify_again)
        self._reasons.extend(breaking)
        self._layouts[model.name] = _layout(self._number(), model)
        if each.free and breaking:  # no row has an older layout, and none will: those who would write one are cut off
            self._older.pop(model.name, None)
            return
        former = msgspec.structs.replace(
            each.stored, origins=tuple(each.origins.values()), renew=renew, notify_again=notify_again
        )
        earlier = tuple(
            _behind(one, each, renew=renew, notify_again=notify_again) for one in self._older.get(model.name, ())
        )
        self._older[model.name] = (*earlier, former)
        unused = tuple(
            _behind(one, each, renew=renew, notify_again=notify_again) for one in self._former.get(model.name, ())
        )
        self._former = self._former | ({model.name: unused} if unused else {})

    def _next_logs(self) -> None:
        """Notes since which version the entities of each model are logged."""
        known, wanted = self._stored.logged, {model.kind for model in self._declared.models if model.is_logged}
        self._logged = {kind: known.get(kind, self._stored.version + 1) for kind in sorted(wanted)}
        for kind in sorted((known.keys() ^ wanted) & self._kinds.keys() & self._stored.kinds.keys()):
            self._report_log("model", kind, "logged", begins=kind in wanted)

    def _report_log(self, of: Literal["model", "view"], name: str, option: str, *, begins: bool) -> None:
        """Reports that a model or view is logged from now on, or not any more."""
        before, after = (f"not {option}", option) if begins else (option, f"not {option}")
        self._differences.append(Difference("changed", of, name, option, before, after))
        self._reasons.append(f"{name}: {_LOGGING[begins]}")

    def _binds_others(self, model: DeclaredModel) -> bool:
        """Whether programs that do not know a new model can break its entities by writing or deleting others.

        They can where it copies from entities that exist, forbids that they are deleted, or is deleted with them.
        """
        copies = {each.name.partition(".")[0] for each in model.fields if "." in each.name}
        holds = {name for name, text in model.promises if "on_delete=keep" not in text}
        targets = {target for name, target in model.targets if name in copies | holds}
        targets |= {far.target for far in (*model.copied, *model.hidden)}
        return any(self._populated.get(self._kind(target), False) for target in targets)

    def _next_view(self, view: DeclaredView) -> None:
        state: ViewState = "building" if self._populated.get(view.kind, False) else "readable"
        known = self._stored.views.get(view.name)
        if known is None:
            self._differences.append(Difference("added", "view", view.name, after=state))
            if state == "readable" and view.kind in self._stored.kinds:
                self._reasons.append(f"{view.name} is readable at once, and what they write is not in it")
            for name in (view.name, *view.hidden):
                number, watched = self._number(), self._watched_since(name, view)
                self._views[name] = StoredView(number, 1, state, view.kind, view.fields, view.model, watched)
            return
        own = self._hidden_of(view)
        if self._is_same_view(known, view) and len(own) == len(view.hidden):
            self._keep_view(known, view, own)
            return
        before, after = _rules(known.fields, view.fields), _rules(view.fields, known.fields)
        self._differences.append(Difference("new generation", "view", view.name, "", before, after))
        self._reasons.append(f"{view.name} has other rules or values now, and they write it as it was")
        for name in (view.name, *own):
            self._retire(name)
            del self._views[name]
        for name in (view.name, *view.hidden):
            self._views[name] = self._next_generation(name, view, state)

    def _hidden_of(self, view: DeclaredView) -> list[str]:
        """The stored keyspaces that stay and go with a view: those of its extrema, and of a ttl that it has no more.

        The expiry index of a ttl that it has is declared, so a view of its own.
        """
        return [
            name
            for name in self._stored.views
            if name.rpartition(".")[0] == view.name and name not in self._declared_views
        ]

    def _keep_view(self, known: StoredView, view: DeclaredView, own: list[str]) -> None:
        """Keeps a view's rows, which hold no names: fields may be called otherwise.

        An extremum has a keyspace by its field's name, which programs under the old name look for; the further
        keyspaces of a feed have names of their own.
        """
        named = [(old, rule) for (old, _text), rule in zip(known.fields, view.rules, strict=False)]
        renames = {old: rule.name for old, rule in named}
        folds = {f"{view.name}.{old}": f"{view.name}.{rule.name}" for old, rule in named if rule.before[0] == "fold"}
        for name in own:
            del self._views[name]
        for name in (view.name, *own):
            kept = folds.get(name, name)
            watched = self._watched_since(name, view)
            self._views[kept] = msgspec.structs.replace(
                self._stored.views[name], fields=view.fields, model=view.model, watched=watched
            )
            if kept != name:
                self._reasons.append(f"{kept}: {_BREAKING['renamed']}")
        if view.is_watched != bool(known.watched):
            self._report_log("view", view.name, "watched", begins=view.is_watched)
        for old, new in renames.items():
            if old != new:
                self._differences.append(Difference("renamed", "view", view.name, new, old, new))

    def _next_generation(self, name: str, view: DeclaredView, state: ViewState) -> StoredView:
        before, watched = self._stored.views.get(name), self._watched_since(name, view)
        if before is None or before.generation == LAST_NUMBER:
            return StoredView(self._number(), 1, state, view.kind, view.fields, view.model, watched)
        return StoredView(before.number, before.generation + 1, state, view.kind, view.fields, view.model, watched)

    def _watched_since(self, name: str, view: DeclaredView) -> int:
        """The version since which the rows of a view's keyspace are logged; one that begins to be has a new version.

        Whether rows are logged does not change them, so the view is not built again.
        """
        if not view.is_watched or name != view.name:
            return 0
        known = self._stored.views.get(name)
        return known.watched if known is not None and known.watched else self._stored.version + 1

    def _is_same_view(self, known: StoredView, view: DeclaredView) -> bool:
        """Whether a view's rows can stay: the same rules, names apart, on values that did not change."""
        if known.kind != view.kind or known.model not in ("", view.model):
            return False
        if not self._keeps_groups(view.model) if view.is_of_groups else view.model not in self._compared:
            return False
        ways = [way for rule in view.rules for way in rule.ways] + list(view.conditions.values())
        for *through, (model, path) in ways:
            if self._is_touched(self._kind(model), path, whole=True):
                return False
            if any(self._is_touched(self._kind(on), step, whole=False) for on, step in through):
                return False
        before, rules = self._as_before(view), len(view.rules)
        texts = [text for _name, text in known.fields[:rules]], [text for _name, text in before[:rules]]
        return texts[0] == texts[1] and known.fields[rules:] == before[rules:]

    def _keeps_groups(self, name: str) -> bool:
        """Whether the groups of an aggregate can stay as they are stored."""
        known = self._stored.views.get(name)
        return known is not None and self._is_same_view(known, self._declared_views[name])

    def _as_before(self, view: DeclaredView) -> tuple[tuple[str, str], ...]:
        """A view's rules as the store would describe them with the stored names and types."""
        stored = () if view.is_of_groups else self._compared[view.model].stored.fields
        types = {each.name: str(each) for each in stored}
        rules = [(rule.name, rule_text(rule, self._paths_before(rule), types)) for rule in view.rules]
        if view.condition is not None:
            names = {path: self._path_before(way, path) for path, way in view.conditions.items()}
            rules.append(("where", rerouted(view.condition, names).canonical().hex()))
        return (*rules, *view.options)

    def _routes_of(self, name: str) -> Mapping[str, str]:
        """The fields of an entity class that had another name, by that one; those of an aggregate that is kept."""
        view, known = self._declared_views.get(name), self._stored.views.get(name)
        if view is None or known is None:
            return self._routes.get(name, {})
        return {old: rule.name for (old, _text), rule in zip(known.fields, view.rules, strict=False)}

    def _paths_before(self, rule: DeclaredRule) -> list[str]:
        """The stored names of the paths of a rule."""
        return [self._path_before(way, path) for way, path in zip(rule.ways, rule.paths, strict=True)]

    def _path_before(self, way: Iterable[tuple[str, str]], path: str) -> str:
        """The stored name of a path."""
        parts = []
        for model, step in way:
            former = {after: before for before, after in self._routes_of(model).items()}
            parts.append(renamed_route(step, former))
        return ".".join(parts) or path

    def _next(self, now: int) -> StoredSchema:
        stored = self._stored
        found = msgspec.structs.replace(
            stored,
            last=self._last,
            kinds=self._kinds,
            layouts=self._layouts,
            views=self._views,
            older=self._older,
            former=self._former,
            retired=tuple(self._retired),
            logged=self._logged,
            dropped=tuple(sorted((self._drop | {*stored.dropped}) - self._layouts.keys() - self._views.keys())),
        )
        is_new = self._last != stored.last or bool(self._reasons)
        version = stored.version + 1 if is_new else stored.version
        if found == stored and any(past.declared == self._declared.digest for past in stored.history):
            return stored
        return msgspec.structs.replace(
            found,
            version=version,
            writers=version if self._reasons and stored.version else stored.writers,
            history=(*stored.history, Past(version, self._declared.digest, now)),
        )


def _why_breaking(each: Comparison, *, renew: bool, notify_again: bool) -> list[str]:
    """Why a program that knows the stored layout only would break rows of the new one, or what is derived from them."""
    found = [
        f"{one.name}{'.' if one.field else ''}{one.field}: {_BREAKING[one.what]}"
        for one in each.differences
        if not each.is_compatible(one)
    ]
    if (renew or notify_again) and not found:
        found.append(f"{each.declared.name}: a view or a copy needs values of it that they do not give on")
    return found


def _layout(number: int, model: DeclaredModel) -> StoredLayout:
    return StoredLayout(number, model.kind, model.fields, model.cls, model.promises, model.targets, model.arrays)


def _behind(layout: StoredLayout, step: Comparison, *, renew: bool, notify_again: bool) -> StoredLayout:
    """An older layout after one more change of the schema."""
    return msgspec.structs.replace(
        layout,
        origins=added_origins(layout.origins, step.origins),
        renew=layout.renew or renew,
        notify_again=layout.notify_again or notify_again,
    )


def _rules(fields: Iterable[tuple[str, str]], others: Iterable[tuple[str, str]]) -> str:
    """The rules that differ from the other side's."""
    known = set(others)
    return "; ".join(f"{name}: {text}" for name, text in fields if (name, text) not in known)
