"""Pure. Event formats: an event as one document. JSON; Protobuf and Avro with the extra `formats`."""
