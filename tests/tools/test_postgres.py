"""A private PostgreSQL really starts, obeys its settings, and leaves nothing behind."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tools.servers import postgres


def test_a_server_starts_takes_settings_and_is_gone_afterwards():
    with postgres.postgres_server({"synchronous_commit": "off"}) as dsn:
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("off",)
            connection.execute("CREATE TABLE seen (number int)")
            connection.execute("INSERT INTO seen VALUES (7)")
            assert connection.execute("SELECT number FROM seen").fetchone() == (7,)
        query = parse_qs(urlsplit(dsn).query)
        folder = Path(query["host"][0])
        loopback = {"host": "127.0.0.1", "port": query["port"][0], "user": "postgres", "dbname": "postgres"}
        with psycopg.connect(**loopback) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    assert not folder.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(**loopback)


def test_a_server_that_does_not_start_says_why():
    with (
        pytest.raises(RuntimeError, match="no_such_setting"),
        postgres.postgres_server({"no_such_setting": "1"}),
    ):
        pytest.fail("a wrong setting was accepted")


def test_without_a_server_the_error_says_how_to_install_one(monkeypatch, tmp_path):
    monkeypatch.setattr(postgres, "DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="apt-get install"), postgres.postgres_server():
        pytest.fail("a server was found where none is")


def test_installing_does_nothing_where_a_server_is(monkeypatch):
    monkeypatch.setattr(postgres, "INSTALL", "false")
    assert postgres.install() == 0


def test_without_the_rights_to_install_the_command_is_shown(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(postgres, "DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert postgres.install() == 1
    assert postgres.INSTALL in capsys.readouterr().err
