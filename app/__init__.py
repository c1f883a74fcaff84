"""Skybridge, the CloudEvents bridge. This map of its packages follows an event on its way.

In:  ``gateway`` takes the request, ``bindings.http`` decodes it, and ``event`` validates it. ``routing``
chooses the targets, ``bindings`` encode the event, and ``brokers`` publish it. Only then the gateway answers 202.
Out: ``brokers`` read a message, ``bindings`` decode it, ``filters`` select it, and ``worker`` makes a delivery
of it. ``sinks`` send one attempt, and ``delivery`` decides what follows. The origin of the delivery then finishes
it, retries it later, dead-letters it, or releases it to the next owner of the partition.

============== ====== ==============================================================================
cli            shell  the commands; each imports its heavy modules inside its function
kubernetes     shell  the role ``operator``: subscriptions as Kubernetes objects, which it writes through the
                      admin API (the extra ``kubernetes``)
runtime        shell  the service: an ordered list of components, their reload, the signals;
                      ``compose`` names them all
features       shell  the components of a service, one per feature: brokers, store, events, subscriptions,
                      spools, Kafka listeners, admin listener; and functions of commands: check, backup, replay
config         shell  the configuration file: model, line numbers, secrets, lint, schema
gateway        shell  the events listener: the hot path, and the HTTP server of both listeners
api            shell  the admin listener (FastAPI): subscriptions, pulling, parked events, dead letters,
                      topics, health, metrics
worker         shell  one dispatcher per subscription: origins, scheduler, conclusions, offset commits
kafka_listener shell  Kafka's protocol on the embedded log, for Kafka clients
pipeline       shell  the lake on Spark: archive, replay, report (the extra ``pipeline``)
spark          shell  Spark: session, sources of Kafka and Pulsar, reroute from topics to topics
brokers        shell  one driver per broker: ``embedded``, ``kafka``, ``pulsar``, ``rabbitmq``; ``portable``
                      adds bounds and time-outs
sinks          shell  one attempt to deliver: ``webhook`` (``http_client``), ``topic``, ``pull_queue``;
                      ``dead_letters``
store          shell  durable state outside the log, SQLite or PostgreSQL: subscriptions, parked events,
                      dead letters, pull queues, attempts, replays
log            shell  the embedded durable log: writer, segments, topics, groups, retention
interfaces            protocols between the packages: Log, Consumer, Store, Sink, Clock
intakes        pure   webhooks of other products: verify them and make events
outlets        pure   requests for targets that know no CloudEvents: shape them and judge the answers
routing        pure   rules, keys, templates, plan: route, topic, key, content mode
access         pure   which producer sends a request, its rights and its quota
delivery       pure   plan, outcomes, lanes, offsets: when to retry, and when an event is finished
model          pure   route, subscription, message, receipt, capabilities
filters        pure   which events a route or subscription selects: seven dialects, CloudEvents SQL
bindings       pure   event to neutral record and back: HTTP, Kafka, Pulsar, RabbitMQ
formats        pure   events as documents: JSON, Protobuf, Avro
event          pure   a CloudEvent: types, value, validation, versions
errors         pure   every expected error: whose fault it is, whether a retry helps
problems       pure   the problems that both listeners answer with: code, cause, cure
libraries      shell  the undocumented names of libraries, the known versions, the cure for other versions
tls            shell  certificates and keys: read, check, replace, and report faults
telemetry      shell  logging, counters, histograms, traces, supervised tasks
============== ====== ==============================================================================

Pure packages take time and randomness as arguments. ``pyproject.toml`` holds the import contracts.
"""

__version__ = "0.1.0"
