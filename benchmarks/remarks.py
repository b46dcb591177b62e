"""What is known about a goal that is not reached, by benchmark; the report says it where the row is short."""

from collections.abc import Mapping
from typing import Final

REMARKS: Final[Mapping[str, str]] = {
    "P1b": (
        "PostgreSQL runs on the same machine and answers through its socket with everything in memory, the best\n"
        "that can happen to it. The row of the floor says how far from it anything on LMDB and Python can be."
    ),
    "P3": (
        "One statement that does the whole work is what an expert writes; PostgreSQL then runs it in its own process,\n"
        "beside ours. The row of three statements is what applications send as a rule."
    ),
    "P3b": (
        "Both LMDB sides sync data and meta page before a save returns, as PostgreSQL does its log (decision page\n"
        "0027). Reports of runs before that page compare LMDB without the sync of the meta page, on both sides.\n\n"
        "LMDB has one writer at a time, and its sync happens while that one writes: eight processes queue up for the\n"
        "disk, where PostgreSQL puts commits of many connections into one write of its log. Threads of one process\n"
        "share commits, processes cannot. Where many processes must write durably, PostgreSQL is the better choice."
    ),
}
