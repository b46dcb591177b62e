"""Words of a key around `@none`: once for a reference, however many parts its key has."""

import pytest

from oneread.database.typed_keys import WantedType, rest_of_key, values, whole_key
from oneread.errors import InvalidKey

KEY = [
    WantedType("about.order", str, optional=True),
    WantedType("about.line", int, optional=True, further=True),
    WantedType("stars", int),
]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["@none", "5"], (None, 5)),
        (["@none", "@none", "5"], (None, None, 5)),
        (["o", "1", "5"], ("o", 1, 5)),
    ],
)
def test_a_whole_key(words, found):
    assert whole_key(object, KEY, words) == values(object, KEY, words) == found
    assert not rest_of_key(object, KEY, words)


@pytest.mark.parametrize(("words", "next_part"), [(["@none"], "stars"), (["o"], "about.line"), (["o", "1"], "stars")])
def test_the_part_behind_those_that_are_given(words, next_part):
    assert rest_of_key(object, KEY, words)[0].name == next_part
    with pytest.raises(InvalidKey, match="too few values"):
        whole_key(object, KEY, words)


@pytest.mark.parametrize("words", [["@none", "5", "6"], ["o", "1", "5", "6"]])
def test_too_many_words_are_refused(words):
    with pytest.raises(InvalidKey, match="too many values"):
        values(object, KEY, words)
