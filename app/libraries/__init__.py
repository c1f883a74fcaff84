"""Shell. Adapters of libraries whose undocumented names are used. Each knows which versions it was tested with
(ADR 0046).

``versions`` checks the version for every adapter, and ``httpx_client`` imports httpx without its command
line. Other adapters are in the package that uses their library: ``brokers.aiokafka_adapter``,
``gateway.uvicorn_adapter``, ``spark.pyspark_adapter``.
"""
