"""The SVG of `graph` in Chromium, on a desktop and a telephone, light and dark: each text is readable in its box."""

import pytest
from msgspec.structs import replace

from examples.community.schema import COMMUNITY
from oneread.costs.declared import of
from oneread.costs.graph_costs import with_costs
from oneread.costs.graph_svg import svg_lines
from oneread.costs.schema_graph import graph_of
from tests.cli.test_graph import HARMFUL
from tests.examples.browsing import DESKTOP, PHONE, chrome, resize

PAGE = '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><body style="margin:0">'

MEASURE = """
const box = (each) => each.getBoundingClientRect();
const boxes = [...document.querySelectorAll("rect")].map(box);
const inside = (a, b) => a.left > b.left && a.right < b.right && a.top > b.top - 1 && a.bottom < b.bottom + 1;
const texts = [...document.querySelectorAll("text")].filter((each) => each.textContent.trim());
const style = getComputedStyle(texts[0]);
const scale = box(document.querySelector("svg")).width / document.querySelector("svg").viewBox.baseVal.width;
return {
    outside: texts.filter((each) => boxes.filter((b) => inside(box(each), b)).length !== 1).map((e) => e.textContent),
    over: texts.filter((a, place) => texts.slice(0, place).some((b) => box(b).bottom > box(a).top + 3)).length,
    width: document.documentElement.scrollWidth,
    size: parseFloat(style.fontSize) * scale,
    ink: style.fill,
    paper: getComputedStyle(document.querySelector("svg")).backgroundColor,
};
"""


def hot(schema):
    """A graph with costs, and with a heat for each arrow."""
    graph = with_costs(graph_of(schema), schema, of(schema))
    edges = [replace(each, heat=10.0**place) for place, each in enumerate(graph.edges)]
    return replace(graph, edges=tuple(edges))


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with chrome(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize(
    "drawn", [graph_of(COMMUNITY), graph_of(HARMFUL), hot(COMMUNITY)], ids=["community", "harmful", "hot"]
)
def test_every_text_is_readable_in_its_box(driver, tmp_path, drawn, size):
    page = tmp_path / "graph.html"
    page.write_text(PAGE + "\n".join(svg_lines(drawn)), encoding="utf-8")
    resize(driver, size)
    found = {}
    for mode in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": mode}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        driver.get(page.as_uri())
        found[mode] = driver.execute_script(MEASURE)
    for each in found.values():
        assert not each["outside"]
        assert not each["over"]
        assert each["width"] <= size[0]
        assert each["size"] >= 11
    assert {mode: (each["ink"], each["paper"]) for mode, each in found.items()} == {
        "light": ("rgb(27, 31, 36)", "rgb(255, 255, 255)"),
        "dark": ("rgb(230, 237, 243)", "rgb(13, 17, 23)"),
    }
