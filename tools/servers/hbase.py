"""A private HBase 2.6: a standalone server and Thrift2 servers before it, for tests, benchmarks and demonstrations.

`with hbase_server() as server:` starts one that is gone afterwards; `with thrift_server(server.zookeeper) as thrift:`
starts a Thrift2 server before it. Each is a process that can be killed, paused and started again, on the same data.
`python -m tools.servers.hbase install` fetches what they need; `... run` keeps one until it is interrupted.
"""

import hashlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from tools import debian
from tools.servers import processes
from tools.servers.processes import ADDRESS, PrivateServer, free_port
from tools.servers.shared import keep, shared

ARTIFACTS: Final = Path(__file__).with_name("hbase-artifacts.txt")
NAME: Final = "hbase"
JAVA: Final = "java"
JAVA_FOLDER: Final = Path("/usr/lib/jvm")
VERSIONS: Final = range(11, 24)
"""Versions of Java on which HBase 2.6 and its Hadoop run."""

MAVEN: Final = "mvn"
INSTALL: Final = debian.command("openjdk-17-jre-headless", "maven")
READY_SECONDS: Final = 180.0
THRIFT_READY_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 20.0

NO_SETTINGS: Final[Mapping[str, str]] = {}

SMALL_STORES: Final[Mapping[str, str]] = {"hbase.hregion.memstore.mslab.enabled": "false"}
"""HBase gives each family of each region a chunk of 2 MiB of heap at its first cell: 18 MiB for each small store."""

_OPENED: Final = (
    "java.base/java.lang", "java.base/java.lang.reflect", "java.base/java.net", "java.base/java.nio",
    "java.base/java.util", "java.base/java.util.concurrent", "java.base/sun.nio.ch",
)  # fmt: skip
_EXPORTED: Final = ("java.base/jdk.internal.misc", "java.security.jgss/sun.security.krb5")
_OPTIONS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.net.preferIPv4Stack=true",
    *(part for each in _OPENED for part in ("--add-opens", f"{each}=ALL-UNNAMED")),
    *(part for each in _EXPORTED for part in ("--add-exports", f"{each}=ALL-UNNAMED")),
)
_LOGGING: Final = """log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.out
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""
_LISTED: Final = b"\x00\x00\x00\x0elistNamespaces"
_CALL: Final = b"\x80\x01\x00\x01" + _LISTED + bytes(5)
_REPLY: Final = b"\x80\x01\x00\x02" + _LISTED
"""A call of Thrift2 without arguments, and how its answer begins."""

_INITIALIZED: Final = b"Master has completed initialization"


class JavaServer(PrivateServer):
    """One process of Java: what runs, where, and on which settings."""

    def __init__(self, folder: Path, program: str, arguments: tuple[str, ...], memory: str) -> None:
        super().__init__()
        self.folder = folder
        self._program = program
        self._arguments = arguments
        self._memory = memory
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def output(self) -> Path:
        """The file of what it said since it was started last."""
        return self.folder / "output"

    def configure(self, settings: Mapping[str, str]) -> None:
        """Write its configuration."""
        (self.folder / "log4j.properties").write_text(_LOGGING)
        (self.folder / "hbase-site.xml").write_text(_site(settings))

    def launch(self, is_ready: Callable[[], bool], seconds: float) -> None:
        """Start it and return when it is ready.

        Raises:
            RuntimeError: it ended, or was not ready in time; with the end of what it said.
        """
        self.begin()
        self.wait(is_ready, seconds)

    def begin(self) -> None:
        """Start it, and do not wait for it; `wait` does."""
        command = [str(_java()), f"-Xmx{self._memory}", *_OPTIONS, "-cp", f"{self.folder}:{library()}/*"]
        command += [self._program, *self._arguments]
        with self.output.open("wb") as stream:
            self._begin(command, stream, self.folder)

    def wait(self, is_ready: Callable[[], bool], seconds: float) -> None:
        """Return when it is ready, after `begin`. Raises RuntimeError as `launch` does."""
        if not self._wait(is_ready, seconds):
            raise RuntimeError(f"{self._program} did not start:\n{self.said()[-4000:]}")

    def said(self) -> str:
        """What it said since it was started last."""
        return self.output.read_text(errors="replace")


class ThriftServer(JavaServer):
    """A Thrift2 server before an HBase."""

    def __init__(self, folder: Path, settings: Mapping[str, str], *, framed: bool) -> None:
        super().__init__(folder, "org.apache.hadoop.hbase.thrift2.ThriftServer", (), "192m")
        self._framed = framed
        self._settings = settings
        self.choose_ports()

    @property
    def place(self) -> str:
        """Its address, as a URL has it."""
        return f"{ADDRESS}:{self.port}"

    def start(self) -> None:
        """Start it, and return when it answers a call. Raises RuntimeError when it does not start."""
        self.configure(self._settings)
        self.launch(self._answers, THRIFT_READY_SECONDS)

    def choose_ports(self) -> None:
        self.port = free_port()
        options = ("-f",) if self._framed else ()
        self._arguments = (*options, "--bind", ADDRESS, "-p", str(self.port), "start")

    def _answers(self) -> bool:
        """Whether a call is answered: another program may listen on the port."""
        frame = len(_CALL).to_bytes(4, "big") if self._framed else b""
        try:
            with socket.create_connection((ADDRESS, self.port), ANSWER_SECONDS) as probe:
                probe.sendall(frame + _CALL)
                return _REPLY in probe.recv(256)
        except OSError:
            return False


class HbaseServer(JavaServer):
    """A standalone HBase: master, region server and ZooKeeper in one process, on ports of its own."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = NO_SETTINGS) -> None:
        super().__init__(folder / "hbase", "org.apache.hadoop.hbase.master.HMaster", ("start",), "512m")
        self._root = folder
        self._others = settings
        self.choose_ports()

    def start(self) -> None:
        """Start it, and return when it is initialized; on the data that it had, if any.

        Raises:
            RuntimeError: it ended, or did not answer in time; with the end of what it said.
        """
        self.configure(self._settings())
        self.launch(lambda: _INITIALIZED in self.output.read_bytes(), READY_SECONDS)

    @property
    def zookeeper(self) -> int:
        """The port by which a Thrift2 server finds it."""
        return self._zookeeper

    def choose_ports(self) -> None:
        self._zookeeper, self._master, self._region_server = free_port(), free_port(), free_port()

    def _settings(self) -> dict[str, str]:
        return {
            "hbase.cluster.distributed": "false",
            "hbase.unsafe.stream.capability.enforce": "false",
            "hbase.wal.provider": "filesystem",
            "hbase.rootdir": f"file://{self._root}/data",
            "hbase.tmp.dir": str(self._root / "tmp"),
            "hbase.zookeeper.property.dataDir": str(self._root / "zookeeper"),
            "hbase.zookeeper.quorum": ADDRESS,
            "hbase.zookeeper.property.clientPort": str(self._zookeeper),
            "hbase.zookeeper.property.clientPortAddress": ADDRESS,
            "hbase.zookeeper.property.tickTime": "500",
            "hbase.zookeeper.property.maxSessionTimeout": "60000",  # by default 20 ticks, which is less than the next
            "zookeeper.session.timeout": "20000",
            "hbase.master.hostname": "localhost",
            "hbase.master.ipc.address": ADDRESS,
            "hbase.master.port": str(self._master),
            "hbase.master.info.port": "-1",
            "hbase.regionserver.hostname": "localhost",
            "hbase.regionserver.ipc.address": ADDRESS,
            "hbase.regionserver.port": str(self._region_server),
            "hbase.regionserver.info.port": "-1",
            "hbase.regionserver.handler.count": "10",
            "hbase.localcluster.assign.random.ports": "false",
            "hbase.master.wait.on.regionservers.mintostart": "1",
            "hbase.master.wait.on.regionservers.maxtostart": "1",
            "hbase.master.wait.on.regionservers.interval": "200",
            "hbase.master.wait.on.regionservers.timeout": "400",
            "hbase.procedure.store.wal.use.hsync": "false",
            "hbase.thrift.info.port": "-1",
            **SMALL_STORES,
            **self._others,
        }

    @property
    def data(self) -> Path:
        """The folder of all of its files: of tables, of logs, and of both that it does not need any more."""
        return self._root / "data"


@contextmanager
def hbase_server(folder: Path | None = None, settings: Mapping[str, str] = NO_SETTINGS) -> Generator[HbaseServer]:
    """Start a standalone HBase and yield it; end it afterwards.

    Args:
        folder: where its data is, and stays; by default a folder that is deleted.
        settings: what to set besides what tests need.

    Raises:
        FileNotFoundError: Java or the libraries are missing; the message says what installs them.
        RuntimeError: the server did not start; the message has the end of its log.
    """
    check_installed()
    with _kept(folder) if folder else processes.temporary_folder("hbase") as place:
        server = HbaseServer(place, settings)
        try:
            server.start_anywhere()
            yield server
        finally:
            server.kill()


@contextmanager
def thrift_server(
    zookeeper: int, *, framed: bool = False, settings: Mapping[str, str] = NO_SETTINGS
) -> Generator[ThriftServer]:
    """Start a Thrift2 server before the HBase at a port of ZooKeeper, and yield it; end it afterwards.

    Args:
        zookeeper: the port.
        framed: messages have a length in front of them.
        settings: what to set besides what tests need.
    """
    with processes.temporary_folder("thrift") as folder:
        server = ThriftServer(folder, {**client_settings(zookeeper), **settings}, framed=framed)
        try:
            server.start_anywhere()
            yield server
        finally:
            server.kill()


def client_settings(zookeeper: int) -> dict[str, str]:
    """What a client of an HBase, as a Thrift2 server is, has to know, with time-outs fit for tests.

    It repeats nothing: see docs/how-to/run-on-hbase.md.
    """
    return {
        "hbase.zookeeper.quorum": ADDRESS,
        "hbase.zookeeper.property.clientPort": str(zookeeper),
        "hbase.client.retries.number": "0",
        "hbase.client.pause": "50",
        "hbase.rpc.timeout": "5000",
        "hbase.client.operation.timeout": "15000",
        "hbase.client.meta.operation.timeout": "15000",
        "hbase.client.scanner.timeout.period": "15000",
        "hbase.thrift.info.port": "-1",
        "hbase.regionserver.thrift.framed.max_frame_size_in_mb": "64",
    }


@contextmanager
def _kept(folder: Path) -> Generator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    yield folder.resolve()


def library() -> Path:
    """The folder of the libraries: in the user's cache, by what is listed."""
    return processes.cache_folder() / f"hbase-{hashlib.sha256(ARTIFACTS.read_bytes()).hexdigest()[:12]}"


def pom() -> str:
    """Maven's file of exactly the listed artifacts, without what these would bring."""
    lines = [each for each in ARTIFACTS.read_text().splitlines() if each and not each.startswith("#")]
    return _POM.format("\n".join(_DEPENDENCY.format(*each.split(":")) for each in lines))


_POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>oneread</groupId><artifactId>hbase-for-tests</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
{}
</dependencies>
</project>
"""
_DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
)


def _site(settings: Mapping[str, str]) -> str:
    parts = (
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    return f"<configuration>\n{chr(10).join(parts)}\n</configuration>\n"


def check_installed() -> None:
    """Raise FileNotFoundError where Java or the libraries are missing, which says what installs them."""
    _java()
    if not library().is_dir():
        raise FileNotFoundError("HBase's libraries are not there; run: python -m tools.servers.hbase install")


def _find_java() -> Path | None:
    """Java 17 where Debian has it, else the one on the path if HBase runs on it."""
    installed = sorted(JAVA_FOLDER.glob(f"java-17*/bin/{JAVA}"))
    if installed:
        return installed[0]
    found = processes.find_program(JAVA)
    return found if found and _version_of(found) in VERSIONS else None


def _version_of(java: Path) -> int:
    """The number of a Java, 1 of those before 9."""
    said = subprocess.run([java, "-version"], check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    number = re.search(r'version "(\d+)', said.stderr)
    return int(number[1]) if number else 0


def _java() -> Path:
    found = _find_java()
    if found is None:
        raise FileNotFoundError(f"no Java from 11 to 23 found, on which HBase runs; as root: {INSTALL}")
    return found


def install() -> int:
    """Make sure that HBase can be started: Java and Maven by Debian's packages, HBase's libraries by Maven.

    Nothing where tests do without it.
    """
    if processes.is_left_out(NAME):
        return 0
    is_fetched = library().is_dir()
    if not (_find_java() and (is_fetched or processes.find_program(MAVEN))):
        failed = debian.install(
            INSTALL, f"Java 17 and Maven are missing, which HBase needs; to test without: ONEREAD_WITHOUT={NAME}"
        )
        if failed:
            return failed
    return 0 if is_fetched else _fetch(library())


def _fetch(target: Path) -> int:
    """Let Maven copy the libraries into a folder, which appears when it is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as name:
        folder = Path(name)
        (folder / "pom.xml").write_text(pom())
        command = [MAVEN, "-B", "-q", "-f", str(folder / "pom.xml"), "dependency:copy-dependencies"]
        done = subprocess.run(
            [*command, "-DincludeScope=runtime", f"-DoutputDirectory={folder / 'lib'}"],
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            print("Maven could not fetch HBase; see its message above, and ~/.m2/settings.xml", file=sys.stderr)
            return done.returncode
        try:
            (folder / "lib").rename(target)
        except OSError:  # another one was faster
            shutil.rmtree(folder / "lib", ignore_errors=True)
    return 0


class SharedHbase(NamedTuple):
    """An HBase that several processes use, by one Thrift2 server or by their own."""

    place: str
    zookeeper: int


@contextmanager
def shared_hbase(name: str) -> Generator[SharedHbase]:
    """An HBase with a Thrift2 server, which all processes share that give this name at the same time.

    Raises:
        FileNotFoundError: Java or the libraries are missing; the message says what installs them.
    """
    check_installed()
    folder = Path(tempfile.gettempdir()) / f"oneread-hbase-{name}"
    with shared(folder, "tools.servers.hbase") as facts:
        place, zookeeper = facts.split()
        yield SharedHbase(place, int(zookeeper))


def run(folder: Path | None) -> int:
    """Run an HBase with one Thrift2 server until Ctrl-C, and print the URL that opens a store in it."""
    with hbase_server(folder) as server, thrift_server(server.zookeeper) as thrift:
        print(f"hbase://{thrift.place}/default", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
    return 0


def keep_shared(folder: Path) -> int:
    """Run an HBase with one Thrift2 server as long as processes share it."""
    with hbase_server() as server, thrift_server(server.zookeeper) as thrift:
        keep(folder, f"{thrift.place} {server.zookeeper}")
    return 0


def _main(arguments: Sequence[str]) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the servers too
    match arguments:
        case ["install"]:
            return install()
        case ["run"]:
            return run(None)
        case ["run", folder]:
            return run(Path(folder))
        case ["keep", folder]:
            return keep_shared(Path(folder))
        case _:
            print("usage: python -m tools.servers.hbase install | run [FOLDER]", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
