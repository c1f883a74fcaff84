"""One question to the lake, in SQL. It looks, and changes nothing.

======= =====================================================================================
answer  rows of values, and what a refusal says
duck    the question put to DuckDB, which sees the tables of the lake and nothing else
opening tables by PyIceberg, from every kind of catalog that it reads
scan    the columns and the rows that DuckDB asks a table for
spark   the question put to Spark, for its own SQL and for catalogs that PyIceberg does not read
======= =====================================================================================
"""
