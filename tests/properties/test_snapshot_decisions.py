"""A history that is decided on snapshots leaves the file that it leaves when the writer's thread decides: each byte."""

import os
import random
import secrets
from unittest import mock

import pytest
from hypothesis import given, settings

from examples.shop.schema import SHOP
from oneread import Schema
from oneread.engines.lmdb import binding
from oneread.testing import strategies
from oneread.testing.proof import Proof
from tests.properties.forum import FORUM
from tests.properties.schema_of_everything import EVERYTHING

if not binding.COMMITS_DECISIONS:
    pytest.skip(f"no call commits: {binding.NATIVE.why}", allow_module_level=True)

SCHEMAS = {"shop": SHOP, "forum": FORUM, "everything": Schema(*EVERYTHING)}
SOME = settings(max_examples=max(5, settings().max_examples // 4), deadline=None)


def written(schema, history, folder, *, on_snapshots):
    """The outcomes of the steps and the bytes of the file; what is chosen by chance is chosen again."""
    chosen = random.Random(1)
    random.seed(1)
    with (
        mock.patch.object(os, "urandom", chosen.randbytes),
        mock.patch.object(secrets, "token_hex", lambda size: chosen.randbytes(size).hex()),
        Proof(schema, f"lmdb://{folder}?durability=none&map_size=64M") as proof,
    ):
        environment = proof.database._driver.engine._environment
        assert environment.callers is not None
        if not on_snapshots:
            environment.callers = None
        outcomes = [repr(proof.do(step)) for step in history]
        proof.look()
    return outcomes, (folder / "data.mdb").read_bytes()


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.timeout(900)
def test_both_ways_write_the_same_file(name, tmp_path_factory):
    @SOME
    @given(strategies.histories(SCHEMAS[name]))
    def holds(history):
        folder = tmp_path_factory.mktemp("both")
        one = written(SCHEMAS[name], history, folder / "snapshots", on_snapshots=True)
        other = written(SCHEMAS[name], history, folder / "writer", on_snapshots=False)
        assert one == other

    holds()
