"""The typed face: accepted programs pass both type checkers, and both report every wrong line of a rejected one.

`accepted*.py` must be free of errors. In `rejected*.py` each line that ends in `# rejected` must be reported by
mypy and by basedpyright, and no other line by either.
"""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MARK = re.compile(r"# rejected\b")
STRICT = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "reportPrivateUsage": False,
    "reportUnusedExpression": False,
}


def mypy(programs, _folder):
    """The lines of each program that mypy reports errors on, with what it says.

    It knows the library already from checking it, `make mypy`.
    """
    command = ["-m", "mypy", f"--config-file={ROOT / 'pyproject.toml'}", "--output=json"]
    done = subprocess.run(
        [sys.executable, *command, *map(str, programs)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr + done.stdout
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    errors = [report for report in reports if report["severity"] == "error"]
    return by_program(programs, [(Path(ROOT, each["file"]), each["line"], each["message"]) for each in errors])


def basedpyright(programs, folder):
    """The lines of each program that basedpyright in strict mode reports errors on, with what it says."""
    settings = folder / "pyrightconfig.json"
    settings.write_text(json.dumps(STRICT | {"include": [*map(str, programs)], "extraPaths": [str(ROOT / "src")]}))
    command = ["-m", "basedpyright", "--outputjson", f"--pythonpath={sys.executable}", f"--project={settings}"]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr + done.stdout
    result = json.loads(done.stdout)
    assert result["summary"]["filesAnalyzed"] >= len(programs)
    errors = [report for report in result["generalDiagnostics"] if report["severity"] == "error"]
    lines = [each["range"]["start"]["line"] + 1 for each in errors]
    found = zip(errors, lines, strict=True)
    return by_program(programs, [(Path(each["file"]), line, each["message"]) for each, line in found])


def by_program(programs, reports):
    """The reports on each program; those on other files are left out."""
    found = {program.resolve(): [] for program in programs}
    for file, line, message in reports:
        found.get(file.resolve(), []).append((line, message))
    return found


CHECKERS = pytest.mark.parametrize("check", [mypy, basedpyright])


def programs(pattern):
    return sorted(HERE.glob(pattern))


def marked(program):
    lines = program.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if MARK.search(line)}


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """What a checker reports of each program; asked once for all of them, since it spends its time on the library."""

    @cache
    def reported(check):
        return check(programs("accepted*.py") + programs("rejected*.py"), tmp_path_factory.mktemp(check.__name__))

    return lambda check, program: reported(check)[program]


@CHECKERS
@pytest.mark.parametrize("program", programs("accepted*.py"), ids=lambda program: program.stem)
def test_an_accepted_program_has_no_errors(check, program, reports):
    assert reports(check, program) == []


@CHECKERS
@pytest.mark.parametrize("program", programs("rejected*.py"), ids=lambda program: program.stem)
def test_exactly_the_wrong_lines_are_reported(check, program, reports):
    found = reports(check, program)
    reported = {line for line, _ in found}
    wrong = marked(program)
    assert wrong, "a rejected program marks its wrong lines with `# rejected`"
    assert not wrong - reported, f"accepted by {check.__name__}: lines {sorted(wrong - reported)}"
    assert not reported - wrong, [report for report in found if report[0] not in wrong]


@CHECKERS
def test_a_wrong_line_would_be_found(check, tmp_path):
    program = tmp_path / f"program_{uuid4().hex}.py"  # of one that it knows, mypy names the former file
    program.write_text("x: int = 1\ny: int = 'one'\n")
    assert [line for line, _ in check([program], tmp_path)[program]] == [2]
