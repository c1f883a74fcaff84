"""Pure. What a CloudEvent is: its types, its value, its validation."""
