"""Eight processes use one store at the same time.

The story: each has its own environment, its own writer and its own idea of whose turn it is. Counters must be exact,
claims unique, and none may wait for long.
"""

import json

from oneread.engines.lmdb import LmdbEngine
from tests.failures.stores import child, keys

PROCESSES = 8
THREADS = 3
ADDS = 60

WORKER = """
import json, sys, threading
from oneread.engines.lmdb import LmdbEngine
from oneread.store.requests import ABSENT, CheckAndMutate, Increment, Read, Replace
from oneread.store.rows import Cell, RowMutation

path, who, threads, adds, durability = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:5]), sys.argv[5]
engine = LmdbEngine(path, durability=durability)
won = []

def add(transaction):
    (row,) = transaction.read("counts", [b"hot"])
    old = int(row[b"d:n"].value) if row else 0
    transaction.replace("counts", {b"hot": {b"d:n": Cell(b"%d" % (old + 1), 1)}})

def work(number):
    for turn in range(adds):
        engine.transaction(add, 60)
        engine.answer(Increment("counts", b"approximate", b"d:n", 1))
        claim = RowMutation(b"%d" % turn, {b"d:o": Cell(who.encode(), 1)})
        if engine.answer(CheckAndMutate("system", b"d:o", ABSENT, claim)):
            won.append(turn)

print("ready", flush=True)
sys.stdin.readline()
workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
for worker in workers: worker.start()
for worker in workers: worker.join()
engine.close()
print(json.dumps(won), flush=True)
"""


def test_counters_are_exact_and_claims_unique(tmp_path):
    path = str(tmp_path / "store")
    workers = [child(WORKER, path, who, THREADS, ADDS, "none" if who % 2 else "group") for who in range(PROCESSES)]
    for worker in workers:
        assert worker.stdout.readline() == b"ready\n"
    for worker in workers:
        worker.stdin.write(b"go\n")
        worker.stdin.flush()
    reports = [worker.communicate(timeout=120)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * PROCESSES
    won = [turn for report in reports for turn in json.loads(report)]
    assert sorted(won) == list(range(ADDS))
    with_engine = LmdbEngine(path)
    total = PROCESSES * THREADS * ADDS
    assert with_engine.point("counts", b"hot", b"d:n")[0] == b"%d" % total
    assert int.from_bytes(with_engine.point("counts", b"approximate", b"d:n")[0], "big") == total
    assert len(keys(with_engine, "system")) == ADDS
    with_engine.close()
