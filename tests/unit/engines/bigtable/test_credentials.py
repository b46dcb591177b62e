"""The service's side: TLS, a token on each call, and where calls go. The relay and the tokens are of this machine."""

import json
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from uuid import uuid4

import grpc
import pytest

from oneread.engines.bigtable.servers import google
from tests.failures.stores import child

PROGRAM = """
import asyncio, sys
from oneread.engines.bigtable import BigtableEngine, BigtableOptions, Server
from oneread.engines.bigtable.credentials import find_credentials
from oneread.store.requests import Mutate, Read
from oneread.store.rows import Cell, RowMutation

data, admin, instance = sys.argv[1:]
engine = BigtableEngine(BigtableOptions("test", instance, profile="single"), Server(data, admin, find_credentials()))
engine.answer(Mutate("roots", [RowMutation(b"a", {b"d:b": Cell(b"1", 1)})]))
assert asyncio.run(engine.answer_async(Read("roots", [b"a"]))) == [{b"d:b": Cell(b"1", 1)}]
engine.close()
"""
TOKEN = "the-token"


class Relay(grpc.GenericRpcHandler):
    """Passes every call on to the emulator, and notes its method and its headers."""

    def __init__(self, emulator):
        self._channel = grpc.insecure_channel(emulator.host, options=[("grpc.enable_http_proxy", 0)])
        self.seen = []

    def service(self, details):
        headers = dict(details.invocation_metadata)
        self.seen.append((details.method.rpartition("/")[2], headers))
        features = [("bigtable-features", headers["bigtable-features"])]

        def answer(request, context):
            try:
                yield from self._channel.unary_stream(details.method)(request, timeout=60, metadata=features)
            except grpc.RpcError as failure:
                context.abort(failure.code(), failure.details())

        return grpc.unary_stream_rpc_method_handler(answer)

    def close(self):
        self._channel.close()


@pytest.fixture
def certificate(tmp_path):
    """A key and a certificate of this machine; what signs the tokens, too."""
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return key, cert


@pytest.fixture
def relays(emulator, certificate):
    """Two relays behind TLS: of the tables and of their administration. Each with its host."""
    key, cert = (path.read_bytes() for path in certificate)
    started = []
    for _ in range(2):
        relay = Relay(emulator)
        server = grpc.server(ThreadPoolExecutor(4), handlers=[relay])
        port = server.add_secure_port("localhost:0", grpc.ssl_server_credentials([(key, cert)]))
        server.start()
        started.append((relay, server, f"localhost:{port}"))
    yield [(relay, host) for relay, _server, host in started]
    for relay, server, _host in started:
        server.stop(0).wait(60)
        relay.close()


class Tokens(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps({"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words):
        pass


@pytest.fixture
def account(tmp_path, certificate):
    """The file of a service account, whose tokens are made here."""
    server = HTTPServer(("127.0.0.1", 0), Tokens)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    file = tmp_path / "account.json"
    file.write_text(
        json.dumps(
            {
                "type": "service_account",
                "project_id": "test",
                "private_key_id": "1",
                "private_key": certificate[0].read_text(),
                "client_email": "shop@test.example",
                "token_uri": f"http://127.0.0.1:{server.server_port}/token",
            }
        )
    )
    yield file
    server.shutdown()
    serving.join(60)
    server.server_close()


def test_calls_of_both_faces_have_tls_a_token_and_their_headers(monkeypatch, relays, account, certificate):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account))
    monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(certificate[1]))
    (data, data_host), (admin, admin_host) = relays
    instance = f"i{uuid4().hex}"
    program = child(PROGRAM, data_host, admin_host, instance)
    program.communicate(timeout=300)
    assert program.returncode == 0
    assert {method for method, _headers in admin.seen} == {"GetTable", "CreateTable"}
    assert [method for method, _headers in data.seen][-2:] == ["MutateRow", "ReadRows"]
    for method, headers in admin.seen + data.seen:
        assert headers["authorization"] == f"Bearer {TOKEN}"
        assert headers["bigtable-features"] == "CAEgAQ=="
        assert f"instances%2F{instance}" in headers["x-goog-request-params"]
        assert ("app_profile_id=single" in headers["x-goog-request-params"]) == (not method.endswith("Table"))


def test_the_service_has_a_host_of_its_own_for_tables():
    server = google(lambda: None)
    assert server.host == "bigtable.googleapis.com:443"
    assert server.admin_host == "bigtableadmin.googleapis.com:443"
