"""The community: records and their dirt, killed loads, logs that are loaded twice, a check that finds what is wrong."""

import re
from datetime import UTC, datetime
from itertools import islice

import pytest

from examples import serving
from examples.community import checking, counting, generator, joining, loading, meetups, recount, source, stores, verbs
from examples.community.schema import (
    COMMUNITY,
    Ballot,
    Choice,
    Comment,
    CommentsOfPost,
    Event,
    Group,
    GroupName,
    Home,
    Log,
    Member,
    Membership,
    Message,
    Notifications,
    Participation,
    Path,
    Poll,
    Thread,
    TopMembers,
    TopPaths,
    TopPolls,
    TopThreads,
)
from examples.qa import source as site
from examples.qa.schema import SITE
from examples.records import Misfits
from examples.shop.growing import RELEASES
from examples.shop.mistakes import Mistake
from examples.shop.schema import SHOP
from oneread import connect
from oneread.errors import AlreadyExists, UsageError
from tests.examples.conftest import COMMUNITY as DATA
from tests.examples.conftest import imported_from_library, kill_load, load_community, write_rows

NOW = datetime(2018, 9, 2, 12, tzinfo=UTC)


def quiet(*_):
    pass


def compared(url, data):
    clock = counting.Clock()
    with stores.for_reading(url, clock) as db:
        return checking.check(db, clock, data)


def differences(url, data):
    return [said for each in compared(url, data) for said in each.differences]


@pytest.fixture(scope="module")
def read():
    return source.read(DATA)


@pytest.fixture
def made(community_store):
    """The URL of a store of a generated community, which no test changes."""
    return community_store


@pytest.fixture
def copied(community_copy):
    """A copy of that store, to be changed."""
    return community_copy


@pytest.fixture
def db(copied):
    with connect(copied, COMMUNITY, workers=0) as opened:
        yield opened
        assert opened.verify().clean


# --- Records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [source, meetups, generator, recount, joining])
def test_what_counts_again_does_not_import_the_library(module):
    assert not imported_from_library(module)


def test_the_same_seed_makes_the_same_records(read):
    again, other = source.read(DATA), source.read("generated:8:20")
    assert [*again.read_messages()] == [*read.read_messages()] != [*other.read_messages()]
    assert [[*log.lines()] for log in again.logs] == [[*log.lines()] for log in read.logs]


@pytest.fixture
def folder(tmp_path):
    """Writes the generated rows as the files of all data sets; returns their folder."""
    rows = generator.files(7, 20)
    for name, (within, _columns) in source.FILES.items():
        (tmp_path / "data" / within).mkdir(parents=True, exist_ok=True)
        write_rows(tmp_path / "data" / within / f"{name}.csv.gz", rows[name])
    (tmp_path / "data" / site.FOLDER).mkdir()
    for name, several in site.generator.files(7, 20).items():
        write_rows(tmp_path / "data" / site.FOLDER / f"{name}.csv.gz", several)
    return tmp_path / "data"


def test_a_folder_of_files_is_read_as_what_was_written(folder, read):
    found = source.read(str(folder))
    assert [*found.read_messages()] == [*read.read_messages()]
    assert (found.topics, found.senders, found.messages) == (read.topics, read.senders, read.messages)
    assert (found.ballots, found.site.comments, found.paths) == (read.ballots, read.site.comments, read.paths)
    assert (found.meetups, found.participations, found.newest) == (read.meetups, read.participations, read.newest)
    assert [[*log.lines()] for log in found.logs] == [[*log.lines()] for log in read.logs]
    assert found.misfits.counts == read.misfits.counts
    assert found.label == "all data sets"


def test_what_does_not_fit_is_counted(read):
    assert read.misfits.counts["messages in threads that are gone"] > 1
    assert read.misfits.first["rows that cannot be read"].startswith("Posts row")
    assert read.misfits.counts["comments without a member"] > 0
    assert read.messages == len([*read.read_messages()])
    assert read.misfits.counts["events and memberships of groups that are gone"] == 2
    assert read.misfits.first["members without a row of their own"].startswith("nashville:")


def test_two_networks_that_number_alike_do_not_meet(read):
    """Nor do their groups, of which one is in both."""

    def numbers(keys, network):
        return {key.partition(":")[2] for key in keys if key.startswith(f"{network}:")}

    members, groups = read.meetups.members, [each.key for each in read.meetups.groups]
    assert numbers(members, "nashville") & numbers(members, "rladies")
    assert numbers(groups, "nashville") & numbers(groups, "rladies")
    assert len({*members}) == len(members)
    assert all(each.member.partition(":")[0] == each.group.partition(":")[0] for each in read.meetups.memberships)


def test_a_member_has_joined_with_the_first_answer_and_is_there_without_a_row():
    def rows(*several):
        return lambda: enumerate({**dict.fromkeys(several[0], "1"), **each} for each in several)

    files = dict.fromkeys(meetups.FILES, rows({})) | {
        "meta-members": list, "meta-events": list, "rladies_meetup_events_past": list,
        "meta-groups": rows({"group_id": "7", "group_name": "Walks", "category_name": "Outdoors"}),
        "member-to-group-edges": rows(
            {"member_id": "5", "group_id": "7", "weight": "3"}, {"member_id": "5", "group_id": "8", "weight": "1"}
        ),
        "rladies_meetup_groups": rows({"id": "7", "name": "R-Ladies", "category.name": "Tech"}),
        "rladies_member_rsvps": rows(
            *(
                {"member.id": "5", "created": at, "group.name": "R-Ladies", "event.id": at}
                for at in ("3000", "1000", "2000", "x")
            ),
            {"member.id": "5", "created": "1", "group.name": "R-Ladies of a group that is gone", "event.id": "1"},
        ),
    }  # fmt: skip
    misfits = Misfits()
    found = meetups.read(files, misfits)
    assert found.members == ["nashville:5", "rladies:5"]
    assert found.memberships == [
        meetups.Membership("nashville:5", "nashville:7", None, 3),
        meetups.Membership("rladies:5", "rladies:7", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    ]
    assert [(each.event, each.at.second) for each in found.rsvps] == [
        ("rladies:3000", 3), ("rladies:1000", 1), ("rladies:2000", 2),
    ]  # fmt: skip
    assert misfits.counts == {meetups.GROUPLESS: 2, meetups.UNLISTED: 1, meetups.UNREADABLE: 1}


def test_a_missing_file_is_a_mistake(folder):
    (folder / "ruet-weblog" / "rejects.csv.gz").unlink()
    with pytest.raises(Mistake, match=r"lacks ruet-weblog/rejects\.csv\.gz"):
        source.read(str(folder))


def test_lines_of_a_log_are_requests_or_rejected():
    def lines(rows, rejects):
        return [*source._requests(lambda: enumerate(rows), lambda: enumerate(rejects))]

    asked = {"Time": "29/Nov/2017:06:58:55", "URL": "GET /home.php?id=3 HTTP/1.1", "Status": "200"}
    at = int(datetime(2017, 11, 29, 6, 58, 55, tzinfo=UTC).timestamp())
    assert lines([asked], [{"line": "rm: cannot remove"}]) == [
        source.Line(1, "ruet:/home.php", "ruet:200", at),
        source.Line(2, None, "ruet:rejected", None),
    ]
    (cut,) = lines([asked | {"URL": f"GET /a{chr(0x1F600) * 60}?id=3 HTTP/1.1"}], [])
    assert cut.counter == f"ruet:/a{chr(0x1F600) * 37}"
    wrong = [
        asked | {"Time": "31/Feb/2017:06:58:55"},
        asked | {"Time": "29/Nov/2017"},
        asked | {"Time": "29/Now/2017:06:58:55"},
        asked | {"URL": "GET /home.php"},
        asked | {"Status": ""},
        asked | {"Status": "x"},
    ]
    assert {line.counter for line in lines(wrong, [])} == {None}


# --- Loads -----------------------------------------------------------------------------------------------------------


def test_a_loaded_community_is_right_in_every_number(made, read):
    found = compared(made, read)
    assert {each.name: each.differences for each in found if each.differences} == {}
    counts = {each.name: each.numbers for each in found}
    assert counts["messages: id, sender, time, length"] == read.messages > 400
    assert counts["comments: time, member, number, post, text"] == len(read.site.comments)
    assert counts["paths: views"] == counts["list: top paths"] == len(read.paths) == len(generator.PATHS)
    assert counts["ballots: choice, value, time"] < len(read.ballots)  # some vote again
    homes = [*joining.homes(read)]
    for network, least in (("nashville", 1_500), ("rladies", 900), ("lean", 0), ("qc", 0)):
        entries = sum(len(each.entries) for each in homes if each.member.startswith(network))
        assert counts[f"feed: home pages of {network}"] == entries >= least
    assert counts["feed: notifications"] == len(read.participations) > 300
    assert counts["ruet: windows, by hour"] > 50
    assert min(each.numbers for each in found if "lines" not in each.name and "home pages" not in each.name) > 5
    with connect(made, COMMUNITY) as db:
        assert db.verify().clean


def test_a_batch_of_messages_is_seven_requests_however_many_they_are(read):
    kinds = [kind for kind, _ in loading.entities(read)]
    roots, messages = kinds.index("messages"), kinds.count("messages")
    with connect("memory://", COMMUNITY) as db:
        db.save_all(entity for _, entity in islice(loading.entities(read), roots))
        rest = islice(loading.entities(read), roots, None)
        for several in (50, messages - 50):
            with db.bulk(batch=1_000) as bulk:
                for _, entity in islice(rest, several):
                    bulk.save(entity)
            assert (bulk.tally.stored, bulk.cost.requests) == (several, 7)


def test_a_load_that_is_killed_five_times_ends_as_one_that_is_not(tmp_path, community):
    url, large = f"lmdb://{tmp_path}/community", "generated:7:80"
    data = source.read(large)
    command = ["examples.community", "load", "--data", large, "--db", url, "--batch", "50"]
    for behind in (100, 2_000, 6_300):  # among members, messages, memberships
        kill_load(command, "entities", behind)
        with connect(url, COMMUNITY) as db, db.bulk(checkpoint=loading.checkpoint_of(data)) as bulk:
            assert behind < bulk.position < loading.count_of(data)
    lines = []
    for behind in (300, 1_200):
        kill_load(command, "lines", behind)
        with connect(url, COMMUNITY) as db:
            lines.append([each.lines for each in db.page(Log)])
    assert 0 < sum(lines[0]) < sum(lines[1]) < sum(sum(1 for _ in log.lines()) for log in data.logs)
    assert community("load", "--data", large, "--db", url).code == 0
    checked = community("check", "--data", large, "--db", url)
    assert (checked.code, "compared: 0 differ" in checked.out) == (0, True), checked.out


def test_a_load_that_is_repeated_adds_nothing(copied, read):
    assert [(each.lines, each.again) for each in load_community(copied, read)] == [(0, 0), (0, 0)]
    assert differences(copied, read) == []


def test_a_log_that_is_loaded_twice_is_counted_once(copied, read):
    """Its position is lost: the tokens alone say which lines were counted."""
    with connect(copied, COMMUNITY) as db:
        for log in read.logs:
            db.delete(Log, log.name)
    for each, log in zip(load_community(copied, read), read.logs, strict=True):
        entries = sum(line.counter is not None for line in log.lines())
        assert (each.before, each.lines) == (0, sum(1 for _ in log.lines()))
        assert each.again > entries
    assert differences(copied, read) == []


def test_a_load_killed_between_adds_and_their_position_counts_each_line_once(tmp_path, read, monkeypatch):
    class Killed(Exception):
        pass

    def killer(*_):
        raise Killed

    url, clock, log = f"lmdb://{tmp_path}/community", counting.Clock(), read.logs[0]
    with stores.for_loading(url, clock) as db:
        loading.load(db, read, quiet)
        monkeypatch.setattr(type(db), "save", killer)
        with pytest.raises(Killed):
            counting.count(db, clock, log, quiet)
        monkeypatch.undo()
        assert db.find(Log, log.name) is None
        assert counting.count(db, clock, log, quiet).again > 0
        assert counting.count(db, clock, read.logs[1], quiet).again == 0
    assert differences(url, read) == []


def test_other_data_are_not_loaded_into_the_same_store(copied):
    with stores.for_loading(copied, counting.Clock()) as db, pytest.raises(Mistake, match="other data than generated"):
        loading.load(db, source.read("generated:8:20"), quiet)


# --- Pages -----------------------------------------------------------------------------------------------------------


def pages(db, listed, *key, backward=False):
    """All rows page by page, in the order of the list; each page is one request."""
    found, cursor = [], None
    while True:
        page = db.page(listed, *key, limit=7, cursor=cursor, backward=backward)
        assert (page.cost.requests, page.cost.rows <= 8) == (1, True)
        found = [*page, *found] if backward else [*found, *page]
        cursor = page.previous if backward else page.next
        if cursor is None:
            return found


def test_every_page_is_one_bounded_read_in_both_directions(db):
    busiest = db.page(TopThreads, limit=1).rows[0]
    for listed, key in (
        (Message, busiest.source.key), (Comment, ()), (CommentsOfPost, (10,)), (TopThreads, ()), (TopMembers, ()),
        (TopPolls, ()), (Home, ("nashville:1",)), (Notifications, ("lean:1",)),
    ):  # fmt: skip
        forward = pages(db, listed, *key)
        assert forward == pages(db, listed, *key, backward=True)
        assert len(forward) > 14
    assert [each.number for each in pages(db, Message, *busiest.source.key)] == [*range(1, busiest.messages + 1)]


def test_a_page_of_comments_continues_behind_comments_that_come_meanwhile(db):
    first = db.page(Comment, limit=5)
    at, member, _number = (getattr(first[2], name) for name in ("written_at", "member", "number"))
    db.create(Comment(written_at=at, member=member, post=Poll.at(10), text="in between"))
    last = db.page(Comment, limit=1, backward=True)[0]
    db.create(Comment(written_at=NOW, member=member, post=Poll.at(10), text="at the end"))
    rest = [each for page in db.scan(Comment) for each in page if each.written_at > first[-1].written_at]
    second = db.page(Comment, limit=1_000, cursor=first.next)
    assert [*second] == rest
    assert last in second.rows
    assert second[-1].text == "at the end"


def test_a_voter_counts_once(db):
    poll = db.page(TopPolls, limit=1)[0]
    (post,) = poll.source.key
    db.create(Ballot(post=post, voter="qc:new", choice=Choice.UP, value=1, cast_at=NOW))
    with pytest.raises(AlreadyExists):
        db.create(Ballot(post=post, voter="qc:new", choice=Choice.UP, value=1, cast_at=NOW))
    assert (db.get(Poll, post).score, db.get(Poll, post).ballots) == (poll.score + 1, poll.ballots + 1)
    db.save(Ballot(post=post, voter="qc:new", choice=Choice.DOWN, value=-1, cast_at=NOW))
    assert (db.get(Poll, post).score, db.get(Poll, post).ballots) == (poll.score - 1, poll.ballots + 1)


def test_a_message_takes_the_next_number_of_its_thread(db):
    (thread,) = db.page(TopThreads, limit=1)[0].source.key
    before, sender = db.get(Thread, thread).messages, Member.at("lean:1")
    assert db.create(Message(thread=thread, sender=sender, sent_at=NOW, length=1, id=1)).number == before + 1
    assert db.get(Thread, thread).messages == before + 1
    assert db.page(TopThreads, limit=1)[0].messages == before + 1


def test_views_of_paths_follow_their_counters_and_nothing_else(db):
    shown = {each.path: each.views for each in db.page(Path)}
    least = db.page(TopPaths, backward=True, limit=1).rows[-1]
    (path,) = least.source.key
    db.counter(f"ruet:{path}").add(10**6)
    db.counter("ruet:/nowhere").add(1)
    db.save(Path(path=path))
    db.create(Path(path="/later"))
    db.counter("ruet:/later").add(2, once="a request")
    db.counter("ruet:/later").add(2, once="a request")
    assert {each.path: each.views for each in db.page(Path)} == {**shown, "/later": 0}
    db.drain()
    first = db.page(TopPaths, limit=1)
    assert [(each.source.key, each.views) for each in first] == [((path,), least.views + 10**6)]
    assert (first.cost.requests, first.cost.rows) == (1, 2)
    assert {each.path: each.views for each in db.page(Path)} == {**shown, path: least.views + 10**6, "/later": 2}


def test_a_store_that_was_loaded_before_there_were_paths_and_groups_gets_them(tmp_path, read):
    """They are the last entities of a load; a path of a log that was counted before shows what was counted."""
    url = f"lmdb://{tmp_path}/community"
    older = read._replace(paths=[], meetups=meetups.Meetups([], [], [], [], []), participations=[])
    load_community(f"{url}?durability=none", older)
    with stores.for_loading(url, counting.Clock()) as db:
        assert not db.page(Path).rows
        assert loading.load(db, read, quiet).stored == loading.count_of(read) - loading.count_of(older)
    assert differences(url, read) == []


# --- What may be done in one transaction -----------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [COMMUNITY, SHOP, SITE, *RELEASES.values()])
def test_the_examples_are_portable(schema):
    assert schema.portable


def test_a_vote_and_a_comment_are_two_groups(db):
    def both(tx):
        tx.create(Ballot(post=10, voter="qc:new", choice=Choice.UP, value=1, cast_at=NOW))
        tx.create(Comment(written_at=NOW, member="qc:1", post=Poll.at(10), text="voted"))

    with pytest.raises(UsageError):
        db.transact(both)
    assert db.find(Ballot, 10, "qc:new") is None


# --- Commands --------------------------------------------------------------------------------------------------------


def test_load_and_check_say_what_they_did(community, tmp_path):
    url = f"lmdb://{tmp_path}/community"
    loaded = community("load", "--data", "generated:3:12", "--db", url)
    assert loaded.code == 0, loaded.err
    assert re.search(r"messages in threads that are gone +\d+  messages row \d+", loaded.out)
    assert re.search(r"[\d,]+ entities stored in [\d.]+ s, [\d,]+/s; 0 were there", loaded.out)
    assert re.search(r"ruet: [\d,]+ lines counted .* \d+ are rejected; 0 adds were made before", loaded.out)
    assert "0 entities stored" in community("load", "--data", "generated:3:12", "--db", url).out
    checked = community("check", "--data", "generated:3:12", "--db", url)
    assert checked.code == 0, checked.out
    assert re.search(r"[\d,]+ members, [\d,]+ entries of their feeds: 0 differ", checked.out)
    assert re.search(r"[\d,]+ compared: 0 differ", checked.out)
    assert re.search(r"verify: [\d,]+ entities, [\d,]+ rows: clean", checked.out)


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["thread", 1, "--limit", 3], [r"topic <1> \(.*\): \d+ messages", r"  #1 .* lean:\d+", r"  1 request, 4 rows"]),
        (["comments", "--limit", 3], [r"  2018-\S+ \S+  qc:-?\d+ #\d+ ", r"  1 request, 4 rows", "  next: --cursor"]),
        (["comments", "--post", 10, "--limit", 3, "--backward"], [r"  1 request, 4 rows", "  previous: --cursor"]),
        (
            ["feed", "nashville:1", "--limit", 3],
            [r"  2018-03-\S+ \S+  Group <\d+>  \S", "  1 request, 4 rows"],
        ),
        (["feed", "qc:1"], [r"at \(UTC\)", r"  1 request, 0 rows"]),
        (
            ["notifications", "lean:1", "--limit", 3],
            [r"lean:1: \d+\+? unread", r"  2018-\S+ \S+ +\d+ +\S topic <\d+>", "  1 request, 4 rows"],
        ),
        (["poll", 10], [r"  score \d+ of \d+ ballots, \d+ of them favourites; \d+ comments", r"  1 request, 1 row"]),
        (["counter", "ruet:/login.php"], [r"ruet:/login.php: \d+ in \d rows", "hour", r"  2018-\S+ \S+ +\d+", "day"]),
        (["counter", "ruet:rejected"], [r"ruet:rejected: \d+ in 1 rows"]),
        (
            ["top"],
            [
                r"  1 +.* topic <1>",
                r"  lean:1 +\d+",
                r"  10 .*\?",
                r"  1 request, 11 rows",
                r"path +views\n.*\n  /login.php +\d+\n  /home.php +\d+\n",
                r"  1 request, 6 rows",
            ],
        ),
        (["top", "--stream", "maths", "--limit", 2], ["title, in maths", r"  1 request, 3 rows"]),
    ],
)
def test_a_page_is_shown_with_its_cost(community, made, arguments, lines):
    found = community(*arguments, "--db", made)
    assert found.code == 0, found.err
    for line in lines:
        assert re.search(line, found.out, re.MULTILINE), (line, found.out)


def test_a_page_leads_to_the_next_and_back(community, made):
    def rows(*more):
        out = community("thread", 1, "--limit", 4, "--db", made, *more).out
        return re.findall(r"#(\d+)", out), dict(re.findall(r"(next|previous): (--cursor=\S+)", out))

    first, ways = rows()
    second, back = rows(ways["next"])
    assert (first, second) == ([*"1234"], [*"5678"])
    assert rows(back["previous"])[0] == first


def test_windows_of_a_counter_end_with_its_log(community, made, read):
    expected = recount.recount_log(read.logs[1])
    out = community("counter", "higgs:RT", "--last", 2, "--db", made).out
    last = max(expected.windows["higgs:RT"]["hour"])
    (hour, day) = re.findall(r"^  (\S+ \S+) +(\d+)$", out, re.MULTILINE)[1::2]
    newest = datetime.fromtimestamp(expected.newest, UTC)
    assert hour[0] == f"{newest:%Y-%m-%d %H:00}"
    assert day[0] == f"{newest:%Y-%m-%d} 00:00"
    assert int(day[1]) >= expected.windows["higgs:RT"]["hour"][last] > 0


CHANGES = {
    "a comment": (
        lambda db: db.create(Comment(written_at=NOW, member="qc:1", post=Poll.at(10), text="new")),
        [r"comments: time, .*: 2018-09-02 12:00:00 qc:1 \d+ 10 new is stored, nothing", "members: .* of qc:1: "],
    ),
    "a message": (
        lambda db: db.create(Message(thread=1, sender=Member.at("lean:1"), sent_at=NOW, length=1, id=1)),
        [r"messages: .* of 1 \d+: 1 1 \d+ 1 is stored, nothing", "threads: messages of 1: ", "top threads, row 1: "],
    ),
    "a message less": (lambda db: db.delete(Message, 2, 3), [r"messages: .* of 2 3: nothing is stored, 1"]),
    "a ballot": (
        lambda db: db.save(Ballot(post=10, voter="new", choice=Choice.UP, value=1, cast_at=NOW)),
        ["ballots: choice, value, time of 10 new: ", "polls: .* of 10: ", "list: top polls, row 1: "],
    ),
    "an add": (lambda db: db.counter("higgs:RT").add(1), ["higgs: counters of higgs:RT: "]),
    "a membership": (
        lambda db: db.create(
            Membership(
                person="lean:1",
                place="nashville:1",
                member=Member.at("lean:1"),
                group=Group.at("nashville:1"),
                joined_at=NOW,
            )
        ),
        [
            r"groups: .* of nashville:1: ",
            r"memberships: .*, row 1: lean:1 nashville:1 2018-09-02 12:00:00 is stored",
            r"feed: home pages of lean of lean:1: 2018-.* is stored, and not right",
        ],
    ),
    "a participation": (
        lambda db: db.create(Participation(thread=1, person="qc:1", member=Member.at("qc:1"))),
        [r"participations: .*1 qc:1 is stored", r"feed: notifications of qc:1: .* 1 .* is stored, and not right"],
    ),
    "an event": (
        lambda db: db.create(
            Event(
                activity="new", group=GroupName.of("nashville:2"), posted_at=NOW, title="Walk", by=Member.at("lean:1")
            )
        ),
        [
            r"groups: .* of nashville:2: ",
            r"feed: home pages of nashville of nashville:\d+: .* new .* Walk lean:1 is stored",
        ],
    ),
    "another counter": (lambda db: db.counter("ruet:new").add(1), ["ruet: counters of ruet:new: 1 is stored, nothing"]),
    "a view": (
        lambda db: (db.counter("ruet:/login.php").add(1), db.drain()),
        [r"ruet: counters of ruet:/login.php: ", r"paths: views of /login.php: ", "list: top paths, row 1: "],
    ),
    "another path": (lambda db: db.create(Path(path="/new")), ["paths: views of /new: 0 is stored, nothing"]),
    "a position": (lambda db: db.patch(Log, "ruet", lines=3), ["ruet: lines, rejected lines, newest of ruet: "]),
}


def test_check_finds_what_the_data_do_not_have(community, copied, read):
    with connect(copied, COMMUNITY, workers=0) as db:
        for change, _said in CHANGES.values():
            change(db)
    found = "\n".join(differences(copied, read))
    for name, (_change, said) in CHANGES.items():
        for words in said:
            assert re.search(words, found), (name, words)
    checked = community("check", "--data", DATA, "--db", copied)
    assert checked.code == 1
    assert re.search(r"[\d,]+ compared: \d+ differ", checked.out)
    assert "rows: clean" in checked.out


def test_check_finds_an_entry_that_is_missing_and_one_in_another_place(made, read):
    def said(events):
        data = read._replace(meetups=read.meetups._replace(events=events))
        found = [each for each in differences(made, data) if each.startswith("feed: home pages")]
        assert len(found) == sum(each.group == first.group for each in read.meetups.memberships) > 1
        return found

    first, *rest = read.meetups.events
    more = first._replace(key="later", title="Another")
    assert all(each.endswith(" Another nothing is missing") for each in said([*read.meetups.events, more]))
    assert all(each.endswith("nothing is stored, and not right") for each in said(rest))


def test_check_finds_a_count_in_another_window(copied, read):
    clock = counting.Clock()
    newest = recount.recount_log(read.logs[1]).newest
    with connect(copied, COMMUNITY, workers=0, clock=clock) as db:
        clock.set_to(newest)
        db.counter("higgs:RT").add(1)
        clock.set_to(newest - 7_200)
        db.counter("higgs:RT").add(-1)
    assert all("windows, by hour of higgs:RT 2018-03-" in each for each in differences(copied, read))
    assert len(differences(copied, read)) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["thread", "x"], "'x' is not a whole number"),
        (["thread", "99999"], "there is no thread 99999"),
        (["thread", "1", "--cursor", "x"], "community thread: "),
        (["poll", "99999"], "there is no post 99999"),
        (["feed", "99999"], "there is no member '99999'"),
        (["notifications", "99999"], "there is no member '99999'"),
        (["comments", "--post", "99999"], "no comments on a post 99999"),
        (["top", "--stream", "nowhere"], "no threads in a stream 'nowhere'"),
        (["counter", "ruet:/nowhere"], "nothing was counted by ruet:/nowhere; there are ruet:"),
        (["counter", ""], "community counter: "),
        (["top", "--limit", "0"], "'0' is not a whole number"),
        (["check", "--data", "/nowhere"], "lacks some of"),
        (["check", "--data", "generated:x"], "generated:SEED"),
        (["fly"], "invalid choice: 'fly'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(community, made, arguments, said):
    found = community(*arguments, *([] if arguments == ["fly"] else ["--db", made]))
    assert (found.code, found.err.count("\n")) == (2, 1), found.err
    assert said in found.err


def test_a_store_that_is_not_there_is_a_mistake(community, tmp_path):
    assert "community top: " in community("top", "--db", "lmdb:///nowhere/community").err
    assert "there is no store here" in community("check", "--db", "memory://").err
    url = f"lmdb://{tmp_path}/community"
    connect(url, COMMUNITY).close()
    assert f"nothing was loaded into {url}; load it first" in community("top", "--db", url).err


def test_a_load_that_is_interrupted_says_how_to_continue(monkeypatch, community, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(verbs.loading, "load", interrupted)
    found = community("load", "--data", DATA, "--db", f"lmdb://{tmp_path}/community")
    assert (found.code, "the same `load` continues" in found.err) == (130, True)


def test_serve_hands_the_store_to_the_server(monkeypatch, community, made, tmp_path):
    served = []
    monkeypatch.setattr(serving.uvicorn, "run", lambda app, **options: served.append((app, options)))
    found = community("serve", "--db", made, "--port", "8001")
    assert (found.code, f"serving {made} at http://127.0.0.1:8001/" in found.out) == (0, True)
    assert served[0][1]["port"] == 8001
    assert community("serve", "--db", f"lmdb://{tmp_path}/community").code == 2
    assert len(served) == 1
