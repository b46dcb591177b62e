"""The typed face: accepted programs pass both type checkers, and both report every wrong line of a rejected one.

`accepted*.py` must be free of errors. In `rejected*.py` each line that ends in `# rejected` must be reported by
mypy and by basedpyright, and no other line by either.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

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


def mypy(program, folder):
    """The lines mypy reports errors on, with what it says."""
    command = ["-m", "mypy", f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={folder}", "--output=json"]
    done = subprocess.run(
        [sys.executable, *command, str(program)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr + done.stdout
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [
        (report["line"], report["message"])
        for report in reports
        if report["severity"] == "error" and Path(ROOT, report["file"]).resolve() == program.resolve()
    ]


def basedpyright(program, folder):
    """The lines basedpyright in strict mode reports errors on, with what it says."""
    settings = folder / "pyrightconfig.json"
    settings.write_text(json.dumps(STRICT | {"include": [str(program)], "extraPaths": [str(ROOT / "src")]}))
    command = ["-m", "basedpyright", "--outputjson", f"--pythonpath={sys.executable}", f"--project={settings}"]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr + done.stdout
    result = json.loads(done.stdout)
    assert result["summary"]["filesAnalyzed"] >= 1
    return [
        (report["range"]["start"]["line"] + 1, report["message"])
        for report in result["generalDiagnostics"]
        if report["severity"] == "error"
    ]


CHECKERS = pytest.mark.parametrize("check", [mypy, basedpyright])


def programs(pattern):
    return sorted(HERE.glob(pattern))


def marked(program):
    lines = program.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if MARK.search(line)}


@CHECKERS
@pytest.mark.parametrize("program", programs("accepted*.py"), ids=lambda program: program.stem)
def test_an_accepted_program_has_no_errors(check, program, tmp_path):
    assert check(program, tmp_path) == []


@CHECKERS
@pytest.mark.parametrize("program", programs("rejected*.py"), ids=lambda program: program.stem)
def test_exactly_the_wrong_lines_are_reported(check, program, tmp_path):
    found = check(program, tmp_path)
    reported = {line for line, _ in found}
    wrong = marked(program)
    assert wrong, "a rejected program marks its wrong lines with `# rejected`"
    assert not wrong - reported, f"accepted by {check.__name__}: lines {sorted(wrong - reported)}"
    assert not reported - wrong, [report for report in found if report[0] not in wrong]


@CHECKERS
def test_a_wrong_line_would_be_found(check, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("x: int = 1\ny: int = 'one'\n")
    assert [line for line, _ in check(program, tmp_path)] == [2]
