"""Typed tables: one Iceberg table for an event type, with a column for each property of its data.

``schema`` reads the columns from a JSON Schema, and ``types`` has their types in msgspec, Arrow and SQL.
``fit`` converts data to columns and finds the values that do not fit. ``rows`` makes the rows of a batch
of decoded events. ``evolve`` compares the columns of a table with those that its schema wants now.

The rows are derived with those of ``events``, in the commit rules of ``archive``.
"""
