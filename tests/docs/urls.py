"""The kinds of store that documented code runs on, and the code with the URLs of one of them. Nothing else changes."""

import re
from uuid import uuid4

KINDS = ("memory", "lmdb", "row")
"""In memory, on disk, and in memory one row at a time, as HBase and Bigtable are."""

URL = re.compile(r"(?<![=\w])(?<!cache=\")(?P<scheme>memory|lmdb)://(?:\./)?(?P<name>[\w-]*)(?=[\"\s`])")
"""A store as a page writes it: without options, which would make it a store of one kind only."""


def opens_a_store(text):
    return URL.search(text) is not None


def with_urls(text, kind):
    """The text with each of its stores of that kind. Stores on disk are in the current folder."""
    run = uuid4().hex  # a store in memory stays as long as the process

    def url(found):
        name = found["name"]
        if found["scheme"] == "memory":
            name = name and f"memory-{name}"
        if kind == "lmdb":
            return f"lmdb://./{name or uuid4().hex}"
        return f"memory://{name and run + name}{'?span=row' if kind == 'row' else ''}"

    return URL.sub(url, text)
