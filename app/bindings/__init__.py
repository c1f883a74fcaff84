"""Pure. Bindings: an event to the neutral record and back, one file a protocol. They never await."""
