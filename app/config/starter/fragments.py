"""The text of each section that depends on a choice, with slots such as ``<address>``."""

from __future__ import annotations

from collections.abc import Mapping

from app.config.starter.choices import BrokerKind

BROKERS: Mapping[BrokerKind, str] = {
    "embedded": """\
log:                    # the durable log inside Skybridge: nothing to install
  kind: embedded
  path: ./skybridge-data/log
  partitions: 8
  retention: {age: 7d}  # never past what a subscription below has not read yet
  size_cap: 10GiB       # when it is reached, events are answered 503, and none is lost
""",
    "kafka": """\
main:
  kind: kafka
  bootstrap_servers: <address>
  topics: {create: true, partitions: 8}   # replication: 3, if the cluster has three nodes
  security:
    tls: {}             # the system's certificate authorities
    sasl: {mechanism: SCRAM-SHA-512, username: skybridge, password: "${env:KAFKA_PASSWORD}"}
""",
    "rabbitmq": """\
rabbit:
  kind: rabbitmq
  addresses: <address>
  topics: {create: true}
  security: {tls: {}, username: skybridge, password: "${env:RABBITMQ_PASSWORD}"}
""",
    "pulsar": """\
pulsar:
  kind: pulsar
  service_url: <address>
  admin_url: <admin>
  topics: {create: true}
  security: {token: "${env:PULSAR_TOKEN}"}
""",
}
NAMES: Mapping[BrokerKind, str] = {kind: text.partition(":")[0] for kind, text in BROKERS.items()}
"""The name of the broker of each kind, below ``brokers``."""

ELSEWHERE: Mapping[BrokerKind, str] = {
    "embedded": "",
    "kafka": "kafka-1:9092,kafka-2:9092",
    "rabbitmq": "rabbit-1:5672,rabbit-2:5672",
    "pulsar": "pulsar+ssl://pulsar-1:6651",
}
"""Example addresses, for brokers that were not chosen."""

MOST_BODY: Mapping[BrokerKind, str] = {"kafka": "1MB", "rabbitmq": "16MiB", "pulsar": "4MiB"}
"""The most bytes of a webhook of GitHub, where a record of the broker has less room than GitHub's 25 MiB."""

INTAKE = """\
  - name: <preset>
    preset: <preset>      # gitlab, stripe, slack, shopify, standard_webhooks; or verify and event
    secret: <secret>
    route: everything
"""
PRODUCER = """\
producers:
  - name: <name>
    keys: [<secret>]    # made by: skybridge producers key new
    may: {routes: [everything], sources: ["/shop/*"], types: ["com.example.*"]}
    quota: {events: 500/s, burst: 2000}
"""
SUBSCRIPTION = """\
  - id: <id>
    source: {broker: <broker>, topics: [events]}
    start: <start>      # earliest | latest | {time: 2026-01-01T00:00:00Z}
    filters:
      - sql: HAS_DATA('/total') AND DATA('/total') >= 99.90    # or exact, prefix, suffix, all, any, not
    sink: <sink>
"""
WEBHOOK = """\
    signing: {secret: <secret>}   # made by: skybridge secret --out FILE
    retry: {schedule: [100ms, 500ms, 2s, 10s, 1m, 5m, 30m, 2h, 5h, 10h, 24h], hold: 3}
    timeout: 15s
"""
