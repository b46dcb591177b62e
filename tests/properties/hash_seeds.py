"""The program that test_hash_seeds.py runs in several processes: what one of them finds in the stores of a folder.

`python -m tests.properties.hash_seeds FOLDER write|look` prints, for each store, whether it is clean, the digest of its
dump, and what a save of each entity as it stands costs and leaves behind.
"""

import hashlib
import json
import sys
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from examples.shop.schema import SHOP
from oneread import Schema, connect
from oneread.errors import UsageError
from oneread.testing import strategies
from oneread.testing.steps import DrainStep, LookStep, TickStep
from tests.golden import unordered
from tests.golden.rows import rows_of
from tests.properties.forum import FORUM
from tests.properties.schema_of_everything import EVERYTHING

SCHEMAS = {"shop": SHOP, "forum": FORUM, "everything": Schema(*EVERYTHING), "unordered": unordered.SCHEMA}
HISTORIES = 2
LONGEST = 30
OPTIONS = "?durability=none&map_size=64M"


def drawn(schema):
    """A few histories, the same ones in every process."""
    found = []

    @seed(31)
    @settings(
        max_examples=HISTORIES,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(strategies.histories(schema, longest=LONGEST))
    def take(history):
        found.append(history)

    take()
    return found


def done(db, history):
    """The steps of a history; what is refused leaves nothing behind."""
    for step in history:
        if isinstance(step, TickStep | LookStep):
            continue
        try:
            db.drain() if isinstance(step, DrainStep) else step.do(db)
        except UsageError:
            continue
    db.drain()


def derived(db):
    """Every row that follows from entities, and what each entity remembers, without versions."""
    return [
        (table, key.hex(), value.hex())
        for table, key, column, _stamp, value in rows_of(db)
        if table in {"views", "counts"} or column == b"m:e"
    ]


def dumped(db):
    digest = hashlib.blake2b()
    db.dump(digest.update)
    return digest.hexdigest()


def seen(db):
    """What this process finds, before and after it has saved each entity as it stands."""
    found = {"opened": dumped(db), "faults": [repr(each) for each in db.verify().faults]}
    before = derived(db)
    costs = []
    for model in dict.fromkeys(kind.cls for kind in db.operations.catalog.kinds.values()):
        for entity in db.page(model, limit=1000):
            cost = db.cost(db.save(entity))
            costs.append([model.__name__, cost.requests, cost.rows])
    found |= {"costs": costs, "tasks": db.drain(), "moved": sorted(set(derived(db)) ^ set(before))}
    found["faults"] += [repr(each) for each in db.verify().faults]
    return found | {"left": dumped(db)}


def looked(folder, *, write):
    """What is found in each store; with `write`, after its history."""
    found = {}
    for name, schema in SCHEMAS.items():
        histories = [*drawn(schema), None] if write else [None] * (HISTORIES + 1)
        for number, history in enumerate(histories):
            if history is None and number == HISTORIES and name != "unordered":
                continue
            with connect(f"lmdb://{folder}/{name}-{number}{OPTIONS}", schema, workers=0) as db:
                if write and history is None:
                    unordered.history(db)
                elif write:
                    done(db, history)
                found[f"{name}-{number}"] = seen(db)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(looked(Path(sys.argv[1]), write=sys.argv[2] == "write")) + "\n")
