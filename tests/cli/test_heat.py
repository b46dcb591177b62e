"""`oneread heat`."""

import io
import re

import msgspec
import pytest

from oneread import connect
from oneread.cli import heat as heat_command
from oneread.costs.schema_graph import SchemaGraph
from oneread.heat import rows
from oneread.heat.axis import read_axes
from oneread.heat.drawing import ASCII, BLOCKS, draw, lines_by_declaration
from oneread.heat.map import HeatMap
from tests.cli import notes
from tests.cli.conftest import SCHEMA


@pytest.fixture
def run(bare, tmp_path):
    """The command on a store of which some was read."""
    url = f"lmdb://{tmp_path}/heat?durability=none"
    notes.fill(url)
    with connect(url, notes.NOTES, heat=1.0) as db:
        for number in range(30):
            db.find(notes.Person, number % 3)
        db.save(notes.Person(number=9, name="Eve", email="eve@example.org"))

    def run(*arguments):
        return bare("heat", *arguments, "--schema", SCHEMA, "--db", url)

    run.url = url
    return run


def test_a_line_for_each_declaration_the_hottest_first(run):
    ran = run("--last", "10m")
    lines = ran.out.splitlines()
    assert ran.code == 0
    assert lines[0].endswith("a second")
    assert lines[1].startswith("Person ")
    assert "find Person" in lines[1]
    assert BLOCKS[-1] in lines[1]
    assert ran.err == "1 program, 1 of their time recorded; not to scale: --measure counts the rows\n"


def test_one_declaration_by_ranges_of_its_keys(run):
    lines = run("Person", "--reads", "--last", "10m").out.splitlines()[1:]
    assert [each.split()[0] for each in lines] == ["0", "1", "2", "9"]
    assert [each.split()[2] for each in lines] == ["1", "2", "9", "last"]
    ran = run("Person", "--measure", "--ranges", "2")
    assert "rows counted by key" in ran.err
    assert re.search(r"equally many rows since \d{4}-\d\d-\d\d \d\d:\d\d \(measure\)", ran.err)
    assert "% of its rows" in ran.out


def test_the_whole_map_as_json(run):
    found = run("--writes", "--by", "rows", "--json").document(HeatMap)
    assert "Person" in {each.declared for each in found.ranges}
    assert all(each.verb == "save" for each in found.parts)
    assert len(found.times) == len(found.cells[0])
    assert run("--lost", "--json").document(HeatMap).ranges == ()


def test_for_how_many_days_hours_are_kept_is_written_for_all_programs(run):
    for days, said in ((3, "hours are kept for 3 days"), (1, "hours are kept for 1 day"), (0, "hours are not kept")):
        ran = run("--kept", str(days))
        assert ran.code == 0
        assert said in ran.err
        with connect(run.url, notes.NOTES, workers=0) as db:
            assert db.run(rows._read_days()) == days
    assert run("--kept", "15").code == 2


@pytest.mark.parametrize(
    "command", [("verify",), ("splits",), ("dump", "--out", "notes.jsonl"), ("repair",), ("backfill",)]
)
def test_a_command_that_reads_all_rows_leaves_how_they_are_spread(run, bare, tmp_path, command):
    url, *arguments = (each.replace("notes.jsonl", f"{tmp_path}/notes.jsonl") for each in (run.url, *command))
    assert bare(*arguments, "--schema", SCHEMA, "--db", url).code == 0
    by = None if command == ("backfill",) else command[0]  # there is nothing to do
    found = run("Person", "--ranges", "2", "--json").document(HeatMap)
    assert (found.to_scale, found.counted_by) == (by is not None, by or "")
    assert [each.share for each in found.ranges] == [1 / 3, 2 / 3] if by else [None, None]


def test_a_backfill_that_builds_leaves_how_rows_are_spread(bare, tmp_path):
    given = "--schema", SCHEMA, "--db", f"lmdb://{tmp_path}/before?durability=none"
    notes.fill(given[-1], notes.BEFORE)
    with connect(given[-1], notes.BEFORE, heat=1.0) as db:
        db.find(notes.Person, 1)
    assert bare("backfill", "--fence", *given).code == 0
    assert bare("heat", "Person", *given, "--json").document(HeatMap).counted_by == "backfill"


@pytest.mark.parametrize("command", ["verify", "splits", "repair"])
def test_where_there_is_no_heat_nothing_is_left(bare, tmp_path, command):
    url = f"lmdb://{tmp_path}/cold?durability=none"
    notes.fill(url)
    assert bare(command, "--schema", SCHEMA, "--db", url).code == 0
    with connect(url, notes.NOTES, workers=0) as db:
        assert db.run(read_axes()) == {}


def test_a_store_that_may_not_be_written_is_only_read(run, bare):
    assert bare("verify", "--schema", SCHEMA, "--db", f"{run.url}&read_only=true").code == 0
    assert not run("--json").document(HeatMap).to_scale


@pytest.mark.parametrize("terminal", [False, True])
def test_it_is_drawn_again_until_it_is_interrupted(bare, monkeypatch, terminal):
    url, pauses = f"memory://watched-{terminal}", []
    db = connect(url, notes.NOTES, workers=0, heat=1.0)

    def pause(seconds):
        pauses.append(seconds)
        db.find(notes.Person, 1)
        db.heat()
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(heat_command, "sleep", pause)
    monkeypatch.setattr(heat_command, "_is_terminal", lambda: terminal)
    ran = bare("heat", "--watch", "--last", "10m", "--schema", SCHEMA, "--db", url)
    assert (ran.code, pauses) == (0, [10.0] * 3)
    assert ran.out.count("nothing was recorded") == 1
    assert ran.out.count("find Person") == 2
    assert ran.out.count(heat_command.CLEAR) == 3 * terminal
    db.close()


@pytest.mark.parametrize(
    "arguments",
    [("--watch", "--json"), ("--last", "6"), ("--last", "15d"), ("--last", "0m"), ("Nobody",), ("--reads", "--writes")],
)
def test_wrong_options_are_refused(run, arguments):
    assert run(*arguments).code == 2


def test_where_nothing_was_recorded_it_says_how(oneread):
    ran = oneread("heat")
    assert ran.code == 0
    assert "heat=1.0" in ran.out


def drawn(heat, **options):
    options = {"ascii_only": False, "colours": False} | options
    return list(draw(heat, lines_by_declaration(heat), 60, **options))


def test_drawings_fit_the_terminal(run):
    heat = run("--json").document(HeatMap)
    blocks, letters, colours = drawn(heat), drawn(heat, ascii_only=True), drawn(heat, colours=True)
    assert max(len(each.partition("  find")[0]) for each in blocks) <= 80
    assert "".join(letters).isascii()
    assert ASCII[-1] in letters[1]
    assert "\033[38;5;226m" in colours[1]


def test_a_terminal_without_blocks_gets_letters(run, monkeypatch):
    heat = msgspec.structs.replace(run("--json").document(HeatMap))
    assert heat.ranges
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", stream)
    assert not heat_command._writes_blocks()


@pytest.mark.usefixtures("run")
def test_a_graph_shows_what_was_written_for_each_arrow(bare, tmp_path):
    given = "graph", "--schema", SCHEMA, "--db", f"lmdb://{tmp_path}/heat?durability=none"
    ran = bare(*given, "--heat", "--last", "1h", "--json")
    edges = ran.document(SchemaGraph).edges
    assert any(each.heat for each in edges if each.kind == "view")
    assert all(each.heat is None for each in edges if each.refers)
    drawn = bare(*given, "--heat", "--costs", "--format", "svg")
    assert "rows written a second" in drawn.out
    assert "save: up to" in drawn.out
    assert "rows written a second, as 1 program recorded them" in drawn.err
    assert bare(*given, "--heat", "--last", "soon").code == 2
    assert bare("graph", "--schema", SCHEMA, "--heat").code == 2
