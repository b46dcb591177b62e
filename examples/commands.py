"""What the command lines of the examples share: mistakes are said in one line, and each end has an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from examples.shop.mistakes import Mistake
from oneread.errors import OnereadError


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def verbs_of(parser: argparse.ArgumentParser, store: str) -> Callable[[str, str], argparse.ArgumentParser]:
    """What adds a command to a parser, by its name and what it does; each command takes `--db`."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)

    def verb(name: str, does: str) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=does, description=does[:1].upper() + does[1:] + ".")
        made.add_argument("--db", metavar="URL", default=store, help=f"the store ({store})")
        return made

    return verb


def add_load_and_check(
    verb: Callable[[str, str], argparse.ArgumentParser], what: str, folder: str, default: str
) -> argparse.ArgumentParser:
    """Adds the commands `load` and `check`, which take data from a folder or make it up; returns that of `check`."""
    loading = verb("load", f"load {what}; continues where an earlier load ended")
    checking = verb("check", "count every number again without the library, and verify the store")
    for each in (loading, checking):
        each.add_argument(
            "--data", metavar="DATA", default=default,
            help=f"folder of {folder}, or generated:SEED, or generated:SEED:QUESTIONS ({default})",
        )  # fmt: skip
    loading.add_argument(
        "--batch", type=lambda text: whole(text, 10_000), default=1_000, help="entities a commit (1000)"
    )
    return checking


def add_serve(verb: Callable[[str, str], argparse.ArgumentParser], what: str) -> None:
    """Adds the command `serve`, which takes the address to listen at."""
    serving = verb("serve", f"answer over HTTP until it is interrupted: {what}")
    serving.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1)")
    serving.add_argument("--port", type=lambda text: whole(text, 2**16 - 1), default=8000, help="the port (8000)")


def whole(text: str, most: int) -> int:
    """The whole number from 1 on that an argument is."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not 0 < number <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most:,}")
    return number


def run_verb(given: argparse.Namespace, module: str, packages: str) -> int:
    """Runs a command in its module, which is imported only now, because none needs all packages.

    Raises:
        Mistake: a package is missing.
    """
    try:
        verbs = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        raise Mistake(f"this needs more: {packages} ({missing.name} is missing)") from missing
    done: int = getattr(verbs, given.verb)(given)
    return done


def exit_code(command: str, run: Callable[[], int]) -> int:
    """Runs a command; returns its exit code, 2 when it failed. What was wrong is said on stderr."""
    try:
        return run()
    except (Mistake, OnereadError) as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has seen enough: `report | head`
        return 141
    except OSError as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the same `load` continues after its last whole batch", file=sys.stderr)
        return 130
