"""The events listener: routes, producers, intakes."""
