"""A private Redis really starts, obeys its settings, and leaves nothing behind."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from tools.servers import processes
from tools.servers import redis as servers


def test_a_server_starts_takes_settings_and_is_gone_afterwards():
    with servers.redis_server({"appendonly": "yes", "appendfsync": "always"}) as url:
        with redis.Redis.from_url(url) as client:
            assert client.config_get("appendfsync") == {"appendfsync": "always"}
            assert client.config_get("save") == {"save": ""}
            assert client.incrby("seen", 7) == 7
        folder = Path(urlsplit(url).path).parent
        assert list((folder / "appendonlydir").iterdir())
    assert not folder.exists()
    with redis.Redis.from_url(url) as client, pytest.raises(redis.ConnectionError):
        client.ping()


def test_a_server_that_does_not_start_says_why():
    with (
        pytest.raises(RuntimeError, match="no-such-setting"),
        servers.redis_server({"no-such-setting": "1"}),
    ):
        pytest.fail("a wrong setting was accepted")


def test_a_server_that_is_never_ready_is_ended(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "START_SECONDS", 0.05)
    with (
        pytest.raises(RuntimeError, match="sleep did not start"),
        processes.running(["sleep", "60"], tmp_path, lambda: False),
    ):
        pytest.fail("it is not ready")


def test_a_server_that_does_not_end_is_killed(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "STOP_SECONDS", 0.05)
    ready = tmp_path / "ready"
    deaf = ["sh", "-c", f"trap '' TERM; touch {ready}; while true; do sleep 0.01; done"]
    with processes.running(deaf, tmp_path, ready.exists) as process:
        assert process.poll() is None
    assert process.returncode == -9


def test_without_a_server_the_error_says_how_to_install_one(monkeypatch):
    monkeypatch.setattr(servers, "PROGRAM", "no-such-server")
    with pytest.raises(FileNotFoundError, match="apt-get install"), servers.redis_server():
        pytest.fail("a server was found where none is")


def test_installing_does_nothing_where_a_server_is(monkeypatch):
    monkeypatch.setattr(servers, "INSTALL", "false")
    assert servers.install() == 0


def test_without_the_rights_to_install_the_command_is_shown(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(servers, "PROGRAM", "no-such-server")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert servers.install() == 1
    assert servers.INSTALL in capsys.readouterr().err
