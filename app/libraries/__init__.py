"""Shell. Libraries whose undocumented names are used: which versions are known, and the cure for another (ADR 0046).

``versions`` the guard of every adapter · ``httpx_client`` httpx without its command line. The other adapters stand
where their library is at home: ``brokers.aiokafka_adapter``, ``gateway.uvicorn_adapter``, ``pipeline.spark_adapter``.
"""
