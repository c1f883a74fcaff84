"""Pure. Event formats: an event as one document. JSON here; Protobuf and Avro have their place."""
