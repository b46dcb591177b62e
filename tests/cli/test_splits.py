"""`oneread splits`."""

import base64
import json
import re

import msgspec

from oneread import connect
from oneread.cli import splits
from oneread.engines.bigtable import wire
from oneread.engines.hbase import tables as hbase
from oneread.store.splits import splits_from_url
from tests.cli import notes


class Range(msgspec.Struct, forbid_unknown_fields=True):
    start: str
    of: str
    rows: int
    bytes: int
    requests: int


class Table(msgspec.Struct, forbid_unknown_fields=True):
    table: str
    rows: int
    bytes: int
    ranges: list[Range]


class Proposed(msgspec.Struct, forbid_unknown_fields=True):
    by: str
    tables: list[Table]
    url: str


def test_every_form_has_the_same_keys(oneread):
    found = oneread("splits", "--parts", "3", "--json").document(Proposed)
    keys = {each.table: [bytes.fromhex(one.start) for one in each.ranges[1:]] for each in found.tables}
    assert [each.table for each in found.tables] == ["roots", "views", "counts", "system"]
    assert keys["roots"]
    assert {name: [*each] for name, each in splits_from_url("splits", found.url).items()} == {
        name: each for name, each in keys.items() if each
    }
    assert oneread("splits", "--parts", "3", "--form", "url").out == f"splits={found.url}\n"
    shell = oneread("splits", "--parts", "3", "--form", "hbase", "--namespace", "shop").out.splitlines()
    for line, (name, each) in zip(shell, keys.items(), strict=True):
        assert line.startswith(f"create 'shop:{name}', {{NAME => 'd', VERSIONS => 1}}, {{NAME => 'm', VERSIONS => 1}}")
        written = re.findall(r"'((?:\\x[0-9A-F]{2})+)'", line)
        assert [bytes.fromhex(key.replace("\\x", "")) for key in written] == each
    requests = [json.loads(line) for line in oneread("splits", "--parts", "3", "--form", "bigtable").out.splitlines()]
    for request, (name, each) in zip(requests, keys.items(), strict=True):
        assert request["tableId"] == name
        assert [base64.b64decode(one["key"]) for one in request["initialSplits"]] == each


def test_people_see_what_each_range_has(oneread):
    ran = oneread("splits", "--parts", "2", "--by", "rows")
    assert ran.out.splitlines()[0].split() == ["table", "from", "key", "of", "rows", "bytes"]
    assert "--form url, hbase or bigtable" in ran.err


def test_families_are_those_that_the_engines_make():
    assert splits.BIGTABLE_FAMILIES == wire.ALL_FAMILIES
    assert {table: tuple(each.encode() for each in found) for table, found in splits.HBASE_FAMILIES.items()} == {
        **hbase.FAMILIES
    }


def test_by_heat_where_programs_have_recorded_some(oneread, url):
    refused = oneread("splits", "--by", "heat")
    assert refused.code == 2
    assert "heat=1.0" in refused.err
    with connect(url, notes.NOTES, workers=0, heat=1.0) as db:
        for number in range(30):
            db.find(notes.Person, number % 3)
    ran = oneread("splits", "--by", "heat", "--parts", "3")
    assert ran.out.splitlines()[0].split()[-1] == "requests"
    asked = [int(line.split()[-1]) for line in ran.out.splitlines() if line.startswith("roots")]
    assert asked == [10, 10, 10]
