"""Pure. Bindings convert between an event and the broker-neutral record, one module per protocol. They never await."""
