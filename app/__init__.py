"""Skybridge, the CloudEvents bridge. An event flows one way, and this map follows it.

In:  ``gateway`` takes the request, ``bindings.http`` decodes it, ``event`` validates it, ``routing``
decides where it goes, ``bindings`` encode it again, ``brokers`` publish it, and only then: 202.
Out: ``brokers`` hand a message over, ``bindings`` decode it, ``filters`` choose, ``delivery`` decides,
``sinks`` send one attempt, ``delivery`` concludes: settle, try again, dead-letter.

============== ====== ==============================================================================
cli            shell  the verbs a person types; each imports its heavy parts inside itself
runtime        shell  builds the parts from a configuration, runs the roles, owns the signals
config         shell  the one YAML file: model, lines, secrets, lint, schema
gateway        shell  the events listener: the hot path and nothing else
api            shell  the admin listener (FastAPI): subscriptions, what waits, topics, health, metrics
worker         shell  consumes, plans, delivers and settles: one dispatcher a subscription
kafka_listener shell  Kafka's protocol on the embedded log, for clients that were not written here
pipeline       shell  the lake on Spark: archive, replay, report (the extra ``pipeline``)
brokers        shell  ``portable`` bounds and times; one driver a broker: ``embedded``, ``kafka``
sinks          shell  one attempt to deliver: ``webhook``
store          shell  what must outlive a process beside the log: subscriptions, parked, dead letters
log            shell  the embedded durable log: writer, segments, topics, groups, retention
interfaces            what the shell offers to whom: Log, Consumer, Store, Sink, Clock
routing        pure   rules, keys, templates, plan: route, topic, key, content mode
delivery       pure   plan, outcomes, lanes, offsets: when to try again and when it is finished
model          pure   route, subscription, message, receipt, outcome, capabilities
filters        pure   which events a subscription or a route wants: seven dialects, CloudEvents SQL
bindings       pure   event to neutral record and back, one file a protocol
formats        pure   JSON: events as documents
event          pure   what a CloudEvent is: types, value, validation
errors         pure   every error, and the questions it answers
telemetry      shell  logging, counters, histograms, traces, and tasks that never end in silence
============== ====== ==============================================================================

Pure folders take time and chance as arguments. ``pyproject.toml`` holds the import contracts.
"""

__version__ = "0.1.0"
