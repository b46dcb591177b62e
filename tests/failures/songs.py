"""Three releases of a web application whose field `seconds` becomes `milliseconds`, and a balancer before it.

`python -m tests.failures.songs URL RELEASE PORT` serves one of them.
"""

import sys
import threading
from time import monotonic, sleep

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from oneread import Index, Key, Model, Schema, connect_async, descending
from oneread.web import database, exception_handlers, lifespan

UNAVAILABLE = 503
PATIENCE = 60.0


def first():
    class Song(Model[int]):
        number: Key[int]
        seconds: int

    class Longest(Index[Song]):
        seconds: int = descending(Song.seconds)

    return Schema(Song, Longest)


def expanded():
    """Both fields are written, and the views of both; the former ones are read."""

    class Song(Model[int]):
        number: Key[int]
        seconds: int
        milliseconds: int | None = None

    class Longest(Index[Song]):
        seconds: int = descending(Song.seconds)

    class LongestExactly(Index[Song]):
        milliseconds: int = descending(Song.milliseconds)

    return Schema(Song, Longest, LongestExactly)


def contracted():
    class Song(Model[int]):
        number: Key[int]
        milliseconds: int | None = None

    class LongestExactly(Index[Song]):
        milliseconds: int = descending(Song.milliseconds)

    return Schema(Song, LongestExactly)


RELEASES = first, expanded, contracted


def seconds_of(song):
    return song.seconds if hasattr(song, "seconds") else song.milliseconds // 1000


def application(url, number):
    """A release with three routes: it saves a song, gives one, and lists the longest."""
    schema = RELEASES[number]()
    song, longest = schema.models[0], schema.views[0]

    async def save(request: Request):
        seconds = (await request.json())["seconds"]
        fields = {"seconds": seconds, "milliseconds": 1000 * seconds}
        fields = {name: value for name, value in fields.items() if name in song.__struct_fields__}
        await database(request).save(song(number=request.path_params["number"], **fields))
        return JSONResponse({})

    async def get(request: Request):
        found = await database(request).get(song, request.path_params["number"])
        return JSONResponse({"seconds": seconds_of(found)})

    async def page(request: Request):
        rows = await database(request).page(longest, limit=3)
        return JSONResponse({"numbers": [row.source.key[0] for row in rows]})

    return Starlette(
        routes=[
            Route("/songs/{number:int}", save, methods=["PUT"]),
            Route("/songs/{number:int}", get),
            Route("/longest", page),
        ],
        exception_handlers=exception_handlers,
        lifespan=lifespan(connect_async(url, schema)),
    )


class Balancer:
    """Sends each request to the next server, and to another one where that answers 503 or not at all.

    As `proxy_next_upstream error timeout http_503 non_idempotent` of nginx; `servers` are functions that send.
    """

    def __init__(self):
        self.servers, self.refused, self._turn = [], [], 0

    def request(self, method, path, json=None):
        """The status and the body of the answer."""
        until = monotonic() + PATIENCE
        while True:
            servers = self.servers
            self._turn += 1
            for place in range(len(servers)):
                answer = servers[(self._turn + place) % len(servers)](method, path, json)
                if answer.status_code != UNAVAILABLE:
                    return answer.status_code, answer.json()
                assert int(answer.headers["retry-after"]) > 0
                self.refused.append((method, path, answer.json()["type"]))
            if monotonic() > until:
                return answer.status_code, answer.json()
            sleep(0.05)


class Client(threading.Thread):
    """Saves songs of its own and reads them; `errors` is all that it sees which is not as it must be."""

    def __init__(self, balancer, number):
        super().__init__(daemon=True)
        self.balancer, self.number = balancer, number
        self.songs, self.steps, self.errors = {}, 0, []
        self._ends = threading.Event()

    def run(self):
        try:
            while not self._ends.is_set():
                self.steps += 1
                self.step(1000 * self.number + self.steps * 7 % 20, self.steps * 13 % 50)
        except BaseException as error:  # noqa: BLE001 - the test shows it
            self.errors.append(error)

    def step(self, song, seconds):
        self.expect(200, {}, "PUT", f"/songs/{song}", {"seconds": seconds})
        self.songs[song] = seconds
        self.expect(200, {"seconds": seconds}, "GET", f"/songs/{song}")
        self.expect(200, None, "GET", "/longest")

    def expect(self, status, body, *request):
        found = self.balancer.request(*request)
        if found[0] != status or body not in (None, found[1]):
            self.errors.append((request, found, body))

    def wait(self, steps=15):
        until = self.steps + steps
        while self.is_alive() and self.steps < until:
            sleep(0.01)

    def end(self):
        self._ends.set()
        self.join(90)
        assert not self.is_alive()


def serve(url, number, port):
    import uvicorn  # noqa: PLC0415 - only a server needs it

    uvicorn.run(application(url, number), port=port, log_level="critical", timeout_graceful_shutdown=5)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
