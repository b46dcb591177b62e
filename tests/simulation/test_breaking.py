"""Every rule that is broken on purpose still fits what it breaks: applied and taken back, without a history."""

import ast
import importlib
from pathlib import Path

import pytest

from oneread.transactions import intents, journal, pipeline
from tests.simulation.breaking import edit

HERE = Path(__file__).parent
LEAST = 350


def rules():
    """The functions of all modules here that take a `patch` and nothing else, by their names."""
    return [
        (path.stem, each.name)
        for path in sorted(HERE.glob("*.py"))
        for each in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(each, ast.FunctionDef) and [given.arg for given in each.args.args] == ["patch"]
    ]


def test_each_rule_fits_what_it_breaks(monkeypatch):
    misfits = []
    for module, name in rules():
        rule = getattr(importlib.import_module(f"tests.simulation.{module}"), name)
        with monkeypatch.context() as patch:
            try:
                rule(patch)
            except (AssertionError, AttributeError) as error:
                misfits.append(f"{module}.{name}: {error}")
    assert misfits == []
    assert len(rules()) >= LEAST


def test_a_text_that_is_not_there_once_is_named(monkeypatch):
    with pytest.raises(AssertionError, match="swap_root has not exactly one 'no such line'"):
        edit(monkeypatch, journal.Journal, "swap_root", ("no such line", "pass"))
    with pytest.raises(AssertionError, match="swap_root has not exactly one 'commit'"):
        edit(monkeypatch, journal.Journal, "swap_root", ("commit", "pass"))


def test_a_function_is_edited_in_all_modules_that_have_it(monkeypatch):
    before = pipeline.put_marker
    assert intents.put_marker is before
    edit(monkeypatch, intents, "put_marker", ("return ", "return None and "))
    assert intents.put_marker is pipeline.put_marker is not before
    assert pipeline.put_marker(b"key", 1) is None
    monkeypatch.undo()
    assert intents.put_marker is pipeline.put_marker is before
