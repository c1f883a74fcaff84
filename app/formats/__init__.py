"""Pure. Event formats: an event as one document. JSON; Protobuf and Avro with the extra `formats`.

``deflated`` undoes gzip and deflate, for modules that take compressed data from outside.
"""
