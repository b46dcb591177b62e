"""One connection to a server of the test: frames in pieces, refusals, and TLS."""

import select
import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager, suppress
from time import monotonic

import pytest
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport import TCyBufferedTransport, TMemoryBuffer

from oneread.engines.hbase import HbaseEngine, options_from_url
from oneread.engines.hbase.connection import BrokenAnswerError, Connection
from oneread.engines.hbase.thrift2 import service
from oneread.errors import InvalidUrl


def message(name, kind, number, body):
    """The bytes of an answer."""
    buffer = TMemoryBuffer()
    protocol = TCyBinaryProtocol(TCyBufferedTransport(buffer))
    protocol.write_message_begin(name, kind, number)
    body.write(protocol)
    protocol.trans.flush()
    return buffer.getvalue()


def named(*names):
    return service.THBaseService.listNamespaces_result(success=list(names))


@contextmanager
def answering(*pieces):
    """A server that answers the first request with these pieces, each sent by itself, and then nothing more."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _address = listening.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.recv(1000)
            for piece in pieces:
                connection.sendall(piece)
            with suppress(OSError):
                connection.recv(1000)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()
    finally:
        thread.join(30)
        listening.close()


def ask(place, transport="buffered"):
    connection = Connection(place, transport, None, monotonic() + 20)
    try:
        return connection.receive("listNamespaces", connection.send("listNamespaces", {}, monotonic() + 20))
    finally:
        connection.close()


WHOLE = message("listNamespaces", TMessageType.REPLY, 1, named("a", "b" * 5_000))
FRAMED = len(WHOLE).to_bytes(4, "big") + WHOLE


@pytest.mark.parametrize(
    ("transport", "pieces"),
    [
        ("buffered", [WHOLE]),
        ("buffered", [WHOLE[:3], WHOLE[3:30], WHOLE[30:]]),
        ("framed", [FRAMED]),
        ("framed", [FRAMED[:2], FRAMED[2:4], FRAMED[4:5], FRAMED[5:]]),
    ],
)
def test_an_answer_may_come_in_pieces(transport, pieces):
    with answering(*pieces) as place:
        assert ask(place, transport) == ["a", "b" * 5_000]


def test_a_refusal_of_the_server_is_raised():
    refusal = TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name")
    said = message("listNamespaces", TMessageType.EXCEPTION, 1, refusal)
    with answering(said) as place, pytest.raises(TApplicationException, match="Invalid method name"):
        ask(place)


@pytest.mark.parametrize(
    ("transport", "said"),
    [
        ("buffered", message("listNamespaces", TMessageType.REPLY, 2, named("a"))),
        ("buffered", message("tableExists", TMessageType.REPLY, 1, named("a"))),
        ("buffered", message("listNamespaces", TMessageType.CALL, 1, named("a"))),
        ("buffered", message("listNamespaces", TMessageType.REPLY, 1, service.THBaseService.listNamespaces_result())),
        ("framed", b"\x00\x00\x00\x00"),
        ("framed", b"HTTP/1.1"),
    ],
)
def test_what_is_not_the_answer_is_not_taken_for_it(transport, said):
    with answering(said) as place, pytest.raises(BrokenAnswerError):
        ask(place, transport)


def test_a_deadline_that_has_passed_sends_nothing():
    with answering() as place:
        connection = Connection(place, "buffered", None, monotonic() + 20)
        with pytest.raises(TimeoutError):
            connection.receive("listNamespaces", connection.send("listNamespaces", {}, monotonic() - 1))
        assert not connection.was_sent
        connection.close()


def certificate_in(folder):
    """A certificate for 127.0.0.1 that nothing trusts yet, and its key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


def forward(client, server):
    """Forwards both ways in one thread, as a connection with TLS wants it."""
    while True:
        ready = [client] if client.pending() else select.select([client, server], [], [])[0]
        for source, target in ((client, server), (server, client)):
            if source in ready:
                data = source.recv(1 << 16)
                if not data:
                    return
                target.sendall(data)


@contextmanager
def tls_before(place, certificate, key):
    """A proxy that ends TLS before a server; yields its own place."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        with suppress(OSError):
            while True:
                accepted, _address = listening.accept()
                with (
                    suppress(ssl.SSLError),
                    accepted,
                    context.wrap_socket(accepted, server_side=True) as client,
                    socket.create_connection(place) as server,
                ):
                    forward(client, server)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(30)


def test_tls_is_ended_by_a_proxy_whose_certificate_is_trusted(hbase_options, tmp_path):
    certificate, key = certificate_in(tmp_path)
    with tls_before(hbase_options.servers[0], certificate, key) as place:
        given = {"prefix": hbase_options.prefix, "pool": "1"}
        engine = HbaseEngine(options_from_url(place, {**given, "tls": str(certificate)}))
        assert len(engine.cursor_key()) == 32
        engine.close()
        with pytest.raises(InvalidUrl, match="not trusted"):
            HbaseEngine(options_from_url(place, {**given, "tls": "true"}))


def test_another_address_of_a_name_is_tried_where_one_is_dead(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", each.getsockname()) for each in (dead, server)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_given, **_named: found)
        made = Connection(("name", 9090), "buffered", None, monotonic() + 30)
        assert not made.has_something()
        made.close()
        found.pop()
        with pytest.raises(ConnectionRefusedError):
            Connection(("name", 9090), "buffered", None, monotonic() + 30)
        found.clear()
        with pytest.raises(OSError, match="no address"):
            Connection(("name", 9090), "buffered", None, monotonic() + 30)


def test_a_dead_address_takes_only_its_share_of_the_time(monkeypatch):
    given = []

    class Silent:
        def settimeout(self, seconds):
            given.append(seconds)

        def connect(self, _address):
            raise TimeoutError

        def close(self):
            """Nothing is open."""

    monkeypatch.setattr(socket, "socket", lambda *_given: Silent())
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_given, **_named: [(0, 0, 0, "", ())] * 3)
    with pytest.raises(TimeoutError):
        Connection(("name", 9090), "buffered", None, monotonic() + 30)
    assert [seconds <= share for seconds, share in zip(given, (10, 15, 30), strict=True)] == [True] * 3
