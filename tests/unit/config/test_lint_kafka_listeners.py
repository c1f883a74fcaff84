"""Kafka listeners of embedded logs: who may come, and where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.brokers.embedded import EmbeddedDriver, EngineSettings
from app.config.load.finding import Finding
from app.config.load.loader import Loaded
from app.config.model.brokers import EmbeddedBroker
from app.features.brokers.logs import open_logs
from app.features.descriptors import KAFKA
from app.features.kafka_listeners import bounds_of
from app.kafka_listener.node import KafkaListenerSettings

Lint = Callable[..., list[str]]
USERS = "users: {ann: s3cret}"


def config(listener: str, rest: str = "", log: str = "") -> str:
    return (
        "version: 1\nstore: {kind: sqlite, path: /srv/s.db}\nbrokers:\n"
        f"  log: {{kind: embedded, path: /srv/l, kafka_listener: {listener}{log}}}\n{rest}"
    )


def findings(lint_text: Lint, text: str) -> list[str]:
    return [each for each in lint_text(text, minimal=False) if "kafka_listener" in each]


@pytest.mark.parametrize(
    "listener",
    [
        '"127.0.0.1:19092"',
        '"[::1]:0"',
        "localhost:19092",
        '{listen: "127.0.0.1:19092", create_topics: false}',
    ],
)
def test_a_listener_on_loopback_is_nobody_elses_affair(lint_text: Lint, listener: str) -> None:
    """What is the default elsewhere must not be warned of."""
    assert findings(lint_text, config(listener)) == []


OLD = "warning brokers.log.kafka_listener.sasl.users: The section users is the old form of logins. It gives each user every right."
SPARK = "producers: [{name: spark, kafka: {password: s3cret, read: ['*']}}]\n"


@pytest.mark.parametrize(
    ("listener", "rest", "told"),
    [
        ('{listen: "127.0.0.1:1", sasl: {users: {ann: s3cret}}}', "", [OLD]),
        ('{listen: "127.0.0.1:1", sasl: {users: {ann: s3cret}}}', SPARK, [OLD]),
        (
            '{listen: "127.0.0.1:1", sasl: {users: {spark: s3cret}}}',
            SPARK,
            [
                OLD,
                "error brokers.log.kafka_listener.sasl.users.spark: The user 'spark' is also a producer with a kafka login.",
            ],
        ),
        (
            '{listen: "127.0.0.1:1", sasl: {mechanisms: [PLAIN]}}',
            "",
            [
                "error brokers.log.kafka_listener.sasl: The Kafka listener demands a login, but no producer has one."
            ],
        ),
        ('{listen: "127.0.0.1:1", sasl: {mechanisms: [PLAIN]}}', SPARK, []),
        ('"127.0.0.1:1"', SPARK, []),
    ],
)
def test_users_are_producers_with_kafka(
    lint_text: Lint, listener: str, rest: str, told: list[str]
) -> None:
    """The old form is read, and told of; nobody has two passwords."""
    found = findings(lint_text, config(listener, rest))
    assert [each.partition(" Cure")[0] for each in found] == told


@pytest.mark.parametrize(
    ("listener", "finding"),
    [
        (
            '"10.0.0.7:19092"',
            "error brokers.log.kafka_listener: The Kafka listener is reachable from other machines and has no logins",
        ),
        (
            f'{{listen: "10.0.0.7:19092", sasl: {{{USERS}}}}}',
            "warning brokers.log.kafka_listener.sasl: The data of clients, and with PLAIN their passwords, cross the network unencrypted",
        ),
        (
            f'{{listen: "0.0.0.0:1", tls: {{cert: /no, key: /no}}, sasl: {{{USERS}}}}}',
            "error brokers.log.kafka_listener: Clients cannot connect to the address 0.0.0.0",
        ),
        (
            '{listen: "127.0.0.1:1", tls: {cert: /no, key: /no}}',
            "error brokers.log.kafka_listener.tls.cert: The file does not exist on this machine",
        ),
        (
            f'{{listen: "127.0.0.1:1", tls: {{cert: {__file__}, key: {__file__}, client_ca: /no}}}}',
            "error brokers.log.kafka_listener.tls.client_ca: The file does not exist on this machine",
        ),
        ('"127.0.0.1:70000"', "error brokers.log.kafka_listener: The port 70000 does not exist"),
        (
            '"127.0.0.1:8081"',
            "error brokers.log.kafka_listener: The Kafka listener has the same port as the admin listener",
        ),
        (
            '{listen: "127.0.0.1:1", min_session_timeout: 1m, max_session_timeout: 30s}',
            "error brokers.log.kafka_listener.min_session_timeout: The value of min_session_timeout is above max_session_timeout, so no member could join a group",
        ),
        (
            '{listen: "127.0.0.1:1", max_partitions: 4}',
            "error brokers.log.kafka_listener.max_partitions: The limit max_partitions is below 8, the number of partitions",
        ),
    ],
)
def test_what_would_go_wrong_is_told(lint_text: Lint, listener: str, finding: str) -> None:
    """Before it listens: a log that anybody on the network may write to is no default."""
    found = findings(lint_text, config(listener))
    assert any(each.startswith(finding) for each in found), found


def test_two_listeners_need_two_ports(lint_text: Lint) -> None:
    """The second would not start."""
    second = '  two: {kind: embedded, path: /srv/m, kafka_listener: "127.0.0.1:19092"}\n'
    (found,) = findings(lint_text, config('"127.0.0.1:19092"', second))
    assert (
        "brokers.two.kafka_listener: The Kafka listener has the same port as the Kafka listener of log"
        in found
    )


def test_passwords_are_not_repeated(refusal: Callable[..., list[Finding]]) -> None:
    """Also one that is no text."""
    found = refusal(config('{listen: "127.0.0.1:1", sasl: {users: {ann: 918273}}}'))
    assert found
    assert "918273" not in " ".join(map(str, found))


def test_a_topic_may_take_cloudevents_alone(
    load_text: Callable[..., Loaded], tmp_path: Path
) -> None:
    """The setting is called as the issue calls it."""
    text = config('"127.0.0.1:1"', log=", topics: {orders: {validate: cloudevents}, other: {}}")
    broker = load_text(text).config.brokers["log"]
    assert isinstance(broker, EmbeddedBroker)
    assert {name: each.validation for name, each in broker.topics.items()} == {
        "orders": "cloudevents",
        "other": None,
    }


def test_a_log_without_room_for_one_topic_is_told(lint_text: Lint) -> None:
    """Its first event would be answered 503, and every later one."""
    text = config('"127.0.0.1:1"', log=", partitions: 9, max_partitions: 8")
    (found,) = [each for each in lint_text(text, minimal=False) if "max_partitions" in each]
    assert (
        "brokers.log.max_partitions: The limit max_partitions is too low for one topic of 9 partitions"
        in found
    )


def test_the_bounds_of_groups_and_topics_reach_the_listener(
    load_text: Callable[..., Loaded],
) -> None:
    """What is written in the file is what clients meet; without it, what Kafka has."""
    listener = (
        '{listen: "127.0.0.1:1", max_partitions: 64, min_session_timeout: 2s, '
        "max_session_timeout: 5m}"
    )
    text = config(listener, log=", max_partitions: 200, group_age: 36h")
    broker = load_text(text).config.brokers["log"]
    assert isinstance(broker, EmbeddedBroker)
    assert broker.kafka_listener is not None
    bounds = bounds_of(broker.kafka_listener, 7)
    assert bounds.connections == 7
    assert (bounds.max_partitions, bounds.session_timeouts) == (64, (2.0, 300.0))
    log = open_logs(load_text(text).config)["log"].driver
    assert isinstance(log, EmbeddedDriver)
    assert (log.engine.settings.max_partitions, log.engine.settings.group_age) == (200, 129_600)


def test_without_settings_the_bounds_are_those_of_the_code(
    load_text: Callable[..., Loaded],
) -> None:
    """Two places hold the defaults: they may not part."""
    broker = load_text(config('"127.0.0.1:1"')).config.brokers["log"]
    assert isinstance(broker, EmbeddedBroker)
    assert broker.kafka_listener is not None
    code = EngineSettings(path=Path())
    assert (broker.max_partitions, broker.group_age) == (code.max_partitions, code.group_age)
    assert bounds_of(broker.kafka_listener, KAFKA) == KafkaListenerSettings(
        host="127.0.0.1", port=1
    )
