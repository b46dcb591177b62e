"""A shop is moved there, back, and there again while programs use it, and what moves it is killed."""

import re

import pytest

from examples.shop import moving, source
from examples.shop.mistakes import Mistake
from examples.shop.moving_programs import MOVED, Answered
from oneread import connect

LINES = 300
SMALL = ["--writers", "2", "--kills", "3", "--seconds", "4", "--lines", f"{LINES}", "--rate", "100", "--lease", "1"]


def test_a_shop_is_moved_while_it_is_in_use_and_what_moves_it_is_killed(tmp_path, capfd):
    here, there = f"lmdb://{tmp_path}/here?durability=none", f"lmdb://{tmp_path}/there?durability=none"
    code = moving.main(["--from", here, "--to", there, "--folder", str(tmp_path / "logs"), *SMALL])
    printed, said = capfd.readouterr()
    assert code == 0, printed + said
    kills, switches, back = map(int, re.findall(r"with (\d+) kills, (\d+) switches, (\d+) back", printed)[0])
    assert (kills, switches - back) == (3, 1)
    assert back >= 1
    assert "refused 0" in printed
    assert "lost 0, twice 0" in printed
    assert " 0 holes, 0 never asked for" in printed
    (continued,) = re.findall(r"continued after it: ([\d,]+) of ", printed)
    assert continued != "0"
    with pytest.raises(Mistake, match="has been moved before"):
        moving.main(["--from", here, "--to", there, *SMALL])
    check_that_faults_are_found(there, Answered([tmp_path / "logs" / f"calls-{me}" for me in range(2)]), capfd)


def check_that_faults_are_found(url, answered, capfd):
    """What was acknowledged and is not stored, and what was counted without a call, is more that is wrong."""
    base = list(source.lines(None, limit=LINES))
    with connect(url, MOVED) as db:
        assert moving.compared(db, base, answered, 1.0) == 0
        answered.counted["visits:0"].append("never made")
        answered.counted["visits:1"].pop()
        answered.remarks["85123A", 10**6] = "never made"
        _key, line = answered.lines.popitem()
        answered.lines["never made", 1] = line._replace(invoice="never made", line=1)
        capfd.readouterr()
        assert moving.compared(db, base, answered, 1.0) > 3
    printed = capfd.readouterr().out
    assert "lost 3, twice 1" in printed
    assert re.search(r"purchases: all fields +[\d,]+ +[1-9]", printed)


@pytest.mark.parametrize("urls", [("memory://a", "lmdb:///b"), ("lmdb:///a", "memory://b"), ("hbase://a", "lmdb:///b")])
def test_a_store_that_one_process_has_is_refused(urls):
    with pytest.raises(Mistake, match="several processes"):
        moving.main(["--from", urls[0], "--to", urls[1]])
