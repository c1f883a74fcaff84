"""The file that ``skybridge init`` writes: it runs as it is, and explains itself."""

from __future__ import annotations

TEMPLATE = """\
# Skybridge: CloudEvents in over HTTP, kept in a durable log, out to webhooks.
# Check this file:  skybridge check skybridge.yaml
# Run it:           skybridge serve --config skybridge.yaml
#
# ${env:NAME} and ${file:/path} may stand in any text; $$ is a dollar sign.
# Environment variables override: SKYBRIDGE_SERVER__EVENTS__PORT=9090
version: 1

installation: skybridge   # part of every consumer group's name; one name for each installation

server:
  events:                 # takes events: POST /events, POST /events/{route}, POST /in/{intake}
    host: 127.0.0.1       # 0.0.0.0 to be reached from elsewhere: then access must be set
    # access: producers   # only these may send, see producers below; open: everybody
    port: 8080
    # tls: {cert: /etc/skybridge/tls.crt, key: /etc/skybridge/tls.key}
  admin:                  # /healthz /readyz /status /metrics /docs
    host: 127.0.0.1       # anywhere else it needs a token
    port: 8081
    # token: "${env:SKYBRIDGE_ADMIN_TOKEN}"

store:                    # dead letters
  kind: sqlite
  path: ./skybridge-data/store.db

brokers:
  log:                    # the durable log inside Skybridge: nothing to install
    kind: embedded
    path: ./skybridge-data/log
    partitions: 8
    retention: {age: 7d}  # never past what a subscription below has not read yet
    size_cap: 10GiB       # when it is reached, events are answered 503, and none is lost

  # main:
  #   kind: kafka
  #   bootstrap_servers: "kafka-1:9092,kafka-2:9092"
  #   security:
  #     tls: {}           # the system's certificate authorities
  #     sasl: {mechanism: SCRAM-SHA-512, username: skybridge, password: "${env:KAFKA_PASSWORD}"}
  #   topics: {create: true, partitions: 8, replication: 3}
  # rabbit:
  #   kind: rabbitmq
  #   addresses: "rabbit-1:5672,rabbit-2:5672"
  #   security: {tls: {}, username: skybridge, password: "${env:RABBITMQ_PASSWORD}"}
  # pulsar:
  #   kind: pulsar
  #   service_url: "pulsar+ssl://pulsar-1:6651"
  #   admin_url: "https://pulsar-1:8443"
  #   security: {token: "${env:PULSAR_TOKEN}"}

# The first route that matches takes the event. 202 is answered when it is stored.
routes:
  # - name: orders
  #   filters:            # all must match: exact, prefix, suffix, all, any, not or sql
  #     - prefix: {type: com.example.order.}
  #   to: {broker: main, topic: orders}     # or a list; "orders.{type}" is a template
  #   content_mode: binary                  # binary | structured | as_received
  #   specversion: "1.0"                    # one version for all; else the one it came in
  #   key: {mapper: partitionkey, missing: reject}
  - name: everything
    to: {broker: log, topic: events}
    key: {mapper: attribute, attribute: source}   # order is kept for each source

# Webhooks of others become events at POST /in/{name}, verified by their signature.
# intakes:
#   - name: github
#     preset: github      # gitlab, stripe, slack, shopify, standard_webhooks; or verify and event
#     secret: "${env:GITHUB_SECRET}"
#     route: everything

# Senders, each with its key, its rights and its quota.
# producers:
#   - name: shop
#     keys: ["${env:SHOP_KEY}"]       # made by: skybridge producers key new
#     may: {routes: [orders], sources: ["/shop/*"], types: ["com.example.order.*"]}
#     quota: {events: 500/s, burst: 2000}

# Each subscription delivers the events of a log to one webhook, in order per key.
subscriptions: []
  # - id: billing
  #   source: {broker: log, topics: [events]}
  #   start: latest       # earliest | latest | {time: 2026-01-01T00:00:00Z}
  #   filters:
  #     - exact: {type: com.example.order.created}
  #   sink: https://billing.example/hook
  #   retry: {schedule: [100ms, 500ms, 2s, 10s, 1m, 5m, 30m, 2h, 5h, 10h, 24h], hold: 3}
  #   timeout: 15s

webhooks:                 # private targets are refused unless named; plain http goes only to these
  allow_private: ["127.0.0.0/8", localhost]
"""
