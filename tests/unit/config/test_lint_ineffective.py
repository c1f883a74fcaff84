"""Settings that are valid and have no effect, each with the context that takes its effect away."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Lint = Callable[..., list[str]]

LOG = "{kind: embedded, path: /srv/skybridge/log%s}"
MAIN = "{kind: kafka, bootstrap_servers: '127.0.0.1:9092'%s}"
RABBIT = "{kind: rabbitmq, addresses: '127.0.0.1:5672'%s}"
PULSAR = (
    "{kind: pulsar, service_url: 'pulsar://127.0.0.1:6650', admin_url: 'http://127.0.0.1:8080'%s}"
)


def document(
    *, log: str = "", broker: str = "", route: str = "", subscription: str = "", rest: str = ""
) -> str:
    """A configuration with one broker besides the log; a setting of it may be given."""
    brokers = f"log: {LOG % log}" + (f", main: {broker}" if broker else "")
    to = "{broker: main, topic: t}" if broker else "{broker: log, topic: t}"
    sink = "sink: 'https://example.org/'" if "sink" not in subscription else "concurrency: 64"
    return (
        f"version: 1\nstore: {{kind: sqlite, path: /srv/skybridge/store.db}}\nbrokers: {{{brokers}}}\n"
        f"routes: [{{name: r, to: {to}, key: {{mapper: attribute, attribute: id}}{route}}}]\n"
        f"subscriptions: [{{id: s, source: {{broker: log, topics: [t]}}, ordering: none, {sink}{subscription}}}]\n"
        f"{rest}"
    )


MIRROR = ", sink: {broker: log, topic: copy}"
CASES = [
    (document(subscription=f"{MIRROR}, response_limit: 1KiB"), "subscriptions[0].response_limit"),
    (document(subscription=f"{MIRROR}, timeout: 10s"), "subscriptions[0].timeout"),
    (document(subscription=", retry: {schedule: [1s, 2s]}"), ""),
    (document(subscription=", retry: {schedule: [1s, 2s], hold: 3}"), "subscriptions[0].retry.hold"),
    (document(subscription=", concurrency: 5000"), "subscriptions[0].concurrency"),
    (document(subscription=f"{MIRROR}, timeout: 9s"), ""),
    (document(subscription=", response_limit: 1KiB, timeout: 1m"), ""),
    (document(log=", drop_unread: true"), "brokers.log.drop_unread"),
    (document(log=", drop_unread: true, retention: {age: 7d}"), ""),
    (document(log=", group_age: 1d"), "brokers.log.group_age"),
    (document(log=", group_age: 1d, kafka_listener: '127.0.0.1:19092'"), ""),
    (document(log=", topics: {t: {validate: cloudevents}}"), "brokers.log.topics.t.validate"),
    (document(broker=MAIN % ", topics: {partitions: 3}"), "brokers.main.topics.partitions"),
    (document(broker=MAIN % ", topics: {replication: 3}"), "brokers.main.topics.replication"),
    (document(broker=MAIN % ", topics: {create: true, partitions: 3}"), ""),
    (document(broker=PULSAR % ", topics: {partitions: 3}"), "brokers.main.topics.partitions"),
    (document(broker=PULSAR % ", publisher: client, batching: mixed"), "brokers.main.batching"),
    (document(broker=PULSAR % ", batching: mixed"), ""),
    (document(broker=RABBIT % ", topics: {partitions: 3}"), ""),
    (document(broker=RABBIT % ", hash_exchange: true"), "brokers.main.hash_exchange"),
    (document(broker=RABBIT % ", queue_type: stream, dead_letter_queue: d"), "brokers.main.dead_letter_queue"),
    (document(broker=RABBIT % "", route=", empty_body: empty"), "routes[0].empty_body"),
    (document(route=", empty_body: empty"), ""),
    (document(route=", empty_body: empty, content_mode: structured"), "routes[0].empty_body"),
    (document(rest="server: {events: {port: 0, reuse_port: false}}"), ""),
    (document(rest="server: {admin: {public_url: 'https://a.example/'}}"), "server.admin.public_url"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "setting"), CASES)
def test_a_setting_without_an_effect_is_reported(lint_text: Lint, text: str, setting: str) -> None:
    """One that was accepted in silence was believed to work."""
    found = [each for each in lint_text(text, minimal=False) if "has no effect, because" in each]
    name = setting.rpartition(".")[2]
    begin = f"warning {setting}: The setting {name} has no effect, because "
    assert [each.startswith(begin) for each in found] == ([True] if setting else [])
