"""A private Bigtable emulator really starts, is killed, paused and started again, and leaves nothing behind."""

import socket
import stat

import pytest
from _pytest.outcomes import Skipped

from tests.servers import need
from tools.servers import bigtable


@pytest.fixture
def emulator():
    with need("bigtable", bigtable.bigtable_emulator) as emulator:
        yield emulator


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_an_emulator_listens_and_is_gone_afterwards():
    with need("bigtable", bigtable.bigtable_emulator) as emulator:
        assert emulator.host == f"127.0.0.1:{emulator.port}"
        assert is_open(emulator.port)
    assert not is_open(emulator.port)


def test_a_restarted_emulator_has_the_same_port(emulator):
    port = emulator.port
    emulator.restart()
    assert emulator.port == port
    assert is_open(port)
    emulator.kill()
    emulator.kill()
    assert not is_open(port)


def test_a_paused_emulator_is_resumed_or_ended(emulator):
    emulator.pause()
    emulator.resume()
    emulator.pause()
    emulator.kill()
    assert not is_open(emulator.port)


def test_an_emulator_that_does_not_start_says_why(tmp_path):
    program = tmp_path / "emulator"
    program.write_text("#!/bin/sh\necho no such thing\nexit 1\n")
    program.chmod(stat.S_IRWXU)
    with pytest.raises(RuntimeError, match="no such thing"):
        bigtable.BigtableEmulator(program).start()


def test_without_an_emulator_the_error_says_how_to_build_one(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="install"), bigtable.bigtable_emulator():
        pytest.fail("an emulator was found where none is")


def test_a_test_that_lacks_its_server_fails_unless_the_environment_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("ONEREAD_WITHOUT", raising=False)
    with pytest.raises(pytest.fail.Exception, match="ONEREAD_WITHOUT=bigtable"):
        need("bigtable", bigtable.bigtable_emulator).__enter__()
    monkeypatch.setenv("ONEREAD_WITHOUT", "hbase, bigtable")
    with pytest.raises(Skipped, match="ONEREAD_WITHOUT"):
        need("bigtable", bigtable.bigtable_emulator).__enter__()


def test_installing_does_nothing_where_an_emulator_is(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bigtable.place().mkdir(parents=True)
    (bigtable.place() / "emulator").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bigtable.install() == 0


def test_without_go_and_pip_installing_says_what_is_missing(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(bigtable.sys, "executable", "/bin/false")
    monkeypatch.delenv("ONEREAD_WITHOUT", raising=False)
    assert bigtable.install() == 1
    said = capsys.readouterr().err
    assert "Go 1.26 or newer" in said
    assert "ONEREAD_WITHOUT=bigtable" in said
    monkeypatch.setenv("ONEREAD_WITHOUT", "hbase,bigtable")
    assert bigtable.install() == 0


def fake_go(tmp_path):
    """A Go that builds what the test finds, and prints where it looks for modules."""
    cases = tmp_path / "modules" / f"{bigtable.MODULE}@{bigtable.VERSION}" / "testdata"
    cases.mkdir(parents=True)
    (cases / bigtable.CASES).write_text("{}")
    program = tmp_path / "go"
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = env ]; then echo {tmp_path}/modules; exit; fi\n'
        'mkdir "$GOBIN"; echo "$GOFLAGS$GOOS$GOARCH" >"$GOBIN/emulator"\n'
    )
    program.chmod(stat.S_IRWXU)
    return str(program)


def test_a_build_that_comes_second_leaves_the_first_one(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("GOFLAGS", "GOOS", "GOARCH"):
        monkeypatch.setenv(name, "other")
    go = fake_go(tmp_path)
    for number in range(2):
        folder = bigtable.place().parent / str(number)
        folder.mkdir(parents=True)
        assert bigtable._build(go, folder) == 0
        assert (bigtable.place() / "emulator").read_text() == "\n"
        assert (folder / "bin").exists() == (number == 1)


def test_the_version_of_go_is_compared_by_numbers(tmp_path):
    program = tmp_path / "go"
    program.write_text("#!/bin/sh\necho go version go1.9.2 linux/amd64\n")
    program.chmod(stat.S_IRWXU)
    assert bigtable._go_version(str(program)) == (1, 9) < bigtable.OLDEST_GO
