"""A field is replaced by another one in three releases of web servers, real processes on one folder, under load."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx

from oneread import connect
from tests.failures.deploying import deploy
from tests.failures.songs import first
from tests.failures.stores import SOURCE, until

ROOT = str(Path(__file__).resolve().parents[2])


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def is_open(port):
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def test_clients_see_no_error(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    environment = dict(os.environ) | {"PYTHONPATH": f"{SOURCE}:{ROOT}"}
    connect(url, first(), workers=0).close()
    processes = {}

    def start(number):
        port = free_port()
        asked = [sys.executable, "-m", "tests.failures.songs", url, str(number), str(port)]
        process = subprocess.Popen(asked, env=environment, cwd=ROOT)
        until(lambda: is_open(port))
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)

        def send(method, path, json):
            return client.request(method, path, json=json)

        processes[send] = process, client
        return send

    def stop(send):
        process, client = processes.pop(send)
        client.close()
        process.send_signal(signal.SIGTERM)
        process.wait(30)

    try:
        deploy(url, start, stop)
    finally:
        for process, client in processes.values():
            client.close()
            process.kill()
