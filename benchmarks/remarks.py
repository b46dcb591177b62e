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
    "P5": (
        "An increment by hand reads and puts eight bytes in its caller's thread: 22,000 instructions, of which 5,000 are\n"
        "the kernel's. An add that is not synced costs 325,000. Handing it to the writer's thread and back takes 78,000 of\n"
        "them, 3.5 times the whole increment, so no add with a commit of its own can reach the goal while commits run\n"
        "in that thread, which is what makes them safe from interrupts (decision page 0028). The checks of each commit -\n"
        "the turn among processes, that no file was replaced or overwritten - take 35,000, LMDB and the rows 60,000, the\n"
        "rest is Python: the plan, its requests, and their counts. A batch adds up first and commits once.\n\n"
        "Durable adds wait for the disk for most of their time; what other programs sync meanwhile is most of the spread."
    ),
}
