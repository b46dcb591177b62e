"""Which features of declarations and verbs a program has, by its text."""

import re
from itertools import combinations

DECLARED = {
    "reference": r"\bRef\[\"?M",
    "list of references": r"list\[Ref",
    "missing_ok": r"missing_ok",
    "on_delete refuse": r'on_delete ?= ?"refuse"',
    "on_delete delete": r'on_delete ?= ?"delete"',
    "on_delete clear": r'on_delete ?= ?"clear"',
    "copy": r"\(Copy\[",
    "copy of its own model": r'\(Copy\["',
    "copy of two hops": r"C\d+\(Copy[^\n]*(\n    [^\n]*)*= within\(",
    "hidden copy": r"within\(M\d+\.f\d+, M\d+\.f\d+\)",
    "path through a copy": r"within\(M\d+\.f\d+, C\d+\.f\d+\)",
    "struct": r"Size",
    "constraint": r"Meta\([gm][ea][x_]?",
    "document of a list or set": r": (set\[str\]|list\[int\])",
    "CREATED": r"= CREATED",
    "UPDATED": r"= UPDATED",
    "child of a root": r"child_of",
    "reference in a key": r"Key\[Ref\[",
    "child that refers by its key": r"child_of = (M\d+)\n(    [^\n]*\n)*    f\d+: Key\[Ref\[\1\]\]",
    "sequence": r"= GENERATED",
    "variant": r"\bM\d+\(M\d+\)",
    "variants_only": r"variants_only",
    "ttl of a model": r"ttl = expires\(\"",
    "ttl of an index": r"\(Index[^\n]*(\n    [^\n]*)*ttl =",
    "ttl of a unique index": r"unique = True\n    ttl =",
    "ttl of an aggregate": r"\(Aggregate[^\n]*(\n    [^\n]*)*ttl =",
    "spread model": r"\(Model[^\n]*(\n    [^\n]*)*spread =",
    "spread index": r"\(Index[^\n]*(\n    [^\n]*)*spread =",
    "index": r"\(Index\[M",
    "ordering": r"= (ascending|descending|newest|oldest)\(",
    "none first or last": r"none=",
    "hashed": r"hashed=True",
    "each": r"by\(each\(",
    "shown": r"= shown\(",
    "shown copy": r": C\d+( \| None)? = shown\(",
    "unique": r"unique = True",
    "where": r"where = ",
    "where of a number": r"where=",
    "watched": r"watched = ",
    "logged": r"logged = ",
    "aggregate": r"\(Aggregate\[",
    "count": r"= count\(",
    "total": r"= total\(",
    "mean": r"= mean\(",
    "least or greatest": r"= (least|greatest)\(",
    "newest values": r"= newest_values\(",
    "bucket": r"= bucket\(",
    "shards": r"shards = ",
    "index of groups": r"\(Index\[G",
    "shown total": r"rollup\(lambda",
    "shown counter": r"rollup\(counter",
    "feed": r"\(Feed\[",
    "feed with marks": r"marks = True",
    "feed with large groups": r"large_group",
    "feed with at_most": r"at_most",
    "feed with expires_after": r"expires_after = timedelta",
    "portable": r"portable=True",
    "inline 0": r"inline=0",
}
"""Each with what only its text has."""

VERBS = (
    "SaveStep", '"create"', '"keep"', "UpsertStep", "PatchStep", "DeleteStep", "SaveAllStep", "TogetherStep",
    "BulkStep", "CountStep", "DeleteCounterStep", "DrainStep", "SweepStep", "TickStep",
)  # fmt: skip


def features_of(program):
    """The features of declarations that a program has."""
    text = f"{program.declared}\n{program.schema_text}"
    return {name for name, pattern in DECLARED.items() if re.search(pattern, text)}


def verbs_of(program):
    """The verbs of its history."""
    return {verb for verb in VERBS for step in program.steps if verb in step}


def pairs(features):
    return combinations(sorted(features), 2)
