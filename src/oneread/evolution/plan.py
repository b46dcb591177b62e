"""How a declared schema becomes the next version of the stored one, or why it cannot.

Everything is compared before anything is refused, so that all differences are reported together. See "Schema history"
and "View states" of the decisions page and docs/explanation/schema-evolution.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal

import msgspec

from oneread.errors import SchemaMismatch
from oneread.evolution.compare import Comparison, Difference
from oneread.evolution.declare import DeclaredModel, DeclaredSchema, DeclaredView
from oneread.evolution.formers import (
    EMPTY,
    NAME_TAKEN,
    OTHER_MODEL,
    former_name,
    former_of_part,
    keyspaces_of,
    moved_name,
    next_view,
    view_of_former,
    why_not_kept,
    why_not_served,
)
from oneread.evolution.known_values import KnownValues
from oneread.evolution.next_layouts import BREAKING, layout_behind, next_layout, why_breaking
from oneread.evolution.stored_rules import differing_rules
from oneread.models.versions import Past, Retired, StoredSchema, StoredView, ViewState
from oneread.store.limits import LAST_NUMBER

_CLASS_MISSING: Final = (
    "the store holds this and the schema does not declare it; declare it (`stored_as` after a rename of the class), "
    "or drop it first: oneread migrate apply --drop NAME, in Python migration(url, schema).apply(drop=[NAME])"
)
_LOGGING: Final = {
    True: "its changes are logged now, and they would not log what they write",
    False: "its changes are not logged any more, and they would wait for them",
}
"""Why programs that declare a view watched, or a model logged, and others never write at the same time."""


class Evolved(msgspec.Struct, frozen=True):
    """The next version of the stored schema, and every difference, refused ones included.

    `reasons` say why programs with an older schema may not write any more once it is stored; without one they may.
    Which these are, `stored.writers` says.
    `unserved` say of views that are built again why their former generation does not answer meanwhile.
    """

    stored: StoredSchema
    differences: tuple[Difference, ...]
    reasons: tuple[str, ...] = ()
    unserved: tuple[tuple[str, str], ...] = ()


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
        self._needed: dict[str, int] = {}
        self._kinds = dict(stored.kinds)
        self._layouts = dict(stored.layouts)
        self._older = dict(stored.older)
        self._former = stored.former
        self._views = dict(stored.views)
        self._retired = list(stored.retired)
        self._renew: set[str] = set()
        self._notify_again: set[str] = set()
        self._logged: dict[str, int] = {}
        self._unserved: list[tuple[str, str]] = []
        self._is_other = False
        self._moved: set[str] = set()
        self._decided: set[str] = set()
        self._known = KnownValues(stored, declared, populated)
        self._declared_views = self._known.declared_views

    def result(self, now: int) -> Evolved:
        self._find_missing_models()
        for each in self._known.compared.values():
            each.compare(self._known.routes)
            kind = each.declared.kind
            if each.stored.kind != kind:
                why = "an entity class cannot move to another model; declare another class"
                kinds = each.stored.kind, kind
                self._differences.append(Difference("changed", "model", each.declared.name, "", *kinds, why))
            self._known.touched |= {(kind, path) for path in each.touched}
        self._spread_changes()
        for model in self._declared.models:
            self._next_layout(model)
        self._next_logs()
        for view in self._declared.views:
            self._next_view(view)
        self._find_missing_views()
        self._differences[:0] = [one for each in self._known.compared.values() for one in each.differences]
        reasons = (*self._reasons, *self._needed)
        return Evolved(self._next(now), tuple(self._differences), reasons, tuple(self._unserved))

    def _find_missing_models(self) -> None:
        declared = {each.name for each in self._declared.models}
        for name in self._stored.layouts:
            if name not in declared:
                self._report_missing("model", name, _CLASS_MISSING)
                if name in self._drop:
                    del self._layouts[name]
                    self._older.pop(name, None)
                    self._former = {each: layouts for each, layouts in self._former.items() if each != name}
        kinds = {layout.kind for layout in self._layouts.values()}
        self._kinds = {name: number for name, number in self._kinds.items() if name in kinds}

    def _find_missing_views(self) -> None:
        declared = {each.name for each in self._declared.views}
        hidden = {name for each in self._declared.views for name in each.hidden}
        for name in sorted(self._stored.views, key=self._is_of_groups):  # what lists groups comes behind its aggregate
            owner = name.rpartition(".")[0]
            if name in declared or name in hidden or owner in declared:
                continue  # the hidden index of an extremum is retired with its view's generation
            former_of = view_of_former(self._stored.views, name)
            if former_of:
                if former_of in self._drop:
                    self._retire(name)
                    del self._views[name]
                continue  # else it is kept, or retired, with the view
            if owner in self._stored.views:
                continue  # it is kept, or retired, with the view
            known = self._stored.views[name]
            is_needed = known.undeclared == 0 or known.undeclared > self._stored.oldest_writer
            if not is_needed or self._is_dropped(name):
                self._drop_view(name)
            elif owner in self._stored.layouts:  # by which what has expired is found
                self._report_missing("view", name, _CLASS_MISSING)
            else:
                self._keep_undeclared(name)

    def _is_of_groups(self, name: str) -> bool:
        return self._stored.views[name].model in self._stored.views

    def _is_dropped(self, name: str) -> bool:
        return not self._drop.isdisjoint((name, name.rpartition(".")[0]))  # a ttl's index with its model

    def _report_missing(self, of: Literal["model", "view"], name: str, why: str) -> None:
        refused = "" if self._is_dropped(name) else why
        self._differences.append(Difference("dropped", of, name, refused=refused, loses=of == "model"))
        self._reasons.append(f"{name} is dropped, and they still use it")

    def _drop_view(self, name: str) -> None:
        """Retires a view that is not declared. Programs that declare it are cut off; there may be none any more."""
        since = self._stored.views[name].undeclared
        if not since:
            self._report_missing("view", name, "")
            self._retire_kept(name)
            return
        if since > self._stored.oldest_writer:
            self._needed[f"{name} is dropped, and they still use it"] = since
        self._differences.append(Difference("dropped", "view", name))
        self._retire_kept(name)

    def _keep_undeclared(self, name: str) -> None:
        """Keeps a view that is not declared any more, for older programs; refuses the schema where it cannot be."""
        known, former = self._stored.views[name], former_name(self._stored.views, name)
        of = former_name(self._views, known.model) if known.model in self._declared_views else ""
        why = why_not_kept(known, self._is_changed)
        if why:
            self._report_missing("view", name, f"{_CLASS_MISSING}; it is not written for older programs, because {why}")
            return
        if not known.undeclared:
            self._differences.append(Difference("undeclared", "view", name))
            self._is_other = True
        since = known.undeclared or self._stored.version + 1
        self._views[name] = msgspec.structs.replace(known, undeclared=since, model=of or known.model)
        if former and former in self._views:
            self._retire_former(former)

    def _retire(self, name: str) -> None:
        known = self._stored.views[name]
        if self._populated.get(known.kind, False):
            self._retired.append(Retired(name, known.number, known.generation))

    def _spread_changes(self) -> None:
        """Marks every copied value, shown or hidden, as changed when its source's value is."""
        grown = True
        while grown:
            grown = False
            for each in self._known.compared.values():
                grown |= self._spread_to(each)
        for each in self._known.compared.values():
            if any(self._known.is_touched(each.declared.kind, path, whole=True) for path in each.declared.copied_from):
                self._notify_again.add(each.declared.kind)

    def _spread_to(self, each: Comparison) -> bool:
        kind, before = each.declared.kind, len(self._known.touched)
        for rollup in each.declared.rollups:
            if rollup.view and rollup.field in each.origins and not self._known.keeps_groups(rollup.view):
                each.report_rebuilt(rollup)
                self._known.touched.add((kind, rollup.field))
        for far in each.declared.copied:
            origin = each.origins.get(far.path)
            has_value = origin is not None and not origin.was
            if has_value and self._known.is_touched(self._known.kind(far.target), far.route, whole=True):
                each.report_lacking(far.path, far.path, far.path)
                self._known.touched.add((kind, far.path))
        for far in each.declared.hidden:
            if self._known.is_touched(self._known.kind(far.target), far.route, whole=True):
                self._known.touched.add((kind, far.path))
                self._renew.add(each.declared.name)
        return len(self._known.touched) > before

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
        each = self._known.compared.get(model.name)
        if each is None:
            self._layouts[model.name] = next_layout(self._number(), model)
            if self._binds_others(model):
                self._reasons.append(
                    f"{model.name} copies from entities that exist, or guards them, and they do not look after it"
                )
            return
        renew, notify_again = model.name in self._renew, model.kind in self._notify_again
        if not each.differences and not (renew or notify_again):
            self._layouts[model.name] = next_layout(each.stored.number, model)
            return
        behind = (*self._older.get(model.name, ()), *self._former.get(model.name, ()))
        breaking = why_breaking(each, behind, renew=renew, notify_again=notify_again)
        self._reasons.extend(breaking)
        self._layouts[model.name] = next_layout(self._number(), model)
        if each.free and breaking:  # no row has an older layout, and none will: those who would write one are cut off
            self._older.pop(model.name, None)
            return
        former = msgspec.structs.replace(
            each.stored, origins=tuple(each.origins.values()), renew=renew, notify_again=notify_again
        )
        earlier = tuple(
            layout_behind(one, each, renew=renew, notify_again=notify_again) for one in self._older.get(model.name, ())
        )
        self._older[model.name] = (*earlier, former)
        unused = tuple(
            layout_behind(one, each, renew=renew, notify_again=notify_again) for one in self._former.get(model.name, ())
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
        return any(self._populated.get(self._known.kind(target), False) for target in targets)

    def _next_view(self, view: DeclaredView) -> None:
        if view.name in self._decided:
            return
        self._decided.add(view.name)
        if view.is_of_groups and view.model in self._stored.views:
            self._next_view(self._declared_views[view.model])
        state: ViewState = "building" if self._populated.get(view.kind, False) else "readable"
        known = self._stored.views.get(view.name)
        if known is None:
            self._differences.append(Difference("added", "view", view.name, after=state))
            if state == "readable" and view.kind in self._stored.kinds:
                self._reasons.append(f"{view.name} is readable at once, and what they write is not in it")
            for name in (view.name, *view.hidden):
                number, watched = self._number(), self._watched_since(name, view)
                self._views[name] = next_view((number, 1), state, name, view, watched)
            return
        own, owner = self._hidden_of(view), view.name.rpartition(".")[0]
        is_moved = view.is_feed_part and owner in self._moved  # the two indexes of a feed are of one generation
        if not is_moved and self._known.is_same_view(known, view) and len(own) == len(view.hidden):
            self._keep_view(known, view, own)
            self._keep_former(known, view)
            return
        before, after = (
            differing_rules(known.fields, view.fields, known.rules),
            differing_rules(view.fields, known.fields, view.stored),
        )
        self._differences.append(Difference("new generation", "view", view.name, "", before, after))
        if owner in self._declared_views:
            self._replace_part(view, own, owner)
        else:
            self._replace_generation(known, view, own, state)
        for name in (view.name, *view.hidden):
            self._views[name] = self._next_generation(name, view, state)

    def _replace_generation(self, known: StoredView, view: DeclaredView, own: list[str], state: ViewState) -> None:
        """Keeps the generation of a view that is complete as its former one, where that can answer; retires others.

        Programs of the older schema go on where it can: they write that one, and read it.
        """
        former = former_name(self._stored.views, view.name)
        serving = view.name if known.state == "readable" or not former else former
        why = EMPTY
        if state == "building":
            why = self._why_not_served(self._stored.views[serving], view, self._model_of_former(view))
        if former and (serving != former or why):
            self._retire_former(former)
        kept = moved_name(view, known.generation) if serving == view.name and not why else ""
        self._move((view.name, *own), view.name, kept)
        if kept:
            self._moved.add(view.name)
            model = self._model_of_former(view)
            moved = self._views[kept]
            self._views[kept] = msgspec.structs.replace(moved, former_of=view.name, model=model, undeclared=0)
        if why:
            self._reasons.append(f"{view.name} has other rules or values now, and they write it as it was")
            self._unserved += [(view.name, why)] if state == "building" else []
        elif known.watched and not view.is_watched:
            self._report_log("view", view.name, "watched", begins=False)

    def _move(self, names: Iterable[str], owner: str, kept: str) -> None:
        """Gives keyspaces of a view the names of its former generation, `kept`; retires them where there is none."""
        for name in names:
            moved = self._views.pop(name)
            if kept:
                self._views[kept + name.removeprefix(owner)] = moved
            else:
                self._retire(name)
        self._is_other = True

    def _replace_part(self, view: DeclaredView, own: list[str], owner: str) -> None:
        """The generation of an index that the schema adds to a view goes with the former generation of that one."""
        former, part = former_of_part(self._views, owner), view.name.removeprefix(owner)
        self._move([view.name, *own], owner, former if former and former + part not in self._views else "")
        if not former:
            self._reasons.append(f"{view.name} has other rules or values now, and they write it as it was")

    def _model_of_former(self, view: DeclaredView) -> str:
        """What the generation of a view is about that is current: an aggregate that is edited too is its former one."""
        if view.is_of_groups and not self._known.keeps_groups(view.model):
            return former_name(self._views, view.model) or view.model
        return view.model

    def _why_not_served(self, former: StoredView, view: DeclaredView, model: str) -> str:
        """Why a generation of a view cannot answer until the next one is built; `model` is what it is about."""
        if moved_name(view, former.generation) in self._declared_views:
            return NAME_TAKEN
        of = model if former.model == view.model else former.model
        if former.kind != view.kind or (of != view.model and of not in self._views):
            return OTHER_MODEL
        return why_not_served(former, view, self._is_changed)

    def _is_changed(self, model: str, path: str) -> bool:
        """Whether values of a model, or of the groups of an aggregate, are others than they were, or are elsewhere."""
        if model in self._declared_views:
            return not (self._known.keeps_groups(model) or former_name(self._views, model))
        if model in self._stored.views:
            return model not in self._views or not self._views[model].undeclared
        compared = self._known.compared.get(model)
        return (
            compared is None
            or compared.moved.get(path, path) != path
            or not compared.has_path(path)
            or self._known.is_touched(self._known.kind(model), path, whole=True)
        )

    def _keep_former(self, known: StoredView, view: DeclaredView) -> None:
        """Keeps the former generation of a view that is being built, while it can answer; else retires it."""
        former = former_name(self._stored.views, view.name)
        if not former:
            return
        found = self._stored.views[former]
        why = self._why_not_served(found, view, found.model)
        if former in self._drop or known.state == "readable" or why:
            self._retire_former(former)
            if why and known.state == "building":
                self._unserved.append((view.name, why))

    def _retire_former(self, former: str) -> None:
        self._differences.append(Difference("dropped", "view", former))
        self._retire_kept(former)

    def _retire_kept(self, kept: str) -> None:
        """Retires a view that no schema declares any more, and what the schema adds to it."""
        for name in keyspaces_of(self._stored.views, kept):
            self._retire(name)
            del self._views[name]
        self._is_other = True

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
                self._stored.views[name], fields=view.fields, model=view.model, watched=watched, undeclared=0,
                rules=view.stored if name == view.name else None,
            )  # fmt: skip
            self._is_other |= known.undeclared > 0  # programs that do not declare it write it as older ones
            if kept != name:
                self._reasons.append(f"{kept}: {BREAKING['renamed']}")
        if view.is_watched != bool(known.watched):
            self._report_log("view", view.name, "watched", begins=view.is_watched)
        for old, new in renames.items():
            if old != new:
                self._differences.append(Difference("renamed", "view", view.name, new, old, new))

    def _next_generation(self, name: str, view: DeclaredView, state: ViewState) -> StoredView:
        before, watched = self._stored.views.get(name), self._watched_since(name, view)
        if before is None or before.generation == LAST_NUMBER:
            return next_view((self._number(), 1), state, name, view, watched)
        return next_view((before.number, before.generation + 1), state, name, view, watched)

    def _watched_since(self, name: str, view: DeclaredView) -> int:
        """The version since which the rows of a view's keyspace are logged; one that begins to be has a new version.

        Whether rows are logged does not change them, so the view is not built again.
        """
        if not view.is_watched or name != view.name:
            return 0
        known = self._stored.views.get(name)
        return known.watched if known is not None and known.watched else self._stored.version + 1

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
        is_new = self._last != stored.last or bool(self._reasons) or self._is_other
        version = stored.version + 1 if is_new else stored.version
        if found == stored and any(past.declared == self._declared.digest for past in stored.history):
            return stored
        writers = version if self._reasons and stored.version else max(stored.writers, *self._needed.values(), 0)
        return msgspec.structs.replace(
            found,
            version=version,
            writers=writers,
            history=(*stored.history, Past(version, self._declared.digest, now)),
        )
