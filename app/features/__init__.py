"""Shell. The features of a service, one component each. A component is created from the configuration, then
started, reloaded and stopped.

=============== ====================================================================================
component       what all components share: start, stop, prepare, apply, health, metrics
brokers         the logs of the brokers, and the check of topics that are published to
storage         the store, and its backups
events          the events listener: routes, producers, intakes, publishing
subscriptions   the catalogue of file and API, and the deliveries of this process
spools          the events that wait in the embedded log while a target is unavailable
kafka_listeners the Kafka listeners of embedded logs
notifications   operator events, and the attempts that the store keeps
admin           the admin listener: API, console, readiness, history
checks          what ``check --connect`` and ``test`` do with a configuration
lake            the settings of the Spark jobs, from the section ``pipeline``
=============== ====================================================================================

``runtime.compose`` names all components once. No component knows all others; each is given those that it
uses.
"""
