"""Shell. The admin listener (FastAPI): a folder for each resource, with its routes, views and verbs.

=============== ====================================================================================
app             the FastAPI application: one router for each resource
front           the ASGI layer before the application: probes and metrics need no FastAPI
subscriptions   ``/v1/subscriptions`` and the CloudEvents draft: documents, verbs, replays, event streams
pull            ``:receive``, ``:acknowledge``, ``:release``, ``:reject``, ``:renew``
deliveries      ``/v1/attempts``, ``/v1/parked``, ``/v1/dead-letters``
topics          ``/v1/topics``: metadata, records, tail, produce
find            ``/v1/events``: the whole way of one event
explain         ``/v1/explain``: what an event would meet
status          probes, ``/status``, ``/metrics``, ``/v1/history``, ``/v1/config``
asked           what several resources ask of a service: small protocols, grouped by who answers them
access          callers, sessions, operations and their scopes, parts as a caller reaches them, ``/v1/audit``
openapi         the OpenAPI document and its page
http            problems, bodies, parameters, preconditions, slices: what all resources share
=============== ====================================================================================

Imports run one way between the folders, without a cycle (``pyproject.toml``).
"""
