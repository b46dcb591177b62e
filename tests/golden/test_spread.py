"""The golden store of what is spread over ranges: as this release writes it, and as every later one reads it.

`python -m tests.golden.test_spread` rewrites it, on purpose only; see `tests/golden/test_store.py`.
"""

import json
from pathlib import Path

import pytest

from oneread import connect
from oneread.store.keys import entity_part
from tests.golden import spread
from tests.golden.rows import rows_of
from tests.golden.test_store import lines

GOLDEN = Path(__file__).with_name("spread.jsonl")


def written(url):
    clock = spread.Clock()
    with connect(url, spread.SCHEMA, clock=clock, workers=0) as db:
        spread.history(db, clock)
        assert [row.made for row in db.page(spread.Latest)] == [
            spread.START.replace(minute=minute) for minute in (5, 4, 3, 2, 1)
        ]
        assert [row.events for row in db.page(spread.BusyPlaces)] == [3, 2]
        return lines(rows_of(db))


@pytest.mark.parametrize("url", ["memory://", "lmdb://./store"])
def test_the_same_history_writes_the_same_rows(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert written(url) == GOLDEN.read_text(encoding="ascii")


def test_roots_are_in_several_ranges():
    cells = [json.loads(line) for line in GOLDEN.read_text(encoding="ascii").splitlines()]
    roots = {bytes.fromhex(key) for table, key, *_rest in cells if table == "roots"}
    assert len({key.removesuffix(entity_part(key)) for key in roots}) == 5


if __name__ == "__main__":
    GOLDEN.write_text(written("memory://"), encoding="ascii")
