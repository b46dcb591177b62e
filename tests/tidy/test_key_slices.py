"""Only store/keys.py knows how many bytes the parts of a row's key have."""

import ast

import pytest

from tests.tidy import tree

KEYS = "src/oneread/store/keys.py"
WIDTHS = {2, 4}
DOCUMENTS = {"doc", "docs[0]", "data", "value", "body", "version_info", "term", "argv"}
"""A document begins with its layout's number, which is no part of a key."""


def slices(source):
    """The slices of something else than a document at the width of a part of a key."""
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree.parsed(source))
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)
        if WIDTHS & {each.value for each in (node.slice.lower, node.slice.upper) if isinstance(each, ast.Constant)}
        if ast.unparse(node.value).rpartition(".")[2] not in DOCUMENTS
    ]


@pytest.mark.parametrize("source", ["key[:2]", "self.at.place[2:]", "prefix[:4]", "key[2:4]", "row.key[4:end]"])
def test_a_key_cut_by_hand_is_found(source):
    assert slices(source)


@pytest.mark.parametrize("source", ["doc[:2]", "row[BODY].value[:2]", "names[:3]", "key[at:]", "key[2]"])
def test_other_slices_are_accepted(source):
    assert not slices(source)


def test_keys_are_cut_in_one_module():
    found = [
        f"{path}:{each}"
        for path in tree.python_files("src")
        if path.as_posix() != KEYS
        for each in slices((tree.ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)
