"""The program as a whole: its list of commands, its help, and what it imports."""

import os
import subprocess
import sys

import pytest

from oneread.cli.program import COMMANDS

HEAVY = ("rich", "lmdb", "sqlite3", "asyncio", "IPython", "code")


def python(code):
    """Runs code in a process of its own, without what coverage would import there."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)


def test_help_lists_every_command_under_its_heading(bare):
    ran = bare("--help")
    assert ran.code == 0
    for name, entry in COMMANDS.items():
        assert f"  {name} " in ran.out
        assert entry.line in " ".join(ran.out.split())
    sections = list(dict.fromkeys(entry.section for entry in COMMANDS.values()))
    assert [line[:-1] for line in ran.out.splitlines() if line[:-1] in sections] == sections


def test_help_imports_no_command_no_engine_and_no_rich():
    ran = python(
        "import sys\n"
        "from oneread.cli import main\n"
        "sys.argv = ['oneread', '--help']\n"
        "try: main()\n"
        f"finally: print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.strip() == "[]"
    assert "Usage: oneread" in ran.stdout


def test_listing_the_commands_imports_none_of_them():
    targets = sorted(f"oneread.cli.{name}" for name in COMMANDS)
    ran = python(
        "import sys\n"
        "from oneread.cli import main\n"
        "sys.argv = ['oneread', '--help']\n"
        "try: main()\n"
        f"finally: print([name for name in {targets!r} if name in sys.modules], file=sys.stderr)\n"
    )
    assert ran.stderr.strip() == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(bare, name):
    ran = bare(name, "--help")
    assert ran.code == 0
    assert f"Usage: oneread {name}" in ran.out
    assert f"oneread {name} " in ran.out.split("Usage:")[1].partition("\n")[2], "no example"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_of_a_command_fits_a_narrow_terminal(name):
    assert len(COMMANDS[name].line) < 60


def test_of_a_mistyped_command_the_nearest_one_is_suggested(bare):
    ran = bare("verfy")
    assert (ran.code, ran.out) == (2, "")
    assert "Did you mean 'verify'?" in ran.err


def test_an_option_that_is_not_there_is_wrong_use(bare):
    ran = bare("get", "--no-such-option")
    assert ran.code == 2
    assert "--no-such-option" in ran.err


def test_no_command_shows_the_help(bare):
    ran = bare()
    assert ran.code == 2
    assert "Usage: oneread" in ran.out + ran.err


def test_the_release_is_shown(bare):
    ran = bare("--version")
    assert ran.code == 0
    assert ran.out.startswith("oneread ")


@pytest.mark.parametrize("missing", [("typer",), ("rich",), ("typer", "rich")])
def test_without_its_extra_the_program_says_what_to_install(missing):
    ran = python(
        f"import sys\nfor name in {missing!r}: sys.modules[name] = None\nfrom oneread.cli import main\nmain()\n"
    )
    assert ran.returncode == 2
    assert ran.stderr.splitlines() == [
        f"error: the command line needs {' and '.join(missing)}",
        "hint: install the library with its command line: pip install 'oneread[cli]'",
    ]


def test_the_module_is_the_program():
    ran = subprocess.run([sys.executable, "-m", "oneread", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("oneread ")


PERSON = {"number", "name", "email"}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["oneread", "pa"], {"page"}),
        (
            ["oneread", "page", "--schema", "tests.cli.notes:NOTES", "Notes"],
            {"NotesOfAuthor", "NotesOfTopic", "NotesByBody"},
        ),
        (["oneread", "page", "--schema", "tests.cli.notes:NONE", "Notes"], set()),
        (["oneread", "page", "Notes"], set()),
        (["oneread", "page", "--back"], {"--backward"}),
        (["oneread", "explain", "p"], {"page", "patch"}),
        (["oneread", "explain", "--schema", "tests.cli.notes:NOTES", "get", "Pers"], {"Person", "PersonByEmail"}),
        (["oneread", "explain", "--schema", "tests.cli.notes:NOTES", "patch", "Person", "--field", ""], PERSON),
        (["oneread", "explain", "--schema", "tests.cli.notes:NOTES", "patch", "Person", "--field", "em"], {"email"}),
        (["oneread", "explain", "--schema", "tests.cli.notes:NONE", "patch", "Person", "--field", ""], set()),
    ],
)
def test_a_shell_completes_commands_options_and_names(bare, words, found):
    ran = bare(
        env={
            "_ONEREAD_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
    )
    assert set(ran.out.split()) == found


def test_names_are_completed_from_the_environments_schema(bare):
    ran = bare(
        env={
            "ONEREAD_SCHEMA": "tests.cli.notes:NOTES",
            "_ONEREAD_COMPLETE": "complete_bash",
            "COMP_WORDS": "oneread get Per",
            "COMP_CWORD": "2",
        }
    )
    assert set(ran.out.split()) == {"Person", "PersonByEmail"}


def test_the_completion_of_a_shell_can_be_shown(bare, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")  # no shell need be above this process
    ran = bare("--show-completion", "bash")
    assert ran.code == 0
    assert "_ONEREAD_COMPLETE=complete_bash" in ran.out
