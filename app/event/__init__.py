"""Pure. The CloudEvent: its attribute types, its immutable value, its versions and its validation."""
