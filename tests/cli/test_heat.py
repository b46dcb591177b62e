"""`oneread heat`."""

import io

import msgspec
import pytest

from oneread import connect
from oneread.cli import heat as heat_command
from oneread.cli.heat_drawing import ASCII, BLOCKS, draw, lines_by_declaration
from oneread.database.heat_map import HeatMap
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
    assert "equally many rows" in ran.err
    assert "% of its rows" in ran.out


def test_the_whole_map_as_json(run):
    found = run("--writes", "--by", "rows", "--json").document(HeatMap)
    assert "Person" in {each.declared for each in found.ranges}
    assert all(each.verb == "save" for each in found.parts)
    assert len(found.times) == len(found.cells[0])
    assert run("--lost", "--json").document(HeatMap).ranges == ()


@pytest.mark.parametrize(
    "arguments", [("--last", "6"), ("--last", "15d"), ("--last", "0m"), ("Nobody",), ("--reads", "--writes")]
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
