"""The tutorial, followed literally: each block is pasted at the end of the file that it names, then they are run."""

import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tutorial" / "shop.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python title=\"(?P<file>\w+\.py)\"\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(oneread .*?)(?: {2,}#.*)?$", re.MULTILINE)


def pasted(folder, page=PAGE):
    """Writes the files that a reader of the page has at its end; returns their names."""
    files = defaultdict(str)
    for block in BLOCK.finditer(page):
        files[block["file"]] += block["code"] + "\n"
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return list(files)


def python(folder, *arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The reader's folder, after `python tutorial.py`."""
    folder = tmp_path_factory.mktemp("tutorial")
    assert pasted(folder) == ["models.py", "tutorial.py", "web.py", "test_web.py"]
    ran = python(folder, "tutorial.py")
    assert ran.returncode == 0, ran.stderr
    assert "this view is not built yet" in ran.stdout
    return folder


def test_every_block_names_its_file():
    assert len(BLOCK.findall(PAGE)) == PAGE.count("```python")


def test_the_program_runs_before_the_later_view_is_declared(tmp_path):
    """A reader runs it after each block; of a program each beginning runs, but `models.py` grows, too."""
    later = [block.start() for block in BLOCK.finditer(PAGE) if block["file"] == "models.py"][-1]
    pasted(tmp_path, PAGE[:later])
    ran = python(tmp_path, "tutorial.py")
    assert ran.returncode == 0, ran.stderr


def test_its_commands_run(folder):
    commands = COMMAND.findall(PAGE)
    assert len(commands) == 2
    for command in commands:
        ran = python(folder, "-m", *shlex.split(command))
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout


def test_its_test_of_the_web_passes(folder):
    ran = python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_web.py")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout
