"""The tests that "Test a program" shows pass as shown, under its configuration, with the schema of the first page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
HOME = (DOCS / "index.md").read_text(encoding="utf-8")
PAGE = (DOCS / "how-to" / "test-your-program.md").read_text(encoding="utf-8")


def shown(page, opening):
    return re.findall(rf"^```{re.escape(opening)}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path):
    """The folder of a program with the configuration and the tests of the page."""
    (shop,) = shown(HOME, "python")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "models.py").write_text(shop.partition("\nwith connect(")[0], encoding="utf-8")
    (configuration,) = shown(PAGE, 'toml title="pyproject.toml"')
    (tmp_path / "pyproject.toml").write_text(configuration, encoding="utf-8")
    tests = shown(PAGE, 'python title="test_shop.py"')
    (tmp_path / "test_shop.py").write_text("\n\n".join(tests), encoding="utf-8")
    return tmp_path


def run_pytest(folder, *options):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_the_tests_pass_as_shown(folder):
    written = run_pytest(folder, "--oneread-bounds=update")
    assert written.returncode == 0, written.stdout + written.stderr
    assert (folder / "bounds.json").exists()
    again = run_pytest(folder)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "4 passed" in again.stdout


def test_a_coroutine_without_its_mark_fails(folder):
    tests = (folder / "test_shop.py").read_text(encoding="utf-8")
    (folder / "test_shop.py").write_text(re.sub(r"^@pytest.mark.anyio.*\n", "", tests, flags=re.MULTILINE))
    ran = run_pytest(folder, "--oneread-bounds=update")
    assert ran.returncode == 1, ran.stdout
    assert "1 failed, 3 passed" in ran.stdout
