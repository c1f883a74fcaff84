"""Pure. Event formats: an event as one document, in JSON, or in Protobuf and Avro with the extra ``formats``.

``content_coding`` decompresses gzip and deflate, and ``kafka_compression`` the codecs of Kafka, with a size
limit.
"""
