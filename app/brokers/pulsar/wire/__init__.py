"""Shell. Pulsar's binary protocol on the event loop, for publishing only. Everything else uses the client library.

- ``protobuf`` and ``commands`` encode and decode the few messages of the protocol that publishing needs.
- ``properties`` encodes the parts of a record. ``frames`` puts them into frames: alone, or as batches.
- ``connection`` is one connection to a broker: login, requests, receipts, keep-alive.
- ``producer`` publishes to one partition. ``client`` finds the broker of a partition, and opens its producer.

A message of the protocol is described by its field numbers only, from the public description of the protocol.
"""
