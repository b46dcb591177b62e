"""A private PostgreSQL: the peer that benchmarks measure against.

`with postgres_server() as dsn:` starts one in a temporary folder and takes it away again.
`python -m tools.servers.postgres install` installs Debian's package where no server is found.
"""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools import debian
from tools.servers import processes

DEBIAN = Path("/usr/lib/postgresql")  # Debian keeps the servers of all versions here, off PATH
PROGRAMS = ("initdb", "pg_ctl", "postgres")
INSTALL = debian.command("postgresql")
NO_SETTINGS: Mapping[str, str] = {}


def find_programs() -> Path | None:
    """The folder of the newest server's programs, or None where there is none."""
    versions = sorted(
        (folder for folder in DEBIAN.glob("*/bin") if folder.parent.name.isdigit()),
        key=lambda folder: -int(folder.parent.name),
    )
    on_path = shutil.which("pg_ctl")
    candidates = [*versions, *([Path(on_path).resolve().parent] if on_path else [])]
    return next((folder for folder in candidates if all((folder / name).is_file() for name in PROGRAMS)), None)


@contextmanager
def postgres_server(settings: Mapping[str, str] = NO_SETTINGS) -> Generator[str]:
    """Start an empty server and yield its DSN, a `postgresql://` URI; stop it and delete its data afterwards.

    The DSN goes through the server's socket, the fastest way to it; the server also listens on a free port of the
    loopback address. Authentication is `trust`: no other user may enter the folder, and it holds generated data.

    Args:
        settings: what to set as in postgresql.conf, for example `{"synchronous_commit": "off"}`.

    Raises:
        FileNotFoundError: no server is installed; the message says what installs one.
    """
    programs = find_programs()
    if programs is None:
        raise FileNotFoundError(f"no PostgreSQL server found; as root: {INSTALL}")
    with processes.temporary_folder("postgres") as folder:
        data, port = folder / "data", processes.free_port()
        account = _account()
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
        control = [str(programs / "pg_ctl"), f"--pgdata={data}", "--wait", "--silent"]
        try:
            initdb = [str(programs / "initdb"), f"--pgdata={data}", "--username=postgres", "--auth=trust"]
            _run([*initdb, "--encoding=UTF8", "--locale=C", "--no-sync"], folder, account)
            with (data / "postgresql.conf").open("a") as file:
                file.writelines(f"{key} = '{value}'\n" for key, value in _configuration(folder, port, settings))
            _run([*control, f"--log={folder / 'log'}", "start"], folder, account)
            yield f"postgresql:///postgres?host={folder}&port={port}&user=postgres"
        finally:
            if (data / "postmaster.pid").exists():
                _run([*control, "--mode=immediate", "stop"], folder, account)


def _configuration(folder: Path, port: int, settings: Mapping[str, str]) -> list[tuple[str, str]]:
    own = {"listen_addresses": processes.ADDRESS, "port": str(port), "unix_socket_directories": str(folder)}
    return [*own.items(), *settings.items()]


def _account() -> pwd.struct_passwd | None:
    """Whom to run as, when we are root: PostgreSQL refuses to."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return pwd.getpwnam("postgres" if "postgres" in names else "nobody")


def _run(command: Sequence[str], folder: Path, account: pwd.struct_passwd | None) -> None:
    """Run a server program in `folder`; what it says is kept in a file, because the server inherits the stream."""
    output = folder / "output"
    with output.open("w") as stream:
        done = subprocess.run(
            command,
            check=False,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            user=None if account is None else account.pw_uid,
            group=None if account is None else account.pw_gid,
            extra_groups=None if account is None else [],
        )
    if done.returncode:
        log = folder / "log"
        said = output.read_text() + (log.read_text() if log.exists() else "")
        raise RuntimeError(f"{Path(command[0]).name} failed:\n{said}")


def install() -> int:
    """Make sure that a server is installed: nothing when it is, Debian's package when we are root, else say how."""
    if find_programs():
        return 0
    return debian.install(INSTALL, "PostgreSQL is missing, which benchmarks compare with")


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit("usage: python -m tools.servers.postgres install")
    sys.exit(install())
