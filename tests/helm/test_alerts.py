"""Every alert of the chart fires when what it is for happens, and is silent before (issue 9).

The series are scraped from a service before and under real faults; two pods run, and one of them fails. What cannot
be had so cheaply is made of the same series, and told where it is made. Prometheus's own ``promtool`` evaluates the
rules as Helm renders them, with the thresholds that people get: under ``make nightly``, for it takes minutes to
build. The short form looks whether each rule finds its series, and whether they move.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

import chart
import prometheus_rules
from app.api.status.answers import SpoolView
from app.api.status.families import spool_families
from app.api.status.metrics import render
from app.pipeline.archive.derive import Derived
from app.pipeline.archive.lease import LakeHold
from app.pipeline.archive.metrics import ArchiveMetrics, exporting
from app.pipeline.archive.table_state import TableState
from app.telemetry import LABEL_BOUND, Counters
from faulty_service import KEY, FaultyService, Series, series_of, values, webhooks
from free_ports import free_ports
from prometheus_rules import EVERY, assert_fires
from reload_service import ReloadService
from waiting import wait_until

pytestmark = pytest.mark.rabbitmq

RULES = yaml.safe_load((chart.CHART / "files/alerts.yaml").read_text())
EXPIRY = "skybridge_certificate_expiry_timestamp_seconds"
HEALTHY, FAULTY = 40, 240  # scrapes: 20 minutes, and two hours
BEFORE, LATE = "19m30s", "2h19m30s"
SEVERAL = 12  # keys: one that fails is the event's fault, several are the endpoint's
AGES = ("oldest_seconds", "lag_seconds", "subscription_lag")
PODS = ("bridge-0", "bridge-1")


class Seen(NamedTuple):
    """What one pod exports, before the fault and under it."""

    healthy: Series
    faulty: Series


@pytest.fixture(scope="module")
def rules(helm_program, promtool, tmp_path_factory) -> Path:
    """As the PrometheusRule has them, which is what Prometheus reads."""
    values = {
        "config": {
            "server": {"events": {"access": "open"}},
            "brokers": {"log": {"kind": "embedded", "path": "./log"}},
            "pipeline": {"archive": {"metrics": "0.0.0.0:9464"}},
        },
        "prometheusRule": {"enabled": True},
        "pipeline": {"enabled": True},
    }
    (made,) = chart.of_kind(chart.rendered_with(values), "PrometheusRule")
    file = tmp_path_factory.mktemp("rules") / "rules.yaml"
    file.write_text(yaml.safe_dump(made["spec"]))
    return file


@pytest.fixture(scope="module")
def scraped(rabbitmq: str, tmp_path_factory) -> Seen:
    """Of one service to which everything happens. A fault goes on while the next begins."""
    folder = tmp_path_factory.mktemp("faulty")
    with webhooks() as (url, statuses, asked):
        service = FaultyService(folder, rabbitmq, url)
        with service.house.running():
            service.store("near")
            service.store("far")
            assert service.send("near", "/shop/1", KEY) == 202
            wait_until(lambda: len(asked) >= 8, "deliveries", 120)
            healthy = service.scrape_until(_is_well)
            statuses |= {"/away": 503, "/parking/k0": 409, "/letters": 415, "/gone": 410}
            for number in range(SEVERAL):
                service.store("near", f"/k{number}")
            assert service.send("near", "/other", KEY) == 403
            service.relay.silent()
            assert service.send("far") == 503
            service.certificate(days=5)
            service.reassign_partitions(2)
            service.subscribe_to_broker()
            service.lock_store()
            service.reload_invalid()
            faulty = service.scrape_until(_is_ill)
        service.relay.close()
    return Seen(healthy, faulty)


def _is_well(now: Series) -> dict[str, bool]:
    return {
        "ready": min(values(now, "ready")) == 1,
        "brokers": min(values(now, "broker_up")) == 1,
        "nothing waits": sum(values(now, "subscription_held")) == 0,
        "no lag": sum(values(now, "subscription_lag")) == 0,
    }


def _is_ill(now: Series) -> dict[str, bool]:
    return {
        "not ready": min(values(now, "ready")) == 0,
        "no broker": min(values(now, "broker_up")) == 0,
        "paused": max(values(now, "subscription_paused_seconds")) > 0,
        "disabled": max(values(now, "subscription_disabled")) == 1,
        "undelivered": max(values(now, "subscription_oldest_seconds")) > 0,
        "parked": max(values(now, "parked_oldest_seconds"), default=0) > 0,
        "dead letters": sum(values(now, "dead_letters_stored")) > 0,
        "unknown": sum(values(now, "events_unpublished_total")) > 0,
        "lag": sum(values(now, "subscription_lag")) > 0,
        "filters": sum(values(now, "filter_errors_total")) > 0,
    }


@pytest.fixture(scope="module")
def began() -> float:
    """Now, which is where promtool's clock begins."""
    return datetime.now(UTC).timestamp()


@pytest.fixture(scope="module")
def pod(scraped: Seen) -> Seen:
    """With what is made by the parts that tell of it: the archive, which is Spark; a task that fails, which is a bug;
    a full volume and a thousand series of one metric, which services have in the last tests here; and a store that does
    not answer (unit/api/test_lag_families.py), because the locked one here is still read."""
    factors = {"skybridge_disk_free_bytes": 0.01, "skybridge_store_up": 0.0}
    room = {key: value * factors.get(key[0], 1.0) for key, value in scraped.faulty.items()}
    few, many = Counters(), Counters()
    for number in range(LABEL_BOUND + 1):
        many.add("events_refused", f"code-{number}")
    many.add("task_failures", "retention")
    (healthy, behind) = _archive()
    return Seen(
        {**scraped.healthy, **_counted(few), **_spooled(0), **healthy},
        {**room, **_counted(many), **_spooled(900), **behind},
    )


def _counted(counters: Counters) -> Series:
    text = render(counters.values()).decode()
    names = {"skybridge_labels_folded_total", "skybridge_task_failures_total"}
    return {key: value for key, value in series_of(text).items() if key[0] in names}


def _spooled(waiting: int) -> Series:
    """A spool of a thousand bytes, of which so many wait; services have outages in e2e/test_outages.py."""
    spool = SpoolView(
        route="orders", broker="log", state="spooling", cause="away", repeats=0, bytes=waiting, most=1_000,
        oldest_seconds=float(waiting), records=waiting,
    )  # fmt: skip
    text = render(Counters().values(), spool_families([spool])).decode()
    return {key: value for key, value in series_of(text).items() if "_spool_" in key[0]}


def _archive() -> tuple[Series, Series]:
    """As its own listener tells it, with the clock of the archive an hour apart."""
    now = 1_700_000_000.0
    metrics, lease = ArchiveMetrics(["orders"], lambda: now), _Lease()
    metrics.holds(lease)
    metrics.looked("events", TableState(1, 0, 3, 3 << 30, 20))
    (port,) = free_ports(1)
    found = []
    with exporting(metrics, f"127.0.0.1:{port}"):
        for _ in range(2):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                found.append(series_of(answer.read().decode()))
            now, lease.left = now + 3600, 2.0
            metrics.failed("derive")
            metrics.derived(Derived(quarantined=50, rules={"bad-time": 50}))
            metrics.looked("events", TableState(2, 0, 5_000, 3 << 30, 90_000))
    return found[0], found[1]


class _Lease(LakeHold):
    left = 20.0

    def seconds_left(self) -> float:
        return self.left


def written(pod: Seen, names: set[str], began: float) -> list[dict[str, str]]:
    """For promtool: one pod as it was, the other healthy and then faulty for as long. A counter goes on as it did
    between the two scrapes, an age grows, the rest stays."""
    found = []
    for name, labels in sorted({*pod.healthy, *pod.faulty}):
        if name in names:
            healthy, faulty = (each.get((name, labels)) for each in pod)
            if name == EXPIRY:  # promtool's clock begins at 0
                healthy, faulty = (each and each - began for each in (healthy, faulty))
            found.append(_line(name, labels, PODS[0], _steady(healthy, HEALTHY + FAULTY)))
            later = _steady(faulty, FAULTY, _growth(name, healthy, faulty))
            found.append(_line(name, labels, PODS[1], f"{_steady(healthy, HEALTHY)} {later}"))
    return found


def _growth(name: str, healthy: float | None, faulty: float | None) -> float:
    if healthy == faulty:
        return 0
    if name.endswith(AGES):
        return EVERY
    counts = name.endswith(("_total", "_bucket"))
    return (faulty or 0) - (healthy or 0) if counts else 0


def _steady(value: float | None, count: int, growth: float = 0) -> str:
    return f"_x{count}" if value is None else f"{value!r}+{growth!r}x{count - 1}"


def _line(name: str, labels: Iterable[tuple[str, str]], pod: str, values: str) -> dict[str, str]:
    target = {
        "namespace": "shops",
        "service": "bridge-skybridge-admin",
        "pod": pod,
        "job": "bridge",
    }
    told = ",".join(
        f"{key}={json.dumps(value)}" for key, value in {**dict(labels), **target}.items()
    )
    return {"series": f"{name}{{{told}}}", "values": values}


def up(*values: str) -> list[dict[str, str]]:
    """What Prometheus itself says of each pod."""
    return [_line("up", (), name, each) for name, each in zip(PODS, values, strict=True)]


def archive(values: str) -> list[dict[str, str]]:
    """An archive that is as far as its topic."""
    return [_line("skybridge_archive_lag_seconds", {"topic": "quiet"}.items(), PODS[0], values)]


ARCHIVE = archive(_steady(1, HEALTHY + FAULTY))
UP = [*up(*[_steady(1, HEALTHY + FAULTY)] * 2), *ARCHIVE]
EXPRESSIONS = {each["alert"]: each["expr"] for each in RULES}
OF_ABSENCE = ("SkybridgeDown", "SkybridgeArchiveDown")
"""They fire because series are gone."""
MOVING = [each for each in EXPRESSIONS if each not in OF_ABSENCE]


def named_by(alert: str) -> set[str]:
    return set(re.findall(r"\bskybridge_\w+", EXPRESSIONS[alert]))


@pytest.mark.parametrize("alert", MOVING)
def test_the_series_of_an_alert_are_there_and_move_under_its_fault(alert: str, pod: Seen) -> None:
    """With the labels that its rule picks and sums by."""
    expression = EXPRESSIONS[alert]
    codes = dict(re.findall(r'(\w+)="([^"$]+)"', expression))
    by = {label for each in re.findall(r"by \(([^)]*)\)", expression) for label in each.split(", ")}

    def picked(series: Series) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        return {
            key: value
            for key, value in series.items()
            if key[0] in named_by(alert) and codes.items() <= set(key[1])
        }

    healthy, faulty = map(picked, pod)
    moved = {key for key, value in faulty.items() if healthy.get(key) != value}
    assert moved
    assert all(by - {"pod"} <= set(dict(labels)) for _, labels in moved)


@pytest.mark.nightly
def test_prometheus_takes_the_rules(rules: Path):
    """Expressions, templates of the summaries, durations."""
    assert "SUCCESS" in prometheus_rules.check_rules(rules)


@pytest.mark.nightly
@pytest.mark.parametrize("alert", MOVING)
def test_an_alert_fires_under_its_fault_and_not_before(alert: str, rules: Path, pod: Seen, began):
    """One pod of two is enough. Nothing else fires for what this alert looks at."""
    series = written(pod, named_by(alert), began)
    assert_fires(rules, [*series, *UP], {BEFORE: [], LATE: [alert]})


@pytest.mark.nightly
def test_an_alert_that_no_pod_answers_needs_both_to_be_gone(rules: Path):
    """SkybridgeDown: while one answers others tell what is wrong."""
    gone = f"{_steady(1, HEALTHY)} {_steady(0, FAULTY)}"
    assert_fires(rules, [*up(gone, gone), *ARCHIVE], {BEFORE: [], LATE: ["SkybridgeDown"]})
    one = up(_steady(1, HEALTHY + FAULTY), gone)
    assert_fires(rules, [*one, *ARCHIVE], {BEFORE: [], LATE: []})


@pytest.mark.nightly
def test_an_archive_that_is_gone_is_told(rules: Path):
    """SkybridgeArchiveDown: a killed driver exports nothing."""
    gone = archive(f"{_steady(1, HEALTHY)} {_steady(None, FAULTY)}")
    series = [*up(*[_steady(1, HEALTHY + FAULTY)] * 2), *gone]
    assert_fires(rules, series, {BEFORE: [], LATE: ["SkybridgeArchiveDown"]})


@pytest.mark.nightly
def test_nothing_fires_while_all_is_well(rules: Path, pod: Seen, began):
    """For hours, with every metric of the rules."""
    names = set().union(*map(named_by, EXPRESSIONS))
    series = written(Seen(pod.healthy, pod.healthy), names, began)
    assert_fires(rules, [*series, *UP], {BEFORE: [], LATE: []})


@pytest.mark.nightly
@pytest.mark.parametrize("before", [None, 3.0])
def test_one_publish_of_which_nothing_is_known_is_told_once(rules: Path, pod: Seen, began, before):
    """Also where it is the first since the pod began, which no increase shows."""
    name = "skybridge_events_unpublished_total"
    ((labels, count),) = [(of, v) for (each, of), v in pod.faulty.items() if each == name]
    values = f"{_steady(before, HEALTHY)} {_steady((before or 0) + count, FAULTY)}"
    series = [_line(name, labels, PODS[1], values)]
    alert = ["SkybridgeUnknownPublishes"]
    assert_fires(rules, [*series, *UP], {BEFORE: [], "24m": alert, "1h": []})


@pytest.mark.nightly
def test_attempts_that_the_store_lets_go_of_are_told_too(rules: Path):
    """The second half of the rule of the store."""
    counters = Counters()
    counters.add("attempts_dropped", "billing")
    text = render(counters.values()).decode()
    ((key, value),) = [
        each for each in series_of(text).items() if "attempts_dropped_total" in each[0][0]
    ]
    values = f"{_steady(value, HEALTHY)} {_steady(value, FAULTY, 1)}"
    assert_fires(
        rules, [_line(*key, PODS[0], values), *UP], {BEFORE: [], LATE: ["SkybridgeStoreSlow"]}
    )


@pytest.mark.nightly
def test_a_thousand_routes_and_one_are_told(rules: Path, tmp_path: Path):
    """The cap of labels, by a service that is one series of a metric beyond it: an event by each of its routes."""
    names = [f"many-{number}" for number in range(LABEL_BOUND + 1)]
    place = {"broker": "log", "topic": "many"}
    house = ReloadService(tmp_path)
    house.change(
        lambda s: s.update(
            routes=[
                {"name": name, "filters": [{"exact": {"type": name}}], "to": place}
                for name in names
            ]
        )
    )
    with house.running():
        few = series_of(house.metrics())
        for number, name in enumerate(names):
            assert house.post(number, name)[0] == 200
        many = series_of(house.metrics())
    series = written(Seen(few, many), {"skybridge_labels_folded_total"}, 0.0)
    assert_fires(rules, [*series, *UP], {BEFORE: [], LATE: ["SkybridgeLabelCap"]})


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, in memory, which takes an administrator."""
    folder = tmp_path / "volume"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "skybridge", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.nightly
def test_a_volume_that_fills_is_told(rules: Path, tmp_path: Path, small_volume: Path):
    """By a service whose log lies on it."""
    house = ReloadService(tmp_path)
    house.change(lambda s: s["brokers"]["log"].update(path=str(small_volume / "log")))
    with house.running():
        roomy = series_of(house.metrics())
        with (small_volume / "of-others").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 60 << 20)
        full = series_of(house.metrics())
    series = written(Seen(roomy, full), named_by("SkybridgeDiskFilling"), 0.0)
    assert_fires(rules, [*series, *UP], {BEFORE: [], LATE: ["SkybridgeDiskFilling"]})
