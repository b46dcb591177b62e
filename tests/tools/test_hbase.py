"""What a private HBase needs is said where it is missing; that one starts, is killed and paused, other tests show."""

import signal
import socket
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

from tests.failures.stores import until
from tools.servers import hbase as servers
from tools.servers import processes


@pytest.fixture
def nothing_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(servers, "JAVA", "no-such-java")
    monkeypatch.setattr(servers, "MAVEN", "no-such-maven")


@pytest.mark.usefixtures("nothing_installed")
def test_without_java_the_error_says_how_to_install_it():
    with pytest.raises(FileNotFoundError, match=r"apt-get install .*openjdk"), servers.hbase_server():
        pytest.fail("Java was found where none is")


def test_without_the_libraries_the_error_says_how_to_fetch_them(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with (
        pytest.raises(FileNotFoundError, match=r"python -m tools\.servers\.hbase install"),
        servers.shared_hbase("none"),
    ):
        pytest.fail("libraries were found where none are")


@pytest.mark.usefixtures("nothing_installed")
def test_without_the_rights_to_install_the_command_is_shown(capsys):
    assert servers.install() == 1
    assert servers.INSTALL in capsys.readouterr().err


@pytest.mark.usefixtures("hbase")
def test_installing_does_nothing_where_everything_is(monkeypatch):
    monkeypatch.setattr(servers, "MAVEN", "true")
    monkeypatch.setattr(servers, "INSTALL", "false")
    assert servers.install() == 0


@pytest.mark.usefixtures("nothing_installed")
def test_nothing_is_installed_where_tests_do_without_it(monkeypatch, capsys):
    monkeypatch.setenv("ONEREAD_WITHOUT", "bigtable, hbase")
    assert servers.install() == 0
    assert capsys.readouterr().err == ""


def test_maven_copies_exactly_what_is_listed():
    project = ET.fromstring(servers.pom())
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    dependencies = project.findall("m:dependencies/m:dependency", space)
    assert all(each.find("m:exclusions/m:exclusion/m:artifactId", space).text == "*" for each in dependencies)
    listed = [line for line in servers.ARTIFACTS.read_text().splitlines() if not line.startswith("#")]
    parts = ("m:groupId", "m:artifactId", "m:version")
    assert [":".join(each.findtext(part, "", space) for part in parts) for each in dependencies] == listed


def test_a_failing_maven_leaves_nothing_behind(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(servers, "MAVEN", "false")
    assert servers.install() == 1
    assert not list((tmp_path / "oneread").iterdir())


@pytest.mark.usefixtures("hbase")
def test_a_server_that_does_not_start_says_why(tmp_path):
    server = servers.JavaServer(tmp_path / "server", "no.such.Program", (), "64m")
    with pytest.raises(RuntimeError, match=r"no\.such\.Program did not start:(?s:.*)ClassNotFoundException"):
        server.launch(lambda: False, 60)


def test_a_paused_server_accepts_and_answers_nothing_until_it_resumes(tmp_path):
    program = "import socket\ns = socket.create_server(('127.0.0.1', {}))\nwhile 1: s.accept()[0].sendall(b'!')"
    port = processes.free_port()
    server = servers.JavaServer(tmp_path / "server", "Program", (), "64m")
    server._process = subprocess.Popen([sys.executable, "-c", program.format(port)])
    try:
        until(lambda: accepts(port))
        server.pause()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)
            server.resume()
            connection.setblocking(True)
            assert connection.recv(1) == b"!"
    finally:
        server.kill()
        server.kill()


def accepts(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_another_verb_shows_which_there_are(capsys, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert servers._main(["walk"]) == 2
    assert "install" in capsys.readouterr().err


class Java:
    """A program of this name that says a version."""

    def __init__(self, path, version):
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
        path.chmod(0o755)
        self.path = path


@pytest.mark.parametrize(("version", "fits"), [("1.8.0_402", False), ("11.0.2", True), ("23", True), ("25.0.1", False)])
def test_java_of_another_version_is_not_taken(monkeypatch, tmp_path, version, fits):
    java = Java(tmp_path / "bin" / "java", version)
    monkeypatch.setattr(servers, "JAVA_FOLDER", tmp_path / "jvm")
    monkeypatch.setattr(processes, "find_program", lambda _name: java.path)
    assert servers._find_java() == (java.path if fits else None)
    preferred = Java(tmp_path / "jvm" / "java-17-openjdk" / "bin" / "java", "17.0.1")
    assert servers._find_java() == preferred.path


def test_maven_is_not_needed_where_the_libraries_are(monkeypatch, tmp_path):
    monkeypatch.setattr(servers, "library", lambda: tmp_path)
    monkeypatch.setattr(servers, "_find_java", lambda: tmp_path)
    monkeypatch.setattr(servers, "MAVEN", "no-such-maven")
    monkeypatch.setattr(servers, "INSTALL", "false")
    assert servers.install() == 0


def test_another_program_on_the_port_is_not_taken_for_the_server(hbase, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        taken = foreign.getsockname()[1]
        ports = iter([taken])
        monkeypatch.setattr(servers, "ANSWER_SECONDS", 5.0)
        monkeypatch.setattr(servers, "free_port", lambda: next(ports, None) or processes.free_port())
        with servers.thrift_server(hbase.zookeeper, framed=True) as thrift:
            assert thrift.port != taken
