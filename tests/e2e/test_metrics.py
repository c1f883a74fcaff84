"""What a running service counted of one event, from its request to its webhook (issue 9, point 5)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from configuration import configuration, subscription
from service_process import ServiceProcess, serving
from status_endpoint import posting_endpoint
from waiting import wait_until


@pytest.fixture
def hook() -> Iterator[str]:
    with posting_endpoint() as address:
        yield f"{address}/hook"


def scraped(service: ServiceProcess) -> dict[str, float]:
    """By name and labels, as Prometheus writes them."""
    text = service.ask("GET", "/metrics")[1]
    return {
        sample.name
        + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_one_event_is_in_every_histogram_on_its_way(tmp_path, hook):
    settings = configuration(tmp_path, subscriptions=[subscription("billing", hook)])
    with serving(settings, tmp_path) as service:
        assert service.send("1")[0] == 202

        def total(name: str) -> float:
            """Over the processes."""
            return sum(
                count for series, count in scraped(service).items() if series.startswith(name)
            )

        for series in (
            "skybridge_accept_seconds_count",
            "skybridge_publish_seconds_count broker=log",
            "skybridge_attempt_seconds_count",
            "skybridge_delivery_seconds_count",
        ):
            wait_until(lambda series=series: total(series) == 1, series, 120, turn=0.2)
        found = scraped(service)
        assert sum(count for name, count in found.items() if "store_seconds_count" in name) > 0
        assert total("skybridge_rebalances_total") >= 1
        for folder in (tmp_path / "log", tmp_path):
            free, size = (
                found[f"skybridge_disk_{kind}_bytes path={folder}"] for kind in ("free", "size")
            )
            assert 0 < free < size
        assert "_seconds" not in json.dumps(service.get("/status")["counters"])
