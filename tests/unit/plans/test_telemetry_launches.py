"""What telemetry has of launches: counts by side and kind, never a key or a row."""

import threading

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from oneread import LaunchOptions, Schema, connect
from tests.unit.counters.handles import Nothing

PAUSE = threading.Event()


@pytest.fixture
def reader(monkeypatch):
    reader = InMemoryMetricReader()
    monkeypatch.setattr(metrics, "get_meter", MeterProvider([reader]).get_meter)
    return reader


def points(reader):
    data = reader.get_metrics_data()
    if data is None:
        return {}
    return {each.name: list(each.data.data_points) for each in data.resource_metrics[0].scope_metrics[0].metrics}


def test_a_launch_is_counted_by_side_and_kind(reader):
    with connect("memory://", Schema(Nothing), workers=0, telemetry=True) as db:
        top = db.launch("top", old=lambda _key: "secret", new=lambda _key: "hidden", key=lambda key: key)
        top("person")
        db.launches.set("top", shadow=100, options=LaunchOptions(settle=0.0, guard=None))
        for _ in range(3):
            top("person")
        found = {}
        for _ in range(3000):
            found |= points(reader)
            if sum(each.value for each in found.get("oneread.launch.differences", ())) == 3:
                break
            PAUSE.wait(0.01)
    (differences,) = found["oneread.launch.differences"]
    assert (differences.attributes["oneread.launch.kind"], differences.value) == ("other value", 3)
    assert differences.attributes["oneread.launch.name"] == "top"
    (reads,) = found["oneread.launch.reads"]
    assert (reads.attributes["oneread.launch.side"], reads.value) == ("old", 4)
    assert found["oneread.launch.compared"][0].value == 3
    assert found["oneread.launch.duration"][0].count == 4
    assert found["oneread.launch.state_age"][0].value < 60
    shown = repr(found)
    assert not [word for word in ("secret", "hidden", "person") if word in shown]
