"""The community's command line: `load`, `check`, `feed`, `notifications`, `serve`, and pages of the others.

What is wrong with a command is said in a line on stderr, with exit code 2; numbers that differ are exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from examples.commands import Parser, add_load_and_check, add_serve, exit_code, run_verb, verbs_of, whole

STORE = "lmdb://./community-store"
DATA = "generated:7"
VERBS = {"serve": "examples.community.serving"}
"""Where the commands are that are not in `verbs`."""
PACKAGES = "pip install jinja2 rich uvicorn"


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m examples.community", description="Feeds, threads, polls and counters: a page is a read."
    )
    verb = verbs_of(parser, STORE)
    add_load_and_check(verb, "a community and count its logs", "the data sets", DATA)
    thread = verb("thread", "a thread's messages, page by page")
    thread.add_argument("topic", metavar="TOPIC", type=lambda text: whole(text, 10**9), help="the thread's number")
    comments = verb("comments", "the comments of the whole site or of a post, page by page")
    comments.add_argument("--post", type=lambda text: whole(text, 10**9), help="the post's number")
    poll = verb("poll", "what the votes on a post came to")
    poll.add_argument("post", metavar="POST", type=lambda text: whole(text, 10**9), help="the post's number")
    home = verb("feed", "the home page of a member: what their groups have published, newest first")
    noticed = verb("notifications", "the threads in which a member has written, and how many have news")
    for each in (home, noticed):
        each.add_argument("member", metavar="MEMBER", help="the member's key, like nashville:2069 or lean:41")
    counter = verb("counter", "a counter and its last windows")
    counter.add_argument("name", metavar="NAME", help="the counter's name, like ruet:/login.php or higgs:88")
    counter.add_argument("--last", type=lambda text: whole(text, 1_000), default=8, help="windows of each size (8)")
    top = verb("top", "threads, members, polls and paths with the greatest numbers")
    top.add_argument("--stream", help="only the threads of this stream")
    add_serve(verb, "home pages, groups, threads, notifications")
    for each in (thread, comments, top, home, noticed):
        each.add_argument("--limit", type=lambda text: whole(text, 1_000), default=10, help="rows of the page (10)")
    for each in (thread, comments, home, noticed):
        each.add_argument("--cursor", help="continues after an earlier page, which printed it")
        each.add_argument("--backward", action="store_true", help="begins with the last page")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    given = _parser().parse_args(arguments)
    return exit_code(
        f"community {given.verb}", lambda: run_verb(given, VERBS.get(given.verb, "examples.community.verbs"), PACKAGES)
    )


if __name__ == "__main__":
    sys.exit(main())
