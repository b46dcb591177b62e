"""What the pages about the command line say: every `oneread` line of them runs, and every command has its heading."""

import re
import shlex
from pathlib import Path

import pytest

from examples.shop import schema as shop
from oneread import connect
from oneread.cli.program import COMMANDS
from tests.cli import notes

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference" / "command-line.md"
OPERATE = ROOT / "docs" / "how-to" / "operate.md"


def lines(page):
    """The `oneread` commands of a page's sh blocks, without comments and what follows a pipe."""
    for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("oneread ") and "--install-completion" not in line:
                words = shlex.split(line, comments=True)
                ends = [words.index(each) for each in ("|", ">", ";") if each in words]
                yield words[1 : min(ends, default=len(words))]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the module and the store that the page speaks of."""
    (tmp_path / "cli_shop").mkdir()
    (tmp_path / "cli_shop" / "models.py").write_text("from examples.shop.schema import SHOP as shop\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with connect(f"lmdb://{tmp_path}/shop", shop.SHOP, workers=0) as db:
        db.save(shop.Customer(number=12347, name="Ada", country="Iceland"))
        db.save(shop.Product(code="85123A", name="White heart"))
    monkeypatch.setenv("ONEREAD_SCHEMA", "cli_shop.models:shop")
    monkeypatch.setenv("ONEREAD_DB", f"lmdb://{tmp_path}/shop")
    return tmp_path


def test_the_pages_are_read():
    assert len(list(lines(OPERATE))) > 10


@pytest.mark.usefixtures("folder")
def test_every_line_of_operating_a_store_runs(bare):
    for words in lines(OPERATE):
        ran = bare(*words)
        assert ran.code == 0, (words, ran)


def test_the_page_names_its_environment():
    text = OPERATE.read_text()
    assert "export ONEREAD_SCHEMA=shop.models:shop" in text
    assert "export ONEREAD_DB=lmdb:///var/lib/shop" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_heading_in_the_reference(name):
    assert f"\n### oneread {name}\n" in REFERENCE.read_text()


@pytest.mark.parametrize(
    ("word", "place"),
    [("true", 0), ("no", 0), ("2.5", 1), ("2.55", 2), ("00ff1a", 3), ("2010-12-07", 4), ("90", 5), ("PT1M30S", 5)],
)
def test_values_are_written_as_the_reference_says(oneread, word, place):
    assert word in REFERENCE.read_text()
    whole = ["true", "1", "1", "00", "2026-01-01", "1"]
    whole[place] = word
    assert oneread("page", "Sample", "--", *whole[: place + 1]).code == 0


@pytest.mark.parametrize("word", ["2010-12-07T08:26:00Z", "2010-12-07"])
def test_instants_are_written_as_the_reference_says(oneread, word):
    assert f"`{word}`" in REFERENCE.read_text()
    assert oneread("page", "NotesOfAuthor", str(notes.ADA), "--since", word).code == 0
