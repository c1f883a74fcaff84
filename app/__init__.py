"""Skybridge, the CloudEvents bridge. An event flows one way, and this map follows it.

In:  ``gateway`` takes the request, ``bindings.http`` decodes it, ``event`` validates it, ``routing``
chooses its targets, ``bindings`` encode it, ``brokers`` publish it, and then the answer is 202.
Out: ``brokers`` read a message, ``bindings`` decode it, ``filters`` select it, ``delivery`` decides,
``sinks`` send one attempt, ``delivery`` decides the result: settle, retry, or dead letter.

============== ====== ==============================================================================
cli            shell  the commands; each imports its heavy parts inside itself
runtime        shell  builds the parts from a configuration, runs the roles, owns the signals
config         shell  the one YAML file: model, lines, secrets, lint, schema
gateway        shell  the events listener: the hot path and nothing else
api            shell  the admin listener (FastAPI): subscriptions, parked events, topics, health, metrics
worker         shell  consumes, plans, delivers and settles: one dispatcher a subscription
kafka_listener shell  Kafka's protocol on the embedded log, for Kafka clients
pipeline       shell  the lake on Spark: archive, replay, report (the extra ``pipeline``)
brokers        shell  one driver per broker; ``portable`` adds bounds and time-outs
sinks          shell  one attempt to deliver: ``webhook``
store          shell  durable state outside the log: subscriptions, parked events, dead letters
log            shell  the embedded durable log: writer, segments, topics, groups, retention
interfaces            protocols between the packages: Log, Consumer, Store, Sink, Clock
routing        pure   rules, keys, templates, plan: route, topic, key, content mode
delivery       pure   plan, outcomes, lanes, offsets: when to retry and when an event is finished
model          pure   route, subscription, message, receipt, outcome, capabilities
filters        pure   selection of events by routes and subscriptions: seven dialects, CloudEvents SQL
bindings       pure   event to neutral record and back, one file a protocol
formats        pure   JSON: events as documents
event          pure   what a CloudEvent is: types, value, validation
errors         pure   every error, drawn once as a tree
telemetry      shell  logging, counters, histograms, traces, supervised tasks
============== ====== ==============================================================================

Pure folders take time and chance as arguments. ``pyproject.toml`` holds the import contracts.
"""

__version__ = "0.1.0"
