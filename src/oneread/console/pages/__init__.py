"""The pages: for each its address, its place in the menu, and the function that makes it.

To add one, write the function in a module of this package, and add its line to `PAGES`. A function reads the store by
the verbs that a program would use, so that what it costs is what that program would pay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from oneread.console.asking import REQUESTS, ROWS, PageRequest
from oneread.console.blocks import ConsolePage
from oneread.console.pages.cache_counters import show_cache_counter
from oneread.console.pages.changed import show_changed
from oneread.console.pages.costs import show_costs
from oneread.console.pages.counters import show_counter, show_counters
from oneread.console.pages.data import show_classes, show_list
from oneread.console.pages.entity import show_entity
from oneread.console.pages.erasures import show_erasures
from oneread.console.pages.feeds import show_feeds
from oneread.console.pages.finding import find_by_field
from oneread.console.pages.graph import show_graph
from oneread.console.pages.heat import show_heat
from oneread.console.pages.launches import show_launch, show_launches
from oneread.console.pages.log import show_log
from oneread.console.pages.member import show_member
from oneread.console.pages.moves import show_moves
from oneread.console.pages.overview import show_overview
from oneread.console.pages.schema import show_schema
from oneread.console.pages.slow import show_slow_calls
from oneread.console.pages.tasks import show_tasks
from oneread.console.pages.verify import show_verify


class MenuPage(NamedTuple):
    """One page: `at` is the path of its place in the menu; a `label` puts it there, in a group.

    `requests` and `rows` are what it may ask of the store.
    """

    path: str
    make: Callable[[PageRequest], Awaitable[ConsolePage]]
    at: str
    label: str = ""
    group: int = 0
    requests: int = REQUESTS
    rows: int = ROWS


COUNTING: Final = 100
"""Requests of a page that counts what waits: markers of commits are in 64 places."""
LOOKED: Final = 200
"""Requests of a page that compares one member's feed: of some stores, one for each task of what seems wrong, twice."""
RECORDED: Final = 5_000
"""Rows of a page that reads heat: a row a minute of each program, and their sums of 14 days."""

PAGES: Final = (
    MenuPage("/", show_overview, "/", "Overview", requests=COUNTING, rows=RECORDED),
    MenuPage("/data", show_classes, "/data", "Data"),
    MenuPage("/data/{name}", show_list, "/data"),
    MenuPage("/entity/{name}", show_entity, "/data"),
    MenuPage("/find/{name}", find_by_field, "/data"),
    MenuPage("/changed/{name}", show_changed, "/data"),
    MenuPage("/graph", show_graph, "/graph", "Graph", rows=RECORDED),
    MenuPage("/costs", show_costs, "/costs", "Costs"),
    MenuPage("/verify", show_verify, "/verify", "Verify", 1),
    MenuPage("/tasks", show_tasks, "/tasks", "Tasks", 1, COUNTING),
    MenuPage("/schema", show_schema, "/schema", "Schema", 1, COUNTING),
    MenuPage("/counters", show_counters, "/counters", "Counters", 1, COUNTING),
    MenuPage("/counter", show_counter, "/counters"),
    MenuPage("/cache-counter", show_cache_counter, "/counters"),
    MenuPage("/feeds", show_feeds, "/feeds", "Feeds", 1, COUNTING),
    MenuPage("/feeds/{name}", show_member, "/feeds", requests=LOOKED, rows=RECORDED),
    MenuPage("/launches", show_launches, "/launches", "Launches", 2),
    MenuPage("/launches/{name}", show_launch, "/launches"),
    MenuPage("/moves", show_moves, "/moves", "Moves", 2),
    MenuPage("/heat", show_heat, "/heat", "Heat", 2, rows=RECORDED),
    MenuPage("/slow", show_slow_calls, "/slow", "Slow calls", 2, rows=RECORDED),
    MenuPage("/erasures", show_erasures, "/erasures", "Erasures", 2),
    MenuPage("/log", show_log, "/log", "Log", 2),
)
SHOWN_PAGES: Final = tuple(each for each in PAGES if each.label)
"""Those of the menu."""
