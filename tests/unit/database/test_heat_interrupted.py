"""Heat where a signal interrupts what is recorded.

Not on servers: gRPC, interrupted in the main thread, may leave a lock of its own taken, and closing then waits for it.
"""

import os
import signal

import pytest

from oneread import connect
from tests.unit.database.test_heat import SCHEMA, Vote


def test_an_interrupt_in_a_recorded_call_leaves_the_verbs_right(url):
    def find_often(database):
        for _ in range(100):
            database.find(Vote, 1)

    def interrupt(_request, _answer):
        if armed:
            armed.clear()
            os.kill(os.getpid(), signal.SIGINT)

    armed = []
    with connect(url, SCHEMA, workers=0, heat=1.0, observers=(interrupt,)) as db:
        armed.append(1)
        with pytest.raises(KeyboardInterrupt):
            find_often(db)
        db.save(Vote(number=2, town="a"))
        assert db.get(Vote, 2).town == "a"
        assert db.heat().ranges
    assert "find" not in vars(db)
