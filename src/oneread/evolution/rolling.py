"""Rolling deployments: which of a store's numbers a program uses that is older than the store's newest schema.

A program continues under the layouts that say what it declares, while a newer one adds fields to them. See
docs/decisions/0042-older-programs-keep-what-they-do-not-know.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from oneread.derivations.compiled_schema import FormerView, SchemaNumbers
from oneread.evolution.compare import Comparison
from oneread.evolution.declare import DeclaredModel, DeclaredSchema, DeclaredView
from oneread.evolution.formers import former_name, keyspaces_of, steps_of_rules
from oneread.models.versions import Origin, StoredLayout, StoredSchema, StoredView, origins_through


def numbers_of(stored: StoredSchema, declared: DeclaredSchema, version: int) -> SchemaNumbers | None:
    """The numbers that a store gave to the declarations of one of its versions that may still write.

    None when a layout of that version, or a generation of one of its views, is not known any more, or when it would
    write a view that it does not declare, by a field that it knows under another name.
    """
    layouts = {name: layout.number for name, layout in stored.layouts.items()}
    older, last = stored.older, stored.last
    if (views := _views_of(stored, declared, version)) is None:
        return None
    formers = _formers(views, declared)
    if version < stored.version:
        own = {model.name: _own_layout(stored, declared, model) for model in declared.models}
        found = {name: place for name, place in own.items() if place is not None}
        if len(found) < len(own):
            return None
        known = {name: stored.layouts_of(name) for name in found}
        layouts = {name: known[name][place].number for name, place in found.items()}
        older = {name: _layouts_behind(known[name], place) for name, place in found.items()}
        renamed = {(name, path) for name, place in found.items() for path in _called_otherwise(known[name][place])}
        if any(step in renamed for each in formers for step in steps_of_rules(each.rules)):
            return None
        last = max(_numbers(stored, declared, layouts, views))
    numbers = {name: (view.number, view.generation) for name, view in views.items()}
    watched = {name: view.watched for name, view in views.items() if view.watched}
    return SchemaNumbers(stored.kinds, layouts, numbers, older, last, watched, stored.logged, formers)


def _views_of(stored: StoredSchema, declared: DeclaredSchema, version: int) -> Mapping[str, StoredView] | None:
    """The stored views by the names that a program has for them: an older one may declare a former generation."""
    views, taken = dict(stored.views), set[str]()
    older = declared.views if version < stored.version else ()
    for view in sorted(older, key=lambda each: each.is_of_groups):  # what lists groups lists those of its aggregate
        former, is_taken = former_name(stored.views, view.name), view.model in taken
        if not is_taken and (not former or _is_declared(stored.views[view.name], view)):
            continue
        if not former or not _is_declared(stored.views[former], view):
            return None
        taken.add(view.name)
        for name in keyspaces_of(stored.views, former):
            views[view.name + name.removeprefix(former)] = msgspec.structs.replace(views.pop(name), former_of="")
    return views


def _is_declared(stored: StoredView, view: DeclaredView) -> bool:
    """Whether a stored view has the rules that a view declares, whatever its fields are called."""
    rules = len(view.rules)
    texts = [[text for _name, text in fields[:rules]] for fields in (stored.fields, view.fields)]
    return texts[0] == texts[1] and stored.fields[rules:] == view.fields[rules:]


def _formers(views: Mapping[str, StoredView], declared: DeclaredSchema) -> tuple[FormerView, ...]:
    """The views that a program writes and does not declare: all that may be read, of the models that it has.

    Others are being built: what older programs leave out is added by the backfill.
    """
    names, kinds = {view.name for view in declared.views}, {model.kind for model in declared.models}
    found: list[FormerView] = []
    for name, view in views.items():
        is_part = name.rpartition(".")[0] in (*views, *kinds)
        if not is_part and name not in names and view.kind in kinds and view.state == "readable" and view.rules:
            found.append(FormerView(name, view.former_of if view.former_of in names else "", view.model, view.rules))
    return tuple(found)


def _layouts_behind(known: Sequence[StoredLayout], own: int) -> tuple[StoredLayout, ...]:
    """The layouts before that at the place `own`, by the names that fields have in that one."""
    if own + 1 == len(known):
        return (*known[:own],)
    back = [Origin(each.of, each.field) for each in known[own].origins]
    return tuple(msgspec.structs.replace(each, origins=origins_through(each.origins, back)) for each in known[:own])


def _called_otherwise(layout: StoredLayout) -> Iterator[str]:
    """The present names of the fields that are called otherwise in a layout."""
    return (origin.field for origin in layout.origins if origin.field != origin.of)


def _own_layout(stored: StoredSchema, declared: DeclaredSchema, model: DeclaredModel) -> int | None:
    """The place of the newest layout that says what a model declares, in `layouts_of`."""
    if model.name not in stored.layouts:
        return None
    known = stored.layouts_of(model.name)
    aliases = {layout.cls: name for name, layout in stored.layouts.items() if layout.cls}
    aliases |= {each.cls: each.name for each in declared.models}

    def says(layout: StoredLayout) -> bool:
        compared = Comparison(layout, model, aliases, free=False, layouts=stored.layouts)
        compared.compare({})
        return not compared.differences

    return next((place for place in reversed(range(len(known))) if says(known[place])), None)


def _numbers(
    stored: StoredSchema, declared: DeclaredSchema, layouts: dict[str, int], views: Mapping[str, StoredView]
) -> Iterator[int]:
    """Every number of a declaration of this schema; what came after it has a greater one."""
    yield from layouts.values()
    yield from (stored.kinds[model.kind] for model in declared.models)
    yield from (views[name].number for view in declared.views for name in (view.name, *view.hidden))
