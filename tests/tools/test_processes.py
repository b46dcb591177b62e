"""Servers end with the process that started them, however it ends; and `make servers` starts them for a person."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.failures.stores import until
from tests.servers import need
from tools.servers import __main__ as together
from tools.servers import processes
from tools.servers.bigtable import bigtable_emulator

ROOT = Path(__file__).parents[2]
STARTER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from tools.servers.memcached import memcached_server
with memcached_server() as server:
    print(server.pid, flush=True)
    time.sleep(600)
"""


def is_there(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_server_ends_when_its_starter_is_killed():
    """memcached changes its user where root starts it, which must not take the signal away."""
    with subprocess.Popen([sys.executable, "-c", STARTER, ROOT], stdout=subprocess.PIPE, cwd=ROOT) as starter:
        server = int(starter.stdout.readline())
        assert is_there(server)
        starter.kill()
    until(lambda: not is_there(server))


def test_a_server_whose_starter_has_ended_already_does_not_begin():
    command = processes.ends_with_this_process(["echo", "begun"])
    command[command.index(str(os.getpid()))] = "1"
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "has ended" in done.stderr


def test_a_program_that_is_not_there_is_named():
    done = subprocess.run(
        processes.ends_with_this_process(["/no/such/program"]), check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "cannot run /no/such/program" in done.stderr


def test_servers_for_a_person_run_until_they_are_interrupted():
    with need("bigtable", bigtable_emulator):
        pass
    command = [sys.executable, "-m", "tools.servers", "bigtable"]
    ignoring = ["setsid", "sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]  # as in the background of a script
    with subprocess.Popen(ignoring, stdout=subprocess.PIPE, cwd=ROOT, text=True) as program:
        said = [program.stdout.readline() for _ in range(4)]
        assert said[0].startswith("BIGTABLE_EMULATOR_HOST=127.0.0.1:")
        assert said[-1] == "running; Ctrl-C ends them\n"
        server = int(said[2].split()[1].rstrip(":"))
        assert is_there(server)
        program.send_signal(signal.SIGINT)
        assert program.wait(30) == 0
    until(lambda: not is_there(server))


def test_a_server_that_is_missing_is_named_with_what_installs_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert together.main(["hbase"]) == 1
    assert "hbase: " in (said := capsys.readouterr().err)
    assert "python -m tools.servers.hbase install" in said


@pytest.mark.parametrize("arguments", [["oracle"], ["hbase", "--region-servers", "0"]])
def test_what_cannot_be_started_is_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        together.main(arguments)
    assert "oracle" in (said := capsys.readouterr().err) or "needs a region server" in said
