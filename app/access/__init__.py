"""Pure. The name of a sender, the rights of a producer, and its quota. Time is an argument; caches are the callers'.

``who``     from a key, a certificate or the claims of a token to a producer
``tokens``  JSON Web Tokens: read and verified
``rights``  sources, types, routes; topics and groups of Kafka
``quota``   how much, as one number per caller
``caller``  a producer with its rights, and with what it has used
"""
