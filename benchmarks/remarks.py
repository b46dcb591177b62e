"""What is known about goals that are not reached: by benchmark, said where a row is short, and beyond pure Python."""

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
        "this process, in C, and knows nothing but these statements; ours decides in Python what follows from a save.\n"
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
        "An increment by hand reads and puts eight bytes in its caller's thread: 23,000 instructions, the\n"
        "kernel's included. An add that is not synced takes 320,000. Handing it to the writer's thread and back\n"
        "takes 75,000 of them, three times the whole increment: no add with a commit of its own can reach the\n"
        "goal while commits run in that thread, which makes them safe from interrupts (decision page 0028). What\n"
        "checks that no file of the store was replaced or overwritten takes 38,000, the transaction with its rows\n"
        "57,000, and 150,000 are Python's: the plan, its requests, their counts, the decision. What is counted\n"
        "that often is for a batch, which commits once.\n\n"
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

BEYOND_PURE_PYTHON: Final = """\
## Where pure Python ends

A prototype in C shows what an optional accelerator would add. It is not part of oneread. Four functions do what Python
does otherwise, and leave to Python whatever is unusual: *settle* gives decoded rows their classes, *window* cuts the
rows of a range and joins their values for one decode, *rows* makes bytes of rows and rows of bytes, *emit* computes
what a purchase adds to its views, by a program written by hand. Instructions for one call, with 20,000 lines of
online-retail on tmpfs (callgrind, without the kernel's; 2026-11-23, commit 7cb35e4a, an Intel Xeon with 2 cores):

| | pure | only settle | only window | only rows | these three | and emit | floor |
|---|---:|---:|---:|---:|---:|---:|---:|
| get | 34,100 | 31,400 | | | 31,400 | | 15,300 |
| page of 10 | 214,000 | 168,000 | 180,000 | | 132,000 | | 65,000 |
| page of 20 of a feed | 314,000 | 292,000 | 179,000 | | 156,000 | | 113,000 |
| product page of P9, without its server | 414,000 | | 380,000 | | 380,000 | | |
| save | 894,000 | | | 759,000 | 762,000 | 724,000 | 159,000 |
| load, a line | 477,000 | | | 419,000 | 415,000 | 386,000 | 82,000 |

Where a function makes no difference, its column is empty; numbers of a save vary by 3 % between runs. Time in the
processor with all four, as a share of pure Python's, the median of 9 interleaved rounds on a busy machine: get 0.93,
page 0.63, page of a feed 0.48, product page 0.84, save 0.75, load 0.81.

A store that pure Python wrote - load, saves, patches, deletes, renames - and one that C wrote had the same 128,313
rows, byte for byte. 1,677 pages, 2,408 product pages as JSON, 20,000 purchases, 3,000 pages of feeds and 20,200
emissions were the same as well.

- **What it would add**: a page takes 2.0 times the floor's instructions instead of 3.3, a page of a feed 1.4 times
  instead of 2.8. A get and a product page gain little: these functions are a small part of them. So they are of a
  save, which stays at 4.5 times the floor: most of its time decides, in Python, what follows from it.
- **What it would cost**: 480 lines of C (settle 70, window 80, rows 165, emit 160), where a mistake is a crash or wrong
  bytes instead of an exception. Settle and rows depend on how Python lays out objects, which its stable ABI leaves out,
  so each version of Python needs a wheel of its own on each platform. Python must do the same wherever there is no
  wheel, so each function exists twice, and tests have to show that both answer alike.
- **Why not now**: the stored forms may change before 1.0, and each change would be made twice. What a save lacks is not
  in these functions. Settle and window are worth it first: 150 lines that write nothing.
"""
