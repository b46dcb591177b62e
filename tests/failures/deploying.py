"""A breaking change is deployed while clients ask: what is done in which order, whatever the servers are."""

from msgspec.structs import replace

from oneread import connect, migration
from tests.failures.songs import Balancer, Client, contracted, expanded


def fill(url, schema):
    """Gives each song that an older program wrote its milliseconds, and builds the view of them."""
    song = schema.models[0]
    with connect(url, schema, workers=0) as db:
        for page in db.scan(song):
            for each in page:
                db.transact(lambda t, n=each.number: t.save(filled(t.get(song, n))))
        assert db.backfill(fence=True, quiet=0, wait=0).done


def filled(song):
    return replace(song, milliseconds=1000 * song.seconds)


def deploy(url, start, stop):
    """Two servers of each release; `start(number)` and `stop(server)` are how one comes and goes."""
    balancer, clients = Balancer(), []
    clients = [Client(balancer, number) for number in range(3)]

    def replaced(number):
        """Starts two servers beside those that are there, and stops these one after the other."""
        before = balancer.servers
        balancer.servers = [*before, *(start(number) for _ in range(2))]
        wait()
        for server in before:
            balancer.servers = [each for each in balancer.servers if each is not server]
            wait()
            stop(server)

    def wait():
        for each in clients:
            each.wait()

    balancer.servers = [start(0), start(0)]
    for each in clients:
        each.start()
    wait()
    replaced(1)  # expand: no request is refused
    expanding = [*balancer.refused]
    fill(url, expanded())
    wait()
    with migration(url, contracted()) as change:
        assert change.plan().refused  # the view that takes the field is dropped by name
        change.apply(drop=["Longest"])
    replaced(2)  # contract
    with connect(url, contracted(), workers=0) as db:
        assert db.backfill(fence=True, quiet=0, wait=0).done
        wait()
        for each in clients:
            each.end()
        db.drain()
        (song,) = db.operations.schema.models
        found = {row.number: row.milliseconds for page in db.scan(song) for row in page}
        assert db.verify().clean
    assert [error for each in clients for error in each.errors] == []
    songs = {number: 1000 * seconds for each in clients for number, seconds in each.songs.items()}
    assert found == songs
    assert expanding == []
    assert "urn:oneread:error:Outdated" in {kind for _method, _path, kind in balancer.refused}
    for server in balancer.servers:
        stop(server)
