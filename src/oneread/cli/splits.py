"""`oneread splits`: proposes where to split the tables of a cluster, from the rows of any store.

See docs/how-to/spread-load.md.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
import typer

from oneread.cli.options import Invocation, PaceOption, with_shared_options
from oneread.cli.output import counted, size
from oneread.cli.passing import reading_all
from oneread.database.splitting import MOST_PARTS, SplitBy, TableSplits, propose_splits
from oneread.store.rows import Table
from oneread.store.splits import splits_as_url

SplitForm: TypeAlias = Literal["table", "url", "hbase", "bigtable"]
"""For people; the value of `splits=` of a URL; commands of HBase's shell; requests of Bigtable's admin API."""

HBASE_FAMILIES: Final[Mapping[Table, tuple[str, ...]]] = {
    "roots": ("d", "m"),
    "views": ("d", "m"),
    "counts": ("d", "m"),
    "system": ("d", "m", "e"),
}
BIGTABLE_FAMILIES: Final = ("d", "m", "o")
"""The families of the tables that both engines make."""

PartsOption = Annotated[
    int, typer.Option("--parts", metavar="N", min=2, max=MOST_PARTS, help="Ranges of each table, about equal.")
]
ByOption = Annotated[SplitBy, typer.Option("--by", help="What the ranges have about equally much of.")]
FormOption = Annotated[
    SplitForm,
    typer.Option("--form", help="For a person, as `splits=` of a URL, for HBase's shell, or for Bigtable's admin API."),
]
NamespaceOption = Annotated[str, typer.Option("--namespace", metavar="NAME", help="In commands for HBase's shell.")]


class ProposedSplits(msgspec.Struct, frozen=True):
    """What `splits --json` prints.

    Arguments:
        by: what the ranges have about equally much of.
        tables: each with its ranges.
        url: the value of the option `splits` of a URL.
    """

    by: SplitBy
    tables: tuple[TableSplits, ...]
    url: str


@with_shared_options
def command(
    given: Invocation,
    *,
    parts: PartsOption = 8,
    by: ByOption = "bytes",
    form: FormOption = "table",
    namespace: NamespaceOption = "default",
    pace: PaceOption = None,
) -> None:
    """Proposes where to split the tables of a cluster, so that each range has about as much of this store.

    Reads every row once, some hundred thousand a second on LMDB; --pace keeps a busy store fast. A model or index that
    is spread and has no rows yet is split between its ranges. --by heat takes the requests that programs recorded in
    the last day, which were opened with heat=1.0, or another share.

    Example: oneread splits --parts 16 --form hbase --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = given.output
    with reading_all(given, "splits") as database, output.progress() as report:
        found = database.run(propose_splits(database.operations.catalog, parts, by, pace, report))
    url = splits_as_url({each.table: each.keys for each in found})
    output.document(ProposedSplits(by, found, url))
    if output.as_json:
        return
    if form == "url":
        output.text(f"splits={url}")
    elif form == "table":
        rows = [
            [each.table, one.start, one.of, one.rows, size(one.bytes), *[one.requests] * (by == "heat")]
            for each in found
            for one in each.ranges
        ]
        output.table(["table", "from key", "of", "rows", "bytes", *["requests"] * (by == "heat")], rows)
        keys = sum(len(each.keys) for each in found)
        output.note(f"{counted(keys, 'split')}; --form url, hbase or bigtable writes them for a cluster")
    else:
        for each in found:
            output.text(_for_hbase(each, namespace) if form == "hbase" else _for_bigtable(each))


def _for_hbase(splits: TableSplits, namespace: str) -> str:
    """A command of HBase's shell, which makes the table; its SPLITS are parsed by Bytes.toBytesBinary."""
    families = ", ".join(f"{{NAME => '{each}', VERSIONS => 1}}" for each in HBASE_FAMILIES[splits.table])
    keys = ", ".join("'" + "".join(f"\\x{byte:02X}" for byte in key) + "'" for key in splits.keys)
    return f"create '{namespace}:{splits.table}', {families}" + (f", SPLITS => [{keys}]" if keys else "")


def _for_bigtable(splits: TableSplits) -> str:
    """The body of a request to projects.instances.tables.create, on one line."""
    families = {each: {"gcRule": {"maxNumVersions": 1}} for each in BIGTABLE_FAMILIES}
    keys = [{"key": base64.b64encode(key).decode()} for key in splits.keys]
    return json.dumps({"tableId": splits.table, "table": {"columnFamilies": families}, "initialSplits": keys})
