"""What is decided on snapshots is what the writer's thread decides: each byte of the file is the same.

Also where each transaction is decided too early, on the rows before the last one, and then again.
"""

import os
import random
import secrets
from collections import Counter
from unittest import mock

import pytest
from hypothesis import given, settings
from msgspec import structs

from examples.shop.schema import SHOP
from oneread import Schema
from oneread.engines.lmdb import binding
from oneread.engines.lmdb.decision import SnapshotAttempt
from oneread.engines.lmdb.transaction import decide
from oneread.testing import strategies
from oneread.testing.proof import Proof
from tests.properties.forum import FORUM
from tests.properties.schema_of_everything import EVERYTHING
from tests.properties.schema_of_feeds import FEED_SCHEMA
from tests.properties.schema_of_feeds import GIVEN as GIVEN_TO_FEEDS
from tests.properties.test_commits_alone import LOGS
from tests.properties.test_expiry import GIVEN as GIVEN_TO_EXPIRE
from tests.properties.test_expiry import SCHEMA as EXPIRING
from tests.properties.test_sequences import EVERYTHING as NUMBERED

if not binding.COMMITS_DECISIONS:
    pytest.skip(f"no call commits: {binding.NATIVE.why}", allow_module_level=True)

SCHEMAS = {
    "shop": SHOP,
    "forum": FORUM,
    "everything": Schema(*EVERYTHING),
    "logs": LOGS,
    "numbers": NUMBERED,
    "expiry": EXPIRING,
    "feeds": FEED_SCHEMA,
}
HISTORIES = {
    name: strategies.histories(schema, {"expiry": GIVEN_TO_EXPIRE, "feeds": GIVEN_TO_FEEDS}.get(name))
    for name, schema in SCHEMAS.items()
}
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
    @given(HISTORIES[name])
    def holds(history):
        folder = tmp_path_factory.mktemp("both")
        one = written(SCHEMAS[name], history, folder / "snapshots", on_snapshots=True)
        other = written(SCHEMAS[name], history, folder / "writer", on_snapshots=False)
        assert one == other

    holds()


class TooEarly:
    """Decides each transaction on the rows before the one before it; what it raises there, or only reads, is lost.

    So each save by one call, of which there are snapshots of their own. Its clock is `behind` by so many seconds then.
    """

    def __init__(self, callers, proof, behind):
        self.callers, self.proof, self.behind = callers, proof, behind
        self.before = {}
        self.kept, self.dropped = Counter(), Counter()
        self.end, self.resume = callers.end, callers.resume

    def snapshot(self, verb):
        """The rows before the last call of a verb; None at its first."""
        before = self.before.get(verb)
        self.before[verb] = self.callers._lmdb.begin()
        return before

    def count(self, verb, committed, decided_at):
        if committed:
            self.proof.oracle.now = decided_at
        (self.kept if committed else self.dropped)[verb] += 1

    def decide(self, run, tables):
        snapshot = self.snapshot("decide")
        if snapshot is None:
            return "too early"
        attempt = SnapshotAttempt(tables, self.callers._path)
        self.proof.clock.tick(-self.behind)
        try:
            attempt.begin(snapshot)
            attempt.decide(run)
        except Exception:  # noqa: BLE001 - of rows that are not there any more
            return "too early"
        finally:
            decided_at = self.proof.clock()
            self.proof.clock.tick(self.behind)
            snapshot.abort()
        if not attempt.is_empty():
            self.callers._commit(attempt)
        self.count("decide", attempt.committed, decided_at)
        return attempt

    def save(self, asked, accept, tables):
        snapshot = self.snapshot("save")
        if snapshot is None:
            return None
        decided_at = asked.now - 1000 * self.behind
        try:
            decided = decide(snapshot, tables, structs.replace(asked, now=decided_at))
            if isinstance(decided, str) or not accept(decided):
                return None
        except Exception:  # noqa: BLE001 - likewise
            return None
        finally:
            snapshot.abort()
        committed = self.callers._commit_decided(None if decided.has_scanned else (), decided.rows)
        self.count("save", committed, decided_at)
        return decided.requests if committed else None


@pytest.mark.parametrize("behind", [0, 5])
@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.timeout(900)
def test_what_was_decided_too_early_is_decided_again(name, behind, tmp_path_factory):
    kept, dropped = Counter(), Counter()

    @SOME
    @given(HISTORIES[name])
    def holds(history):
        folder = tmp_path_factory.mktemp("early")
        with Proof(SCHEMAS[name], f"lmdb://{folder}/store?durability=none&map_size=64M") as proof:
            environment = proof.database._driver.engine._environment
            environment.callers = early = TooEarly(environment.callers, proof, behind)
            for step in history:
                proof.do(step)
            proof.look()
            for snapshot in early.before.values():
                snapshot.abort()
        kept.update(early.kept)
        dropped.update(early.dropped)

    holds()
    assert kept["save"] > 0
    assert dropped.total() > 0
