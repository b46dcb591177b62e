"""A file like online-retail with every kind of dirt in it, a generated site, and command lines in this process."""

import ast
import csv
import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from examples.community import counting
from examples.community import loading as community_loading
from examples.community import source as community_source
from examples.community import stores as community_stores
from examples.community.__main__ import main as community_main
from examples.events import loading as events_loading
from examples.events import source as events_source
from examples.events import stores as events_stores
from examples.events.__main__ import main as events_main
from examples.qa import loading, source, stores
from examples.qa.__main__ import main as qa_main
from examples.shop.__main__ import main
from tests.examples import browsing

HEADER = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country"
DIRTY = """
536365,85123A, WHITE  HEART ,6,2010-12-01 08:26:00,2.55,17850,United Kingdom
536365,85123A, WHITE  HEART ,6,2010-12-01 08:26:00,2.55,17850,United Kingdom
536365,85123a,Red heart,1,2010-12-01 08:26:00,1.255,17850,United Kingdom
536366,71053,LANTERN,2,2010-12-01 08:28:00,3.39,12431,Australia
C536367,85123A,WHITE HEART,-5,2010-12-02 09:00:00,2.55,17850,United Kingdom
536368,85123A,damaged,-30,2011-01-04 10:00:00,0.0,,United Kingdom
536368,20950,,40,2011-01-04 10:00:00,0.0,,United Kingdom
536368,72759,thrown away,-3,2011-01-04 10:00:00,0.0,,United Kingdom
A536369,B,Adjust bad debt,1,2011-01-31 14:50:00,-11062.06,,United Kingdom
536370,85123A,CREAM HEART,10,2011-08-01 00:30:00,2.95,12431,Belgium
536371,POST,POSTAGE,1,2011-08-02 12:00:00,18.0,,EIRE
536371,85123A,,1,2011-08-02 12:00:00,2.95,,EIRE
"""


ROOT = Path(__file__).resolve().parents[2]


def imported_from_library(module):
    """What a module that counts again imports of the library or of a schema, which it should not."""
    found = set()
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        found |= {each.name for each in node.names} if isinstance(node, ast.Import) else set()
        found |= {node.module} if isinstance(node, ast.ImportFrom) else set()
    return {name for name in found if name.partition(".")[0] == "oneread" or name.endswith(".schema")}


def kill_load(command, things, behind):
    """Runs a load and kills it when it says that it is behind so many things."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-m", *command]
    with subprocess.Popen(arguments, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as running:
        for line in running.stdout:
            at = re.match(rf" +([\d,]+) of [\d,]+ {things}", line)
            if at and int(at[1].replace(",", "")) > behind:
                running.send_signal(signal.SIGKILL)
                break
    assert running.returncode == -signal.SIGKILL


def write_rows(path, rows):
    """Writes a `.csv.gz` file of rows, as data sets have them."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with gzip.open(path, "wt", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


class Ran(NamedTuple):
    code: int
    out: str
    err: str


def run_command(command, capsys, *arguments) -> Ran:
    capsys.readouterr()
    try:
        code = command([str(each) for each in arguments])
    except SystemExit as exited:
        code = exited.code
    out, err = capsys.readouterr()
    return Ran(code, out, err)


@pytest.fixture
def data(tmp_path):
    """Writes lines to a data file; returns its folder."""

    def write(lines=DIRTY, header=HEADER, name="data") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        text = "\n".join([header, *lines.strip().splitlines(), ""])
        (folder / "online-retail.csv.gz").write_bytes(gzip.compress(text.encode()))
        return folder

    return write


@pytest.fixture
def shop(capsys, monkeypatch):
    """Runs a command; what it returned and wrote. No data set of this machine is found by itself."""
    monkeypatch.delenv("ONEREAD_DATA", raising=False)

    return partial(run_command, main, capsys)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    with browsing.chrome(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def browser(chromium):
    """The browser at the size of a desktop; nothing in its console so far."""
    browsing.resize(chromium, browsing.DESKTOP)
    chromium.get_log("browser")
    return chromium


SITE = "generated:7:40"
"""What most tests of the questions-and-answers site are about."""


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The URL of a store of a generated site, which no test changes, and its records."""
    url = f"lmdb://{tmp_path_factory.mktemp('site')}/qa"
    data = source.read(SITE)
    with stores.for_loading(url) as db:
        loading.load(db, data, lambda *_: None)
    return url, data


@pytest.fixture
def site_copy(site, tmp_path):
    """A copy of that store, to be changed."""
    shutil.copytree(site[0].removeprefix("lmdb://"), tmp_path / "qa")
    return f"lmdb://{tmp_path}/qa"


COMMUNITY = "generated:7:20"
"""What most tests of the community are about."""


@pytest.fixture(scope="session")
def community_store(tmp_path_factory):
    """The URL of a store of a generated community, which no test changes."""
    url = f"lmdb://{tmp_path_factory.mktemp('made')}/community"
    load_community(f"{url}?durability=none", community_source.read(COMMUNITY))
    return url


def load_community(url, data):
    """Loads everything; what counting each log did."""
    clock = counting.Clock()
    with community_stores.for_loading(url, clock) as db:
        community_loading.load(db, data, lambda *_: None)
        return [counting.count(db, clock, log, lambda *_: None) for log in data.logs]


@pytest.fixture
def community_copy(community_store, tmp_path):
    """A copy of that store, to be changed."""
    shutil.copytree(community_store.removeprefix("lmdb://"), tmp_path / "community")
    return f"lmdb://{tmp_path}/community"


@pytest.fixture
def community(capsys):
    """Runs a command of the community; what it returned and wrote."""

    return partial(run_command, community_main, capsys)


EVENTS = "generated:7:20"
"""What most tests of the events are about."""


@pytest.fixture(scope="session")
def events_store(tmp_path_factory):
    """The URL of a store of generated events, which no test changes."""
    url = f"lmdb://{tmp_path_factory.mktemp('made')}/events"
    with events_stores.for_loading(f"{url}?durability=none") as db:
        events_loading.load(db, events_source.read(EVENTS), lambda *_: None)
    return url


@pytest.fixture
def events_copy(events_store, tmp_path):
    """A copy of that store, to be changed."""
    shutil.copytree(events_store.removeprefix("lmdb://"), tmp_path / "events")
    return f"lmdb://{tmp_path}/events"


@pytest.fixture
def events(capsys):
    """Runs a command of the events; what it returned and wrote."""

    return partial(run_command, events_main, capsys)


@pytest.fixture
def qa(capsys):
    """Runs a command of the site; what it returned and wrote."""

    return partial(run_command, qa_main, capsys)
