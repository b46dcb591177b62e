"""A field is replaced by another one in three releases, under load, and no client sees an error."""

from contextlib import ExitStack

from oneread import connect
from tests.failures.deploying import deploy
from tests.failures.songs import application, first
from tests.unit.web.applications import TestClient


def test_clients_see_no_error(url):
    with ExitStack() as stack:
        stack.enter_context(connect(url, first(), workers=0))  # so that a store in memory stays
        open_servers = {}

        def start(number):
            server = ExitStack()
            client = server.enter_context(TestClient(application(url, number)))

            def send(method, path, json):
                return client.request(method, path, json=json)

            open_servers[send] = server
            return send

        try:
            deploy(url, start, lambda send: open_servers.pop(send).close())
        finally:
            for server in open_servers.values():
                server.close()
