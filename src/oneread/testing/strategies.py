"""Hypothesis strategies for a program's own schema: keys, entities, and histories of steps.

An entity is valid by construction: its fields fit their types and constraints, and its references are to keys of a
pool, so that they find what was saved before. See "Users' tests" of the decisions page.

    @given(strategies.histories(shop))
    def test_the_database_shows_what_the_oracle_shows(history):
        prove(shop, history)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    error.add_note("the strategies of oneread.testing need it: pip install hypothesis")
    raise

from oneread.derivations.expiry import ExpiryIndex
from oneread.errors import UsageError
from oneread.evolution.schema import Schema
from oneread.models.fields import GENERATED, Marker, defaults_of, is_counter
from oneread.models.model import Model, has_check, key_names, key_of
from oneread.models.paths import path_of
from oneread.models.references import Ref, ref_class
from oneread.models.registry import child_of, key_fields, reference_target, root_model
from oneread.models.types import FieldType, Names, type_of, types_of
from oneread.models.variants import is_variants_only
from oneread.testing.crashes import Crash
from oneread.testing.naive_counters import counter_name
from oneread.testing.naive_entities import KeyParts, key_values, numbered_part
from oneread.testing.steps import (
    CountStep,
    DeleteCounterStep,
    DeleteStep,
    DrainStep,
    HistoryStep,
    LookStep,
    PatchStep,
    SaveAllStep,
    SaveStep,
    SweepStep,
    TickStep,
    WriteStep,
)
from oneread.testing.values import Drawn, Strategy

__all__ = ["beginnings", "crashes", "entities", "histories", "keys", "steps", "values"]

M = TypeVar("M", bound=Model[*tuple[Any, ...]])

Pool = Mapping[Any, Sequence[KeyParts]]
Given = Mapping[Any, Strategy]
_ByField = tuple[tuple[tuple[type, str], Strategy], ...]

KEYS: Final = 4
"""Keys that the pool of one model has at most: few, so that steps meet."""

_KEPT: Final = ("created", "updated", "rollup")

_NUMBERS: Final = st.integers(1, 3)
"""Numbers of children that a step names: some were given, some not yet."""


def values(annotation: Any, *, schema: Schema | None = None) -> Strategy:
    """Strategy of a type, `Annotated[...]` with its `msgspec.Meta` included.

    Raises:
        UsageError: values of this type cannot be made up.
    """
    names = _names(schema)
    return _Makers(names, None).drawn.of(type_of(annotation, names))


def keys(model: type[Model[*tuple[Any, ...]]], *, schema: Schema | None = None) -> st.SearchStrategy[KeyParts]:
    """Keys of a model, as tuples."""
    return _Makers(_names(schema), None).fresh_keys(model)


def entities(
    model: type[M],
    /,
    *,
    schema: Schema | Strategy | None = None,
    pool: Pool | Strategy | None = None,
    **fields: Strategy,
) -> st.SearchStrategy[M]:
    """Entities of a model, valid by construction; only what its `check` refuses is drawn again.

    Arguments:
        model: a model, or a variant of one.
        schema: needed where annotations name classes that were declared inside a function.
        pool: keys by model, `{Customer: [(1,), (2,)]}`: references are to these, and entities of these models have one
            of these keys. Without it keys are made up, and references are to nothing that exists.
        fields: a strategy for a field, in place of the one that its type gives; one for a field that is called `schema`
            or `pool` is given under that name, too.

    Raises:
        UsageError: a field is unknown, values of its type cannot be made up, or the model has `variants_only`.
    """
    own = {"schema": schema, "pool": pool}  # a strategy is of a field of that name
    fields |= {name: given for name, given in own.items() if isinstance(given, st.SearchStrategy)}
    return _Makers(
        _names(schema if isinstance(schema, Schema) else None), pool if isinstance(pool, Mapping) else None
    ).entities(model, fields)


def steps(schema: Schema, given: Given | None = None) -> st.SearchStrategy[HistoryStep]:
    """One step of a history; those of one example share a pool of keys, so that they meet.

    Arguments:
        schema: what the steps are done to.
        given: strategies for fields, in place of those that their types give: `{Purchase.quantity: st.integers(1, 9)}`.

    Raises:
        InvalidDeclaration: `given` names something that is not a field.
        UsageError: values of a field's type cannot be made up.
    """
    return _histories(schema, _by_field(given)).steps


def beginnings(schema: Schema, given: Given | None = None) -> st.SearchStrategy[list[SaveStep]]:
    """Some entities of every model, sources first: the beginning of a history.

    Raises:
        InvalidDeclaration: `given` names something that is not a field.
        UsageError: values of a field's type cannot be made up.
    """
    return _histories(schema, _by_field(given)).beginnings


def histories(schema: Schema, given: Given | None = None, *, longest: int = 30) -> st.SearchStrategy[list[HistoryStep]]:
    """Lists of steps: some entities first, then anything; database and oracle must refuse the same steps.

    Arguments:
        schema: what the steps are done to.
        given: strategies for fields, in place of those that their types give: `{Purchase.quantity: st.integers(1, 9)}`.
        longest: steps behind the first entities.

    Raises:
        InvalidDeclaration: `given` names something that is not a field.
        UsageError: values of a field's type cannot be made up.
    """
    made = _histories(schema, _by_field(given))
    parts = st.tuples(made.beginnings, st.lists(made.steps, max_size=longest))
    return parts.map(lambda several: [*several[0], *several[1]])


def crashes(schema: Schema, given: Given | None = None) -> st.SearchStrategy[Crash]:
    """Programs that write at once while requests are lost and processes crash; `survive(schema, crash)` runs one.

    Arguments:
        schema: what is written to; models with a `check` of their own are saved as a whole and not patched;
            there are no batches.
        given: strategies for fields, as for `histories`.

    Raises:
        InvalidDeclaration: `given` names something that is not a field.
        UsageError: values of a field's type cannot be made up.
    """
    made = _histories(schema, _by_field(given))
    writers = st.lists(st.lists(made.writes, min_size=1, max_size=6), min_size=1, max_size=3)
    return st.builds(Crash, st.integers(0, 2**32), made.beginnings, writers)


class _Makers:
    """The strategies of one schema; without a pool, keys are made up."""

    def __init__(self, names: Names, pool: Pool | None) -> None:
        self._names = names
        self._pool = pool
        self.drawn = Drawn(self._reference)

    def _reference(self, given: FieldType) -> Strategy | None:
        found = reference_target(given)
        if found is None:
            return None
        target, copy = found
        if copy is not None:
            return _called(copy.of, self.keys(target))
        return self.keys(target).map(ref_class(target))  # `target.at` may be a field

    def keys(self, model: type[Model[Any]]) -> st.SearchStrategy[KeyParts]:
        """Keys from the pool, or made up."""
        pooled = None if self._pool is None else self._pool.get(root_model(model))
        return self.fresh_keys(model) if pooled is None else st.sampled_from([tuple(key) for key in pooled])

    def fresh_keys(self, model: type[Model[Any]]) -> st.SearchStrategy[KeyParts]:
        """Keys made up from the types of the key fields; the key of a child has that of a root, and a small number."""
        types, number, root = types_of(model, self._names), numbered_part(model), child_of(model, self._names)
        fields = key_fields(model, self._names)
        values = {
            each.name: self.keys(each.target) if each.target is not None
            else st.tuples(_NUMBERS if each.name == number else self.drawn.of(types[each.name]))
            for each in fields
        }  # fmt: skip
        if root is None or root in [root_model(each.target) for each in fields if each.target is not None]:
            return st.tuples(*values.values()).map(_joined)
        return _child(values, self.keys(root).map(lambda key: key_values(root, key, self._names)))

    def entities(self, model: type[Any], given: Mapping[str, Strategy]) -> st.SearchStrategy[Any]:
        """Whole entities."""
        if is_variants_only(model):
            raise UsageError("this model has variants_only: ask for entities of one of its variants", model=model)
        required, optional = self.fields(model, given)
        own = {name: given[name] for name in key_names(model) if name in given}
        number = numbered_part(model)
        if number is not None and number not in given:
            own[number] = st.sampled_from([*[GENERATED] * 6, 1, 2])
        rest = st.fixed_dictionaries({**own, **required}, optional=optional)
        found = _entity(model, self.keys(model).map(lambda key: key_values(model, key, self._names)), rest)
        return found if not has_check(model) else found.filter(passes)

    def fields(
        self, model: type[Any], given: Mapping[str, Strategy]
    ) -> tuple[dict[str, Strategy], dict[str, Strategy]]:
        """Strategies for the fields outside of the key: those that must be given, and those with a default."""
        types = types_of(model, self._names)
        unknown = sorted(given.keys() - types.keys())
        if unknown:
            raise UsageError("a strategy is given for a name that is not a field", model=model, fields=unknown)
        required: dict[str, Strategy] = {}
        optional: dict[str, Strategy] = {}
        for each in msgspec.structs.fields(model):
            default = each.default
            marker = default.what if isinstance(default, Marker) else None
            if each.name in key_names(model) or (marker in _KEPT and each.name not in given):
                continue
            left_out = not each.required and (marker != "reference" or types[each.name].optional)
            made = given[each.name] if each.name in given else self.drawn.of(types[each.name])
            (optional if left_out and each.name not in given else required)[each.name] = made
        return required, optional


class _Histories(_Makers):
    """The strategies of the steps of one schema; the pool of keys is drawn once for each example."""

    def __init__(self, schema: Schema, given: _ByField) -> None:
        super().__init__(schema.named(), None)
        self._given: dict[type, dict[str, Strategy]] = {
            model: {name: each for (cls, name), each in given if issubclass(model, cls)} for model in schema.models
        }
        self._pools: dict[Any, st.SearchStrategy[KeyParts]] = {}
        ordered = _sources_first(schema.models, self._names)
        self._whole = {
            model: self.entities(model, self._given[model]) for model in ordered if not is_variants_only(model)
        }
        anything = st.one_of(*self._whole.values())
        batch = st.lists(anything, max_size=5, unique_by=_place).map(lambda several: _in_order(several, ordered))
        patches = {model: self._patches(model) for model in ordered}
        writes: list[st.SearchStrategy[WriteStep]] = [
            anything.map(SaveStep),
            st.one_of(*[st.builds(DeleteStep, st.just(model), self.keys(model)) for model in ordered]),
            anything.map(lambda entity: SaveStep(entity, "create")),
            batch.map(SaveAllStep),
        ]
        writes[:0] = _any([self._counts(model) for model in ordered])
        others = st.sampled_from([DrainStep(), LookStep(), TickStep(0.001), TickStep(100), TickStep(-5)])
        if any(issubclass(view, ExpiryIndex) for view in schema.views):  # what a sweep has deleted stays deleted
            ticks = [TickStep(0.001), TickStep(1), TickStep(10), TickStep(100)]
            others = st.sampled_from([DrainStep(), LookStep(), SweepStep(), SweepStep(100), *ticks])
        self.steps: st.SearchStrategy[HistoryStep] = st.one_of(*writes, *_any(patches.values()), others)
        unchecked = [each for model, each in patches.items() if not has_check(model)]
        # No batches: what follows within one has a version of its own, and the simulator dates stamps by versions.
        self.writes: st.SearchStrategy[WriteStep] = st.one_of(*writes[:-1], *_any(unchecked))
        first = [st.lists(each, min_size=1, max_size=3, unique_by=_place) for each in self._whole.values()]
        self.beginnings: st.SearchStrategy[list[SaveStep]] = st.tuples(*first).map(
            lambda several: [SaveStep(entity) for each in several for entity in each]
        )

    def keys(self, model: type[Model[Any]]) -> st.SearchStrategy[KeyParts]:
        """Keys of the pool that all steps of one example share."""
        root = root_model(model)
        if root not in self._pools:
            pool = st.lists(self.fresh_keys(root), min_size=1, max_size=KEYS, unique=True)
            self._pools[root] = st.shared(pool, key=(id(self), root)).flatmap(st.sampled_from)
        return self._pools[root]

    def _counts(self, model: type[Any]) -> st.SearchStrategy[WriteStep]:
        """Adds to the counters that entities of a model show."""
        texts = [each.group.text for each in defaults_of(model).values() if is_counter(each)]

        def named(text: str, key: KeyParts) -> str:
            return counter_name(text, model, key, self._names)

        names = st.builds(named, st.sampled_from(texts or [""]), self.keys(model))
        tokens = st.none() | st.sampled_from("ab")
        if not texts:
            return st.nothing()
        return st.one_of(st.builds(CountStep, names, st.integers(-3, 9), tokens), st.builds(DeleteCounterStep, names))

    def _patches(self, model: type[Any]) -> st.SearchStrategy[WriteStep]:
        required, optional = self.fields(model, self._given[model])
        found = {**required, **optional}
        if not found:
            return st.nothing()
        few = st.lists(st.sampled_from(sorted(found)), min_size=1, max_size=3, unique=True)
        changes = few.flatmap(lambda names: st.fixed_dictionaries({name: found[name] for name in names}))
        return st.builds(PatchStep, st.just(model), self.keys(model), changes)


@st.composite  # what a composite strategy makes is shown as it is, not as the calls that made it
def _entity(draw: st.DrawFn, model: type[Any], keys: Strategy, rest: Strategy) -> Any:
    return model(**{**draw(keys), **draw(rest)})


def _joined(several: Iterable[KeyParts]) -> KeyParts:
    return tuple(part for parts in several for part in parts)


@st.composite
def _child(draw: st.DrawFn, values: Mapping[str, Strategy], roots: Strategy) -> KeyParts:
    named = {name: _parts_of(value) for name, value in draw(roots).items()}
    return _joined(named[name] if name in named else draw(made) for name, made in values.items())


def _parts_of(value: Any) -> KeyParts:
    return value.key if isinstance(value, Ref) else (value,)


@st.composite
def _called(draw: st.DrawFn, make: Callable[..., Any], keys: st.SearchStrategy[KeyParts]) -> Any:
    return make(*draw(keys))


def passes(entity: Any) -> bool:
    """Whether an entity's own `check` accepts it; one that reads a copy cannot run yet, since copies are not filled."""
    try:
        entity.check()
    except ValueError:
        return False
    except AttributeError:
        return True
    return True


def _any(several: Iterable[st.SearchStrategy[WriteStep]]) -> list[st.SearchStrategy[WriteStep]]:
    """One strategy of them all, to be as likely as each other one; none if there is none."""
    found = [each for each in several if not each.is_empty]
    return [st.one_of(*found)] if found else []


@lru_cache(maxsize=32)
def _histories(schema: Schema, given: _ByField) -> _Histories:
    return _Histories(schema, given)


def _by_field(given: Given | None) -> _ByField:
    paths = [(path_of(field), each) for field, each in (given or {}).items()]
    return tuple(((path.declared_in, path.names[0]), each) for path, each in paths)


def _names(schema: Schema | None) -> Names:
    return {} if schema is None else schema.named()


def _place(entity: Any) -> tuple[type, KeyParts]:
    return root_model(type(entity)), key_of(entity)


def _in_order(several: list[Any], models: list[type[Any]]) -> list[Any]:
    """Sources first, as a batch must have them."""
    return sorted(several, key=lambda entity: models.index(type(entity)))


def _sources_first(models: Sequence[type[Any]], names: Names) -> list[type[Any]]:
    """Models, each after those that it refers to, as far as there is no circle."""
    targets = {model: _targets(model, names) for model in models}
    found: list[type[Any]] = []
    rest = list(models)
    while rest:
        waiting = {root_model(model) for model in rest}
        ready = [each for each in rest if not (targets[each] - {root_model(each)}) & waiting] or rest[:1]
        found.extend(ready)
        rest = [each for each in rest if each not in ready]
    return found


def _targets(model: type[Any], names: Names) -> set[type[Any]]:
    root = child_of(model, names)
    found: set[type[Any]] = set() if root is None else {root}
    for given in types_of(model, names).values():
        target = reference_target(given.present.several or given)
        if target is not None:
            found.add(root_model(target[0]))
    return found
