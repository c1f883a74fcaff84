"""What a running service counted of one event, from its request to its webhook (issue 9, point 5)."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from posted import posted
from service_process import free_ports, one_subscription, serving
from waiting import wait_until


@pytest.fixture
def hook() -> Iterator[str]:
    with posted() as address:
        yield f"{address}/hook"


def scraped(port: int) -> dict[str, float]:
    """By name and labels, as Prometheus writes them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {
        sample.name
        + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_one_event_is_in_every_histogram_on_its_way(tmp_path, hook):
    events, admin = free_ports(2)
    headers = {
        "ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t",
        "content-type": "application/json",
    }  # fmt: skip
    request = urllib.request.Request(f"http://127.0.0.1:{events}/events", b"{}", headers)
    with serving(one_subscription(tmp_path, hook, events, admin), tmp_path):
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 202

        def total(name: str) -> float:
            """Over the processes."""
            return sum(count for series, count in scraped(admin).items() if series.startswith(name))

        for series in (
            "skybridge_accept_seconds_count",
            "skybridge_publish_seconds_count broker=log",
            "skybridge_attempt_seconds_count",
            "skybridge_delivery_seconds_count",
        ):
            wait_until(lambda series=series: total(series) == 1, series, 120, turn=0.2)
        found = scraped(admin)
        assert sum(count for name, count in found.items() if "store_seconds_count" in name) > 0
        assert total("skybridge_rebalances_total") >= 1
        folders = (tmp_path / "log", tmp_path)
        for folder in folders:
            free, size = (
                found[f"skybridge_disk_{kind}_bytes path={folder}"] for kind in ("free", "size")
            )
            assert 0 < free < size
        status = urllib.request.urlopen(f"http://127.0.0.1:{admin}/status", timeout=60).read()
        assert b"_seconds" not in json.dumps(json.loads(status)["counters"]).encode()
