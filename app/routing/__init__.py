"""Pure. Where an event goes: which route, which topics, which key, which content mode."""
