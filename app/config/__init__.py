"""Shell. The configuration file: its sections, its reader, its checks.

========= ==========================================================================================
model     the sections of the file as pydantic models; ``config`` is the root, ``schema`` the JSON Schema
derived   values made of the model: credentials, kinds of brokers, resources of routes
load      YAML with its lines, ``overrides``, ``secrets``; a configuration, or every ``finding`` at once
lint      mistakes in a valid configuration, one module for each topic; ``checks`` runs all of them
check     load and lint one input: the file, a subscription of the API, test cases of routes
diff      two configurations compared, and a proposed one judged
asyncapi  the AsyncAPI document of a configuration
========= ==========================================================================================

Rule: ``config`` owns what only the file has: its sections, brokers, listeners, store, limits. A value that a pure
folder decides by (route, subscription, producer, intake, filter) is owned by that folder, in ``model`` or
``filters``: the API and the store hold it too. TLS and OAuth 2.0 of clients are owned by ``brokers.security``, whose
drivers take them. ``config`` uses both as sections. ``skybridge.yaml`` is a first file.
"""
