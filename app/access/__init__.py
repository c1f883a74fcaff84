"""The identity of a sender, the rights of a producer, and its quota. Pure: time is an argument, and
callers cache.

- ``who``: Finds the producer of a key, a certificate or the claims of a token.
- ``tokens``: Reads JSON Web Tokens and checks their claims.
- ``signatures``: Verifies the signatures of tokens.
- ``rights``: Sources, types and routes; topics and groups of Kafka.
- ``quota``: The rate of each caller, and shares of common limits.
- ``caller``: A producer with its rights and its usage.
"""
