"""Every benchmark runs from end to end at a tiny size, so that none can rot. No figure is judged here."""

import math
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from benchmarks import cli, report, run
from benchmarks.context import SMOKE
from benchmarks.picks import SITUATIONS, is_pickable
from benchmarks.registry import BENCHMARKS
from benchmarks.rows import Row
from oneread.engines.lmdb.binding import NATIVE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "design" / "performance.md"
GOAL = re.compile(r"`([<>]=? \d[^`]*)`")
FIELDS = {"id", "name", "unit", "figure", "peer_name", "peer", "ratio", "spread", "goal", "verdict", "rounds"}


def row(**changes):
    usual = {
        "id": "P1", "name": "get", "unit": "us", "figure": 3.0, "peer_name": "floor", "peer": 2.0, "ratio": 1.5,
        "spread": "1.4-1.6", "goal": "<= 1.6x", "verdict": "met", "rounds": 5, "data": "made up", "rows": 10,
    }  # fmt: skip
    return Row(**(usual | changes))


def goals_of_page():
    """The goals of each benchmark on the performance page, for this process."""
    _before, _heading, measured = PAGE.read_text(encoding="utf-8").partition("\n## Measured\n")
    found = {}
    for line in measured.partition("\n## ")[0].splitlines():
        if line.startswith("| "):
            id_, *_work, goals, with_core = (cell.strip() for cell in line.split("|")[1:-1])
            found.setdefault(id_, set()).update(GOAL.findall((NATIVE and with_core) or goals))
    return found


def without_numbers(name):
    """Names of rows differ by the sizes of a run."""
    return re.sub(r"\d[\d,]*", "N", name)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_answers_rows(name, context):
    rows = BENCHMARKS[name].run(context)
    assert rows
    for found in rows:
        assert found.id == name
        assert math.isfinite(found.figure)
        assert found.ratio is None or found.ratio > 0
        assert found.verdict == "shown" or found.goal != "-"
        assert msgspec.json.decode(msgspec.json.encode(found), type=Row) == found
    assert len({(found.name, found.peer_name) for found in rows}) == len(rows)
    assert {found.goal for found in rows} - {"-"} == goals_of_page()[name]
    pickable = {without_numbers(found.name): found for found in rows if is_pickable(found)}
    for situation in (each for each in SITUATIONS if name in each.ids):
        compared = pickable[without_numbers(situation.name)]
        least, greatest = compared.ends
        assert least * 0.98 <= compared.ratio <= greatest * 1.02


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The command line at test sizes, with its report in a folder of the test's."""
    for size in ("QUICK", "FULL"):
        monkeypatch.setattr(cli, size, SMOKE)
    for name, path in {"PAGE": "REPORT.md", "PICTURES": "results", "JSON": "results/full.json"}.items():
        monkeypatch.setattr(report, name, tmp_path / path)
    return tmp_path


def test_list_names_every_benchmark(capsys):
    assert cli.main(["list"]) == 0
    named = [line.split()[0] for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert named == list(BENCHMARKS)


def test_a_named_run_writes_its_rows_and_no_report(tiny, data, capsys):
    assert cli.main(["run", "p12", "--quick", "--data", str(data), "--json", str(tiny / "rows.json")]) == 0
    assert "goal < 80 ms" in capsys.readouterr().out
    written = msgspec.json.decode((tiny / "rows.json").read_bytes())
    assert {found["id"] for found in written["rows"]} == {"P12"}
    assert all(set(found) >= FIELDS for found in written["rows"])
    assert not (tiny / "REPORT.md").exists()


def test_a_full_run_of_everything_writes_the_report(tiny, data, monkeypatch, capsys):
    monkeypatch.setattr(cli, "BENCHMARKS", {"P12": BENCHMARKS["P12"]})
    assert cli.main(["run", "--data", str(data)]) == 0
    first = (tiny / "REPORT.md").read_text()
    assert "import oneread" in first
    assert cli.main(["report"]) == 0
    assert (tiny / "REPORT.md").read_text() == first
    assert "met" in capsys.readouterr().out


def test_a_full_run_measures_again_without_compiled_code(tiny, data, monkeypatch):
    monkeypatch.setattr(cli, "BENCHMARKS", {"P12": replace(BENCHMARKS["P12"], has_core=True)})
    monkeypatch.setattr(cli, "NATIVE", True)
    asked = []
    again = [row(id="P12", name="import oneread", unit="ms", figure=99.0, peer_name="bare interpreter", ratio=7.0)]
    monkeypatch.setattr(run, "rows_without_core", lambda *given: asked.append(given) or again)
    assert cli.main(["run", "--data", str(data)]) == 0
    assert asked == [(["P12"], ["--data", str(data)])]
    page = (tiny / "REPORT.md").read_text()
    assert "| without compiled code |" in page
    assert run.read(tiny / "results" / "full.json").without_core == again


def test_rows_without_compiled_code_are_of_a_process_without_it(data):
    rows = run.rows_without_core(["P12"], ["--quick", "--data", str(data)])
    assert {found.id for found in rows} == {"P12"}


def test_what_was_measured_without_compiled_code_is_a_column():
    lines = report.table([row(), row(name="page")], [row(figure=6.0, ratio=3.0)])
    assert [line.split("|")[-2].strip() for line in lines] == ["without compiled code", "---:", "6.00 us, 3.00x", ""]
    assert len(report.table([row()])[0].split("|")) == len(lines[0].split("|")) - 1


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(capsys):
    assert cli.main(["run", "P1", "P99"]) == 1
    error = capsys.readouterr().err
    assert "P99" in error
    assert "P3b" in error


def test_missing_data_are_an_error_that_says_how_to_name_them(tmp_path, capsys):
    assert cli.main(["run", "P1", "--quick", "--data", str(tmp_path)]) == 1
    assert "--data" in capsys.readouterr().err


@pytest.mark.usefixtures("tiny")
def test_a_report_before_the_first_full_run_is_an_error(capsys):
    assert cli.main(["report"]) == 1
    assert "no full run yet" in capsys.readouterr().err


def test_the_report_says_what_falls_short_and_draws_the_same_pictures_again(tmp_path):
    rows = [
        row(),
        row(name="page", ratio=3.0, goal="<= 2.5x", verdict="short"),
        row(id="P8", name="get, 10 rows", goal="-", verdict="shown"),
        row(id="P8", name="get, 100 rows", rows=100, goal="-", verdict="shown"),
    ]
    made = msgspec.structs.replace(run.begun(full=True, note="the machine was busy"), rows=rows)
    pages = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        report.generated(made, folder / "REPORT.md", folder / "results")
        pictures = {path.name: path.read_bytes() for path in sorted((folder / "results").iterdir())}
        pages.append(((folder / "REPORT.md").read_text(), pictures))
    assert pages[0] == pages[1]
    assert set(pages[0][1]) == {"goals.svg", "growth.svg"}
    assert "1 of 2 goals are met" in pages[0][0]
    assert "- Data: made up, up to 100 rows." in pages[0][0]
    assert "- Note: the machine was busy" in pages[0][0]
    assert "P1, page against floor: 3.00x, where the goal is <= 2.5x." in pages[0][0]


def test_a_run_is_read_as_it_was_written(tmp_path):
    made = msgspec.structs.replace(run.begun(full=False), rows=[row()])
    run.written(made, tmp_path / "folder" / "run.json")
    assert run.read(tmp_path / "folder" / "run.json") == made
