"""The trial of a launch: real processes, real writers, planted differences."""

import re

import pytest

from examples.community import launching


def test_a_launch_is_tried_out(tmp_path, capsys):
    given = ["--db", f"lmdb://{tmp_path}/store", "--processes", "2", "--seconds", "10", "--plant", "5"]
    code = launching.main(given)
    shown = capsys.readouterr().out
    assert code == 0, shown
    assert re.search(r"answers [\d,]+: 0 of neither side; .* keys that changed side 0\n", shown)
    assert "planted differences 5, listed 5, others 0;" in shown
    assert "; taken back after " in shown
    assert launching.main(given) == 2, "the store is not empty"


@pytest.mark.parametrize("wrong", ["0", "1000", "many"])
def test_a_wrong_number_is_a_mistake(wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        launching.main(["--plant", wrong])
    assert ended.value.code == 2
    assert "--plant" in capsys.readouterr().err
