"""The tutorial, followed literally: each block is pasted at the end of the file that it names, then they are run.

On disk and on servers a reader's commands are processes. A store in memory ends with its process, so there one program
does the same in the same order. Only the URL differs.
"""

import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from uuid import uuid4

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tutorial" / "shop.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python title=\"(?P<file>\w+\.py)\"\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(oneread .*?)(?: {2,}#.*)?$", re.MULTILINE)


URL = "lmdb://./shop"
COMMANDS = COMMAND.findall(PAGE)
READ = f"""
import runpy, shlex, sys

import pytest
from oneread.cli import main

url = sys.argv[1]
runpy.run_path("tutorial.py", run_name="__main__")
for command in {COMMANDS!r}:
    sys.argv = shlex.split(command.replace({URL!r}, url))
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "test_web.py"]))
"""
"""What a reader does, in one process: the program, the commands, the test of the web."""


def pasted(folder, page=PAGE, url=URL):
    """Writes the files that a reader of the page has at its end; returns their names."""
    files = defaultdict(str)
    for block in BLOCK.finditer(page):
        files[block["file"]] += block["code"] + "\n"
    for name, text in files.items():
        (folder / name).write_text(text.replace(URL, url), encoding="utf-8")
    return list(files)


def python(folder, *arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module", params=["lmdb", "hbase", "bigtable"])
def read(request, tmp_path_factory):
    """The reader's folder after `python tutorial.py`, and the URL in it: each command is a process."""
    folder = tmp_path_factory.mktemp("tutorial")
    with pytest.MonkeyPatch.context() as patch:
        url = URL
        if request.param == "hbase":
            place = request.getfixturevalue("hbase").place
            url = f"hbase://{place}/default?compression=none&prefix=t{uuid4().hex[:12]}_"
        if request.param == "bigtable":
            patch.setenv("BIGTABLE_EMULATOR_HOST", request.getfixturevalue("emulator").host)
            url = f"bigtable://test/t{uuid4().hex[:12]}"
        assert pasted(folder, url=url) == ["models.py", "tutorial.py", "web.py", "test_web.py"]
        ran = python(folder, "tutorial.py")
        assert ran.returncode == 0, ran.stderr
        assert "this view is not built yet" in ran.stdout
        yield folder, url


@pytest.mark.parametrize("url", ["memory://shop", "memory://shop?span=row"])
def test_a_store_in_memory_does_all_of_it_in_one_process(url, tmp_path):
    pasted(tmp_path, url=url)
    ran = python(tmp_path, "-c", READ, url)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "this view is not built yet" in ran.stdout
    assert "1 passed" in ran.stdout


def test_every_block_names_its_file():
    assert len(BLOCK.findall(PAGE)) == PAGE.count("```python")


def test_the_program_runs_before_the_later_view_is_declared(tmp_path):
    """A reader runs it after each block; of a program each beginning runs, but `models.py` grows, too."""
    later = [block.start() for block in BLOCK.finditer(PAGE) if block["file"] == "models.py"][-1]
    pasted(tmp_path, PAGE[:later])
    ran = python(tmp_path, "tutorial.py")
    assert ran.returncode == 0, ran.stderr


def test_its_commands_run(read):
    folder, url = read
    assert len(COMMANDS) == 2
    for command in COMMANDS:
        ran = python(folder, "-m", *shlex.split(command.replace(URL, url)))
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout


def test_its_test_of_the_web_passes(read):
    folder, _url = read
    ran = python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_web.py")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout
