"""`cost`, `explain` and `numbers`: bounds as text and JSON, exit codes of the bound file, a scratch store that goes."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oneread import connect
from oneread.costs.numbers import BASICS, MachineNumbers, read_numbers
from tests.cli import changing
from tests.cli.conftest import SCHEMA
from tests.cli.costly import COSTLY
from tests.unit.costs.numbers import write_some

MODEL = "Person"


@pytest.fixture
def cost(bare):
    return lambda *arguments: bare("cost", *arguments, "--schema", SCHEMA)


@pytest.fixture(autouse=True)
def a_cache_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_table_has_every_verb(cost):
    found = cost("--json").document(list[dict[str, Any]])
    assert {each["verb"] for each in found if each["target"] == MODEL} > {"get", "save", "delete"}
    shown = cost(MODEL)
    assert shown.code == 0
    assert "get_or_create" in shown.out
    assert "NotesOfAuthor" not in shown.out
    assert "write roots" in cost(MODEL, "--terms").out


def test_the_bound_file_is_written_and_checked(cost, tmp_path):
    file = tmp_path / "bounds.json"
    assert cost("--write", file).code == 0
    assert cost("--check", file).code == 0
    document = json.loads(file.read_text())
    document["bounds"][MODEL]["get"]["requests"] = 0
    file.write_text(json.dumps(document))
    failed = cost("--check", file)
    assert "\\n" not in failed.out
    assert failed.out.count("\n") > 1
    assert failed.code == 1
    assert f"get {MODEL}: requests 0 -> 1" in failed.out
    assert cost("--check", file, "--json").document(dict[str, Any])["risen"]


def test_a_torn_bound_file_is_wrong_use(cost, tmp_path):
    file = tmp_path / "bounds.json"
    file.write_text('{"format": 1')
    assert cost("--check", file).code == 2
    assert cost("--check", tmp_path / "none").code == 2
    assert cost("--check", file, "--write", file).code == 2


def test_times_are_predicted_from_a_file_or_the_last_numbers(cost, tmp_path):
    file = tmp_path / "numbers.json"
    write_some(file)
    found = cost(MODEL, "--numbers", file, "--json").document(list[dict[str, Any]])
    assert all(each["seconds"] > 0 for each in found)
    assert "us" in cost(MODEL, "--numbers", file).out
    missing = cost(MODEL, "--times")
    assert missing.code == 2
    assert "oneread numbers" in missing.err
    write_some(tmp_path / "cache" / "oneread" / "numbers.json")
    assert cost(MODEL, "--times").code == 0


def test_numbers_of_another_machine_are_noted(cost, tmp_path):
    file = tmp_path / "numbers.json"
    write_some(file, cores=9999)
    assert "measured elsewhere: cores: 9999" in cost(MODEL, "--numbers", file).err


@pytest.fixture
def edited_store(new_url):
    """A store with one note, whose view was edited in place."""
    url = new_url()
    for schema in (changing.before(), changing.edited()):
        with connect(url, schema, workers=0) as db:
            db.save(schema.named()["Note"](number=1, text="a"))
    return url


def test_the_former_generation_in_a_store_is_shown_and_counted(bare, edited_store, kind_of_store):
    asked = ("cost", "Note", "NotesByText", "--schema", "tests.cli.changing:EDITED")
    of_store = (*asked, "--db", edited_store)
    declared, found = (
        {(each["target"], each["verb"]): each for each in bare(*words, "--json").document(list[dict[str, Any]])}
        for words in ((*asked, "--span", "row" if kind_of_store == "row" else "rows"), of_store)
    )
    assert set(found) - set(declared) == {("NotesByText~1", "page(limit=50)")}
    more = {"create": 1, "get_or_create": 1, "delete": 1, "save": 2, "patch": 2, "upsert": 2}
    assert {verb: found["Note", verb]["rows"] - declared["Note", verb]["rows"] for verb in more} == more
    former = {"name": "NotesByText~1", "view": "NotesByText", "drop": "NotesByText~1"}
    assert {verb: found["Note", verb].get("formers") for verb in ("get", "save")} == {"get": None, "save": [former]}
    end = (
        "NotesByText~1 is the former generation of NotesByText: written until the schema changes again, or "
        "`oneread migrate apply --drop NotesByText~1`\n"
    )
    assert bare(*of_store).out.endswith(f"\n{end}")
    assert bare(*of_store, "--terms").out.count(end) == 1
    assert "write views          2 index rows (NotesByText~1)" in bare(*of_store, "--terms").out
    assert "former" not in bare(*asked).out
    explained = bare("explain", "save", "Note", *asked[3:], "--db", edited_store)
    assert explained.out.endswith(f"note: {end}")
    assert "former" not in bare("explain", "get", "Note", "1", *asked[3:], "--db", edited_store).out


@pytest.mark.parametrize("wrong", [("--span", "row"), ("--write", "bounds.json"), ("--check", "bounds.json")])
def test_of_a_store_no_bound_file_is_written_or_checked(cost, url, wrong):
    ran = cost("--db", url, *wrong)
    assert (ran.code, "leave --write, --check and --span out" in ran.err) == (2, True)


VERBS = {
    "get": ("get", MODEL, "1"),
    "page": ("page", "NotesOfAuthor", "1", "--limit", "3"),
    "save": ("save", MODEL, "--carriers", "3"),
    "create": ("create", MODEL),
    "patch": ("patch", MODEL, "--field", "name"),
    "delete": ("delete", MODEL, "1"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("stored", [False, True], ids=["without a store", "of a store"])
def test_a_call_is_explained(bare, url, verb, stored):
    options = ["--db", url] if stored else []
    ran = bare("explain", *VERBS[verb], "--schema", SCHEMA, *options)
    assert ran.code == 0, ran
    assert f"{verb}(" in ran.out
    assert "at most" in ran.out
    found = bare("explain", *VERBS[verb], "--schema", SCHEMA, "--json").document(dict[str, Any])
    assert found["bound"]["requests"] >= 1


@pytest.mark.parametrize("stored", [False, True], ids=["without a store", "of a store"])
def test_a_program_is_explained(bare, url, stored):
    options = ["--db", url] if stored else []
    ran = bare("explain", "--program", "Note", "--schema", SCHEMA, *options)
    assert ran.code == 0, ran
    assert "NotesOfAuthor\n  SKIP_NONE author" in ran.out
    found = bare("explain", "--program", "Note", "--schema", SCHEMA, "--json").document(dict[str, Any])
    assert found["views"]["NotesOfAuthor"][0] == "SKIP_NONE author"


def test_counters_are_explained(bare):
    ran = bare("explain", "counter_add", "votes:42", "--once", "--schema", SCHEMA)
    assert ran.code == 0, ran
    assert "counter('votes:42').add(once=...)" in ran.out
    assert "token and generations" in ran.out
    found = bare("explain", "counter_read", "votes:42", "--schema", SCHEMA, "--json").document(dict[str, Any])
    assert found["bound"]["requests"] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        ("sweep", MODEL),
        ("counter_add", "votes", "42"),
        ("counter_read", ""),
        ("save", MODEL, "1"),
        ("get", MODEL),
        ("patch", MODEL, "--field", "nothing"),
        ("patch", MODEL, "--field", "number"),
        (),
        ("get",),
        ("get", MODEL, "1", "--program", MODEL),
        ("--program", "NotesOfAuthor"),
        ("--program", "Nothing"),
    ],
)
def test_a_call_that_cannot_be_is_wrong_use(bare, wrong):
    assert bare("explain", *wrong, "--schema", SCHEMA).code == 2


GROUPS = "tests.unit.costs.test_writes:SCHEMA"


def test_a_delete_with_children_is_explained(bare):
    found = bare("explain", "delete", "Person", "ada", "--children", "40", "--schema", GROUPS)
    assert (found.code, found.out.splitlines()[0]) == (0, "delete(Person, 'ada', children='delete')")
    assert "delete(children=40) Person: at most" in found.out
    assert found.out.endswith("the commits of one Person group are one after the other\n")
    for wrong in (("delete", "Person", "ada", "--children", "4000"), ("create", "Person", "--children", "1")):
        assert bare("explain", *wrong, "--schema", GROUPS).code == 2


def test_the_commits_a_second_of_a_group_are_shown_with_times(bare, tmp_path):
    file = tmp_path / "numbers.json"
    write_some(file)
    asked = ("cost", "Note", "Elsewhere", "--schema", GROUPS, "--numbers", file)
    assert "a second in a group" in bare(*asked).out
    rated = [each for each in bare(*asked, "--json").document(list[dict[str, Any]]) if "group_rate" in each]
    assert {each["target"] for each in rated} == {"Note"}
    assert {each["verb"] for each in rated} == {"save", "create", "get_or_create", "upsert", "patch", "delete"}
    assert all(each["group_rate"] == pytest.approx(1 / each["seconds"]) for each in rated)
    assert "a second in a group" not in bare("cost", MODEL, "--schema", SCHEMA, "--numbers", file).out


@pytest.mark.parametrize("engine", ["memory", "lmdb"])
def test_numbers_are_measured_in_a_store_of_their_own_which_goes(bare, tmp_path, engine, monkeypatch):
    monkeypatch.setattr("oneread.cli.calibration.STORED", 200)
    folder = tmp_path / "stores"
    folder.mkdir()
    url = "memory://" if engine == "memory" else f"lmdb://{folder}/store?durability=none&prefix=x_"
    out = tmp_path / "new" / "numbers.json"
    found = bare("numbers", "--db", url, "--seconds", "0.1", "--out", out, "--json").document(MachineNumbers)
    assert found == read_numbers(out)
    assert set(found.seconds) == set(BASICS)
    assert found.engine == ("memory" if engine == "memory" else "lmdb?durability=none")
    assert found.seconds["point"] > 0
    assert list(folder.iterdir()) == []


def test_numbers_go_to_the_cache_by_default(bare, tmp_path, monkeypatch):
    monkeypatch.setattr("oneread.cli.calibration.STORED", 200)
    ran = bare("numbers", "--db", "memory://", "--seconds", "0.1")
    assert ran.code == 0
    assert "get of one entity" in ran.out
    assert (tmp_path / "cache" / "oneread" / "numbers.json").exists()


def test_what_cannot_be_measured_is_wrong_use(bare, tmp_path):
    assert bare("numbers").code == 2
    assert bare("numbers", "--db", f"lmdb://{tmp_path}/no/such/store").code == 2
    assert not Path(tmp_path / "no").exists()


WARNING = "warning: Answered shows Note.answers, which changes with each Answer: each rewrites each Mark that holds it"


def test_what_the_schema_warns_of_is_listed(bare):
    ran = bare("cost", "Mark", "--schema", "tests.cli.costly:COSTLY")
    assert (ran.code, ran.out.splitlines()[-1].partition(";")[0]) == (0, WARNING)
    bare("cost", "Mark", "--json", "--schema", "tests.cli.costly:COSTLY").document(list[dict[str, Any]])


def test_a_plan_lists_what_the_schema_warns_of(bare, new_url):
    url = new_url()
    with connect(url, COSTLY):
        pass
    ran = bare("migrate", "plan", "--schema", "tests.cli.costly:COSTLY", "--db", url)
    assert ran.out.splitlines()[-1].partition(";")[0] == WARNING


def test_commands_of_a_schema_that_warns_print_no_warnings(tmp_path):
    command = [sys.executable, "-m", "oneread", "get", "Mark", "1", "--schema", "tests.cli.costly:COSTLY"]
    ran = subprocess.run([*command, "--db", f"lmdb://{tmp_path}/none"], capture_output=True, text=True, check=False)
    assert "which changes with each" not in ran.stderr + ran.stdout


def test_a_store_says_how_much_follows(bare, url):
    ran = bare("cost", "Person", "--schema", SCHEMA, "--db", url)
    assert re.search(r"^Person: \d holders of its copies at the median, \d at the most, of \w+$", ran.out, re.MULTILINE)
    assert " at the median" not in bare("cost", "Person", "--schema", SCHEMA).out


def test_what_no_declaration_limits_is_unbounded(bare):
    ran = bare("cost", "Group", "--schema", "tests.unit.costs.test_usual_fan_outs:SCHEMA")
    assert re.search(r"^Group +patch +unbounded +unbounded +unbounded +unbounded +\d+ rows, ", ran.out, re.MULTILINE)
    assert ran.out.count("declare large_group= in Home") == 1
