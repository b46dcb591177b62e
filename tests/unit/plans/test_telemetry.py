"""Telemetry tells of each verb once, by OpenTelemetry's names, never a key or a value; without it nothing is paid."""

import logging
import subprocess
import sys
import time
from uuid import uuid4

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from oneread import Database, Job, JobHandlers, Schema, connect
from oneread.database import worker
from oneread.errors import NotFound, Unavailable, UsageError
from oneread.plans import telemetry
from oneread.plans.telemetry import Telemetry
from oneread.store.requests import CheckAndMutate
from oneread.store.rows import RowMutation
from tests.unit.counters.handles import handle
from tests.unit.database.faces import FACES
from tests.unit.database.shop import SCHEMA, SHOP, Customer, Product, PurchasesOfBuyer, SalesOfBuyer, customer, fill


class Told:
    """What was told to OpenTelemetry, in a test of its own."""

    def __init__(self, monkeypatch):
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers, meters = TracerProvider(), MeterProvider([self.reader])
        tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        monkeypatch.setattr(trace, "get_tracer", tracers.get_tracer)
        monkeypatch.setattr(metrics, "get_meter", meters.get_meter)

    def spans(self):
        found = self.exporter.get_finished_spans()
        self.exporter.clear()
        return found

    def points(self):
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        return {each.name: list(each.data.data_points) for each in data.resource_metrics[0].scope_metrics[0].metrics}


@pytest.fixture
def told(monkeypatch):
    return Told(monkeypatch)


@pytest.fixture(params=FACES.values(), ids=FACES)
def db(request, told):
    db = request.param("memory://", SCHEMA, workers=0, telemetry=True)
    fill(db)
    told.spans()
    yield db
    db.close()


VERBS = {
    "get": (lambda db: db.get(Customer, 1), "get Customer", 1, 1),
    "find": (lambda db: db.exists(Customer, 99), "find Customer", 1, 1),
    "a group": (lambda db: db.get(SalesOfBuyer, 1), "get SalesOfBuyer", 2, 2),
    "a page": (lambda db: db.page(PurchasesOfBuyer, 1, limit=2), "page PurchasesOfBuyer", 1, 3),
    "get_many": (lambda db: db.get_many(Customer, [(1,), (2,)]), "get_many Customer", 1, 2),
    "save": (lambda db: db.save(customer(7)), "save Customer", None, None),
    "save_all": (lambda db: db.save_all([customer(7), customer(8)]), "save_all", None, None),
    "delete": (lambda db: db.delete(Customer, 99), "delete Customer", None, None),
    "drain": (lambda db: db.drain(), "drain", 2, 0),
    "an add": (lambda db: handle(db, "votes").add(1), "counter_add", 2, 4),
    "a read": (lambda db: handle(db, "votes").read(), "counter_read", 1, 0),
    "a list of counters": (lambda db: db.counters(), "counters", 1, 0),
    "a deleted counter": (lambda db: handle(db, "votes").delete(), "counter_delete", 3, 1),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_one_span_with_its_cost(db, told, verb):
    ask, name, requests, rows = VERBS[verb]
    ask(db)
    (span,) = told.spans()
    assert (span.name, span.kind, span.status.status_code) == (name, SpanKind.CLIENT, StatusCode.UNSET)
    operation, _, collection = name.partition(" ")
    expected = {"db.system.name": "oneread", "db.namespace": "memory://", "db.operation.name": operation}
    assert expected.items() <= dict(span.attributes).items()
    assert span.attributes.get("db.collection.name", "") == collection
    assert span.attributes["oneread.bytes"] >= 0
    if requests is not None:
        assert (span.attributes["oneread.requests"], span.attributes["oneread.rows"]) == (requests, rows)
    else:
        assert span.attributes["oneread.requests"] > 0


def test_costs_of_a_span_are_those_of_the_result(db, told):
    cost = db.db.cost(db.save(customer(5))) if hasattr(db, "db") else db.cost(db.save(customer(5)))
    (span,) = told.spans()
    assert [span.attributes[f"oneread.{name}"] for name in ("requests", "rows", "bytes", "rounds")] == [
        cost.requests, cost.rows, cost.bytes, cost.rounds,
    ]  # fmt: skip


def test_durations_and_counts_are_metrics(db, told):
    before = told.points()["oneread.requests"]
    db.get(Customer, 1)
    points = told.points()
    (duration,) = [
        each for each in points["db.client.operation.duration"] if each.attributes["db.operation.name"] == "get"
    ]
    assert duration.count == 1
    assert duration.explicit_bounds == telemetry.BOUNDS
    assert sum(each.value for each in points["oneread.requests"]) == sum(each.value for each in before) + 1


def test_an_expected_error_is_named_and_is_not_a_fault(db, told):
    with pytest.raises(NotFound):
        db.get(Customer, 4711)
    (span,) = told.spans()
    assert (span.attributes["error.type"], span.status.status_code) == ("NotFound", StatusCode.UNSET)
    assert not span.events
    assert "4711" not in span.to_json()


def test_a_fault_of_the_store_is_an_error_with_its_static_message(told, caplog):
    with caplog.at_level(logging.WARNING, logger="oneread"):
        with pytest.raises(Unavailable), Telemetry("memory://").verb("get", "Customer"):
            raise Unavailable("the store is away", key="a secret key")
        with pytest.raises(ZeroDivisionError), Telemetry("memory://").verb("transact", None):
            raise ZeroDivisionError("a secret")
    first, second = told.spans()
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, "the store is away")
    assert (second.status.status_code, second.status.description) == (StatusCode.ERROR, "ZeroDivisionError")
    assert "Unavailable" in caplog.text
    assert "secret" not in caplog.text + first.to_json() + second.to_json()


@pytest.mark.usefixtures("told")
def test_a_verb_is_logged_quietly_and_a_slow_one_loudly(caplog, monkeypatch):
    with caplog.at_level(logging.DEBUG, logger="oneread"), connect("memory://", SCHEMA, telemetry=True) as db:
        db.save(customer(1))
        monkeypatch.setattr(telemetry, "SLOW_SECONDS", 0.0)
        db.get(Customer, 1)
    levels = {record.getMessage().partition(":")[0]: record.levelname for record in caplog.records}
    assert levels == {"save Customer": "DEBUG", "get Customer": "WARNING"}


def test_without_opentelemetry_opening_says_so_and_verbs_are_logged(caplog, monkeypatch):
    monkeypatch.setattr(telemetry, "_TRACE", telemetry._installed("opentelemetry.no_such_module"))
    with caplog.at_level(logging.DEBUG, logger="oneread"), connect("memory://", SCHEMA, telemetry=True) as db:
        db.save(customer(1))
        with pytest.raises(NotFound):
            db.get(Customer, 2)
    first, save, get = (record.getMessage() for record in caplog.records)
    assert "opentelemetry-api is not installed" in first
    assert save.startswith("save Customer: 0.")
    assert get.endswith("NotFound")


def test_a_worker_records_what_waits_what_it_did_and_what_failed(told, monkeypatch):
    monkeypatch.setattr(worker, "RECOVERY_SECONDS", 0.01)
    monkeypatch.setattr(worker, "PAUSE_SECONDS", 0.0)
    with connect("memory://", Schema(*SHOP, inline=0), telemetry=True, workers=0) as db:
        fill(db)
        db.patch(Product, "p", name="Pear")
        failing = [Unavailable("simulated")]
        step = db.operations.outbox.step

        def step_or_fail(batch):
            if failing:
                raise failing.pop()
            return step(batch)

        monkeypatch.setattr(db.operations.outbox, "step", step_or_fail)
        thread = worker.Worker(db.operations, db._driver)
        thread.wake()
        until(lambda: value_of(told, "oneread.worker.batches") == 1)
        thread.stop()
        assert value_of(told, "oneread.tasks.waiting") == 0
        assert value_of(told, "oneread.tasks.oldest") == 0
        assert value_of(told, "oneread.behind") == 0
        (failed,) = told.points()["oneread.worker.failures"]
        assert (failed.value, failed.attributes["error.type"]) == (1, "Unavailable")


def test_a_lost_compare_and_set_names_its_declaration_and_no_key(told):
    with connect("memory://?span=row", SCHEMA, telemetry=True, workers=0) as db:
        key = db.operations.root(Customer, (1,))
        for table, place in (("roots", key), ("system", b"lease:expired")):
            db._driver.hot.note(CheckAndMutate(table, b"d:v", None, RowMutation(place)), False)
        (lost,) = told.points()["oneread.lost_swaps"]
        assert lost.value == 1
        assert (lost.attributes["oneread.declared"], lost.attributes["oneread.row.kind"]) == ("Customer", "entity")


def value_of(told, name):
    """The value of the only point of a metric; None before it is recorded."""
    points = told.points().get(name)
    return points[0].value if points else None


def until(holds):
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_what_reads_had_of_a_cache_is_recorded(face, told):
    url = f"memory://{uuid4()}"
    db = face(f"{url}?span=row", Schema(Customer), cache=url, max_age=60, workers=0, telemetry=True)
    db.save(customer(1))
    for _ in range(3):
        db.get(Customer, 1)
    points = told.points()
    found = {name: points[f"oneread.cache.{name}"][0] for name in ("hits", "misses", "failures")}
    assert {name: point.value for name, point in found.items()} == {"hits": 2, "misses": 1, "failures": 0}
    assert all(point.attributes["db.namespace"] == url for point in found.values())
    assert db.survey().cache == db.cache_use
    db.close()


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_how_commits_were_made_is_recorded(face, told, tmp_path):
    db = face(f"lmdb://{tmp_path}/store", Schema(Customer), workers=0, telemetry=True)
    for number in range(3):
        db.save(customer(number))
    points = {point.attributes["oneread.commit.way"]: point.value for point in told.points()["oneread.commits"]}
    assert points == db.native.commits
    assert sum(points.values()) >= 3
    db.close()


def test_telemetry_is_true_or_false():
    with pytest.raises(UsageError, match="telemetry"):
        connect("memory://", SCHEMA, telemetry="yes")


def test_a_database_without_telemetry_is_the_plain_class_and_imports_nothing_of_it():
    with connect("memory://", SCHEMA) as db:
        assert type(db) is Database
    code = "import oneread, sys; print([name for name in sys.modules if 'telemetry' in name or 'traced' in name])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


class Work(Job):
    number: int


def test_what_became_of_jobs_is_counted(told):
    handlers = JobHandlers()
    handlers.handles(Work, tries=1)(lambda job, _run: 1 // job.number)
    with connect("memory://", Schema(*SHOP, Work), telemetry=True, workers=0) as db:
        for number in (0, 1, 2):
            db.enqueue(Work(number=number))
        db.run_jobs(handlers)
    points = told.points()["oneread.jobs"]
    found = {each.attributes["oneread.job.outcome"]: each.value for each in points}
    assert found == {"done": 2, "set_aside": 1}
    assert {each.attributes["oneread.job.kind"] for each in points} == {"Work"}
