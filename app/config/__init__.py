"""Shell. The configuration file: its model, its loader, and its checks.

========= ==========================================================================================
model     the sections of the file as pydantic models; ``config`` is the root, ``schema`` the JSON Schema
derived   values made of the model: credentials, kinds of brokers, resources of routes
load      from YAML, environment and secrets to a configuration, or to every ``finding`` at once
lint      checks for mistakes in a valid configuration, one module per topic; ``checks`` runs all
check     load and lint one input: the file, a subscription of the API, test cases of routes
diff      compare two configurations, and judge a proposed one
asyncapi  the AsyncAPI document of a configuration
starter   the commented file that ``skybridge init`` writes
========= ==========================================================================================

``config`` owns the sections that only the file has: brokers, listeners, store, limits. Routes, subscriptions,
producers, intakes and filters are owned by ``model`` and ``filters``, because the API and the store use them too.
TLS and OAuth 2.0 of clients are owned by ``brokers.security``. ``config`` uses these as sections.
"""
