"""Shell. The admin listener (FastAPI): a folder for each resource, with its routes, views and verbs.

=============== ====================================================================================
app             the FastAPI application: one router for each resource
front           the ASGI layer before the application: probes and metrics need no FastAPI
subscriptions   ``/v1/subscriptions`` and the CloudEvents draft: documents, actions, replays, event streams
pull            ``:receive``, ``:acknowledge``, ``:release``, ``:reject``, ``:renew``
deliveries      ``/v1/attempts``, ``/v1/parked``, ``/v1/dead-letters``
topics          ``/v1/topics``: metadata, records, tail, produce
find            ``/v1/events``: what happened to one event
explain         ``/v1/explain``: what would happen to an event
status          probes, ``/status``, ``/metrics``, ``/v1/history``, ``/v1/config``
asked           the protocols through which several resources use a service, one module for each provider
access          callers, sessions, operations and their scopes, limits of a caller, ``/v1/audit``
openapi         the OpenAPI document and its page
http            what all resources share: problems, bodies, parameters, preconditions, slices
=============== ====================================================================================

Imports run one way between the folders, without a cycle (``pyproject.toml``).
"""
