"""Pure. The decision where an event goes: which route, which topics, which key, which content mode."""
