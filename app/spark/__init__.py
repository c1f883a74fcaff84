"""Shell. Spark as a reader and writer of brokers: the session, the sources of records, and the job ``reroute``.

=============== ====================================================================================
settings        the settings of Spark, of the brokers and of a reroute, as plain values
java, jars      the Java that Spark runs on; the jars that pyspark needs in addition to its own, pinned
session         the one Spark session, with all settings that the rows depend on
pyspark_adapter Java's objects of a session, through undocumented attributes of pyspark
faults          errors of Java by their classes: catalog, storage or class is missing
cleanup         clean up without hiding the first error
columns         the columns of a record; ``arrow_records`` converts them to records and back
source          records of a log as a frame; ``positions`` of a Kafka
pulsar          a data source of Spark for Pulsar
reroute         the routes of the configuration, from topics to topics
=============== ====================================================================================

The lake is in ``app.pipeline``. Only these two packages import pyspark, which is the extra
``pipeline`` (ADR 0021).
"""
