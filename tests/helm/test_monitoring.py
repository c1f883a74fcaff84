"""Alerts and dashboard: expressions that Prometheus reads, metrics that are exported, a runbook for each alert."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator

import promql_parser
import pytest
import yaml

import chart
from app.pipeline.archive.metrics import METRICS
from free_ports import free_ports
from pages import CHECKOUT, blocks
from prometheus_rules import assert_evaluates
from service_process import ServeProcess
from waiting import wait_until

ALERTS = yaml.safe_load((chart.CHART / "files/alerts.yaml").read_text())
DASHBOARD = json.loads((chart.CHART / "files/dashboard.json").read_text())
RUNBOOKS = CHECKOUT / "docs" / "runbooks"

BY_THE_ARCHIVE = {f"skybridge_{name}" for name in METRICS}
"""Not of the service: ``pipeline archive`` exports it (tests/unit/pipeline/test_lag.py)."""

WATCHED = {
    "SkybridgeOldestUndelivered", "SkybridgeOldestParked", "SkybridgeDeadLetters", "SkybridgeUnknownPublishes",
    "SkybridgeEndpointPaused", "SkybridgeDiskFilling", "SkybridgeStoreSlow", "SkybridgeConfigurationSplit",
    "SkybridgeLagGrows", "SkybridgeProducerRefused", "SkybridgeSubscriptionDisabled", "SkybridgeFilterErrors",
    "SkybridgeRebalanceStorm", "SkybridgeCertificateExpiry", "SkybridgeLabelCap", "SkybridgeArchiveLag", "SkybridgeTaskFails",
    "SkybridgeArchiveDown", "SkybridgeArchiveFails", "SkybridgeArchiveQuarantine", "SkybridgeArchiveLease",
    "SkybridgeLakeUpkeep", "SkybridgeLagUnknown", "SkybridgeStoreDown",
}  # fmt: skip
"""What issues 9, 22 and 44 ask for; there may be more."""


@pytest.fixture(scope="module")
def rules(helm_program) -> list[dict[str, str]]:
    (made,) = chart.of_kind(chart.rendered(chart.case("kafka-monitored")), "PrometheusRule")
    return made["spec"]["groups"][0]["rules"]


def panels() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def metrics_of(expression: str) -> set[str]:
    return set(re.findall(r"\b(skybridge_\w+|process_\w+)\b", expression))


def test_every_alert_that_is_asked_for_is_there():
    assert {alert["alert"] for alert in ALERTS} >= WATCHED


def test_prometheus_reads_every_expression(rules):
    """A rule that does not parse takes its whole group out of service."""
    for rule in rules:
        assert promql_parser.parse(rule["expr"]), rule["alert"]
        assert "$(" not in rule["expr"]
    for title, expression in panels():
        filled = expression.replace("$namespace", "shops").replace("$service", "bridge")
        assert promql_parser.parse(filled.replace("$subscription", ".*")), title


def test_the_queries_of_keda_are_read_too(helm_program):
    (scaled,) = chart.of_kind(chart.rendered(chart.case("kafka-autoscaling")), "ScaledObject")
    queries = [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]
    assert all(promql_parser.parse(query) for query in queries)
    assert {metric for query in queries for metric in metrics_of(query)} == {
        "skybridge_subscription_lag",
        "skybridge_subscription_lag_known",
        "skybridge_parked_rows",
        "skybridge_store_up",
    }


LAG = "skybridge_subscription_lag"
POD, OTHER = 'pod="bridge-0"', 'pod="bridge-1"'


@pytest.mark.parametrize(
    ("trigger", "series", "value"),
    [
        (0, {f"up{{{POD}}}": 1}, 0),
        (0, {f'{LAG}{{subscription="a",topic="o",{POD}}}': 5, f'{LAG}_known{{subscription="a",{POD}}}': 1}, 5),
        (0, {f"up{{{POD}}}": 1, f'{LAG}_known{{subscription="a",{POD}}}': 0}, None),
        (0, {f'{LAG}{{subscription="a",topic="o",{POD}}}': 5, f'{LAG}_known{{subscription="a",{POD}}}': 1,
             f'{LAG}_known{{subscription="b",{POD}}}': 0}, None),
        (0, {f'{LAG}{{subscription="a",topic="o",{POD}}}': 5, f'{LAG}_known{{subscription="a",{POD}}}': 1,
             f'{LAG}_known{{subscription="a",{OTHER}}}': 0}, 5),
        (1, {f"up{{{POD}}}": 1, f"skybridge_store_up{{{POD}}}": 1}, 0),
        (1, {f"up{{{POD}}}": 1, f"skybridge_store_up{{{POD}}}": 0}, None),
        (1, {f"up{{{POD}}}": 1, f"skybridge_store_up{{{POD}}}": 0, f"skybridge_store_up{{{OTHER}}}": 1}, 0),
        (1, {f'skybridge_parked_rows{{subscription="a",{POD}}}': 3, f"skybridge_store_up{{{POD}}}": 1}, 1),
    ],
)  # fmt: skip
def test_what_is_unknown_is_no_zero_for_keda(
    trigger: int, series: dict[str, float], value: float | None, helm_program, promtool, tmp_path
):
    """KEDA took the workers away while a broker or the store did not answer."""
    (scaled,) = chart.of_kind(chart.rendered(chart.case("kafka-autoscaling")), "ScaledObject")
    query = scaled["spec"]["triggers"][trigger]["metadata"]["query"]
    own = 'namespace="shops",service="bridge-skybridge-admin",'
    given = [
        {"series": name.replace("{", "{" + own), "values": str(count)}
        for name, count in series.items()
    ]
    assert_evaluates(tmp_path, query, given, value)


def test_every_rule_looks_at_its_own_release_alone(rules):
    """One release per tenant: nobody is woken for a neighbour."""
    for rule in rules:
        for metric in re.findall(r"\b(?:skybridge_\w+|up)\b(\{[^}]*\})?", rule["expr"]):
            assert 'namespace="shops"' in metric, rule["alert"]


def test_a_threshold_of_the_values_is_in_its_rule(rules):
    """And its words name what Prometheus knows of the series."""
    expressions = {rule["alert"]: rule["expr"] for rule in rules}
    assert expressions["SkybridgeOldestParked"].endswith("> 120")
    assert "< 30 * 86400" in expressions["SkybridgeCertificateExpiry"]
    assert [
        rule for rule in rules if rule["labels"]["severity"] not in {"critical", "warning", "info"}
    ] == []


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> set[str]:
    """The names that a running service exports, samples or not."""
    folder = tmp_path_factory.mktemp("scraped")
    events, admin = free_ports(2)
    service = ServeProcess(None, folder, admin)
    service.begin(
        {
            "SKYBRIDGE_SERVER__EVENTS__PORT": str(events),
            "SKYBRIDGE_SERVER__ADMIN__PORT": str(admin),
            "SKYBRIDGE_TIMEOUTS__NOT_READY": "0s",
        }
    )
    try:
        wait_until(lambda: service.answers("/metrics") == 200, "metrics", 240)
        with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=60) as answer:
            text = answer.read().decode()
    finally:
        service.stop()
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    buckets = {f"{name}_{end}" for name in kinds for end in ("bucket", "sum", "count")}
    return {*kinds, *(name for name in buckets if kinds[name.rpartition("_")[0]] == "histogram")}


def test_every_metric_that_is_named_is_exported(rules, exported):
    """An alert on a metric that does not exist never rings (issue 9)."""
    expressions = [rule["expr"] for rule in rules] + [expression for _, expression in panels()]
    named = {metric for expression in expressions for metric in metrics_of(expression)}
    assert len(named) > 20
    assert named - exported == named & BY_THE_ARCHIVE
    assert len(named & BY_THE_ARCHIVE) > 5


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_every_alert_has_its_runbook(alert):
    """Symptom, what users feel, three commands, cure (issue 9)."""
    page = RUNBOOKS / f"{alert['runbook']}.md"
    text = page.read_text()
    assert re.search(rf"^# .*`{alert['alert']}`", text, re.MULTILINE)
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["Symptom", "What users feel", "Three commands", "Cure"]
    commands = [
        line
        for block in blocks(page)
        for line in block.text.splitlines()
        if line and not line.startswith("#")
    ]
    assert len(commands) == 3, commands


def test_no_runbook_is_left_over():
    """A page of an alert that is gone. A refused upgrade is no alert: Helm itself reports it."""
    pages = {path.stem for path in RUNBOOKS.glob("*.md")} - {"README", "upgrade-refused"}
    assert pages == {alert["runbook"] for alert in ALERTS}


def test_the_runbook_of_each_alert_is_linked(rules):
    """By the annotation that Alertmanager and Grafana show."""
    always = [alert for alert in ALERTS if "needs" not in alert]
    for rule, alert in zip(rules, always, strict=True):
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{alert['runbook']}.md"


@pytest.mark.parametrize("told", [True, False])
def test_a_release_without_an_archive_waits_for_none(helm_program, told):
    """The alert of a missing archive would fire for ever."""
    values = {
        "config": {
            "server": {"events": {"access": "open"}},
            "brokers": {"log": {"kind": "embedded", "path": "./log"}},
            "pipeline": {"archive": {"metrics": "0.0.0.0:9464"} if told else {}},
        },
        "prometheusRule": {"enabled": True},
        "pipeline": {"enabled": True},
    }
    (made,) = chart.of_kind(chart.rendered_with(values), "PrometheusRule")
    found = {rule["alert"] for rule in made["spec"]["groups"][0]["rules"]}
    assert ("SkybridgeArchiveDown" in found) is told


def test_panels_do_not_overlap():
    """Grafana would push them around."""
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
