"""Takes the pictures of the console that the docs show: `python -m tests.examples.pictures docs/images`.

They are of a store of the community example, made for it, in which one row of an index was deleted behind the library's
back, and that was verified since.
"""

import base64
import sys
import tempfile
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount

from examples.community import counting, loading, source, stores
from examples.community.schema import COMMUNITY, GroupsBySize
from oneread import connect, connect_async
from oneread.console import TokenAccess, console
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import RowMutation, RowRange
from oneread.verify.noted import note_verified
from oneread.web import database, lifespan
from tests.examples.browsing import DESKTOP, chrome, resize, served

TOKEN = "a token of some length"
PICTURES = {
    "console-overview": "/",
    "console-entity": "/entity/Thread?key=1&check=yes",
    "console-patch": "/do/patch?of=Group&key=nashville:1&field=name",
}
HEIGHT = 620


def make(url):
    """A store with a damaged row."""
    with stores.for_loading(url, counting.Clock()) as db:
        loading.load(db, source.read("generated:7:40"), lambda *_: None)
    with connect(url, COMMUNITY, workers=0) as db:
        within = RowRange.under(db.operations.catalog.views[GroupsBySize].prefix)

        def remove():
            ((key, _row),) = yield from Scan("views", within, 1)
            yield from Mutate("views", [RowMutation(key, delete_row=2**62)])

        db.run(remove())
        db.run(note_verified(db.verify(), "ada"))


def take(folder):
    """Writes the pictures to a folder."""
    with tempfile.TemporaryDirectory() as place:
        url = f"lmdb://{place}/community"
        make(url)
        made = console(database, auth=TokenAccess(TOKEN), writes=lambda _user: True, name="community")
        app = Starlette(routes=[Mount("/", made)], lifespan=lifespan(connect_async(url, COMMUNITY, workers=0)))
        with served(app) as base, chrome(f"{place}/profile") as browser:
            resize(browser, DESKTOP)
            browser.get(f"{base}/?token={TOKEN.replace(' ', '+')}")
            for name, path in PICTURES.items():
                browser.get(base + path)
                clip = {"x": 0, "y": 0, "width": DESKTOP[0], "height": HEIGHT, "scale": 1}
                found = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip})
                (folder / f"{name}.png").write_bytes(base64.b64decode(found["data"]))


if __name__ == "__main__":
    take(Path(sys.argv[1]))
