"""What is known about goals that are not reached: by benchmark, said where a row is short."""

from collections.abc import Mapping
from typing import Final

REMARKS: Final[Mapping[str, str]] = {
    "P1b": (
        "PostgreSQL runs on the same machine and answers through its socket with everything in memory, the best\n"
        "that can happen to it. The row of the floor says how far from it anything on LMDB and Python can be."
    ),
    "P2": (
        "Ours answers rows of the declared class: each is decoded with its references, and is ready to be followed,\n"
        "shown as JSON or continued from. SQLite and PostgreSQL answer tuples."
    ),
    "P3": (
        "One statement that does the whole work is what an expert writes; PostgreSQL then runs it in its own process,\n"
        "beside ours. The row of three statements is what applications send as a rule. SQLite runs its statements in\n"
        "this process, in C, and knows nothing but these statements; ours finds out what follows from a save.\n"
        "One INSERT into joined tables writes no copy and no sum: the rows of P1b and P2 say what reads pay for that,\n"
        "and each read counts again."
    ),
    "P3b": (
        "Both LMDB sides sync data and meta page before a save returns, as PostgreSQL does its log (decision page\n"
        "0027). Reports of runs before that page compare LMDB without the sync of the meta page, on both sides.\n\n"
        "LMDB has one writer at a time, and its sync happens while that one writes: eight processes queue up for the\n"
        "disk, where PostgreSQL puts commits of many connections into one write of its log. SQLite has one writer at\n"
        "a time as well. Threads of one process share commits, processes cannot."
    ),
    "P4": (
        "SQLite and the floor are given the values to copy by the loader, and PostgreSQL joins them in SQL once a\n"
        "batch; ours reads the sources from the store, and checks, copies and adds up as a save would."
    ),
    "P5": (
        "An increment by hand reads and puts eight bytes in its caller's thread. An add that is not synced is one\n"
        "native call, too, where compiled code takes part (decision page 0168): it takes the turn among processes,\n"
        "looks whether the store's files are the opened ones and whether the schema still allows it, and has a row\n"
        "more. Without compiled code an add is a transaction of the writer's thread, decided in Python. What is\n"
        "counted that often is for a batch, which commits once.\n\n"
        "Batched adds are limited by the processor alone, so other programs that run meanwhile take their share;\n"
        "the row of a second of the processor does not know them. Durable adds wait for the disk most of the\n"
        "time; what others sync meanwhile is most of their spread."
    ),
    "P6": (
        "Joined tables have a name once, so their rename is one row however many show it. With ten holders most of\n"
        "the time is the commit's own."
    ),
    "P7": (
        "An entry takes 60,000 instructions, the kernel's included; by hand it takes 7,000. Two fifths of the time\n"
        "are LMDB's: each entry is looked up before it is written, since another group may show the same post, and\n"
        "its page is copied. The rest is Python's: a row of a member is taken apart and joined with the post, and a\n"
        "row of two cells is encoded. A post takes 830,000 before its first entry: the writer's thread, the checks of\n"
        "the store's files and the plan, as P5 says. So a group of 10 cannot reach the goal one post at a time; in\n"
        "bulk many posts share a commit.\n\n"
        "A page of 20 takes 333,000 instructions, by hand 111,000; two fifths of its time do not depend on its rows."
    ),
    "P13": (
        "A root row holds the record of what was derived from it, which verify, repair and changed declarations need,\n"
        "and views keep a row for each entry where SQLite and PostgreSQL keep an index entry. New rows are put in\n"
        "front of their group, so pages stay half empty until `oneread backup --compact` fills them."
    ),
}
