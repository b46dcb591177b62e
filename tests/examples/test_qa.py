"""The site of questions and answers: records and their dirt, killed loads, a check that finds what is wrong."""

import gzip
import re
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from examples import commands, serving
from examples.qa import checking, loading, plain, recount, source, stores, verbs
from examples.qa.progress import progress
from examples.qa.schema import (
    SITE,
    Answer,
    AnswersOfUser,
    Comment,
    Kind,
    Post,
    Question,
    QuestionsByScore,
    QuestionsOfTagAndMonth,
    Unanswered,
    User,
    Vote,
)
from examples.shop.mistakes import Mistake
from oneread import connect
from oneread.encoding.ranges import prefix_range
from oneread.plans.effects import Atomically
from oneread.store.rows import VALUE, Cell, RowRange
from oneread.transactions.deltas import decode_amounts, encode_amounts
from tests.examples.conftest import SITE as DATA
from tests.examples.conftest import imported_from_library, kill_load, write_rows

ROOT = Path(__file__).resolve().parents[2]
NEW = {"number": 900_000, "cast_at": datetime(2018, 9, 1, tzinfo=UTC)}


def quiet(*_):
    pass


def differences(db, data):
    return [said for each in checking.check(db, data) for said in each.differences]


@pytest.fixture
def db(site_copy):
    with connect(site_copy, SITE, workers=0) as opened:
        yield opened


@pytest.fixture
def dump(tmp_path):
    """Writes files as a dump has them: the generated ones, some rows exchanged. Returns their folder."""

    def write(**rows):
        made = source.generator.files(7, 20)
        folder = tmp_path / "dump"
        folder.mkdir()
        for name in source.COLUMNS:
            write_rows(folder / f"{name}.csv.gz", rows.get(name, made[name]))
        return folder

    return write


# --- Records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", [source, recount, plain, source.generator])
def test_what_is_counted_again_shares_no_code_with_the_library(module):
    assert not imported_from_library(module)


def test_the_same_seed_makes_the_same_records():
    def made(data):
        return source.read(data)._replace(misfits=None)

    assert made("generated:3:30") == made("generated:3:30")
    assert made("generated:3:30") != made("generated:4:30")
    assert len(made("generated:3:30").questions) == 30
    assert made("generated") == made("generated:7:200")


def test_a_folder_of_files_is_read_as_what_was_written(dump):
    read, made = source.read(str(dump())), source.read("generated:7:20")
    assert read._replace(label="", misfits=None) == made._replace(label="", misfits=None)
    assert read.misfits.counts == made.misfits.counts


def test_what_does_not_fit_is_counted_and_the_first_is_named(dump):
    rows = source.generator.files(7, 20)
    asked = next(row for row in rows["Posts"] if row["PostTypeId"] == "1")
    more = [
        asked | {"Id": "9001", "PostTypeId": "2", "ParentId": "123456"},
        asked | {"Id": "9002", "Tags": "<a><b><c><d><e><f>"},
        asked | {"Id": "9003", "OwnerUserId": "77777"},
        asked | {"Id": "9004", "Title": " "},
        asked | {"Id": "9005", "Body": "x" * 100_001},
        asked | {"Id": "9006", "CreationDate": "yesterday"},
        asked | {"Id": "9007", "PostTypeId": "6"},
        asked,
    ]
    votes = [{"Id": "1", "PostId": "123456", "VoteTypeId": "2", "CreationDate": "2018-05-01"}]
    comment = {"Id": "1", "PostId": "123456", "Text": "x", "UserId": "", "CreationDate": "2018-05-01"}
    comments = [comment, comment | {"Id": "2", "PostId": asked["Id"], "Text": ""}]
    tags = [{"TagName": "a", "ExcerptPostId": "123456"}, {"TagName": "a", "ExcerptPostId": ""}]
    posts = [row for row in rows["Posts"] if row["Title"] or row["PostTypeId"] != "1"]
    posts = [row for row in posts if row["ParentId"] != "999999"]
    data = source.read(str(dump(Posts=posts + more, Votes=votes, Comments=comments, Tags=tags)))
    assert data.misfits.counts == Counter(
        {
            "answers to questions that are gone": 1,
            "rows that cannot be read": 5,
            "numbers that are taken": 2,
            "authors that are gone": 1,
            "votes on posts that are gone": 1,
            "comments on posts that are gone": 1,
            "descriptions of tags that are gone": 1,
        }
    )
    assert data.misfits.first["rows that cannot be read"].endswith(": 6 tags")
    assert data.misfits.first["votes on posts that are gone"] == "Votes.csv.gz line 2"
    assert [vote.number for vote in data.orphans] == [1]
    assert next(each for each in data.questions if each.number == 9003).author is None
    assert {9001, 9002, 9004, 9005, 9006, 9007}.isdisjoint(data.threads)
    used = {word for each in data.questions for word in each.tags}
    assert data.tags[0].word == "a"
    assert used <= {tag.word for tag in data.tags}


def test_posts_are_text():
    html = "<p>a <em>b</em>\n c</p><pre><code>for x:\n    y</code></pre><ul><li>1</li><li>2<sup>n</sup></li></ul>"
    assert plain.text_of(html) == "a b c\n\nfor x:\n    y\n\n- 1\n- 2^n"
    assert (
        plain.text_of("<script>x()</script><style>a{}</style>kept &lt;b&gt; <img alt='a cat' src=x>")
        == "kept <b> [a cat]"
    )
    assert plain.text_of("</p></pre><p><b><p>broken</i>") == "broken"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("generated:x", "generated:SEED"),
        ("generated:1:0", "generated:SEED"),
        ("generated:1:2:3", "generated:SEED"),
        ("/nowhere", "lacks some of Users.csv.gz"),
    ],
)
def test_data_that_are_not_there_are_a_mistake(data, said):
    with pytest.raises(Mistake, match=said):
        source.read(data)


def test_files_of_another_kind_are_a_mistake(dump):
    folder = dump()
    (folder / "Votes.csv.gz").write_bytes(gzip.compress(b"Id,PostId\n1,2\n"))
    with pytest.raises(Mistake, match="has no column CreationDate, VoteTypeId"):
        source.read(str(folder))
    (folder / "Votes.csv.gz").write_bytes(gzip.compress(",".join(source.COLUMNS["Votes"]).encode() + b"\n")[:-4])
    with pytest.raises(Mistake, match="cannot be read behind line"):
        source.read(str(folder))


# --- Loads -----------------------------------------------------------------------------------------------------------


def test_a_loaded_site_is_right_in_every_number(site):
    url, data = site
    with stores.for_reading(url) as db:
        found = checking.check(db, data)
        assert {each.name: each.differences for each in found if each.differences} == {}
        assert db.verify().clean
    counts = {each.name: each.numbers for each in found}
    assert counts["questions: score"] == len(data.questions) == 40
    assert counts["answers: score"] == len(data.answers) > 40
    assert counts["votes: post and value"] == len(data.votes) + len(data.orphans) == 480
    assert counts["users: reputation"] == len(data.users)
    assert len(data.orphans) > 10
    assert min(each.numbers for each in found) > 10


def test_a_load_that_is_killed_twice_ends_as_one_that_is_not(tmp_path):
    url, large = f"lmdb://{tmp_path}/qa", "generated:7:150"  # so many that a kill comes long before the end
    data = source.read(large)
    command = ["examples.qa", "load", "--data", large, "--db", url, "--batch", "20"]
    befores = [0]
    for _ in range(2):
        kill_load(command, "entities", behind=befores[-1] + 100)
        with connect(url, SITE) as db, db.bulk(checkpoint=loading.checkpoint_of(data)) as bulk:
            befores.append(bulk.position)
    assert 0 < befores[1] < befores[2] < loading.count_of(data)
    with stores.for_loading(url) as db:
        done = loading.load(db, data, quiet)
        assert (done.before, done.stored) == (befores[2], loading.count_of(data) - befores[2])
        assert differences(db, data) == []
        assert loading.load(db, data, quiet).stored == 0


def test_other_data_are_not_loaded_into_the_same_store(site_copy):
    with stores.for_loading(site_copy) as db, pytest.raises(Mistake, match="other data than generated with seed 8"):
        loading.load(db, source.read("generated:8:40"), quiet)


def test_a_load_says_how_far_it_is(capsys):
    data = source.read(DATA)
    with connect("memory://", SITE) as db, progress(sys.stdout) as report:
        loading.load(db, data, report, batch=100)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 12
    count = f"{loading.count_of(data):,}"
    assert re.fullmatch(rf" +0 of {count} entities, +\d+\.\d s: found", lines[0])
    assert re.fullmatch(rf" +100 of {count} entities, +\d+\.\d s: \w+", lines[1])
    assert re.fullmatch(rf" +{count} of {count} entities, +\d+\.\d s: everything", lines[-1])


def test_a_terminal_sees_a_bar_with_a_total(capsys, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with progress(sys.stdout) as report:
        report("votes", 500, 1_000)
    out = capsys.readouterr().out
    assert "votes" in out
    assert " 500/1000" in out
    assert "50%" in out


# --- What follows ----------------------------------------------------------------------------------------------------


def test_a_vote_moves_its_post_its_question_and_its_author(db):
    answer = next(each for page in db.scan(Answer) for each in page if each.author)
    before = db.get(User, answer.author).reputation
    row = {each.source.key: each for each in db.page(AnswersOfUser, answer.author, limit=100)}[(answer.number,)]
    db.save(Vote(**NEW, post=Post.at(answer.number), kind=Kind.UP, value=1))
    assert db.get(Answer, answer.number).score == answer.score + 1
    assert db.get(User, answer.author).reputation == before + 1
    after = {each.source.key: each for each in db.page(AnswersOfUser, answer.author, limit=100)}[(answer.number,)]
    assert after.score == row.score + 1
    assert db.verify().clean


def test_a_question_is_unanswered_again_when_its_last_answer_is_deleted(db):
    row = next(each for page in db.scan(QuestionsByScore) for each in page if each.answers == 1)
    (answer,) = [each for page in db.scan(Answer) for each in page if each.question.ref == row.source]
    assert row.source not in {each.source for page in db.scan(Unanswered) for each in page}
    db.delete(Post, answer.number)
    db.drain()
    assert row.source in {each.source for page in db.scan(Unanswered) for each in page}
    assert db.verify().clean


def test_a_deleted_question_takes_its_answers_comments_and_votes_along(db, site):
    thread = max(site[1].questions, key=lambda each: sum(at == each.number for at in site[1].threads.values()))
    posts = {number for number, at in site[1].threads.items() if at == thread.number}
    db.delete(Question, thread.number)
    db.drain()
    gone = {each.number for page in db.scan(Post) for each in page} & posts
    assert (gone, len(posts) > 3) == (set(), True)
    assert not [each for page in db.scan(Comment) for each in page if each.post.key[0] in posts]
    assert not [each for page in db.scan(Vote) for each in page if each.post.key[0] in posts]
    assert db.verify().clean
    left = [each for each in checking.check(db, site[1]) if each.differences]
    assert left  # and a check says so


# --- Commands --------------------------------------------------------------------------------------------------------


def test_load_and_check_say_what_they_did(qa, tmp_path):
    url = f"lmdb://{tmp_path}/qa"
    loaded = qa("load", "--data", DATA, "--db", url)
    assert loaded.code == 0
    assert re.search(r"votes on posts that are gone +\d+  Votes row \d+", loaded.out)
    assert re.search(r"[\d,]+ entities stored in [\d.]+ s, [\d,]+/s; 0 refused", loaded.out)
    assert re.search(
        r" 0 entities stored .*, [\d,]+ were there; 0 refused", qa("load", "--data", DATA, "--db", url).out
    )
    checked = qa("check", "--data", DATA, "--db", url)
    assert checked.code == 0
    assert re.search(r"40 questions, \d+ answers, 480 votes of which \d+ are orphaned: 0 numbers differ", checked.out)
    assert re.search(r"verify: [\d,]+ entities, [\d,]+ rows: clean", checked.out)


def spoil(url, table, view, row):
    """Replaces the first row of a view behind the library's back; None deletes it."""
    with connect(url, SITE, workers=0) as db:
        start, stop = prefix_range(db.operations.catalog.views[view].prefix)

        def planted(store):
            ((key, found),) = store.scan(table, RowRange(start, stop), 1)
            store.replace(table, {key: row and row(found)})

        db.run(Atomically(planted).__iter__())


def test_check_finds_a_row_that_is_missing(qa, site_copy, site):
    best, *_ = recount.recount(site[1]).by_score
    spoil(site_copy, "views", QuestionsByScore, None)
    found = qa("check", "--data", DATA, "--db", site_copy)
    assert found.code == 1
    assert re.search(rf"list: questions by score, row 1: .* is stored, {best} \d+ \d+ is right", found.out)
    assert re.search(r"rows: 1 faults", found.out)


def test_check_finds_a_wrong_number(qa, site_copy):
    def one_more(row):
        return {VALUE: Cell(encode_amounts([each + 1 for each in decode_amounts(row[VALUE].value)]), 1)}

    spoil(site_copy, "counts", QuestionsOfTagAndMonth, one_more)
    found = qa("check", "--data", DATA, "--db", site_copy)
    assert found.code == 1
    assert re.search(r"tags of months: questions of 2018-03 \w+: (\d+) is stored, (\d+) is right", found.out)
    assert "1 numbers differ" in found.out  # the list of the month is not counted again: it shows what was written


def test_check_finds_a_vote_that_the_data_do_not_have(qa, site_copy):
    with connect(site_copy, SITE, workers=0) as db:
        row = db.page(QuestionsByScore, limit=1).rows[0]
        db.save(Vote(**NEW, post=Post.at(*row.source.key), kind=Kind.UP, value=1))
    found = qa("check", "--data", DATA, "--db", site_copy)
    assert found.code == 1
    assert f"questions: score of {row.source.key[0]}: {row.score + 1} is stored, {row.score} is right" in found.out
    assert "votes: post and value of 900000" in found.out
    assert "rows: clean" in found.out  # the library did as it was told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "--db", "lmdb:///nowhere/qa"], "qa check: "),
        (["check", "--db", "memory://"], "there is no store here"),
        (["serve", "--db", "lmdb:///nowhere/qa"], "qa serve: "),
        (["serve", "--port", "70000"], "'70000' is not a whole number from 1 to 65,535"),
        (["load", "--data", "/nowhere", "--db", "memory://"], "generated:7"),
        (["load", "--batch", "0"], "'0' is not a whole number"),
        (["fly"], "invalid choice: 'fly'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(qa, arguments, said):
    found = qa(*arguments)
    assert found.code == 2
    assert said in found.err
    assert found.err.count("\n") == 1


def test_serve_says_what_is_missing(monkeypatch, qa):
    def missing(_name):
        raise ModuleNotFoundError("no", name="jinja2")

    monkeypatch.setattr(commands.importlib, "import_module", missing)
    found = qa("serve")
    assert (found.code, "pip install fastapi jinja2 rich uvicorn (jinja2 is missing)" in found.err) == (2, True)


def test_serve_hands_the_store_to_the_server(monkeypatch, qa, site):
    served = []
    monkeypatch.setattr(serving.uvicorn, "run", lambda app, **options: served.append((app, options)))
    found = qa("serve", "--db", site[0], "--port", "8001")
    assert (found.code, f"serving {site[0]} at http://127.0.0.1:8001/" in found.out) == (0, True)
    assert served[0][1] == {"host": "127.0.0.1", "port": 8001, "log_level": "warning", "timeout_graceful_shutdown": 3}


def test_a_load_that_is_interrupted_says_how_to_continue(monkeypatch, qa, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(verbs, "loaded_from", interrupted)
    found = qa("load", "--data", DATA, "--db", f"lmdb://{tmp_path}/qa")
    assert (found.code, "the same `load` continues" in found.err) == (130, True)


def test_what_the_library_refuses_is_shown(monkeypatch, qa, tmp_path):
    """Records are looked at before, so that only a mistake in that lets one through."""
    read = source.read(DATA)
    votes = [*read.votes, read.votes[0]._replace(number=900_000, post=999_999)]
    monkeypatch.setattr(verbs.source, "read", lambda _data: read._replace(votes=votes))
    found = qa("load", "--data", DATA, "--db", f"lmdb://{tmp_path}/qa")
    assert found.code == 1
    assert "refused: this refers to an entity that does not exist" in found.out
    assert "1 refused" in found.out


def test_an_empty_store_is_a_mistake(qa, tmp_path):
    url = f"lmdb://{tmp_path}/qa"
    connect(url, SITE).close()
    assert f"nothing was loaded into {url}; load it first" in qa("check", "--db", url).err
