"""What declaring, opening and describing a schema takes grows with its fields, models and views, not with their square.

Work is counted in calls of functions, not in time.
"""

from __future__ import annotations

import sys
import tempfile
import types
from datetime import datetime
from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    count,
    field,
    renamed,
    shown,
    to_json,
    total,
    within,
)
from oneread.errors import InvalidValue
from oneread.models.json_form import JsonForm
from oneread.testing.oracle import Oracle
from oneread.testing.strategies import entities

SMALL, LARGE = 30, 60
MOST = 2.2
"""How often as much work twice as many declarations may take; 4 is its square."""


def declared(name, base, fields, **space):
    space |= {"__annotations__": {each: kind for each, (kind, *_default) in fields.items()}, "__module__": __name__}
    space |= {each: default[0] for each, (_kind, *default) in fields.items() if default}
    return types.new_class(name, (base,), {}, lambda made: made.update(space))


def model(name, fields, **space):
    return declared(name, Model[int], {"number": (Key[int],)} | fields, **space)


def opened(*declarations):
    connect("memory://", Schema(*declarations), workers=0).close()


def numbers(n, kind=int):
    return {f"f{place}": (kind,) for place in range(n)}


class Other(Model[int]):
    number: Key[int]
    name: str


class Named(Copy[Other]):
    name: str


class Inner(msgspec.Struct):
    name: str = ""


def plain_fields(n):
    opened(model("Plain", numbers(n)))


def fields_with_defaults(n):
    opened(model("Defaults", {name: (kind, 0) for name, (kind,) in numbers(n).items()}))


def fields_as_text(n):
    opened(model("AsText", numbers(n, "int | None")))


def instants(n):
    opened(model("Instants", numbers(n, datetime)))


def nested_fields(n):
    opened(model("Nested", numbers(n, Inner)))


def a_nested_class(n):
    Wide = declared("Wide", msgspec.Struct, numbers(n))  # noqa: N806
    opened(model("Holder", {"wide": (Wide,)}))


def references(n):
    opened(Other, model("Referring", numbers(n, Ref[Other])))


def copies(n):
    opened(Other, model("Copying", numbers(n, Named)))


def copied_fields(n):
    Source = model("Source", numbers(n))  # noqa: N806
    Shown = declared("Shown", Copy[Source], numbers(n))  # noqa: N806
    opened(Source, model("Holder", {"shown": (Shown,)}))


def fields_copied_by_path(n):
    Source = model("Source", numbers(n))  # noqa: N806
    Near = declared("Near", Copy[Source], numbers(n))  # noqa: N806
    Middle = model("Middle", {"near": (Near,)})  # noqa: N806
    paths = {f"g{place}": (int, within(Middle.near, getattr(Near, f"f{place}"))) for place in range(n)}
    Far = declared("Far", Copy[Middle], paths)  # noqa: N806
    opened(Source, Middle, model("Holder", {"far": (Far,)}))


def an_index_that_shows_all(n):
    Plain = model("Plain", numbers(n))  # noqa: N806
    rest = {f"f{place}": (int, shown(getattr(Plain, f"f{place}"))) for place in range(n)}
    opened(Plain, declared("All", Index[Plain], {"first": (int, by(Plain.f0))} | rest))


def an_aggregate_of_all(n):
    Plain = model("Plain", numbers(n))  # noqa: N806
    rest = {f"f{place}": (int, total(getattr(Plain, f"f{place}"))) for place in range(n)}
    opened(Plain, declared("All", Aggregate[Plain], {"first": (int, by(Plain.f0))} | rest))


def a_condition_on_all(n):
    Plain = model("Plain", numbers(n))  # noqa: N806
    where = field(Plain.f0) > 0
    for place in range(n):
        where &= field(getattr(Plain, f"f{place}")) > place
    opened(Plain, declared("All", Index[Plain], {"first": (int, by(Plain.f0))}, where=where))


def many_models(n):
    opened(*[model(f"Model{place}", {"name": (str,)}) for place in range(n)])


def models_that_refer(n):
    opened(Other, *[model(f"Model{place}", {"other": (Named,), "again": (Ref[Other],)}) for place in range(n)])


def variants(n):
    opened(Other, *[declared(f"Variant{place}", Other, {f"f{place}": (int, 0)}) for place in range(n)])


def many_views(n):
    views = [declared(f"View{place}", Index[Other], {"name": (str, by(Other.name))}) for place in range(n)]
    opened(Other, *views)


def many_aggregates(n):
    fields = {"name": (str, by(Other.name)), "number": (int, count())}
    opened(Other, *[declared(f"View{place}", Aggregate[Other], fields) for place in range(n)])


def views_of_many_models(n):
    models = [model(f"Model{place}", {"name": (str,)}) for place in range(n)]
    opened(*models, *[declared(f"By{each.__name__}", Index[each], {"name": (str, by(each.name))}) for each in models])


def evolution(n):
    steps = tuple(renamed(f"old{place}", to=f"f{place}") for place in range(n))
    opened(model("Evolving", numbers(n), evolution=steps))


def a_changed_schema(n):
    before = {f"f{place}": (int, 0) for place in range(n)}
    after = before | {f"g{place}": (int, 0) for place in range(n)}
    with tempfile.TemporaryDirectory() as folder:
        for fields in (before, after, after):
            connect(f"lmdb://{folder}/s", Schema(model("Changing", fields)), workers=0).close()


def json_forms(n):
    Source = model("Source", numbers(n))  # noqa: N806
    Shown = declared("Shown", Copy[Source], numbers(n))  # noqa: N806
    made = JsonForm(model("Holder", {"shown": (Shown,)} | {f"r{place}": (Ref[Source],) for place in range(n)}))
    made.schema()
    with pytest.raises(InvalidValue):
        made.decode(b"{}")


def pydantic_schemas(n):
    TypeAdapter(model("Plain", numbers(n))).json_schema()


def bounds(n):
    Plain = model("Plain", {name: (kind, 0) for name, (kind,) in numbers(n).items()})  # noqa: N806
    views = [declared("By", Index[Plain], {"f0": (int, by(Plain.f0)), "f1": (int, shown(Plain.f1))})]
    with connect("memory://", Schema(Plain, *views), workers=0) as db:
        db.explain.save(Plain(number=1))
        db.explain.patch(Plain, 1, f0=1)
        to_json(db.save(Plain(number=1)))


def helpers_of_tests(n):
    Plain = model("Plain", numbers(n))  # noqa: N806
    Oracle(Plain)
    entities(Plain)


def calls(work: Any, n: int) -> int:
    """How many functions `work(n)` calls."""
    counted = 0

    def count_call(_frame, event, _argument):
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        work(n)
    finally:
        sys.setprofile(before)
    return counted


WORK = [
    plain_fields, fields_with_defaults, fields_as_text, instants, nested_fields, a_nested_class, references, copies,
    copied_fields, fields_copied_by_path, an_index_that_shows_all, an_aggregate_of_all, a_condition_on_all, many_models,
    models_that_refer, variants, many_views, many_aggregates, views_of_many_models, evolution, a_changed_schema,
    json_forms, pydantic_schemas, bounds, helpers_of_tests,
]  # fmt: skip


@pytest.mark.parametrize("work", WORK)
def test_twice_as_much_takes_twice_the_work(work):
    work(3)  # what is made once for all is made now
    small, large = calls(work, SMALL), calls(work, LARGE)
    assert large < MOST * small
