"""One fault hides no other: not in its section, not in the checks of what is valid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.config.check.source import ConfigSource

NINETEEN = """\
version: 1
installation: "sh op"
server:
  events: {port: "eighty", host: 127.0.0.1}
  admin: {port: 8081, console: maybe}
store: {kind: sqlite, path: /srv/store.db}
brokers:
  log: {kind: embedded, path: /srv/log, max_bytes: many}
  main: {kind: kafka, bootstrap_servers: localhost}
routes:
  - name: orders
    to: {broker: nope, topic: orders}
    key: {mapper: wrong}
  - name: orders
    filters: {exact: {type: a}}
    to: {broker: main, topic: events}
    acks: 1
subscriptions:
  - id: billing
    source: {broker: log, topics: events}
    sink: https://x.example/
    signing: {secret: "hello"}
    concurrency: many
    order_by: subject
    ordering: none
  - id: other
    source: {broker: log, topics: [events]}
    sink: ftp://x
    reply: nowhere
  - id: third
    source: {broker: nowhere, topics: [events]}
    sink: https://x.example/
    dead_letter: {broker: never, topic: x}
    retry: {schedule: 5s, hold: -1}
"""

Errors = Callable[[str], dict[str, str]]


@pytest.fixture
def errors(tmp_path: Path) -> Errors:
    def found(text: str) -> dict[str, str]:
        file = tmp_path / "skybridge.yaml"
        file.write_text(text)
        source = ConfigSource(file, {})
        _, findings = source.findings(source.read())
        return {each.setting: f"{each.line}: {each.message}" for each in findings}

    return found


def test_a_file_with_many_faults_shows_them_all_at_once(errors: Errors) -> None:
    """Those of the model, those of a section as a whole, and those of the checks."""
    assert list(errors(NINETEEN)) == [
        "installation",
        "server.events.port",
        "server.admin.console",
        "brokers.log.max_bytes",
        "brokers.main.bootstrap_servers",
        "routes[0].to.broker",
        "routes[0].key.mapper",
        "routes[1]",
        "routes[1].name",
        "routes[1].filters",
        "subscriptions[0]",
        "subscriptions[0].source.topics",
        "subscriptions[0].signing.secret",
        "subscriptions[0].concurrency",
        "subscriptions[1].sink",
        "subscriptions[1].reply",
        "subscriptions[2].source.broker",
        "subscriptions[2].dead_letter.broker",
        "subscriptions[2].retry.schedule",
        "subscriptions[2].retry.hold",
    ]


MINIMAL = "version: 1\nbrokers: {log: {kind: embedded, path: /srv/log}}\n"


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        # what a fault may have caused is not reported
        (
            (
                "webhooks: {allow_private: [[], []]}\n"
                "routes: [{name: r, to: {broker: log, topic: t}}]\n"
                "subscriptions: [{id: s, source: {broker: log, topics: [t]}, sink: 'http://127.0.0.1:9/'}]\n"
            ),
            ["webhooks.allow_private[0]", "webhooks.allow_private[1]"],
        ),
        (
            "server: {admin: {host: 0.0.0.0, token: 5}}\n",
            ["server.admin.token"],
        ),
        (
            "intakes: [{name: i, preset: githup, secret: s, route: nowhere}]\n",
            ["intakes[0].preset", "intakes[0].route"],
        ),
        (
            "routes: [{name: r, to: {broker: log, topic: t}, acks: 1, durability: relaxd}]\n",
            ["routes[0].durability"],
        ),
        (
            (
                "routes: [{name: r, to: {broker: log}}, {name: s, to: {broker: lag, topic: t}}]\n"
                "subscriptions: [{id: s, source: {broker: log, topics: [t]}, sink: 'https://a.example/', reply: r}]\n"
            ),
            ["routes[0].to.topic", "routes[1].to.broker"],
        ),
        (
            (
                "routes: [{name: r, to: 5}, {name: s, to: {broker: lag, topic: t}}]\n"
                "subscriptions: [{id: s, source: {broker: log, topics: [t]}, sink: 'https://a.example/', reply: r}]\n"
            ),
            ["routes[0].to", "routes[1].to.broker"],
        ),
        (
            (
                "subscriptions: [{id: s, source: {broker: log, topics: [t]}, sink: 'https://a.example/', "
                "retry: {schedule: [1x]}, filters: [{exactt: {type: a}}]}]\n"
                "alerts: [{name: a, to: {preset: slack, url: 'https://a.example/'}, when: [bogus]}]\n"
            ),
            [
                "subscriptions[0].retry.schedule[0]",
                "subscriptions[0].filters[0].exactt",
                "alerts[0].when[0]",
            ],
        ),
    ],
)
def test_no_finding_is_due_to_another(errors: Errors, text: str, settings: list[str]) -> None:
    assert list(errors(MINIMAL + text)) == settings


def test_too_little_is_left(errors: Errors) -> None:
    assert list(errors("version: 1\nbrokers: {}\n")) == ["brokers"]
    assert list(errors("version: 1\nbrokers: {log: {kind: other}}\n")) == ["brokers.log.kind"]
    assert list(errors("routes: 5\n")) == ["version", "brokers", "routes"]


@pytest.mark.parametrize(
    ("text", "port", "form"),
    [
        ("version: 1\nserver: {admin: {port: 9000}}\nlog: {format: json}\nno: 1", 9000, "json"),
        ("version: 1\nserver: {admin: {port: eighty}}\nlog: {format: json}", 8181, "json"),
        ("version: 1\nroutes: [", 8181, "text"),
        ("", 8181, "text"),
    ],
)
def test_any_file_has_an_admin_listener_and_a_form_of_the_log(tmp_path, text, port, form):
    """A process that waits for a corrected file answers its probes by this part."""
    file = tmp_path / "skybridge.yaml"
    file.write_text(text)
    environ = {} if port == 9000 else {"SKYBRIDGE_SERVER__ADMIN__PORT": "8181"}
    found = ConfigSource(file, environ).listeners_and_log()
    assert (found.server.admin.port, found.log.format) == (port, form)
    file.unlink()
    assert ConfigSource(file, environ).listeners_and_log().server.admin.port in {8081, 8181}
