"""A site is moved there, back, and there again while programs use it, and what moves it is killed."""

import re

import pytest

from examples import moving
from examples.community.counting import Clock
from examples.community.moving import Community
from examples.community.moving import compare as compare_community
from examples.community.schema import COMMUNITY
from examples.community.source import read
from examples.moving_programs import Answer, Answered, Made
from examples.shop import source
from examples.shop.moving import MOVED, Shop, ShopCall, compare
from oneread import connect

LINES, RECORDS = 300, "generated:7:8"
SMALL = ["--writers", "2", "--kills", "3", "--seconds", "4", "--rate", "100", "--lease", "1"]


@pytest.fixture(params=[(Shop, ["--lines", f"{LINES}"]), (Community, ["--data", RECORDS])], ids=["shop", "community"])
def site(request):
    """A site, and the arguments that say what is loaded."""
    return request.param


def test_a_site_is_moved_while_it_is_in_use_and_what_moves_it_is_killed(site, tmp_path, capfd):
    kind, data = site
    here, there = f"lmdb://{tmp_path}/here?durability=none", f"lmdb://{tmp_path}/there?durability=none"
    arguments = ["--from", here, "--to", there, "--folder", str(tmp_path / "logs"), *data, *SMALL]
    code = moving.main(kind, arguments)
    printed, said = capfd.readouterr()
    assert code == 0, printed + said
    kills, switches, back = map(int, re.findall(r"with (\d+) kills, (\d+) switches, (\d+) back", printed)[0])
    assert (kills, switches - back) == (3, 1)
    assert back >= 1
    assert "refused 0" in printed
    assert "lost 0, twice 0" in printed
    (continued,) = re.findall(r"continued after it: ([\d,]+) of ", printed)
    assert continued != "0"
    assert moving.main(kind, arguments) == 2
    assert "the store is not empty" in capfd.readouterr().err
    answered = Answered([tmp_path / "logs" / f"calls-{me}" for me in range(2)], kind.call)
    CHECKED[kind](there, answered, capfd)


def check_shop(url, answered, capfd):
    """What was acknowledged and is not stored, and what was counted without a call, is more that is wrong."""
    lines = list(source.lines(None, limit=LINES))
    bought = next(each for each in answered.made if each.call.verb == "buy")
    with connect(url, MOVED) as db:
        assert compare(db, lines, answered) == 0
        assert " 0 holes, 0 never asked for" in capfd.readouterr().out
        lose_adds(answered)
        answered.made += [
            Made(ShopCall("remark", key="85123A", text="never made"), Answer(10**6), "a remark"),
            bought._replace(call=ShopCall("buy", bought.call.line._replace(invoice="never made", line=1))),
        ]
        assert compare(db, lines, answered) > 3
    printed = capfd.readouterr().out
    assert "lost 3, twice 1" in printed
    assert re.search(r"purchases: all fields +[\d,]+ +[1-9]", printed)


def check_community(url, answered, capfd):
    """What was acknowledged and is not stored is missing in lists, groups and feeds."""
    records, clock = read(RECORDS), Clock()
    first = {each.call.verb: each for each in reversed(answered.made)}
    with connect(url, COMMUNITY, clock=clock) as db:
        assert compare_community(db, clock, records, answered) == 0
        lose_adds(answered)
        sent, published = first["send"], first["publish"]
        fields = {name: getattr(sent.call, name) for name in sent.call.__struct_fields__}
        event = {name: getattr(published.call, name) for name in published.call.__struct_fields__}
        answered.made += [
            sent._replace(call=type(sent.call)(**{**fields, "number": 1})),
            published._replace(call=type(published.call)(**{**event, "text": "never made"})),
        ]
        capfd.readouterr()
        assert compare_community(db, clock, records, answered) > 5
    printed = capfd.readouterr().out
    assert "lost 2, twice 1" in printed
    for name in ("messages: id, sender, time, length", "groups: name, members, activities", "feed: home pages of"):
        assert re.search(rf"{name}.* +[\d,]+ +[1-9]", printed), printed


def lose_adds(answered):
    """One add that was never made, and one that nothing says of."""
    counts = [each for each in answered.made if each.call.verb == "count"]
    answered.made.remove(counts[0])
    answered.made.append(counts[1]._replace(token="never made"))


CHECKED = {Shop: check_shop, Community: check_community}


@pytest.mark.parametrize("urls", [("memory://a", "lmdb:///b"), ("lmdb:///a", "memory://b")])
def test_a_store_that_one_process_has_is_refused(site, urls, capfd):
    assert moving.main(site[0], ["--from", urls[0], "--to", urls[1]]) == 2
    assert "several processes" in capfd.readouterr().err
