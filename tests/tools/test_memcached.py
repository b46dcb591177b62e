"""A private memcached really starts, is killed, paused and started again, and leaves nothing behind."""

import socket
import time

import pytest

from tools.servers import memcached


def ask(server, command, timeout=5.0):
    with socket.create_connection(("127.0.0.1", server.port), timeout) as connection:
        connection.sendall(command + b"\r\n")
        return connection.recv(1000)


def test_a_server_starts_and_is_gone_afterwards():
    with memcached.memcached_server() as server:
        assert ask(server, b"set a 0 0 1\r\n7") == b"STORED\r\n"
        assert ask(server, b"incr a 1") == b"8\r\n"
        assert server.url == f"memcached://127.0.0.1:{server.port}"
    with pytest.raises(ConnectionRefusedError):
        ask(server, b"version")


def test_a_restarted_server_has_the_same_port_and_nothing_in_it():
    with memcached.memcached_server() as server:
        ask(server, b"set a 0 0 1\r\n7")
        server.restart()
        assert ask(server, b"get a") == b"END\r\n"
        server.kill()
        server.kill()
        with pytest.raises(ConnectionRefusedError):
            ask(server, b"version")
        server.start()
        assert ask(server, b"version").startswith(b"VERSION 1.6")


def test_a_paused_server_answers_when_it_is_resumed():
    with memcached.memcached_server() as server:
        server.pause()
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            ask(server, b"version", timeout=0.2)
        assert time.monotonic() - began >= 0.2
        server.resume()
        assert ask(server, b"version").startswith(b"VERSION ")


def test_a_server_that_is_paused_is_ended_all_the_same():
    with memcached.memcached_server() as server:
        server.pause()
    with pytest.raises(ConnectionRefusedError):
        ask(server, b"version")


def test_a_server_that_does_not_start_says_why():
    with pytest.raises(RuntimeError, match="no-such-option"), memcached.memcached_server("--no-such-option"):
        pytest.fail("a wrong option was accepted")


def test_without_a_server_the_error_says_how_to_install_one(monkeypatch):
    monkeypatch.setattr(memcached, "PROGRAM", "no-such-server")
    with pytest.raises(FileNotFoundError, match="apt-get install"), memcached.memcached_server():
        pytest.fail("a server was found where none is")


def test_installing_does_nothing_where_a_server_is(monkeypatch):
    monkeypatch.setattr(memcached, "INSTALL", "false")
    assert memcached.install() == 0


def test_without_the_rights_to_install_the_command_is_shown(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(memcached, "PROGRAM", "no-such-server")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert memcached.install() == 1
    assert memcached.INSTALL in capsys.readouterr().err
