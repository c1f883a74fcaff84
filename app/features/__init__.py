"""Shell. What a service can do, one component each: made of the configuration, started, reloaded, stopped.

=============== ====================================================================================
component       what all of them share: start, stop, prepare, apply, health, metrics
brokers         the logs of the brokers, and whether what is published to is there
storage         the store, and its backups
events          the events listener: routes, producers, intakes, publishing
subscriptions   the catalogue of file and API, and the deliveries of this process
spools          what waits in the embedded log while a target is away
kafka_listeners the Kafka listeners of embedded logs
notifications   operator events, and the attempts that the store keeps
admin           the admin listener: API, console, readiness, history
checks          what ``check --connect`` and ``test`` do with a configuration
lake            from the section ``pipeline`` to the jobs on Spark
=============== ====================================================================================

``runtime.compose`` names all components once. No component knows the whole: each is given what it uses.
"""
