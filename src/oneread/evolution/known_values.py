"""Which values of a stored schema mean the same under a declared one, and which views can keep their rows by that.

See docs/explanation/schema-evolution.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oneread.evolution.compare import Comparison, renamed_route
from oneread.evolution.declare import DeclaredRule, DeclaredSchema, DeclaredView, rule_text
from oneread.models.expressions import Expression, rerouted
from oneread.models.versions import Description, StoredSchema, StoredView


class KnownValues:
    """The stored classes of a schema compared with the declared ones of the same names.

    `touched` are the values that are others than they were, as (kind, path).
    """

    def __init__(self, stored: StoredSchema, declared: DeclaredSchema, populated: Mapping[str, bool]) -> None:
        self._stored = stored
        self._kind_of = {each.name: each.kind for each in declared.models}
        self.touched: set[tuple[str, str]] = set()
        aliases = {layout.cls: name for name, layout in stored.layouts.items() if layout.cls}
        aliases |= {each.cls: each.name for each in declared.models}
        known = stored.layouts
        self.compared = {
            model.name: Comparison(known[model.name], model, aliases, free=not populated.get(model.kind), layouts=known)
            for model in declared.models
            if model.name in known
        }
        self.routes = self._all_routes()
        self.declared_views = {view.name: view for view in declared.views}

    def _all_routes(self) -> dict[str, dict[str, str]]:
        """For each model, stored paths to declared ones, those of its variants included."""
        by_kind: dict[str, dict[str, str]] = {}
        for name, each in self.compared.items():
            kind = by_kind.setdefault(self._kind_of[name], {})
            for before, after in each.moved.items():
                kind.setdefault(before, after)
        return {name: by_kind.get(kind, {}) for name, kind in self._kind_of.items()}

    def kind(self, model: str) -> str:
        return self._kind_of.get(model, model)

    def is_touched(self, kind: str, path: str, *, whole: bool) -> bool:
        """Whether a path or one it leads through has changed; with `whole`, anything below it too."""
        return any(
            of == kind and (path == each or path.startswith(f"{each}.") or (whole and each.startswith(f"{path}.")))
            for of, each in self.touched
        )

    def is_same_view(self, known: StoredView, view: DeclaredView) -> bool:
        """Whether a view's rows can stay: the same rules, names apart, on values that did not change."""
        if known.kind != view.kind or known.model not in ("", view.model):
            return False
        if not self.keeps_groups(view.model) if view.is_of_groups else view.model not in self.compared:
            return False
        ways = [way for rule in view.rules for way in (*rule.ways, *rule.conditions.values())]
        ways += view.conditions.values()
        for *through, (model, path) in ways:
            if self.is_touched(self.kind(model), path, whole=True):
                return False
            if any(self.is_touched(self.kind(on), step, whole=False) for on, step in through):
                return False
        before, rules = self._as_before(view), len(view.rules)
        texts = [text for _name, text in known.fields[:rules]], [text for _name, text in before[:rules]]
        return texts[0] == texts[1] and known.fields[rules:] == before[rules:]

    def keeps_groups(self, name: str) -> bool:
        """Whether the groups of an aggregate can stay as they are stored."""
        known = self._stored.views.get(name)
        return known is not None and self.is_same_view(known, self.declared_views[name])

    def _as_before(self, view: DeclaredView) -> tuple[tuple[str, str], ...]:
        """A view's rules as the store would describe them with the stored names and types."""
        stored = () if view.is_of_groups else self.compared[view.model].stored.fields
        types = {each.name: str(each) for each in stored}
        rules = [(rule.name, self._rule_before(rule, types)) for rule in view.rules]
        condition = self._condition_before(view.condition, view.conditions)
        if condition is not None:
            rules.append(("where", condition.canonical().hex()))
        return (*rules, *view.options)

    def _rule_before(self, rule: DeclaredRule, types: dict[str, str]) -> str:
        condition = self._condition_before(rule.condition, rule.conditions)
        return rule_text(rule, self._paths_before(rule), types, condition)

    def _condition_before(self, condition: Expression | None, ways: Mapping[str, Description]) -> Expression | None:
        """A condition on the stored names."""
        if condition is None:
            return None
        return rerouted(condition, {path: self._path_before(way, path) for path, way in ways.items()})

    def _routes_of(self, name: str) -> Mapping[str, str]:
        """The fields of an entity class that had another name, by that one; those of an aggregate that is kept."""
        view, known = self.declared_views.get(name), self._stored.views.get(name)
        if view is None or known is None:
            return self.routes.get(name, {})
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
