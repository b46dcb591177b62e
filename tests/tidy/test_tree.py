"""The checks look at the real tree, with and without version control."""

from pathlib import Path

from tests.tidy import tree


def test_the_walk_finds_what_version_control_knows():
    walked = {path.relative_to(tree.ROOT) for path in tree.walk()}
    tooling = {path for path in tree.files() if path.parts[0].startswith(".") and path.parts[0] != ".ci"}
    assert set(tree.files()) - tooling <= walked


def test_the_tree_is_not_empty():
    assert Path("pyproject.toml") in tree.files()
    assert Path("tools/unasync.py") in tree.python_files("tools")


def test_a_file_that_is_not_text_is_none(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    assert tree.text(tmp_path / "bytes") is None
