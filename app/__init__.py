"""Skybridge, the CloudEvents bridge. An event flows one way, and this map follows it.

In:  ``gateway`` takes the request, ``bindings.http`` decodes it, ``event`` validates it, ``routing``
chooses its targets, ``bindings`` encode it, ``brokers`` publish it, and only then the answer is 202.
Out: ``brokers`` read a message, ``bindings`` decode it, ``filters`` select it, ``worker`` makes a delivery of
it, ``sinks`` send one attempt, ``delivery`` concludes, and the delivery's origin carries it out: finish (the
log commits it, or its row is deleted), retry later, dead-letter, or release to the next owner.

============== ====== ==============================================================================
cli            shell  the commands; each imports its heavy parts inside itself
runtime        shell  the service: an ordered list of components, their reload, the signals;
                      ``compose`` names them all
features       shell  what a service can do, one component each: brokers, store, events, subscriptions,
                      spools, Kafka listeners, admin listener; and what commands do with a configuration
config         shell  the one YAML file: model, lines, secrets, lint, schema
gateway        shell  the events listener: the hot path, and the HTTP server of both listeners
api            shell  the admin listener (FastAPI): subscriptions, pulling, parked events, dead letters,
                      topics, health, metrics
worker         shell  one dispatcher per subscription: origins, scheduler, conclusions, offset commits
kafka_listener shell  Kafka's protocol on the embedded log, for Kafka clients
pipeline       shell  the lake on Spark: archive, replay, report (the extra ``pipeline``)
brokers        shell  one driver per broker: ``embedded``, ``kafka``, ``pulsar``, ``rabbitmq``; ``portable``
                      adds bounds and time-outs
sinks          shell  one attempt to deliver: ``webhook`` (``http_client``), ``topic``, ``pull_queue``;
                      ``dead_letters``
store          shell  durable state beside the log, SQLite or PostgreSQL: subscriptions, parked events,
                      dead letters, pull queues, attempts, replays
log            shell  the embedded durable log: writer, segments, topics, groups, retention
interfaces            protocols between the packages: Log, Consumer, Store, Sink, Clock
intakes        pure   requests of any webhook: verified, and made events
outlets        pure   requests for targets that know no CloudEvents: shaped from events, and their answers judged
routing        pure   rules, keys, templates, plan: route, topic, key, content mode
access         pure   which producer sends, what it may send, and how much
delivery       pure   plan, outcomes, lanes, offsets: when to retry, and when an event is finished
model          pure   route, subscription, message, receipt, capabilities
filters        pure   which events a route or subscription selects: seven dialects, CloudEvents SQL
bindings       pure   event to neutral record and back: HTTP, Kafka, Pulsar, RabbitMQ
formats        pure   events as documents: JSON, Protobuf, Avro
event          pure   what a CloudEvent is: types, value, validation, versions
errors         pure   every error as one tree: whose fault it is, whether a retry helps
libraries      shell  libraries whose undocumented names are used: known versions, and the cure for another
tls            shell  certificates and keys: read whole, tried, swapped; what is wrong with them
telemetry      shell  logging, counters, histograms, traces, supervised tasks
============== ====== ==============================================================================

Pure folders take time and chance as arguments. ``pyproject.toml`` holds the import contracts.
"""

__version__ = "0.1.0"
