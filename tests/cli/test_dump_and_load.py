"""`oneread dump` and `oneread load`: what is written comes back exactly; what cannot be loaded is kept, with why."""

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from oneread import connect
from oneread.cli.loading import Loaded, Rejected
from oneread.store.requests import Scan
from oneread.transactions.outbox import TASKS
from oneread.transfer.dump import End
from tests.cli import notes
from tests.cli.conftest import SCHEMA
from tests.cli.notes import IDS, NOTES, Days, Note, NotesOfTopic, Person, Sample

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def dump(oneread, tmp_path):
    def run(name="a.jsonl", *more):
        path = tmp_path / name
        ran = oneread("dump", "--out", path, "--quiet", *more)
        assert ran.code == 0, ran.err
        return path

    return run


@pytest.fixture
def other(new_url):
    return new_url()


@pytest.fixture
def load(bare, other):
    return lambda *given: bare("load", "--schema", SCHEMA, "--db", other, "--make", "--quiet", *given)


def rejected(path):
    return [msgspec.json.decode(line, type=Rejected) for line in path.read_bytes().splitlines()]


def written(path, *texts):
    path.write_bytes(b"".join(each if isinstance(each, bytes) else each.encode() + b"\n" for each in texts))
    return path


PERSON = '{"number": %d, "name": "P%d", "email": "%d@example.org"}'


def person(number):
    return PERSON % (number, number, number)


def note(place, author=1, **more):
    given = {
        "id": str(IDS[place]),
        "author": [author],
        "mood": "glad",
        "when": "2026-01-31T22:00:00Z",
        "body": f"b{place}",
    }
    return msgspec.json.encode({"model": "Note", "entity": given | more}).decode()


class TestRoundTrip:
    @pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
    def test_what_is_dumped_and_loaded_dumps_as_the_same_bytes(self, dump, load, bare, other, tmp_path, suffix):
        first = dump(f"a.{suffix}")
        ran = load(first)
        assert (ran.code, ran.out) == (0, "8 stored, 0 refused\n")
        second = tmp_path / f"b.{suffix}"
        assert bare("dump", "--schema", SCHEMA, "--db", other, "--out", second).code == 0
        assert second.read_bytes() == first.read_bytes()
        with connect(other, NOTES, workers=0) as db:
            assert db.get(Note, IDS[0]).author.name == "Ada"
            assert [each.notes for each in db.page(Days)] == [2, 3]
            assert next(iter(db.page(Sample, True))).big == 2**70
            assert db.verify().clean

    def test_deleted_sources_circles_and_tombstones_come_back(self, dump, load, other, url, bare, tmp_path):
        with connect(url, NOTES, workers=0) as db:
            db.patch(Note, IDS[0], answers=Note.at(IDS[3]))
            db.patch(Note, IDS[3], answers=Note.at(IDS[0]))
            db.delete(Person, notes.ADA)
            db.delete(Note, IDS[1])
            db.drain()
        first = dump()
        assert load(first).code == 0
        second = tmp_path / "b.jsonl"
        bare("dump", "--schema", SCHEMA, "--db", other, "--out", second)
        assert second.read_bytes() == first.read_bytes()
        with connect(other, NOTES, workers=0) as db:
            author = db.get(Note, IDS[0]).author
            assert (author.name, author.deleted) == ("Ada", True)
            assert db.get(Note, IDS[3]).answers == Note.at(IDS[0])
            db.save(Person(number=notes.ADA, name="Ida", email="ida@example.org"))
            db.drain()
            assert db.get(Note, IDS[0]).author.name == "Ida"
            assert db.verify().clean

    def test_a_dump_taken_before_the_tasks_are_done_shows_what_they_will(self, dump, load, other, url):
        with connect(url, NOTES, workers=0) as db:
            db.delete(Person, notes.ADA)  # four notes, of which two follow within the commit
            assert db.run(Scan("system", TASKS, 10).__iter__())
        assert load(dump()).code == 0
        with connect(other, NOTES, workers=0) as db:
            assert all(each.author is None or each.author.deleted for page in db.scan(Note) for each in page)

    def test_csv_holds_one_model_and_comes_back(self, dump, load, other, url):
        with connect(url, NOTES, workers=0) as db:
            for number, name in enumerate(["", '"quoted"', 'a,b\n"c"', "a\r\nb\r", "\x00", "[1]", "é\u2028"], 10):
                db.save(Person(number=number, name=name, email=str(number)))
        people, papers = dump("p.csv", "Person", "--format", "csv"), dump("n.csv.gz", "Note", "--format", "csv")
        assert people.read_text().splitlines()[0] == "number,name,email"
        assert load(people, "--model", "Person").code == 0
        assert load(papers, "--model", "Note").code == 0
        with connect(url, NOTES, workers=0) as one, connect(other, NOTES, workers=0) as two:
            for model in (Person, Note):
                assert list(one.page(model)) == list(two.page(model))
            assert len(two.page(NotesOfTopic, "tea")) == 3

    def test_stdout_and_stdin_are_files_too(self, oneread, bare, other):
        ran = oneread("dump", "Person")
        assert ran.out.count("\n") == 4
        ran = bare("load", "-", "--schema", SCHEMA, "--db", other, "--make", "--json", input=ran.out)
        assert ran.document(Loaded) == Loaded(stored=2, refused=0, resumed=0)

    def test_the_report_says_what_is_in_it(self, oneread, tmp_path):
        found = oneread("dump", "--json", "--out", tmp_path / "a").document(End)
        assert found.entities == {"Person": 2, "Note": 5, "Sample": 1}
        assert (found.end, found.deleted) == (8, 0)


class TestADump:
    @pytest.mark.parametrize("end", [-1, -20, -200, 60])
    def test_that_is_torn_is_not_loaded_at_all(self, dump, load, other, end):
        path = dump()
        path.write_bytes(path.read_bytes()[:end])
        ran = load(path)
        if end == -1:  # only the last line feed is missing
            assert ran.code == 0
            return
        assert ran.code == 3
        assert "incomplete" in ran.err
        with connect(other, NOTES, workers=0) as db:
            assert not db.page(Person)

    def test_that_was_changed_is_not_loaded(self, dump, load):
        path = dump()
        path.write_bytes(path.read_bytes().replace(b'"Ada"', b'"Eve"'))
        ran = load(path)
        assert ran.code == 3
        assert "changed after it was written" in ran.err

    def test_that_continues_after_its_end_is_not_loaded(self, dump, load):
        path = dump()
        path.write_bytes(path.read_bytes() + b"{}\n")
        assert load(path).code == 3

    def test_that_is_a_torn_gzip_file_says_so(self, dump, load):
        path = dump("a.jsonl.gz")
        path.write_bytes(path.read_bytes()[:-30])
        ran = load(path)
        assert ran.code == 3
        assert "incomplete or damaged" in ran.err
        path.write_bytes(b"no gzip at all")
        assert load(path).code == 3

    def test_of_a_newer_release_is_refused_before_a_line_is_read(self, load, tmp_path):
        path = written(tmp_path / "new.jsonl", '{"oneread":4,"schema":"","models":[]}', "whatever")
        ran = load(path)
        assert ran.code == 1
        assert "newer release" in ran.err

    def test_with_models_that_are_not_declared_is_refused(self, load, tmp_path):
        path = written(tmp_path / "other.jsonl", '{"oneread":1,"schema":"","models":["Person","Planet"]}')
        ran = load(path)
        assert ran.code == 1
        assert "Planet" in ran.err

    def test_takes_no_options_for_other_files(self, dump, load):
        assert load(dump(), "--model", "Person").code == 2

    def test_goes_to_a_file_that_is_not_there_yet(self, oneread, tmp_path):
        path = written(tmp_path / "there", "precious")
        ran = oneread("dump", "--out", path)
        assert ran.code == 2
        assert path.read_text() == "precious\n"
        assert oneread("dump", "--out", tmp_path / "no" / "where").code == 3
        assert oneread("dump", "--json").code == 2
        assert oneread("dump", "--format", "csv", "--out", tmp_path / "x").code == 2
        assert oneread("dump", "Nobody").code == 2


class TestRecordsOfOthers:
    def test_that_are_refused_are_kept_with_their_line_and_the_reason(self, load, other, tmp_path):
        path = written(
            tmp_path / "people.jsonl",
            person(1),
            '{"number": "many", "name": "x", "email": "x"}',
            "{torn",
            b"\xff\xfe\n",
            '{"number": 3, "name": "nul \\u0000", "email": "n"}',
            '{"number": 4, "name": "x"}',
            '{"number": 5, "name": "x", "email": "5", "nonsense": 1}',
            "[]",
            "",
            '{"number": 6, "name": "again", "email": "1@example.org"}',
            person(1).replace("P1", "newer"),
            person(7),
        )
        ran = load(path, "--model", "Person")
        assert ran.code == 1
        assert ran.out == "4 stored, 7 refused\n"
        found = rejected(tmp_path / "people.jsonl.rejects")
        assert sorted(each.line for each in found) == [2, 3, 4, 6, 7, 8, 10]
        assert next(each for each in found if each.line == 4).record == "\\xff\\xfe"
        assert next(each for each in found if each.line == 10).error == "NotUnique"
        with connect(other, NOTES, workers=0) as db:
            assert [each.name for each in db.page(Person)] == ["newer", "nul \x00", "P7"]

    def test_that_refer_to_later_ones_are_tried_again(self, load, other, tmp_path):
        chain = [note(place, answers=[str(IDS[place + 1])]) for place in range(4)]
        path = written(
            tmp_path / "mixed.jsonl",
            *chain,
            note(4),
            f'{{"model": "Person", "entity": {person(1)}}}',
            note(2, author=404),
        )
        ran = load(path, "--batch", 2)
        assert ran.code == 1
        assert ran.out == "6 stored, 1 refused\n"
        (left,) = rejected(tmp_path / "mixed.jsonl.rejects")
        assert (left.line, left.error) == (7, "MissingReference")
        with connect(other, NOTES, workers=0) as db:
            assert db.verify().clean

    def test_that_refer_to_each_other_stay_refused(self, load, tmp_path):
        path = written(
            tmp_path / "circle.jsonl",
            f'{{"model": "Person", "entity": {person(1)}}}',
            note(0, answers=[str(IDS[1])]),
            note(1, answers=[str(IDS[0])]),
        )
        assert load(path).out == "1 stored, 2 refused\n"

    def test_may_be_too_long(self, load, tmp_path, monkeypatch):
        monkeypatch.setattr("oneread.cli.files.LINE_BYTES", 200)
        path = written(tmp_path / "long.jsonl", person(1), '{"name": "%s"}' % ("x" * 5000), person(2))
        assert load(path, "--model", "Person").out == "2 stored, 1 refused\n"

    def test_of_a_csv_file_are_named_by_its_header(self, load, other, tmp_path):
        path = written(
            tmp_path / "p.csv",
            b"\xef\xbb\xbfCustomerID,Name,Mail,Unused\r\n",
            '1,"Ada, née",a,x',
            "2,Bob",
            "x,Eve,e,x",
            b"3,\xff,c,x\n",
            '4,"broken" quote,d,x',
            "5,Zoe,z,x",
        )
        mapped = ("--map", "CustomerID=number", "--map", "Name=name", "--map", "Mail=email", "--map", "Unused=")
        ran = load(path, "--model", "Person", *mapped)
        assert ran.out == "2 stored, 4 refused\n"
        assert sorted(each.line for each in rejected(tmp_path / "p.csv.rejects")) == [3, 4, 5, 6]
        with connect(other, NOTES, workers=0) as db:
            assert [each.name for each in db.page(Person)] == ["Ada, née", "Zoe"]

    @pytest.mark.parametrize(
        ("header", "said"),
        [("number,name", "missing"), ("number,name,email,more", "unknown"), ("number,name,email,email", "twice")],
    )
    def test_of_a_csv_file_with_other_columns_are_not_looked_at(self, load, tmp_path, header, said):
        ran = load(written(tmp_path / "p.csv", header, "1,2,3,4"), "--model", "Person")
        assert ran.code == 2
        assert said in ran.err

    def test_need_to_be_there(self, load, tmp_path):
        assert load(tmp_path / "nowhere.jsonl").code == 2
        assert load(written(tmp_path / "e.csv"), "--model", "Person").code == 2
        assert load(written(tmp_path / "e.csv", "number,name,email")).code == 2
        assert load(written(tmp_path / "e.jsonl", person(1)), "--map", "x").code == 2
        assert load(written(tmp_path / "e.jsonl", person(1)), "--batch", "0").code == 2

    @pytest.mark.parametrize("name", ["e.jsonl", "e.csv", "e.jsonl.gz", "-"])
    @pytest.mark.parametrize("text", [b"", b"\n", b"\r\n\n", b"\xef\xbb\xbf"])
    def test_are_not_none(self, bare, other, tmp_path, name, text):
        """A file without a record, as a failed export leaves it, is not a load of nothing that succeeded."""
        path = tmp_path / name if name != "-" else name
        if name != "-":
            path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        options = ("--model", "Person", "--schema", SCHEMA, "--db", other, "--make")
        ran = bare("load", path, *options, input=text if name == "-" else None)
        assert ran.code == 2
        assert ("has no header" if name == "e.csv" else "has no records; nothing was loaded") in ran.err

    def test_of_a_csv_file_may_be_none_under_a_header(self, load, tmp_path):
        assert (
            load(written(tmp_path / "e.csv", "number,name,email"), "--model", "Person").out == "0 stored, 0 refused\n"
        )

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
    @pytest.mark.parametrize("name", ["p.jsonl", "p.csv"])
    def test_in_another_encoding_are_named(self, load, tmp_path, encoding, name):
        text = f"{person(1)}\n" if name == "p.jsonl" else "number,name,email\n1,a,b\n"
        ran = load(written(tmp_path / name, text.encode(encoding)), "--model", "Person")
        assert ran.code == 2
        assert "write it again in UTF-8" in ran.err

    @pytest.mark.parametrize("end", ["\n", "\r\n", ""])
    @pytest.mark.parametrize("name", ["p.jsonl", "P.JSONL", "p.csv", "P.CSV"])
    def test_may_begin_with_a_byte_order_mark_and_lack_the_last_line_end(self, load, other, tmp_path, end, name):
        between = end or "\n"
        texts = ["number,name,email", "1,P1,a", "2,P2,b"] if name.endswith(("csv", "CSV")) else [person(1), person(2)]
        path = written(tmp_path / name, b"\xef\xbb\xbf" + between.join(texts).encode() + end.encode())
        assert load(path, "--model", "Person").out == "2 stored, 0 refused\n"
        with connect(other, NOTES, workers=0) as db:
            assert [each.name for each in db.page(Person)] == ["P1", "P2"]

    @pytest.mark.parametrize(
        "bad",
        [
            '{"number": 2, "name": "x", "email": %s}' % ("[" * 5000 + "]" * 5000),
            "[" * 100_000,
            '{"a":' * 3000 + "1" + "}" * 3000,
            '{"number": 2, "number": 4, "name": "x", "email": "x"}',
            '{"number": 2, "name": "\\ud800", "email": "x"}',
            b'{"number": 2, "name": "a\xffb", "email": "x"}\n',
            b'{"number": 2, "name": "a\x00b", "email": "x"}\n',
            '{"number": 2, "name": "x", "email": NaN}',
            '{"number": 2e999, "name": "x", "email": "x"}',
            '{"number": 2, "name": "x", "email": "x"} {}',
            '{"number": 2, "name": "x", "email": "x"}\r{"number": 4, "name": "y", "email": "y"}',
            "\ufeff" + person(2),
        ],
    )
    def test_that_are_broken_leave_the_others_as_they_are(self, load, other, tmp_path, bad):
        path = written(tmp_path / "p.jsonl", person(1), bad, person(3))
        ran = load(path, "--model", "Person")
        assert (ran.code, ran.out) == (1, "2 stored, 1 refused\n")
        assert [each.line for each in rejected(tmp_path / "p.jsonl.rejects")] == [2]
        with connect(other, NOTES, workers=0) as db:
            assert [each.number for each in db.page(Person)] == [1, 3]

    def test_do_not_have_two_names_for_one_field(self, load, tmp_path):
        path = written(tmp_path / "p.jsonl", person(1), person(2).replace('"name"', '"Name": "x", "name"'))
        assert load(path, "--model", "Person", "--map", "Name=name").out == "1 stored, 1 refused\n"


class TestGoingOn:
    def test_a_file_of_rejects_is_not_written_over(self, load, tmp_path):
        path = written(tmp_path / "p.jsonl", person(1), "{torn")
        assert load(path, "--model", "Person").code == 1
        ran = load(path, "--model", "Person")
        assert ran.code == 2
        assert "rejects" in ran.err
        again = load(path, "--model", "Person", "--resume")
        assert (again.code, again.out) == (1, "0 stored, 1 refused\n")
        assert [each.line for each in rejected(tmp_path / "p.jsonl.rejects")] == [2]

    def test_a_damaged_file_of_rejects_says_so(self, load, tmp_path):
        path = written(tmp_path / "p.jsonl", person(1))
        assert load(path, "--model", "Person").code == 0
        written(tmp_path / "p.jsonl.rejects", "nonsense")
        assert load(path, "--model", "Person", "--resume").code == 3

    def test_a_load_that_was_stopped_says_how_to_go_on(self, process, url, tmp_path):
        endless = tmp_path / "endless.jsonl"
        os.mkfifo(endless)
        loading = process("load", endless, "--model", "Person", "--batch", "1")
        with endless.open("w") as pipe, connect(url, NOTES, workers=0) as db:
            pipe.write(f"{person(901)}\n{person(902)}\n")
            pipe.flush()
            while db.find(Person, 902) is None:  # from here on it waits for the next line
                assert loading.poll() is None
            loading.send_signal(signal.SIGINT)
            assert loading.wait(timeout=60) == 130
        assert loading.stderr.read() == (
            "stopped\nhint: stored records are kept; continue with the same command and --resume\n"
        )

    def test_a_killed_load_loads_or_rejects_each_record_once(self, tmp_path, other):
        texts = ["{torn" if number % 97 == 0 else person(number) for number in range(1, 3001)]
        path = written(tmp_path / "many.jsonl", *texts)
        command = [
            *(sys.executable, "-m", "oneread", "load", path, "--model", "Person", "--schema", SCHEMA),
            *("--db", other, "--make", "--batch", "20", "--resume"),
        ]
        code, kills = -signal.SIGKILL, 0
        while code == -signal.SIGKILL:
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT)
            try:
                child.wait(0.55 * 1.1**kills)  # the moment of the kill, not a wait for anything
            except subprocess.TimeoutExpired:
                child.kill()
                kills += 1
            child.communicate()
            code = child.returncode
        assert code == 1
        assert sorted(each.line for each in rejected(tmp_path / "many.jsonl.rejects")) == list(range(97, 3001, 97))
        with connect(other, NOTES, workers=0) as db:
            assert sum(len(page) for page in db.scan(Person)) == 3000 - 30
            assert db.verify().clean

    def test_a_full_disk_leaves_no_half_file(self, oneread, small_disk):
        (small_disk / "filler").write_bytes(bytes(2 << 20))
        ran = oneread("dump", "--out", small_disk / "a.jsonl")
        assert ran.code == 3
        assert [each.name for each in small_disk.iterdir()] == ["filler"]


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this machine does not let tests mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_what_is_written_is_for_its_owner_alone(dump, oneread, bare, load, tmp_path):
    """It has what the store has, and lies where backups go; so has what is refused."""
    before = os.umask(0o022)
    try:
        made = [dump("a.jsonl"), dump("a.jsonl.gz"), dump("p.csv", "Person", "--format", "csv")]
        load(written(tmp_path / "torn.jsonl", "{torn"), "--model", "Person")
        made.append(tmp_path / "torn.jsonl.rejects")
        assert oneread("backup", tmp_path / "copy", "--quiet").code == 0
        made.append(tmp_path / "copy" / "data.mdb")
        assert {path: oct(path.stat().st_mode & 0o777) for path in made} == dict.fromkeys(made, "0o600")
        assert oct((tmp_path / "copy").stat().st_mode & 0o777) == "0o700"
        assert bare("verify", "--schema", SCHEMA, "--db", f"lmdb://{tmp_path}/copy").code == 0
        assert oct((tmp_path / "copy" / "data.mdb").stat().st_mode & 0o777) == "0o600"
    finally:
        os.umask(before)


def test_compressed_dumps_of_one_store_are_the_same_file(dump):
    first, second = dump("a.jsonl.gz"), dump("b.jsonl.gz")
    assert first.read_bytes() == second.read_bytes()
    assert gzip.decompress(first.read_bytes()) == dump("c.jsonl").read_bytes()


def test_counters_come_back(dump, load, url, other):
    with connect(url, NOTES, workers=0) as db:
        db.counter("views", keep={"day": 3}).add(41)
        db.counter("votes").add(-2)
    path = dump()
    assert load(path).code == 0
    assert load(path).code == 0
    with connect(other, NOTES, workers=0) as db:
        assert [(each.name, db.counter(each.name).read()) for each in db.counters()] == [("views", 41), ("votes", -2)]
        assert db.counter("views").windows("day")[-1].value == 41
        assert db.verify().clean
