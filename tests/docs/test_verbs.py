"""Each verb's docstring has an example, which runs: on both faces, on a small shop in each kind of store."""

import ast
import asyncio
import inspect
import re
import textwrap
from pathlib import Path

import pytest

from oneread import AsyncDatabase, Database, add, connect, connect_async, field

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
SHOP = README.partition("```python\n")[2].partition("\nwith connect(")[0]
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VERBS = [
    "get",
    "find",
    "exists",
    "get_many",
    "page",
    "together",
    "scan",
    "save",
    "create",
    "get_or_create",
    "upsert",
    "patch",
    "delete",
    "save_all",
    "transact",
    "group",
    "drain",
    "tasks",
    "version",
    "cost",
    "verify",
    "repair",
    "backfill",
    "bulk",
]


INNER = {"run"}
"""It takes plans, of the library's own rooms."""
REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
DOCUMENTED = re.compile(r"^::: oneread\.Database(?:\.(\w+)$|\n    options:\n      members: \[(.*)\]$)", re.MULTILINE)


def rendered(page):
    """The verbs that a page of the reference documents."""
    return [name for pair in DOCUMENTED.findall(page) for names in pair for name in names.split(", ") if name]


def test_each_verb_is_in_the_reference_once_and_found_from_the_page_of_verbs():
    pages = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")}
    verbs = {name for name, _verb in inspect.getmembers(Database) if not name.startswith("_")} - INNER
    assert sorted(name for page in pages.values() for name in rendered(page)) == sorted(verbs)
    elsewhere = verbs - set(rendered(pages["database.md"]))
    assert elsewhere == set(re.findall(r"\]\[oneread\.Database\.(\w+)\]", pages["database.md"]))


def examples(face, verb):
    docstring = inspect.getdoc(getattr(face, verb))
    return [textwrap.dedent(code) for code in EXAMPLE.findall(textwrap.dedent(docstring.partition("Examples:\n")[2]))]


def compiled(code):
    return compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


@pytest.fixture
def names():
    """What an example may name besides `db`: the declarations of the README, and what they are imported with."""
    names = {"__name__": "shop_of_examples", "add": add, "field": field}
    exec(compile(SHOP, "README.md", "exec", dont_inherit=True), names)
    return names


def entities(names):
    purchase = names["Purchase"](
        order="537626",
        line=1,
        buyer=names["Buyer"].of(12347),
        product=names["Sold"].of("85123A"),
        quantity=6,
        unit_price=names["Decimal"]("2.55"),
        ordered_at=names["datetime"](2010, 12, 7, tzinfo=names["UTC"]),
    )
    customer = names["Customer"](number=12347, name="Ada", country="Iceland")
    return [customer, names["Product"](code="85123A", name="White hanging heart"), purchase]


@pytest.mark.parametrize("verb", VERBS)
def test_the_example_of_a_verb_runs(verb, names, url):
    (code,) = examples(Database, verb)
    assert f"db.{verb}(" in code
    with connect(url, names["shop"]) as db:
        db.save_all(entities(names))
        exec(compiled(code), names | {"db": db})


@pytest.mark.parametrize("verb", VERBS)
def test_the_same_example_awaited_runs(verb, names, url):
    (code,) = examples(AsyncDatabase, verb)

    async def run():
        async with connect_async(url, names["shop"]) as db:
            await db.save_all(entities(names))
            running = eval(compiled(code), names | {"db": db})
            if inspect.iscoroutine(running):
                await running

    asyncio.run(run())
