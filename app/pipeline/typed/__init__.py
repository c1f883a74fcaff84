"""Typed tables: one Iceberg table for an event type, with a column for each property of its data.

``schema`` reads the columns from a JSON Schema. ``fit`` converts data to columns and finds the values
that do not fit. ``rows`` makes the rows of a batch of decoded events. ``evolve`` creates a table and
changes its columns when the schema has changed.

The rows are derived with those of ``events``, in the commit rules of ``archive``.
"""
