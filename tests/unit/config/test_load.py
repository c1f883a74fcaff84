"""From a file to a configuration, or to everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.config.lint.checks import lint
from app.config.load.finding import BadConfiguration, Finding
from app.config.load.loader import Loaded, load
from app.config.model.brokers import EmbeddedBroker, KafkaBroker
from app.model.start import Start

Load = Callable[..., Loaded]
Refusal = Callable[..., list[Finding]]

FULL = """\
version: 1
installation: shop
server:
  events: {host: 127.0.0.1, port: 8080, tls: {cert: /etc/c.pem, key: /etc/k.pem}}
  admin: {host: 127.0.0.1, port: 8081, token: "${env:TOKEN}"}
store: {kind: sqlite, path: ./skybridge-data/store.db}
brokers:
  log:
    {kind: embedded, path: ./skybridge-data/log, partitions: 4, retention: {age: 7d, size: 1GiB},
     size_cap: 10GiB, drop_unread: true, in_flight: {records: 100, bytes: 1MiB}}
  main:
    kind: kafka
    bootstrap_servers: ["a:9092", "b:9092"]
    client_id: sky
    security:
      protocol: SASL_SSL
      sasl: {mechanism: SCRAM-SHA-512, username: sky, password: "${env:KAFKA_PASSWORD}"}
      tls: {ca: /etc/ca.pem}
    topics: {create: true, partitions: 12, replication: 3}
    compression: zstd
routes:
  - name: orders
    filters: [{prefix: {type: com.example.order.}}]
    to: {broker: main, topic: orders}
    content_mode: binary
    key: {mapper: partitionkey, missing: none}
  - name: everything
    to: [{broker: log, topic: events}, {broker: main, topic: "all.{type}"}]
subscriptions:
  - id: billing
    source: {broker: main, topics: [orders]}
    start: {position: {0: "123"}}
    filters: [{exact: {type: com.example.order.created}}]
    sink: https://billing.example/hook
    content_mode: binary
    ordering: per_key
    retry: {schedule: [100ms, 500ms, 2s, 10s, 1m, 5m, 30m, 2h, 5h, 10h, 24h], hold: 3}
    timeout: 15s
    concurrency: 64
    dead_letter: {broker: main, topic: orders.dead}
webhooks: {allow_private: ["127.0.0.0/8", "*.svc.cluster.local"]}
limits: {body: 2MiB, header_bytes: 256KiB, header_fields: 256, max_batch: 500,
         in_flight_records: 1000, in_flight_bytes: 1MiB}
timeouts: {request_head: 10s, request_body: 30s, keep_alive: 75s, publish: 10s, store: 5s,
           not_ready: 5s, drain: 25s, webhook_dns: 2s, webhook_connect: 3s}
log: {level: debug, format: json}
"""
SECRETS = {"TOKEN": "t0ken", "KAFKA_PASSWORD": "hunter2"}


def test_the_documented_file_loads(load_text: Load) -> None:
    """Every section and most settings at once, with their values where they belong."""
    config = load_text(FULL, SECRETS).config
    log, main = config.brokers["log"], config.brokers["main"]
    assert isinstance(log, EmbeddedBroker)
    assert isinstance(main, KafkaBroker)
    assert (log.partitions, log.retention.age, log.retention.size) == (4, 604_800, 1 << 30)
    assert (log.size_cap, log.drop_unread, log.in_flight.records) == (10 << 30, True, 100)
    assert main.bootstrap_servers == "a:9092,b:9092"
    assert main.security.sasl is not None
    assert main.security.sasl.password.get_secret_value() == "hunter2"
    assert main.security.encryption is not None
    assert (main.topics.create, main.topics.replication, main.compression) == (True, 3, "zstd")
    assert [len(route.to) for route in config.routes] == [1, 2]
    assert config.subscriptions[0].start == Start(position={0: "123"})
    assert (config.limits.body, config.timeouts.drain, config.log.level) == (2 << 20, 25, "debug")


def test_without_a_file_it_runs_on_the_embedded_log() -> None:
    """`skybridge serve` alone: one route that takes everything, key from partitionkey, webhooks to
    loopback allowed; and nothing in it to complain about."""
    loaded = load(None, {})
    config = loaded.config
    log = config.brokers["log"]
    assert isinstance(log, EmbeddedBroker)
    assert log.path == Path("skybridge-data/log")
    (route,) = config.routes
    assert (route.filters, route.key.mapper, route.to[0].broker) == ((), "partitionkey", "log")
    assert "127.0.0.0/8" in config.webhooks.allow_private
    assert config.server.events.host == config.server.admin.host == "127.0.0.1"
    assert lint(loaded) == []


def test_loading_twice_does_not_share_overrides() -> None:
    """The default document is a constant, whatever the environment of one load."""
    assert load(None, {"SKYBRIDGE_ROUTES__0__NAME": "other"}).config.routes[0].name == "other"
    assert load(None, {}).config.routes[0].name == "everything"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the cure, not with a trace."""
    path = tmp_path / "none.yaml"
    with pytest.raises(BadConfiguration) as refused:
        load(path, {})
    assert str(refused.value).startswith(f"{path}: 1 error\n")
    assert "The file cannot be read: No such file or directory" in str(refused.value)
    assert "write a new file with skybridge init" in str(refused.value)


MISTAKES = """\
version: 2
instalation: shop
server: {events: {port: 99999, prot: 1}, admin: {port: yes}}
brokers:
  log: {kind: embedded, path: a, kafka_listener: "19092", partitions: 0}
  rabbit: {kind: rabbitmq, url: amqp://localhost}
  what: {kind: kafak}
  nameless: {path: x}
  main: {kind: kafka, bootstrap_servers: localhost, compression: zip}
store: {kind: postgresql, dsn: x}
routes:
  - name: a b
    filters: [{regex: x}, {exact: {Type: x}}, {prefix: {}}]
    to: {broker: log, topc: t}
    key: {mapper: hash}
subscriptions:
  - id: s
    source: {broker: log, topics: []}
    sink: billing.example
    signing: {secret: abc}
    timeout: 15
    retry: {schedule: [100 ms, soon]}
    start: now
limits: {body: 64KiB}
log: {level: loud}
"""
GOLDEN = """\
line 1: error version: The value is not one of the choices; it is 2. Cure: Write 1.
line 2: error instalation: The setting is unknown. Cure: Did you mean installation?
line 3: error server.events.port: The value is above 65535; it is 99999. Cure: Set at most 65535.
line 3: error server.events.prot: The setting is unknown. Cure: Did you mean port?
line 3: error server.admin.port: The value is not a whole number; it is "yes". Cure: Write a whole number, such as 8.
line 5: error brokers.log.kafka_listener: The value has the wrong form; it is "19092". Cure: Write the value as host:port, such as 127.0.0.1:19092; put an IPv6 address in brackets.
line 5: error brokers.log.partitions: The value is below 1; it is 0. Cure: Set at least 1.
line 6: error brokers.rabbit.addresses: The setting is missing. Cure: Set addresses.
line 6: error brokers.rabbit.url: The setting is unknown. Cure: Use one of: addresses, client_id, dead_letter_queue, hash_exchange, heartbeat, in_flight, kind, max_record, prefetch, queue, queue_type, security, topics, vhost.
line 7: error brokers.what.kind: The kind is unknown; it is "kafak". Cure: Use one of: embedded, kafka, rabbitmq, pulsar.
line 8: error brokers.nameless: The kind is missing. Cure: Use one of: embedded, kafka, rabbitmq, pulsar.
line 9: error brokers.main.bootstrap_servers: The value has the wrong form; it is "localhost". Cure: Write the value as host:port, several separated by commas.
line 9: error brokers.main.compression: The value is not one of the choices; it is "zip". Cure: Use one of none, gzip, snappy, lz4 or zstd.
line 10: error store.dsn: The value is not a PostgreSQL connection string. Cure: Write it as postgresql://user:password@host:5432/database.
line 12: error routes[0].name: The value has the wrong form; it is "a b". Cure: Use letters, digits, dots, dashes and underscores, and begin with a letter or digit.
line 13: error routes[0].filters[0].regex: The setting is unknown. Cure: Use one of: all, any, exact, not, prefix, sql, suffix.
line 13: error routes[0].filters[1].exact.Type: The value has the wrong form. Cure: Use only a-z and 0-9, as attribute names do.
line 13: error routes[0].filters[2].prefix: The value is empty. Cure: Write at least one entry or character.
line 14: error routes[0].to.topic: The setting is missing. Cure: Set topic.
line 14: error routes[0].to.topc: The setting is unknown. Cure: Did you mean topic?
line 15: error routes[0].key: The mapper hash needs attributes. Cure: Set attributes.
line 18: error subscriptions[0].source.topics: The value is empty. Cure: Write at least one entry or character.
line 19: error subscriptions[0].sink: The value has the wrong form; it is "billing.example". Cure: Begin the value with https:// or http://.
line 20: error subscriptions[0].signing.secret: The key does not begin with whsec_, whsk_ or whpk_. Cure: Make a key with skybridge secret.
line 22: error subscriptions[0].retry.schedule[1]: The value is not a duration; it is "soon". Cure: Write a number and a unit, for example 100ms, 15s, 5m, 2h or 7d.
line 23: error subscriptions[0].start: The value is not one of the choices; it is "now". Cure: Use one of earliest or latest.
line 24: error limits.body: The limit is below 87819 bytes, and an event of 64 KiB must pass (core: size limits); it is "64KiB". Cure: Set at least 87819.
line 25: error log.level: The value is not one of the choices; it is "loud". Cure: Use one of debug, info, warning or error."""


def test_all_mistakes_are_told_at_once(refusal: Refusal) -> None:
    """Each with line, setting, what is wrong and a cure: one run of `check`, one round of mending.
    What later versions will know is refused by name rather than ignored."""
    assert [str(each) for each in refusal(MISTAKES)] == GOLDEN.splitlines()


@pytest.mark.parametrize(
    ("text", "setting", "kinds"),
    [
        ("store: {path: a}\n", "store", "sqlite, postgresql"),
        (
            "intakes: [{name: h, verify: {header: x}, event: {id: a, type: b, source: c}}]\n",
            "intakes[0].verify",
            "standard_webhooks, hmac_sha256, basic, api_key, none",
        ),
        (
            "subscriptions: [{id: s, source: {broker: log, topics: [a]}, sink: https://x.example, auth: {token: x}}]\n",
            "subscriptions[0].auth",
            "bearer, basic, api_key, oauth2",
        ),
        (
            "alerts: [{name: a, to: {url: https://x.example}}]\n",
            "alerts[0].to",
            "slack, teams, discord, pagerduty, jira_service_management, cloudevents",
        ),
    ],
)
def test_a_missing_kind_names_those_of_its_section(
    text: str, setting: str, kinds: str, refusal: Refusal
) -> None:
    """Red before: each section was offered the kinds of brokers."""
    found = [
        each
        for each in refusal("version: 1\nbrokers: {log: {kind: embedded, path: /srv/log}}\n" + text)
        if each.setting == setting
    ]
    assert [each.cure for each in found] == [f"Use one of: {kinds}."]


def test_the_error_prints_as_a_list(refusal: Refusal, load_text: Load) -> None:
    """What a person sees when `serve` refuses to start."""
    with pytest.raises(BadConfiguration) as refused:
        load_text("verzion: 1\n", minimal=True)
    lines = str(refused.value).splitlines()
    assert lines[0].endswith("skybridge.yaml: 1 error")
    assert (
        lines[1] == "  line 5: error verzion: The setting is unknown. Cure: Did you mean version?"
    )


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (
            "brokers: {log: {kind: embedded, path: a}}\n",
            "version: The setting is missing. Cure: Set version.",
        ),
        ("version: 1\n", "brokers: The setting is missing. Cure: Set brokers."),
        (
            "version: 1\nbrokers: {}\n",
            "brokers: The value is empty. Cure: Write at least one entry or character.",
        ),
        (
            "version: 1\nbrokers: [a]\n",
            "brokers: The value is not a mapping. Cure: Write settings with their names, such as {name: value}.",
        ),
        (
            "version: 1\nbrokers: {a b: {kind: embedded, path: a}}\n",
            "brokers.a b: The value has the wrong form. Cure: Use letters, digits, dots, dashes and underscores, and begin with a letter or digit.",
        ),
        (
            "version: 1\nbrokers: {k: {kind: kafka, bootstrap_servers: 'h:1', security: {protocol: SSL, sasl: {mechanism: PLAIN, username: u, password: p}}}}\n",
            "brokers.k.security: The settings protocol and sasl contradict each other. Cure: Remove protocol.",
        ),
        (
            "version: 1\nbrokers: {k: {kind: kafka, bootstrap_servers: 'h:1', security: {protocol: PLAINTEXT, tls: {}}}}\n",
            "brokers.k.security: The settings protocol and tls contradict each other. Cure: Remove protocol.",
        ),
        (
            "version: 1\nbrokers: {k: {kind: kafka, bootstrap_servers: 'h:1', security: {tls: {cert: a}}}}\n",
            "brokers.k.security.tls: give cert and key together.",
        ),
    ],
)
def test_a_typical_mistake_has_its_message(refusal: Refusal, text: str, finding: str) -> None:
    """Golden texts: they are what users meet first."""
    assert [str(each).partition("error ")[2] for each in refusal(text)] == [finding]


@pytest.mark.parametrize(
    ("security", "encrypted"),
    [
        ("{}", False),
        ("{tls: {}}", True),
        ("{protocol: SSL}", True),
        ("{protocol: PLAINTEXT}", False),
    ],
)
def test_encryption_follows_from_tls_or_protocol(
    load_text: Load, security: str, encrypted: bool
) -> None:
    """Two ways to say the same must mean the same."""
    text = f"version: 1\nbrokers: {{k: {{kind: kafka, bootstrap_servers: 'h:1', security: {security}}}}}\n"
    broker = load_text(text).config.brokers["k"]
    assert isinstance(broker, KafkaBroker)
    assert (broker.security.encryption is not None) is encrypted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "producers: [{name: p, keys: [a, b, c]}]\n",
            ["The value has more than 2 entries", "Cure: Write at most 2 entries."],
        ),
        (
            f'routes: [{{name: r, to: {{broker: log, topic: t}}, filters: [{{sql: "{"x" * 8193}"}}]}}]\n',
            ["The value has more than 8192 characters", "Cure: Write at most 8192 characters."],
        ),
    ],
)
def test_a_value_that_is_too_long_has_a_cure(refusal: Refusal, text: str, said: list[str]) -> None:
    found = str(refusal(text, minimal=True)[0])
    assert [each in found for each in said] == [True, True]
