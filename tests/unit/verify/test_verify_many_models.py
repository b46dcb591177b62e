"""What opening and verifying an empty store takes grows with the number of models, not with its square."""

import cProfile
import pstats
import types

import pytest

from oneread import Index, Key, Model, Schema, by, connect


def schema_of(many):
    """So many models, each with an index."""
    declared = []
    for number in range(many):
        fields = {"__annotations__": {"key": Key[int], "name": str}, "__module__": __name__}
        model = types.new_class(f"Model{number}", (Model[int],), {}, lambda made, fields=fields: made.update(fields))
        rows = {"name": by(model.name), "__annotations__": {"name": str}, "__module__": __name__}
        index = types.new_class(f"Names{number}", (Index[model],), {}, lambda made, rows=rows: made.update(rows))
        declared += [model, index]
    return Schema(*declared)


def calls_of(work):
    """How many functions some work calls."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return pstats.Stats(profile).total_calls


@pytest.mark.parametrize("url", ["memory://", "memory://?span=row"])
def test_calls_grow_as_models_do(url):
    counts = {}
    for many in (1, 20, 60):  # the first makes what is made once
        schema, opened = schema_of(many), []
        connecting = calls_of(lambda schema=schema, opened=opened: opened.append(connect(url, schema, workers=0)))
        with opened[0] as db:
            counts[many] = (connecting, calls_of(db.verify))
    for few, more in zip(counts[20], counts[60], strict=True):
        assert more < 3.3 * few
